"""Measuring methods of the same work in turns, here or in the process of `worker.py`."""

import contextlib
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from absl import logging

from benchmarks.worker import peak_bytes, reset_peak
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.cpus import usable_cpus

ROOT = pathlib.Path(__file__).resolve().parent.parent

median = statistics.median


def in_turns(methods: dict[Any, Callable], repeats: int) -> dict[Any, list]:
  """Calls every method once a round, so that a machine that slows down slows all of them down."""
  results = {name: [] for name in methods}
  for number in range(repeats):
    for name in list(methods)[:: -1 if number % 2 else 1]:
      gc.collect()
      results[name].append(methods[name]())
    logging.info("round %d of %d: load of the machine %.1f", number + 1, repeats, load())
  return results


def median_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
  """Returns the median over the rounds of the ratio within a round."""
  return median(a / b for a, b in zip(numerators, denominators, strict=True))


def seconds(work: Callable) -> tuple[float, Any]:
  """Returns the wall seconds of a function without arguments, and its result."""
  start = time.perf_counter()
  result = work()
  return time.perf_counter() - start, result


def cost(work: Callable) -> tuple[dict[str, float], Any]:
  """Returns wall seconds, CPU seconds and the process's peak resident bytes while a function runs, and its result."""
  reset_peak()
  cpu = time.process_time()
  elapsed, result = seconds(work)
  return {"seconds": elapsed, "cpu_seconds": time.process_time() - cpu, "peak_bytes": peak_bytes()}, result


def load() -> float:
  """Returns the mean number of runnable processes in the last minute; NaN on systems that do not count them."""
  return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def markdown_table(header: Sequence, rows: Iterable[Sequence]) -> str:
  """Returns a markdown table, its first column aligned left and the others right."""
  lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
  return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


class Checkout(contextlib.AbstractContextManager):
  """Process of `checkout.py` that measures the package in a checkout of this project; it ends with its input."""

  def __init__(self, root: pathlib.Path, *arguments: Any) -> None:
    script = pathlib.Path(__file__).with_name("checkout.py")
    command = [sys.executable, "-P", script, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(root), "TF_CPP_MIN_LOG_LEVEL": "3"}
    self._root, self._errors = root, tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
    self._process: Any = subprocess.Popen(list(map(str, command)), cwd=root, text=True, env=environment, **pipes)

  def __exit__(self, *unused):
    self._process.communicate()
    self._errors.close()

  def answer(self) -> dict[str, Any]:
    """Returns the next line of the process."""
    line = self._process.stdout.readline()
    if not line:
      self._errors.seek(0)
      reason = self._errors.read().strip().rpartition("\n")[-1][:300]
      expected = "expected a checkout of this project"
      raise ConfigError(f"baseline={self._root}: its package cannot be measured ({reason}); {expected}")
    return json.loads(line)

  def ask(self, **command: Any) -> dict[str, Any]:
    """Sends a command and returns the answer."""
    self._process.stdin.write(json.dumps(command) + "\n")
    self._process.stdin.flush()
    return self.answer()


class Worker(contextlib.AbstractContextManager):
  """The process with sentence-transformers, ONNX Runtime and model2vec; it ends with its input."""

  def __init__(self, python: str, folder: pathlib.Path, sentences: list[str], max_seq_length: int) -> None:
    (folder / "sentences.json").write_text(json.dumps(sentences), encoding="utf-8")
    script = pathlib.Path(__file__).with_name("worker.py")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(usable_cpus())}
    command = [str(part) for part in (python, script, folder, max_seq_length, usable_cpus())]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    self._python = python
    try:
      self._process: Any = subprocess.Popen(command, text=True, env=environment, **pipes)
    except OSError as error:
      raise self._error() from error

  def __exit__(self, *unused):
    self._process.communicate()

  def ask(self, engine: str, batch_size: int, save: pathlib.Path | None = None, single: int = 0) -> dict[str, Any]:
    """Lets an engine embed all sentences, then the first `single` ones one by one; returns the worker's answer."""
    command = {"engine": engine, "batch_size": batch_size, "save": save and str(save), "single": single}
    try:
      self._process.stdin.write(json.dumps(command) + "\n")
      self._process.stdin.flush()
      return json.loads(self._process.stdout.readline())
    except (OSError, ValueError) as error:
      raise self._error() from error

  def _error(self):
    return ConfigError(
      f"other_python={self._python}: cannot run benchmarks/worker.py; expected a Python with NumPy", "other_python"
    )
