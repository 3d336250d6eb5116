"""Fits a flow on two machines over a link that delays, loses and is cut, and kills each of them.

    sudo .venv/bin/python -m tools.soak.network                 # or --only=plain,cut

Both machines are network namespaces of this one; see `tools.soak.machines`. Whatever happens on the way, the losses and
weights must be the weights of one process, to the tolerances of tests/training/workers_test.py.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

from bert_flow_tf.flow.glow import Glow
from tests.encoder import tiny
from tests.testing import REPO
from tests.training.two_workers import check_losses, losses_in_events
from tools.soak.machines import Machines

_PORT = 23456
_LIMIT_SECONDS = 400
_STARTS = 4
_FLOW = {"n_levels": 1, "depth": 1, "coupling_width": 4}
_FLAGS = {
  "task": "hard-sample",
  "max_seq_length": 16,
  "num_train_epochs": 9,  # 101 steps
  "flow_learning_rate": 1e-4,
  "save_checkpoints_steps": 10,
  "worker_wait_seconds": 45,
  "exp_name": "e",
}


class Fit:
  """The command on two machines; every case has a folder of its own."""

  def __init__(self, folder, link):
    self._inputs, self.link = folder, link
    tiny.save_tiny(folder / "tiny")
    (folder / "flow.json").write_text(json.dumps(_FLOW))
    self.folder, self.processes, self.starts = folder, {}, {}
    self.case("alone")
    self._run(0, alone=True)
    self.wait(0, expected=0)
    self._losses = self._fitted()[0]
    self._weights = self._fitted()[1]

  def case(self, name):
    """Begins a case, with a link that is whole."""
    self.link.stop()
    self.link.slow()
    self.folder, self.processes, self.starts = self._inputs / name, {}, {0: 0, 1: 0}
    self.folder.mkdir()

  def start(self, *indices):
    """Starts the command on these machines."""
    for index in indices:
      self._run(index)

  def _run(self, index, alone=False):
    flags = {**_FLAGS, "model": self._inputs / "tiny", "flow_model_config": self._inputs / "flow.json"}
    flags = [f"--{name}={value}" for name, value in {**flags, "output_parent_dir": self.folder / str(index)}.items()]
    command = ["sh", "run_scripts/run_two_machines.sh", index]
    command += [f"{address}:{_PORT}" for address in self.link.addresses.values()]
    if alone:
      command = [sys.executable, "run_scripts/run_flow.py"]
    environment = {**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": "-1"}
    self.starts[index] += 1
    with self._log(index).open("w") as log:
      options = {"cwd": REPO, "env": environment, "stdout": log, "stderr": log}
      self.processes[index] = self.link.start(index, *command, *flags, **options)

  def _log(self, index):
    return self.folder / f"{index}-{self.starts[index]}.log"

  def until_checkpoint(self):
    """Waits until the chief has saved step 10."""
    end = time.monotonic() + _LIMIT_SECONDS
    while not any((self.folder / "0/e/checkpoints").glob("ckpt-[1-9]*.index")):
      if time.monotonic() > end or any(process.poll() is not None for process in self.processes.values()):
        raise AssertionError(f"no checkpoint; see {self.folder}")
      time.sleep(0.02)

  def kill(self, index):
    """Ends a machine's process without notice."""
    self.processes[index].kill()
    self.processes[index].wait()

  def wait(self, *indices, expected):
    """Waits until these processes have ended, with the status; returns the seconds of the last."""
    began = time.monotonic()
    for index in indices:
      status = self.processes[index].wait(max(1, began + _LIMIT_SECONDS - time.monotonic()))
      text = self._log(index).read_text(errors="replace")
      errors = re.findall("^error: .*", text, re.MULTILINE)
      if status != expected or "Traceback" in text or len(errors) != (status != 0):
        raise AssertionError(f"machine {index}: status {status}; see {self._log(index)}")
      for error in errors:
        print(f"  machine {index}: {error}", flush=True)
    return time.monotonic() - began

  def restart_until_done(self, *indices):
    """Starts these, and whatever ends with an error, until both have succeeded; returns the seconds."""
    began = time.monotonic()
    self.start(*indices)
    while any(process.poll() != 0 for process in self.processes.values()):
      for index, process in self.processes.items():
        if process.poll() not in (None, 0):
          self.wait(index, expected=1)
          if self.starts[index] == _STARTS or time.monotonic() > began + _LIMIT_SECONDS:
            raise AssertionError(f"no end after {_STARTS} starts; see {self.folder}")
          self.start(index)
      time.sleep(0.1)
    return time.monotonic() - began

  def _fitted(self):
    flow = Glow.load(self.folder / "0/e/flow")
    return losses_in_events(self.folder / "0/e/tensorboard"), [weight.numpy() for weight in flow.weights]

  def check_same(self):
    """Compares losses and weights with a run in one process."""
    losses, weights = self._fitted()
    check_losses(losses, list(self._losses.values()))
    for weight, expected in zip(weights, self._weights, strict=True):
      np.testing.assert_allclose(weight, expected, atol=1e-4)


