"""Nothing of TensorFlow's start-up; and, for the runners, our lines without file names and thread ids."""

import contextlib
import importlib.machinery
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
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


def hide_start_up() -> None:
  """Hides what TensorFlow's import prints, unless it is imported or TF_CPP_MIN_LOG_LEVEL asks for it."""
  # Of tqdm in a notebook without widgets, where it shows bars of text.
  warnings.filterwarnings("ignore", message="IProgress not found")
  is_quiet = "tensorflow" not in sys.modules and os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2") == "2"
  if is_quiet and sys.stderr is not None:  # it is None if it was closed before the start
    sys.meta_path.insert(0, _QuietFinder())


def make_quiet(handler: logging.Handler) -> None:
  """Shortens the lines of absl's handler, and hides what TensorFlow's first operation prints, too."""
  handler.addFilter(lambda record: record.filename not in _NOISY_MODULES)
  # It is None if it was closed before the start.
  is_terminal = sys.stderr is not None and sys.stderr.isatty()
  time = "" if is_terminal else "%(asctime)s "
  handler.setFormatter(_Line(f"{time}%(message)s", "%H:%M:%S"))
  _QuietFinder.runs_operation = True


class _Line(logging.Formatter):
  """A message, after its time in a log and after its level if it is a warning or an error."""

  def formatMessage(self, record: logging.LogRecord) -> str:
    if record.levelno >= logging.WARNING:
      record.message = f"{record.levelname.lower()}: {record.message}"
    return super().formatMessage(record)


class _QuietFinder:
  """Finder of TensorFlow whose first import, and first look for devices, prints nothing."""

  # Whether an operation runs then, after which a program could not configure the devices any more.
  runs_operation = False
  # No setting of TensorFlow 2.21 does it: these messages come before its log is initialized.

  def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
    """Returns TensorFlow's spec with a quiet loader, None for other modules."""
    if name != "tensorflow":
      return None
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is None or spec.loader is None:
      return None
    load = spec.loader.exec_module

    def load_quietly(module):
      sys.meta_path.remove(self)  # not before: programs also look for TensorFlow without importing it
      with _hidden_start_up():
        load(module)
        # A worker has to find the others before the first operation.
        has_gpu = bool(module.config.list_physical_devices("GPU"))
        if self.runs_operation and not has_gpu and "TF_CONFIG" not in os.environ:
          # Says which CPUs have no instructions for it.
          module.cast(1.0, module.float16)

    spec.loader.exec_module = load_quietly  # type: ignore[method-assign]
    return spec


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
