"""Nothing of TensorFlow's start-up; and, for the runners, our lines without file names and thread ids."""

import contextlib
import importlib.machinery
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

# Modules of TensorFlow that log each checkpoint and each collective operation.
_NOISY_MODULES = (
  "functional_saver.py",
  "collective_all_reduce_strategy.py",
  "cross_device_ops.py",
  "mirrored_strategy.py",
)
# Lines of TensorFlow's C++ before its log is initialized, and after.
_START_UP = re.compile(
  rb"[IWE]0000 00:00:|WARNING: All log messages before absl|\d{4}-\d\d-\d\d [\d:.]+: [IWE] \w+/|"
  rb"To enable the following instructions:"
)
_CPU_INFO = "/proc/cpuinfo"
# Not empty if the first import runs an operation, after which a program could not configure the devices any more.
_RUNS_OPERATION: list[bool] = []


def hide_start_up() -> None:
  """Hides what TensorFlow's import prints, unless it is imported or TF_CPP_MIN_LOG_LEVEL asks for it."""
  # Of tqdm in a notebook without widgets, where it shows bars of text.
  warnings.filterwarnings("ignore", message="IProgress not found")
  is_quiet = "tensorflow" not in sys.modules and os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2") == "2"
  if is_quiet and sys.stderr is not None:  # it is None if it was closed before the start
    at_import("tensorflow", _load_quietly)


def make_quiet(handler: logging.Handler) -> None:
  """Shortens the lines of absl's handler, and hides what TensorFlow's first operation prints, too."""
  handler.addFilter(lambda record: record.filename not in _NOISY_MODULES)
  # It is None if it was closed before the start.
  is_terminal = sys.stderr is not None and sys.stderr.isatty()
  time = "" if is_terminal else "%(asctime)s "
  handler.setFormatter(_Line(f"{time}%(message)s", "%H:%M:%S"))
  _RUNS_OPERATION.append(True)


class _Line(logging.Formatter):
  """A message, after its time in a log and after its level if it is a warning or an error."""

  def formatMessage(self, record: logging.LogRecord) -> str:
    if record.levelno >= logging.WARNING:
      record.message = f"{record.levelname.lower()}: {record.message}"
    return super().formatMessage(record)


def at_import(name: str, execute: Callable[[Callable, Any], None]) -> None:
  """Has `execute(load, module)` called at a module's first import, in place of `load(module)`."""
  sys.meta_path.insert(0, _Hook(name, execute))


class _Hook:
  """Finder of one module whose loader is replaced."""

  def __init__(self, name: str, execute: Callable[[Callable, Any], None]) -> None:
    self._name, self._execute = name, execute

  def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
    """Returns the spec of the module, None for others."""
    if name != self._name:
      return None
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is None or spec.loader is None:
      return None
    load = spec.loader.exec_module

    def execute(module):
      sys.meta_path.remove(self)  # not before: programs also look for a module without importing it
      self._execute(load, module)

    spec.loader.exec_module = execute  # type: ignore[method-assign]
    return spec


def _load_quietly(load, module):
  """Loads TensorFlow, and looks for devices."""
  # No setting of TensorFlow 2.21 does it: its messages come before its log is initialized.
  with _hidden_start_up():
    load(module)
    # A worker has to find the others before the first operation.
    has_gpu = bool(module.config.list_physical_devices("GPU"))
    if _RUNS_OPERATION and not has_gpu and "TF_CONFIG" not in os.environ:
      # Says which CPUs have no instructions for it.
      module.cast(1.0, module.float16)


@contextlib.contextmanager
def _hidden_start_up() -> Iterator[None]:
  """Sends file descriptor 2 to a temporary file, and shows afterwards what is not TensorFlow's; all if it fails."""
  if not _has_avx():  # TensorFlow says so and aborts, which leaves no time to show it afterwards
    yield
    return
  import tempfile  # 20 ms

  with contextlib.ExitStack() as opened:
    try:
      file, kept = opened.enter_context(tempfile.TemporaryFile()), os.dup(2)
    except OSError:  # no folder for temporary files, or a closed descriptor: nothing is hidden
      file = None
    if file is None:
      yield
      return
    is_done = False
    os.dup2(file.fileno(), 2)
    try:
      yield
      is_done = True
    finally:
      os.dup2(kept, 2)
      file.seek(0)
      for line in file:
        if not (is_done and _START_UP.match(line)):  # other threads write, too
          os.write(kept, line)
      os.close(kept)


def _has_avx() -> bool:
  """Returns False for an x86 CPU without AVX, as far as the system tells."""
  try:
    with open(_CPU_INFO, encoding="utf-8") as file:
      first = file.read(8192)
  except OSError:  # not Linux
    return True
  return "flags" not in first or " avx " in first
