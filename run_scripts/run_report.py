"""Draws the page of a run again, report.html, from the files of the run's folder.

bert-flow report exp/NAME
"""

import os
import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.files import owned
from bert_flow_tf.report.page import draw_page
from run_scripts import runner

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this runner."""
  flags.DEFINE_list("input", [], "Folders that bert-flow fit, eval or siamese wrote, such as exp/NAME.")


def main() -> None:
  """Draws the page of each folder and prints its path."""
  if not FLAGS.input:
    raise ConfigError("input: missing; expected the folder of a run, such as exp/NAME", argument="input")
  for name in FLAGS.input:
    folder = pathlib.Path(name).expanduser()
    if not folder.is_dir():
      reason = "not a folder" if os.path.lexists(folder) else "no such folder"
      raise ConfigError(f"input={name}: {reason}; expected the folder of a run, such as exp/NAME", argument="input")
    with owned(folder, "input"):
      print(f"page: {draw_page(folder)}")


console = runner.command(define_flags, main, resumes=False)

if __name__ == "__main__":
  console()
