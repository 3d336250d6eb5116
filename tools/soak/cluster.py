"""Embeds a corpus on clusters, kills workers, and compares every file with the files of a run in one process.

    pip install 'apache-beam[dask]'
    sudo nice .venv/bin/python -m tools.soak.cluster --sentences=200000

Two clusters of two workers: Dask, and Beam's job server with external worker pools, which speak to it as they speak to
Flink, Spark and Dataflow. Each worker is in a network namespace of its own, which needs root; the disk is shared.
"""

import argparse
import contextlib
import gzip
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from tests.testing import REPO, SHARED
from tools.soak.machines import Machines, descendants

_DASK_PORT, _JOB_PORT, _POOL_PORT = 8786, 8099, 5001
_WORKERS = ("worker1", "worker2")
# A run that writes nothing for so many seconds hangs; it is interrupted, and started again. The first shard may take as
# long as all processes need to import TensorFlow.
_SILENCE, _START = 45, 240
_LIMIT = 900


class Dask:
  """Scheduler and two workers of Dask."""

  name = "DaskRunner"

  def __init__(self, machines):
    self._machines = machines
    self.options = f"dask_client_address=tcp://{machines.addresses['server']}:{_DASK_PORT},dask_partition_size=1"
    address = ["--host", machines.addresses["server"], "--port", _DASK_PORT]
    machines.start("server", *_python("-m", "distributed.cli.dask_scheduler", *address, "--no-dashboard"))
    machines.wait_for("server", _DASK_PORT)
    self.workers = {name: self.start_worker(name) for name in _WORKERS}

  def start_worker(self, name):
    """Starts a worker of one thread, which nothing restarts."""
    server = f"tcp://{self._machines.addresses['server']}:{_DASK_PORT}"
    options = ["--host", self._machines.addresses[name], "--nthreads", 1, "--no-nanny", "--no-dashboard"]
    return self._machines.start(name, *_python("-m", "distributed.cli.dask_worker", server, *options))

  def kill_worker(self):
    """Kills a worker as the kernel does; returns its name."""
    name, process = next(iter(self.workers.items()))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return name

  def restore(self):
    """Starts the workers again that were killed."""
    for name, process in self.workers.items():
      if process.poll() is not None:
        self.workers[name] = self.start_worker(name)


class Pools:
  """Job server of Beam and two pools of workers; arguments and methods as in `Dask`."""

  name = "PortableRunner"

  def __init__(self, machines):
    pools = [f"{machines.addresses[name]}:{_POOL_PORT + number}" for number, name in enumerate(_WORKERS)]
    options = [f"job_endpoint=localhost:{_JOB_PORT}", "environment_type=EXTERNAL", f"environment_config={pools[0]}"]
    self.options = ",".join(options)
    # A pool starts its workers as "python".
    paths = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    self._pools = []
    for number, name in enumerate(_WORKERS):
      command = ["-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={_POOL_PORT + number}"]
      self._pools.append(machines.start(name, *_python(*command), env=paths))
      machines.wait_for(name, _POOL_PORT + number)
    machines.start("server", *_python("-m", "tools.soak.cluster", f"--serve={','.join(pools)}"))
    machines.wait_for("server", _JOB_PORT, "localhost")

  def kill_worker(self):
    """Kills the newest worker of the first pool as the kernel does; the pool starts another for the next job."""
    os.kill(descendants(self._pools[0])[-1], signal.SIGKILL)
    return _WORKERS[0]

  def restore(self):
    """Does nothing: each job has new workers."""


def serve(pools):
  """Runs Beam's job server, which asks a pool for one worker of each job; this one asks each pool for one."""
  from apache_beam.runners.portability import local_job_service_main
  from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers

  class Runner(fn_runner.FnApiRunner):
    """Runner with as many workers as pools."""

    def __init__(self, *arguments, **named):
      super().__init__(*arguments, **named)
      self._num_workers = len(pools)

  turns, handler = itertools.cycle(pools), worker_handlers.ExternalWorkerHandler
  start_worker = handler.start_worker

  def start_in_turn(self):
    self._external_payload.endpoint.url = next(turns)
    start_worker(self)

  handler.start_worker = start_in_turn
  fn_runner.FnApiRunner = Runner
  local_job_service_main.run(["--port", str(_JOB_PORT)])


