"""Errors that the runners print as one line, with exit status 1.

A message says what is wrong, where, what is expected and how to mend it.
"""

import contextlib
import warnings
from collections.abc import Iterator


class BertFlowError(Exception):
  """Base class of the errors that a user can mend; any other error is a bug.

  Args:
    message: one or a few sentences. If an argument is wrong they begin with its name: "seed=-1: expected ...".
    argument: name of the wrong argument, None if no argument is wrong. The runners print the argument's flag in place
      of the name at the beginning of the message.

  Attributes:
    argument: as above.
  """

  def __init__(self, message: str, argument: str | None = None) -> None:
    super().__init__(message)
    self.argument = argument


class ConfigError(BertFlowError):
  """An argument, flag or configuration file has a value that is not allowed."""


class DataError(BertFlowError):
  """A data file or data set is missing, malformed or not of the kind that the task needs."""


class EncoderError(BertFlowError):
  """An encoder cannot be loaded, or cannot be used with the chosen pooling or calibration."""


class FlowError(BertFlowError):
  """A flow cannot be built, initialized, loaded or applied."""


class TrainingError(BertFlowError):
  """A fit stopped: the loss is not finite, or a checkpoint belongs to another fit."""


class CalibrationError(BertFlowError):
  """A calibration cannot be fitted, loaded or applied."""


def install_command(extra: str) -> str:
  """Returns the command that installs the packages of an extra of the installed project."""
  return f"pip install 'bert-flow-tf[{extra}]'"


def one_line(error: BaseException) -> str:
  """Returns the beginning of an error's message in one line, or the error's class if it has none."""
  return " ".join(str(error).split())[:200] or type(error).__name__


@contextlib.contextmanager
def naming(argument: str, instead_of: str | None = None) -> Iterator[None]:
  """Adds the argument that named a file or folder to errors of the block that name no argument of the caller's.

  Errors that name the argument `instead_of` name this argument, too.
  """
  try:
    yield
  except BertFlowError as error:
    if error.argument is None:
      raise type(error)(f"{argument}: {error}", argument) from error
    if error.argument != instead_of:
      raise
    raise type(error)(str(error).replace(error.argument, argument, 1), argument) from error


def deprecated(name: str, since: str, use: str) -> None:
  """Warns of a former name that is still accepted: of a module, a name in it, an argument, an attribute or a flag.

  The module body, `__getattr__` or function with the former name calls it; the warning is of the line that uses this.

  Args:
    name: the former name.
    since: version that has the new name.
    use: the new name, or what to do instead.
  """
  warnings.warn(f"{name} is deprecated since version {since}; use {use}", FutureWarning, stacklevel=3)
