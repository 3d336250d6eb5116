"""Exports an encoder and a saved calibration as a SavedModel for TF Serving.

python run_scripts/run_export.py --flow_folder=exp/NAME/flow --export_dir=/models/bert_flow
"""

import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.errors import ConfigError
from run_scripts import common_flags
from run_scripts.exporting import check_export_flags, define_export_flags, export
from run_scripts.saved import check_saved, load_encoder, load_saved, saved_identity

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this runner."""
  flags.DEFINE_string(
    "flow_folder",
    None,
    "Folder of a calibration that run_flow saved, such as exp/NAME/flow. Encoder, pooling, max_seq_length and low_dim "
    "are those that it was fitted with, unless their flags are given. Without it, the encoder alone is exported.",
  )
  flags.DEFINE_boolean("allow_other_encoder", False, "Apply a calibration to another encoder than it was fitted for.")
  common_flags.define_model_flags()
  common_flags.define_pooling_flags()
  flags.DEFINE_string("model_cache_dir", None, "Folder of the model hub's cache; its own default if not given.")
  flags.DEFINE_integer("max_seq_length", 64, "Most tokens of a sentence, [CLS] and [SEP] included.")
  define_export_flags()


def check_flags() -> None:
  """Validates the flags before anything is loaded.

  Raises:
    ConfigError: a flag is missing, not allowed or contradicts another.
  """
  if not FLAGS.export_dir:
    raise ConfigError("export_dir: missing; expected the folder of the served model", argument="export_dir")
  if FLAGS.allow_other_encoder and FLAGS.flow_folder is None:
    raise ConfigError("allow_other_encoder: needs flow_folder", argument="allow_other_encoder")
  check_export_flags()


def main(argv: list[str]) -> None:
  """Loads encoder and calibration and exports them."""
  del argv
  check_flags()
  from bert_flow_tf.model import SentenceModel

  saved = {} if FLAGS.flow_folder is None else load_saved([FLAGS.flow_folder])
  folder, identity = saved_identity(saved)
  encoder, arguments = load_encoder(folder, identity)
  encoder.bert.check_max_seq_length(arguments["max_seq_length"])
  dim = encoder.dim(arguments["sentence_embedding_type"], arguments["low_dim"])
  check_saved(saved, encoder.identity(**arguments), dim, FLAGS.allow_other_encoder)
  calibration = next((one.calibration for one in saved.values()), None)
  export(SentenceModel(encoder, calibration, allow_other_encoder=True, **arguments), FLAGS.flow_folder)


def console() -> None:
  """Starts the installed command."""
  define_flags()
  common_flags.run(main)


if __name__ == "__main__":
  console()
