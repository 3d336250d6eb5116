"""The process of `worker.py`, as the benchmark talks to it."""

import contextlib
import json
import os
import pathlib
import subprocess
from typing import Any

from bert_flow_tf.errors import BertFlowError


class WorkerError(BertFlowError):
  """The process with the other engines cannot be started, ended, or gave no JSON."""


class Worker(contextlib.AbstractContextManager):
  """The process with sentence-transformers, ONNX Runtime and model2vec."""

  def __init__(self, python: str, folder: pathlib.Path, max_seq_length: int, threads: int) -> None:
    script = pathlib.Path(__file__).with_name("worker.py")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(threads)}
    self._python = python
    try:
      self._process: Any = subprocess.Popen(
        [str(part) for part in (python, script, folder, folder / "sentences.json", max_seq_length, threads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
      )
    except OSError as error:
      raise WorkerError(
        f"other_python={python}: cannot be started ({error.strerror}); expected a Python", "other_python"
      ) from error

  def __exit__(self, *unused):
    with contextlib.suppress(OSError):  # the process may have ended already
      self._process.stdin.close()
    try:
      self._process.wait(10)
    except subprocess.TimeoutExpired:
      self._process.kill()
      self._process.wait()

  def ask(self, engine: str, batch_size: int, save: pathlib.Path | None = None) -> dict[str, Any]:
    """Lets an engine embed all sentences; returns {"seconds", "version"} or {"skipped": reason}."""
    self.send(engine, batch_size, save)
    return self.receive(engine)

  def send(self, engine: str, batch_size: int, save: pathlib.Path | None = None, count: int | None = None) -> None:
    """Starts what `ask` does, without waiting; `count`: embeds the first sentences only."""
    command = {"engine": engine, "batch_size": batch_size, "save": save and str(save), "count": count}
    with self._explained(engine):
      self._process.stdin.write(json.dumps(command) + "\n")
      self._process.stdin.flush()

  def receive(self, engine: str) -> dict[str, Any]:
    """Returns the answer to the first `send` that has none yet, which was for `engine`."""
    with self._explained(engine):
      return json.loads(self._process.stdout.readline())

  @contextlib.contextmanager
  def _explained(self, engine):
    try:
      yield
    except (OSError, ValueError) as error:
      raise WorkerError(
        f"other_python={self._python}: the process ended or gave no JSON when asked for {engine}; expected a Python "
        "that can run benchmarks/worker.py (NumPy at least)",
        "other_python",
      ) from error
