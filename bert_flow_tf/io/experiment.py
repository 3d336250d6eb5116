"""An experiment's folder and the seconds that it took."""

import contextlib
import os
import pathlib
import time

from bert_flow_tf.errors import ConfigError

# What our runners call the folder of an encoder within that of an experiment.
_OWN_FOLDERS = ("encoder", "model")


def encoder_label(name):
  """How an encoder is called in names and tables: the last part of its path.

  Of the folders that run_siamese, run_convert and run_pretraining write, the experiment's part stands before it.

  Args:
    name: a value of `--model`.
  """
  folder = os.path.expanduser(name)
  path = pathlib.Path(os.path.abspath(folder) if os.path.isdir(folder) else name)
  return f"{path.parent.name}-{path.name}" if path.name in _OWN_FOLDERS and path.parent.name else path.name


def make_folder(folder, flag="output_parent_dir"):
  """Makes a folder of results.

  Args:
    folder: the folder.
    flag: name of the flag that placed it there, for the message.

  Raises:
    ConfigError: it cannot be made.
  """
  try:
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise ConfigError(f"--{flag}: {folder} cannot be made ({error.strerror}); choose another") from error


class Stopwatch:
  """Seconds spent, by what they were spent on."""

  def __init__(self):
    self.seconds = {}

  @contextlib.contextmanager
  def timing(self, what):
    """Adds the seconds of the block to `what`, less those that blocks inside it take for themselves."""
    start, before = time.monotonic(), sum(self.seconds.values())
    yield
    inside = sum(self.seconds.values()) - before
    self.seconds[what] = self.seconds.get(what, 0.0) + time.monotonic() - start - inside
