"""Exports an encoder and a saved calibration as a SavedModel for TF Serving.

python run_scripts/run_export.py --flow_folder=exp/NAME/flow --export_dir=/models/bert_flow
"""

import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.encoder.settings import LOADING, NAME, POOLING
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.serving.settings import ExportSettings, check_installed
from run_scripts import common_flags, runner

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_calibration_flags()
  # A served model computes in float32.
  common_flags.define_encoder_flags(NAME, LOADING, POOLING, leave_out=["precision"])
  common_flags.define_export_flags()


def check_flags() -> None:
  """Validates the flags before anything is loaded."""
  if not FLAGS.export_dir:
    raise ConfigError("export_dir: missing; expected the folder of the served model", argument="export_dir")
  common_flags.check_calibration_flags()
  common_flags.settings(ExportSettings)
  check_installed(FLAGS.export_dir)


def main(argv: list[str]) -> None:
  """Loads encoder and calibration and exports them."""
  del argv
  check_flags()
  common_flags.export(common_flags.load_model(FLAGS.flow_folder, FLAGS.allow_other_encoder), FLAGS.flow_folder)


def console() -> None:
  """Starts the installed command."""
  define_flags()
  runner.run(main, resumes=False)


if __name__ == "__main__":
  console()