class Job:
  """Command `run_embed` that writes a folder."""

  def __init__(self, machines, folder, flags):
    self._machines, self.folder, self._log = machines, folder, folder.with_suffix(".log")
    self._command = _python("run_scripts/run_embed.py", f"--output_dir={folder}", *flags)
    self.starts, self.seconds = 0, 0.0

  def run(self, kills=()):
    """Runs the command until it succeeds, again after each end that is not a success."""
    kills, began = list(kills), time.monotonic()
    while time.monotonic() < began + _LIMIT:
      if self._run_once(kills) == 0:
        self.seconds = time.monotonic() - began
        return self
    raise TimeoutError(f"{self.folder} is not complete after {_LIMIT} s; see {self._log}")

  def _finished(self):
    return len(list(self.folder.glob("shard-*-of-*.json")))

  def _run_once(self, kills):
    self.starts += 1
    with open(self._log, "ab") as log:
      process = self._machines.start("server", *self._command, cwd=REPO, stdout=log, stderr=log)
      seen, end = self._finished(), time.monotonic() + _START
      while process.poll() is None:
        if (finished := self._finished()) != seen:
          seen, end = finished, time.monotonic() + _SILENCE
        if kills and finished >= kills[0][0]:
          kills.pop(0)[1](process)
        if time.monotonic() > end:
          process.send_signal(signal.SIGINT)
          with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
          process.kill()
        time.sleep(0.1)
    return process.returncode


def check(cluster, machines, folder, flags, expected, name, only):
  """Runs a job undisturbed, with a killed worker, and with a killed command, or `only` one; prints a line for each."""
  shards = sum(file.endswith(".json") for file in expected) - 2  # without manifest and index
  cases = {
    "undisturbed": [],
    "a worker killed": [(shards // 3, lambda _: cluster.kill_worker())],
    "the command killed": [(shards // 3, lambda process: process.kill())],
  }
  good = True
  for case, kills in cases.items():
    if only not in (None, case):
      continue
    job = Job(machines, folder / f"{cluster.name} {name} {case}".replace(" ", "-"), flags)
    job.run(kills)
    found = contents(job.folder)
    differing = sorted(file for file in found.keys() | expected.keys() if found.get(file) != expected.get(file))
    good &= not differing
    same = f"{len(found)} files identical" if not differing else f"DIFFERENT: {differing[:4]} of {len(differing)}"
    print(f"| {cluster.name} | {name} | {case} | {job.starts} | {same} | {job.seconds:.0f} s |", flush=True)
    cluster.restore()
  return good


def contents(folder):
  """Returns {name: bytes} of a folder's files."""
  return {path.name: path.read_bytes() for path in folder.iterdir()}


def corpus(path, sentences, source):
  """Writes a text file of so many sentences: the source's, again and again, each time with another ending."""
  with gzip.open(source, "rt", encoding="utf-8") as file:
    lines = [line.rstrip("\n") for line in itertools.islice(file, sentences)]
  with open(path, "w", encoding="utf-8") as file:
    for number in range(sentences):
      again, row = divmod(number, len(lines))
      file.write(f"{lines[row]}{f' {again}' if again else ''}\n")
  return path


def _python(*arguments):
  return [sys.executable, *arguments]


def main():
  """Runs the cases; exits with 1 if a file differs."""
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--sentences", type=int, default=200_000, help="for static:mini")
  parser.add_argument("--mini", type=int, default=4_000, help="sentences for mini; 0 to leave it out")
  parser.add_argument("--clusters", default="Dask,Pools")
  parser.add_argument("--case", help='only one, as "a worker killed"')
  parser.add_argument("--source", default=SHARED / "text/corpus.txt.gz", help="gzipped file of sentences")
  parser.add_argument("--folder", help="keeps the files in this folder; default: a temporary one")
  parser.add_argument("--serve", help=argparse.SUPPRESS)
  arguments = parser.parse_args()
  if arguments.serve:
    return serve(arguments.serve.split(","))
  os.environ |= {"PYTHONPATH": str(REPO), "TF_CPP_MIN_LOG_LEVEL": "3"}
  good = True
  with contextlib.ExitStack() as stack:
    folder = pathlib.Path(arguments.folder or stack.enter_context(tempfile.TemporaryDirectory())).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with Machines(["server", *_WORKERS], folder / "machines.log") as machines:
      print("| runner | encoder | case | starts | files | time |\n| --- | --- | --- | --- | --- | --- |", flush=True)
      runs = ("static:mini", arguments.sentences, 2000), ("mini", arguments.mini, 100)
      for model, sentences, size in (run for run in runs if run[1]):
        text = corpus(folder / f"{model}.txt", sentences, arguments.source)
        flags = [f"--model={model}", f"--input={text}", f"--shard_size={size}"]
        one = Job(machines, folder / f"one-process-{model}", flags).run()
        print(f"| none | {model} | - | 1 | {len(contents(one.folder))} files | {one.seconds:.0f} s |", flush=True)
        for kind in arguments.clusters.split(","):
          cluster = {"Dask": Dask, "Pools": Pools}[kind](machines)
          runner = [f"--runner={cluster.name}", f"--beam_options={cluster.options}"]
          good &= check(cluster, machines, folder, flags + runner, contents(one.folder), model, arguments.case)
          machines.stop()
  sys.exit(not good)


if __name__ == "__main__":
  main()