def _with_link(delay=0.0, loss=0.0):
  def run(machines):
    machines.link.slow(delay, loss)
    machines.start(0, 1)
    return f"same losses after {machines.wait(0, 1, expected=0):.0f} s"

  return run


def _cut(seconds=None):
  def run(machines):
    machines.start(0, 1)
    machines.until_checkpoint()
    machines.link.cut()
    if seconds is not None:
      time.sleep(seconds)
      machines.link.cut(False)
      return f"goes on, same losses {machines.wait(0, 1, expected=0):.0f} s later"
    stopped = machines.wait(0, 1, expected=1)
    machines.link.cut(False)
    machines.start(0, 1)
    machines.wait(0, 1, expected=0)
    return f"both stop after {stopped:.0f} s; the same commands resume, same losses"

  return run


def _killed(index, again):
  def run(machines):
    machines.start(0, 1)
    machines.until_checkpoint()
    machines.kill(index)
    stopped = "" if again else f"the other stops after {machines.wait(1 - index, expected=1):.0f} s; "
    seconds = machines.restart_until_done(*([index] if again else [0, 1]))
    starts = " and ".join(str(machines.starts[machine]) for machine in (0, 1))
    return f"{stopped}restarted until both succeed: {starts} starts, {seconds:.0f} s; same losses"

  return run


def _absent(index):
  def run(machines):
    machines.start(1 - index)
    seconds = machines.wait(1 - index, expected=1)
    machines.restart_until_done(0, 1)
    return f"stops after {seconds:.0f} s (of them {_FLAGS['worker_wait_seconds']} of worker_wait_seconds)"

  return run


CASES = {
  "plain": ("none", _with_link()),
  "delay": ("50 ms in each direction", _with_link(delay=0.05)),
  "loss": ("5 % of the packets lost", _with_link(loss=0.05)),
  "cut5": ("link cut for 5 s", _cut(5)),
  "cut": ("link cut for good", _cut()),
  "worker": ("worker killed, both started again", _killed(1, again=False)),
  "worker_at_once": ("worker killed and started again at once", _killed(1, again=True)),
  "chief_at_once": ("chief killed and started again at once", _killed(0, again=True)),
  "absent": ("the second machine never starts", _absent(1)),
}


def main() -> int:
  """Prints a row for each case; returns 1 if one failed."""
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--only", default=",".join(CASES), help="cases, with commas")
  names = parser.parse_args().only.split(",")
  folder = pathlib.Path(tempfile.mkdtemp(prefix="network-"))
  failed = 0
  signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))  # so that no namespace is left
  with contextlib.ExitStack() as stack:
    try:
      link = stack.enter_context(Machines((0, 1), folder / "machines.log"))
    except OSError as error:
      print(f"skipped: no network namespaces here ({error}); this needs Linux, root and iproute2")
      return 0
    machines = Fit(folder, link)
    for name in names:
      title, run = CASES[name]
      machines.case(name)
      try:
        outcome = run(machines)
        machines.check_same()
      except (AssertionError, subprocess.TimeoutExpired) as error:
        outcome, failed = f"FAILED: {' '.join(str(error).split())[:300]}", 1
      except OSError as error:
        outcome = f"skipped: {error}"
      print(f"| {title} | {outcome} |", flush=True)
  print(f"logs in {folder}")
  return failed


if __name__ == "__main__":
  sys.exit(main())
