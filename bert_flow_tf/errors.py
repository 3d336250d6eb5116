"""Errors that the runners print as one line, exit status 1.

A message names the flag, file or argument, what was found, what was expected and how to mend it.
"""


class BertFlowError(Exception):
  """Base of every error that a user can mend; anything else is a bug."""


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
