"""Kills runners at random moments, and checks that the same command then ends with the same result.

    nice python -m tools.soak.kills --runner=run_flow,run_embed --kills=50

For each runner: two undisturbed runs; then chains, in which the same command is started and killed again and again in
one folder until one ends. The folder must then have the content of the undisturbed run. After every kill, no file may
be damaged under its final name. Half of the kills come some milliseconds after a change of a file, the others at any
time. --full fills a small tmpfs, which needs root. TensorFlow is imported once: each start is a fork of this process.
"""

import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tools.soak import folders, forks
from tools.soak.cases import cases, prepare

# {signal: exit status that it leads to}
_SIGNALS = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: -signal.SIGTERM, signal.SIGINT: 130}
# After so many kills a chain is left alone until it ends.
_CHAIN = 8
_LIMIT_SECONDS = 900


class Soak:
  """Kills of one command."""

  def __init__(self, case, out, log, seed):
    self._case, self._out, self._log, self._random = case, out, log, random.Random(seed)
    self._expected, self._seconds, self._changes, self._cut = {}, 0.0, 0, None
    self.failures = []

  def undisturbed(self):
    """Makes the run that the others are compared with; returns whether a second one is identical."""
    found = []
    for _ in range(2):
      self._clear()
      began = time.monotonic()
      if self._run() != 0:
        raise SystemExit(f"the undisturbed run failed: {self._log.read_text()[-2000:]}")
      self._seconds = time.monotonic() - began
      found.append(forks.contents(self._out))
    self._expected = found[0]
    self._check_same(found[1], "second undisturbed run")
    return found[0] == found[1]

  def chains(self, number, kills):
    """Makes chains until `kills` kills; returns (kills, chains, chains with an identical result)."""
    killed = ended = identical = 0
    while killed < kills:
      self._clear()
      in_chain, status = 0, None
      while in_chain < _CHAIN and killed < kills:
        status = self._run(self._moment(), number)
        if status != _SIGNALS[number]:
          break
        killed, in_chain = killed + 1, in_chain + 1
        self._check_interrupted(number)
        if in_chain == 3:
          self._spoil()
      if in_chain:
        status = self._run() if status == _SIGNALS[number] else status
        ended, identical = ended + 1, identical + self._check_end(status, f"after {in_chain} kills")
        print(f"  {killed} kills", flush=True)
    return killed, ended, identical

  def full(self):
    """Fills a small disk, then enlarges it; returns (number of sizes, identical results)."""
    size = sum(path.stat().st_size for path in self._out.rglob("*") if path.is_file())
    parts, identical = (0.1, 0.4, 0.7, 0.9), 0
    for part in parts:
      self._clear()
      subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={max(int(part * size), 8192)}", "soak", self._out], check=True
      )
      try:
        status = self._run()
        lines = [line for line in self._log.read_text().splitlines() if line.startswith("error: ")]
        if status != 1 or len(lines) != 1 or not re.search("is full|No space", lines[0]):
          self._fail(f"disk full at {part}: status {status}, {lines}, {self._log.read_text()[-1500:]}")
        print(f"  disk full: {lines}", flush=True)
        self._check_damage(f"disk full at {part}")
        subprocess.run(["mount", "-o", f"remount,size={8 * size + (1 << 26)}", self._out], check=True)
        identical += self._check_end(self._run(), f"after a full disk at {part}")
      finally:
        subprocess.run(["umount", "-l", self._out], check=True)
    return len(parts), identical

  def _check_end(self, status, when):
    """Returns whether a run that ended has the result of the undisturbed run."""
    if status != 0:
      self._fail(f"{when}: {self._log.read_text()[-1500:]}")
      return False
    left = folders.leftovers(self._out)
    if left:
      self._fail(f"{when}: leftovers {left}")
    return self._check_same(forks.contents(self._out), when)

  def _run(self, now=lambda seen: False, number=signal.SIGKILL):
    """Runs the command; sends it a signal when `now(number of changes of its files)`; returns its exit status."""
    pid, seen, before, sent, began = os.fork(), 0, forks.state(self._out), False, time.monotonic()
    if not pid:
      forks.become(self._case, self._log)
    while True:
      done, status = os.waitpid(pid, os.WNOHANG)
      if done:
        self._changes = max(seen, self._changes)
        return os.waitstatus_to_exitcode(status)
      state = forks.state(self._out)
      seen, before = seen + (state != before), state
      if not sent and now(seen):
        os.kill(pid, number)
        sent = True
      if time.monotonic() - began > _LIMIT_SECONDS:
        os.kill(pid, signal.SIGKILL)
      time.sleep(0.001)

  def _moment(self):
    """Returns the function that tells when to kill."""
    began, after = time.monotonic(), self._random.uniform(0.3, 0.9 * self._seconds)
    if self._random.random() < 0.5:
      return lambda seen: time.monotonic() - began > after
    wanted, delay = self._random.randint(1, self._changes), self._random.choice((0, 0, 0.002, 0.005, 0.01))
    return lambda seen: seen >= wanted and (time.sleep(delay) or True)

  def _check_interrupted(self, number):
    self._check_damage(f"after signal {number}")
    # After SIGTERM a runner ends as any program does, without a line of its own.
    if number == signal.SIGINT:
      text = self._log.read_text()
      lines = text.splitlines()  # TensorFlow's C++ code may print an exception that Ctrl-C has caused in it
      if [line for line in lines if line.startswith("error: ")] != lines[-1:]:
        self._fail(f"signal {number}: {text[-1500:]}")

  def _check_damage(self, when):
    # A checkpoint's files are read through the file `checkpoint`.
    cut = self._cut and {self._cut, self._cut.with_name("checkpoint")}
    found = {name: digest for name, digest in forks.contents(self._out).items() if self._out / name not in (cut or ())}
    for name in folders.damaged(found):
      self._fail(f"{when}: {name}")

  def _check_same(self, found, when):
    differing = sorted(name for name in {*found, *self._expected} if found.get(name) != self._expected.get(name))
    if differing:
      self._fail(f"{when}: another result in {differing}")
    return not differing

  def _fail(self, sentence):
    print(f"FAILED {sentence}", flush=True)
    self.failures.append(sentence)

  def _spoil(self):
    """Cuts one of the files off that a run may find damaged."""
    paths = sorted(path for spoiled in self._case.spoiled for path in self._out.glob(spoiled) if path.is_file())
    # Of two checkpoints one may be damaged.
    paths = [path for path in paths if "/ckpt-" not in str(path) or len(list(path.parent.glob("ckpt-*.index"))) > 1]
    if paths:
      path = self._random.choice(paths)
      os.truncate(path, self._random.randrange(path.stat().st_size + 1))
      self._cut = path

  def _clear(self):
    self._cut = None
    shutil.rmtree(self._out, ignore_errors=True)
    self._out.mkdir()


