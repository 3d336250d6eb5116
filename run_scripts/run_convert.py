"""Converts TensorFlow 1 checkpoints, Google's and the original BERT-flow's, to folders and back.

python run_scripts/run_convert.py --tf1_checkpoint=exp/model.ckpt-1000 --output_dir=FOLDER
python run_scripts/run_convert.py --encoder=FOLDER/encoder --flow_folder=FOLDER/flow --output_checkpoint=BACK/model.ckpt
"""

import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.encoder.settings import DEFAULT_MAX_SEQ_LENGTH, DEFAULT_POOLING, EncoderSettings
from bert_flow_tf.errors import ConfigError
from run_scripts import common_flags, runner

FLAGS = flags.FLAGS

# Flags of one direction only.
_OF_POOLING = ("sentence_embedding_type", "low_dim", "max_seq_length")
_SOURCE = (
  "tf1_checkpoint",
  "bert_config_file",
  "vocab_file",
  "do_lower_case",
  "hidden_act",
  "max_input_chars_per_word",
  "output_dir",
)
_READ = _SOURCE + _OF_POOLING
_WRITE_PATHS = ("encoder", "flow_folder", "classifier_folder", "output_checkpoint")
_WRITE = (*_WRITE_PATHS, "model_revision", "model_cache_dir")
_PATHS = ("tf1_checkpoint", "bert_config_file", "vocab_file", "output_dir", "model_cache_dir", *_WRITE_PATHS)


def define_flags() -> None:
  """Defines the flags of this runner."""
  flags.DEFINE_string(
    "tf1_checkpoint",
    None,
    "Checkpoint to convert to folders: a prefix such as exp/model.ckpt-1000, or a folder with one checkpoint or with "
    "TensorFlow's file `checkpoint`, which names the latest.",
  )
  flags.DEFINE_string("bert_config_file", None, "Its bert_config.json; default: the one in the checkpoint's folder.")
  flags.DEFINE_string("vocab_file", None, "Its vocab.txt; default: the one in the checkpoint's folder.")
  flags.DEFINE_boolean(
    "do_lower_case",
    None,
    "True for an uncased model. Default: tokenizer_config.json in the vocabulary's folder; else `cased` or `uncased` "
    "in the name of that folder; else uncased if no word piece has a capital letter.",
  )
  flags.DEFINE_string("output_dir", None, "Folder that gets encoder/, flow/, classifier/ and conversion.json.")
  of_encoder = ("hidden_act", "max_input_chars_per_word", "model_revision", "model_cache_dir")
  names = ("sentence_embedding_type", "low_dim", *of_encoder)
  common_flags.define_settings(EncoderSettings, names, sentence_embedding_type=DEFAULT_POOLING)
  flags.DEFINE_integer(
    "max_seq_length", DEFAULT_MAX_SEQ_LENGTH, "Number of tokens that flow and classifier were fitted with."
  )
  flags.DEFINE_string("encoder", None, "Encoder to write as a TensorFlow 1 checkpoint; as --model of other runners.")
  flags.DEFINE_string("flow_folder", None, "Flow to write into the checkpoint, such as exp/NAME/flow.")
  flags.DEFINE_string("classifier_folder", None, "Classifier to write into it, such as exp/NAME/classifier.")
  flags.DEFINE_string(
    "output_checkpoint",
    None,
    "Prefix of the checkpoint to write, such as BACK/model.ckpt-1000, which sets global_step to 1000. bert_config.json "
    "and vocab.txt are written to its folder.",
  )
  flags.DEFINE_boolean("allow_other_encoder", False, "Convert a flow with another encoder than it was fitted for.")


def check_flags() -> bool:
  """Validates the flags before anything is loaded; returns True to read a checkpoint, False to write one."""
  common_flags.check_not_empty(_PATHS)
  reads = FLAGS.tf1_checkpoint is not None
  if not reads and FLAGS.output_checkpoint is None:
    raise ConfigError("tf1_checkpoint: missing; expected it, or output_checkpoint", argument="tf1_checkpoint")
  main_flag, needed, of_other_direction = "output_checkpoint", "encoder", _READ
  if reads:
    main_flag, needed, of_other_direction = "tf1_checkpoint", "output_dir", _WRITE
  others = common_flags.given(of_other_direction)
  if others:
    raise ConfigError(f"{others[0]}: cannot be combined with {main_flag}", argument=others[0])
  if FLAGS[needed].value is None:
    raise ConfigError(f"{needed}: missing; {main_flag} needs it", argument=needed)
  return reads


def main(argv: list[str]) -> None:
  """Converts in one direction and prints what was written."""
  del argv
  reads = check_flags()
  from bert_flow_tf.tf1 import read, write  # TensorFlow takes seconds to import: after the flags are checked

  if reads:
    arguments = {name: FLAGS[name].value for name in _SOURCE} | common_flags.settings(EncoderSettings).model_arguments()
    lines = read.write_folders(**arguments, allow_other_encoder=FLAGS.allow_other_encoder)
  else:
    paths = {name: FLAGS[name].value for name in _WRITE_PATHS}
    hub = {"revision": FLAGS.model_revision, "cache_dir": FLAGS.model_cache_dir}
    lines = write.write_model(**paths, **hub, allow_other_encoder=FLAGS.allow_other_encoder)
  print("\n".join(lines))


def console() -> None:
  """Starts the installed command."""
  define_flags()
  runner.run(main, resumes=False)


if __name__ == "__main__":
  console()
