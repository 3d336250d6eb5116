"""An experiment's folder and the seconds that it took."""

import contextlib
import pathlib
import time

from bert_flow_tf.errors import ConfigError


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
