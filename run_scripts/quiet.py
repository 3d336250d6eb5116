"""Quiet of the runners: TensorFlow's import without its lines, and log lines without file names and thread ids."""

import contextlib
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator

from bert_flow_tf.io import lazy

# Modules of TensorFlow that log each checkpoint and each collective operation, and the module of TensorFlow Datasets
# that warns of each data set that is not prepared.
_NOISY_MODULES = (
  "file_utils.py",
  "functional_saver.py",
  "collective_all_reduce_strategy.py",
  "cross_device_ops.py",
  "mirrored_strategy.py",
)
# {TF_CPP_MIN_LOG_LEVEL: lines that it hides, but for those that TensorFlow's C++ prints before its log is initialized}
_START_UP = {
  level: re.compile(rb"[%s]0000 00:00:|WARNING: All log messages before absl" % letters)
  for level, letters in {"1": b"I", "2": b"IW", "3": b"IWE"}.items()
}
_CPU_INFO = "/proc/cpuinfo"


def shorten_lines(handler: logging.Handler) -> None:
  """Shortens the lines of absl's handler: the time if standard error is a file, the level of warnings, the message."""
  handler.addFilter(lambda record: record.filename not in _NOISY_MODULES)
  time = "%(asctime)s "
  if sys.stderr.isatty():
    time = ""
  handler.setFormatter(_Line(f"{time}%(message)s", "%H:%M:%S"))


class _Line(logging.Formatter):
  """A message, after its level if it is a warning or an error."""

  def formatMessage(self, record: logging.LogRecord) -> str:
    if record.levelno >= logging.WARNING:
      record.message = f"{record.levelname.lower()}: {record.message}"
    return super().formatMessage(record)


def import_tensorflow() -> None:
  """Imports TensorFlow, if that is not done yet, as `silence_tensorflow` says."""
  silence_tensorflow()
  lazy.load_tensorflow()


def silence_tensorflow() -> None:
  """Lets the library import TensorFlow without the lines that TF_CPP_MIN_LOG_LEVEL hides; the package sets 3: all."""
  lazy.import_within(_start_up)


def _start_up():
  """Returns the context of TensorFlow's import."""
  hidden = _START_UP.get(os.environ.get("TF_CPP_MIN_LOG_LEVEL", ""))
  if hidden is None or not _has_avx():
    return contextlib.nullcontext()
  return _hidden_lines(hidden)


@contextlib.contextmanager
def _hidden_lines(hidden: re.Pattern[bytes]) -> Iterator[None]:
  """Sends file descriptor 2 to a temporary file, and shows afterwards the other lines; all lines after an error.

  An interrupt is no error.
  """
  with tempfile.TemporaryFile() as file:
    standard_error = os.dup(2)
    os.dup2(file.fileno(), 2)
    has_failed = False
    try:
      yield
    except Exception:
      has_failed = True
      raise
    finally:
      os.dup2(standard_error, 2)
      file.seek(0)
      for line in file:
        if has_failed or not hidden.match(line):
          os.write(standard_error, line)
      os.close(standard_error)


def _has_avx() -> bool:
  """Returns False for a CPU without AVX: TensorFlow says so and aborts, with no time to show its line afterwards."""
  try:
    with open(_CPU_INFO, encoding="utf-8") as file:
      first = file.read(8192)
  except OSError:  # not Linux
    return True
  return "flags" not in first or " avx " in first
