"""Errors that the runners print as one line, exit status 1.

A message says what is wrong, where, what is expected and how to mend it.
"""


class BertFlowError(Exception):
  """Base class of the errors that a user can mend; any other error is a bug.

  Args:
    message: one or a few sentences. If an argument is wrong they begin with its name: "low_dim=0: expected ...".
    argument: name of the wrong argument, None if no argument is wrong. The runners print the argument's flag in place
      of the name at the beginning of the message.

  Attributes:
    argument: as above.
  """

  def __init__(self, message: str, argument: str | None = None) -> None:
    super().__init__(message)
    self.argument = argument


class ConfigError(BertFlowError):
  """A flag, argument or configuration file holds what is not supported."""


class DataError(BertFlowError):
  """A data file or data set is missing, malformed or not what the task needs."""


class EncoderError(BertFlowError):
  """An encoder cannot be found, read or used for the requested pooling."""


class FlowError(BertFlowError):
  """The flow cannot be built, initialised, loaded or applied."""


class TrainingError(BertFlowError):
  """Fitting stopped: non-finite loss, or a checkpoint that does not belong to the run."""


class CalibrationError(BertFlowError):
  """A calibration cannot be fitted, loaded or applied."""