def main():
  """Runs the commands and prints a table; exit status 1 after a failure."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--runner", default="all", help="names of cases, with commas")
  parser.add_argument("--kills", type=int, default=50)
  parser.add_argument("--signals", type=int, default=10, help="number of SIGTERMs, and of SIGINTs")
  parser.add_argument("--full", action="store_true", help="fill a small tmpfs too")
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--folder", help="where to work; default: a temporary folder")
  arguments = parser.parse_args()
  folder = pathlib.Path(arguments.folder or tempfile.mkdtemp(prefix="soak-"))
  inputs, out, log = folder / "inputs", folder / "out", folder / "log"
  forks.import_all()
  if not inputs.exists():
    prepare(inputs)
    first = Soak(cases(inputs, out)["run_flow"], out, log, 0)
    first.undisturbed()
    shutil.copytree(out / "e/flow", inputs / "flow")
  known, failed = cases(inputs, out), False
  for name in known if arguments.runner == "all" else arguments.runner.split(","):
    soak = Soak(known[name], out, log, arguments.seed)
    again = soak.undisturbed()
    print(f"| {name} | undisturbed: {soak._seconds:.1f} s, the second identical: {again}", flush=True)
    for number, kills in zip(_SIGNALS, (arguments.kills, arguments.signals, arguments.signals), strict=True):
      killed, ended, identical = soak.chains(number, kills)
      print(f"| {name} | {number.name} | {killed} | {identical} of {ended} identical", flush=True)
    if arguments.full:
      print("| {} | disk full | {} | {} identical".format(name, *soak.full()), flush=True)
    print(f"{name}: {len(soak.failures)} failures", flush=True)
    failed |= bool(soak.failures)
  sys.exit(int(failed))


if __name__ == "__main__":
  main()
