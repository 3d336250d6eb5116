"""Exports an encoder and a saved calibration as a SavedModel for TF Serving.

python run_scripts/run_export.py --flow_folder=exp/NAME/flow --export_dir=/models/bert_flow
"""

import dataclasses
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


def define_export_flags() -> None:
  """Defines --export_dir and the flags of `ExportSettings`."""
  flags.DEFINE_string("export_dir", None, "Folder of the served model, which gets a folder for the new version.")
  common_flags.define_settings(ExportSettings)


def check_export_flags() -> None:
  """Validates the export flags, and that the packages are installed, before anything is loaded or fitted."""
  common_flags.settings(ExportSettings)
  check_installed(FLAGS.export_dir)


def check_export_of_run(calibrations: int) -> None:
  """Validates the export flags of `run_flow`, which fits a number of calibrations, against its other flags."""
  # Without an export, its other flags have no meaning.
  if FLAGS.export_dir is None:
    useless = common_flags.given([field.name for field in dataclasses.fields(ExportSettings)])
    if useless:
      raise ConfigError(f"{useless[0]}: needs export_dir, the folder of the served model", argument=useless[0])
    return
  common_flags.check_not_empty(["export_dir"])
  if calibrations > 1:
    raise ConfigError(
      f"export_dir={FLAGS.export_dir}: one calibration can be served, not {calibrations}; export it with run_export",
      argument="export_dir",
    )
  if FLAGS.precision != "float32":
    raise ConfigError(f"precision={FLAGS.precision}: a served model computes in float32", argument="precision")


def export(model, calibration_folder: str | None) -> None:
  """Writes a version of a `SentenceModel` into --export_dir and prints a summary; its calibration's folder or None."""
  from bert_flow_tf.serving import metadata
  from bert_flow_tf.serving.export import export_model

  # The served model names the run that its calibration is from.
  settings = dataclasses.asdict(common_flags.settings(ExportSettings))
  about = metadata.read_origin(calibration_folder)
  folder = export_model(model, FLAGS.export_dir, about=about, **settings)
  print("\n".join(metadata.summary(folder)))


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_calibration_flags()
  # A served model computes in float32.
  common_flags.define_encoder_flags(NAME, LOADING, POOLING, leave_out=["precision"])
  define_export_flags()


def check_flags() -> None:
  """Validates the flags before anything is loaded."""
  if not FLAGS.export_dir:
    raise ConfigError("export_dir: missing; expected the folder of the served model", argument="export_dir")
  common_flags.check_calibration_flags()
  check_export_flags()


def main(argv: list[str]) -> None:
  """Loads encoder and calibration and exports them."""
  del argv
  check_flags()
  export(common_flags.load_model(FLAGS.flow_folder, FLAGS.allow_other_encoder), FLAGS.flow_folder)


def console() -> None:
  """Starts the installed command."""
  define_flags()
  runner.run(main, resumes=False)


if __name__ == "__main__":
  console()
