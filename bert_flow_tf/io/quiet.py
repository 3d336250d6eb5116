"""Output of the runners: our lines without file names and thread ids, and nothing of TensorFlow's start-up."""

import contextlib
import importlib.abc
import importlib.machinery
import logging
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any

# Modules of TensorFlow that log each checkpoint and each collective operation.
_NOISY_MODULES = (
  "functional_saver.py",
  "collective_all_reduce_strategy.py",
  "cross_device_ops.py",
  "mirrored_strategy.py",
)
# Lines of TensorFlow's start-up: its log but for fatal errors, and the second lines of its messages.
_NOISE = (
  r"([0-9: .-]+ )?[IWE](\d{4})? |WARNING: All log messages before absl|To enable the following instructions|"
  r"Skipping registering GPU devices"
)
# A program, as TensorFlow may abort this one: on a CPU without AVX it says why and ends the process.
_FILTER = f"""
import re, sys
for line in sys.stdin.buffer:
  if not re.match({_NOISE.encode()!r}, line):
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
"""


def make_quiet(handler: logging.Handler) -> None:
  """Shortens the lines of absl's handler, and hides TensorFlow's start-up unless TF_CPP_MIN_LOG_LEVEL is set."""
  handler.addFilter(lambda record: record.filename not in _NOISY_MODULES)
  is_terminal = sys.stderr is not None and sys.stderr.isatty()  # None: it was closed before the start
  handler.setFormatter(_Line("%(asctime)s " * (not is_terminal) + "%(message)s", "%H:%M:%S"))
  if "TF_CPP_MIN_LOG_LEVEL" not in os.environ and "tensorflow" not in sys.modules:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    if sys.stderr is not None:
      sys.meta_path.insert(0, _TensorFlowFinder())


class _Line(logging.Formatter):
  """A message, after its time in a log and after its level if it is a warning or an error."""

  def formatMessage(self, record: logging.LogRecord) -> str:
    if record.levelno >= logging.WARNING:
      record.message = f"{record.levelname.lower()}: {record.message}"
    return super().formatMessage(record)


class _TensorFlowFinder:
  """Finder of TensorFlow whose first import, and first look for devices, prints nothing.

  No setting of TensorFlow 2.21 does it: these messages come before its log is initialized.
  """

  def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
    """Returns TensorFlow's spec with the loader below, None for other modules."""
    if name != "tensorflow":
      return None
    sys.meta_path.remove(self)
    spec = importlib.machinery.PathFinder.find_spec(name, path, target)
    if spec is not None:
      spec.loader = _QuietLoader(spec.loader)
    return spec


class _QuietLoader(importlib.abc.Loader):
  """Loader whose module is executed without the start-up lines that C++ writes to standard error."""

  def __init__(self, loader: Any) -> None:
    self._loader = loader

  def __getattr__(self, name: str) -> Any:
    return getattr(self._loader, name)

  def exec_module(self, module: types.ModuleType) -> None:
    """Executes TensorFlow and its first look at the devices."""
    with _filtered_stderr():
      self._loader.exec_module(module)
      # A worker has to find the others before the first operation.
      if not module.config.list_physical_devices("GPU") and "TF_CONFIG" not in os.environ:
        module.cast(1.0, module.float16)  # says which CPUs have no instructions for it


@contextlib.contextmanager
def _filtered_stderr() -> Iterator[None]:
  """Leaves TensorFlow's start-up out of what is written to file descriptor 2; `sys.stderr` is not filtered."""
  sys.stderr.flush()
  kept, stream = os.dup(2), sys.stderr
  command = [sys.executable, "-IS", "-c", _FILTER]
  try:
    # In a session of its own, so that Ctrl-C does not end it before this process.
    lines = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=kept, start_new_session=True)
  except OSError:  # no process is to be had: the start-up is printed
    os.close(kept)
    yield
    return
  assert lines.stdin is not None
  os.dup2(lines.stdin.fileno(), 2)
  lines.stdin.close()
  try:
    with open(kept, "w", buffering=1, encoding=stream.encoding, errors=stream.errors, closefd=False) as sys.stderr:
      yield
  finally:
    sys.stderr = stream
    os.dup2(kept, 2)
    os.close(kept)
    with contextlib.suppress(subprocess.TimeoutExpired):  # a process that the import started may write to it still
      lines.wait(10)
