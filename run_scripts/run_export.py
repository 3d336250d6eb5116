"""Exports an encoder and a saved calibration, or the calibration alone, for TF Serving, OpenVINO, ONNX or model2vec.

bert-flow export --flow_folder=exp/NAME/flow --export_dir=/models/bert_flow
bert-flow export --flow_folder=exp/NAME/flow --calibration_only --export_dir=/models/flow
bert-flow export --flow_folder=exp/NAME/flow --format=openvino --export_dir=/models/bert_flow
bert-flow export --flow_folder=exp/STATIC/soft-whitening --format=model2vec --normalize --export_dir=table
"""

import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.data.custom import read_custom_pairs
from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.encoder.settings import LOADING, NAME, POOLING
from bert_flow_tf.errors import ConfigError, naming
from bert_flow_tf.serving.settings import MODEL2VEC
from run_scripts import common_flags, quiet, runner

FLAGS = flags.FLAGS

_ENCODER = (NAME, LOADING, POOLING)


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_calibration_flags()
  common_flags.define_encoder_flags(_ENCODER)
  common_flags.define_export_flags()
  flags.DEFINE_alias("output", "export_dir")
  flags.DEFINE_boolean("calibration_only", False, "Serve the calibration alone: embeddings in place of text.")
  flags.DEFINE_string(
    "reference",
    None,
    "File of usual sentences, one or a pair per line. The flow's bits per dimension for about 1,000 of them go into "
    "metadata.json as quantiles, with which a monitor sees when the input has changed.",
  )
  common_flags.define_settings(DataSettings, ("max_record_bytes",))


def check_flags() -> None:
  """Validates the flags before anything is loaded."""
  if not FLAGS.export_dir:
    raise ConfigError("export_dir: missing; expected the folder of the served model", argument="export_dir")
  common_flags.check_calibration_flags()
  common_flags.check_export_flags()
  if FLAGS.format == MODEL2VEC:
    common_flags.reject(["calibration_only", "reference"], f"has no use with format={MODEL2VEC}; leave it out")
  if FLAGS.calibration_only:
    if FLAGS.flow_folder is None:
      raise ConfigError("calibration_only: needs flow_folder", argument="calibration_only")
    of_encoder = common_flags.encoder_flags(_ENCODER)
    useless = [*of_encoder, "allow_other_encoder", "reference"]
    common_flags.reject(useless, "a calibration alone has no encoder; leave it out")


def main() -> None:
  """Loads encoder and calibration and exports them."""
  check_flags()
  reference = None
  if FLAGS.reference is not None:
    with naming("reference"):
      reference, _ = read_custom_pairs(FLAGS.reference, FLAGS.max_record_bytes)
  if FLAGS.calibration_only:
    quiet.import_tensorflow()
    from bert_flow_tf.calibration.saving import load_calibration

    model = load_calibration(FLAGS.flow_folder)
  else:
    model = common_flags.load_model(FLAGS.flow_folder, FLAGS.allow_other_encoder)
  common_flags.export(model, FLAGS.flow_folder, reference)


console = runner.command(define_flags, main, resumes=False)

if __name__ == "__main__":
  console()
