"""Converts TensorFlow's checkpoints (Google's, BERT-flow's, Model Garden's) and Hub encoders to folders, and back.

bert-flow convert --checkpoint=exp/model.ckpt-1000 --output=FOLDER
bert-flow convert --model=FOLDER/encoder --flow_folder=FOLDER/flow --output=BACK/model.ckpt-1000
"""

import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.encoder.pooling import DEFAULT_POOLING
from bert_flow_tf.encoder.settings import DEFAULT_MAX_SEQ_LENGTH, POOLING, EncoderSettings
from bert_flow_tf.errors import ConfigError
from run_scripts import common_flags, quiet, runner

FLAGS = flags.FLAGS

# Flags that only one direction of the conversion takes.
_OF_POOLING = common_flags.encoder_flags((POOLING,))
_SOURCE = (
  "checkpoint",
  "bert_config_file",
  "vocab_file",
  "do_lower_case",
  "hidden_act",
  "max_input_chars_per_word",
)
# The former names of output belong to a direction, too.
_READ = (*_SOURCE, *_OF_POOLING, "output_dir")
_HEADS = ("flow_folder", "classifier_folder")
_WRITE = ("encoder", "model", *_HEADS, "model_revision", "model_cache_dir", "output_checkpoint")


def define_flags() -> None:
  """Defines the flags of this runner."""
  flags.DEFINE_string(
    "checkpoint",
    None,
    "Checkpoint to convert to folders: a prefix such as exp/model.ckpt-1000, or a folder with one checkpoint or with "
    "TensorFlow's file `checkpoint`, which names the latest; TensorFlow 1's, or TensorFlow 2's of the Model Garden. Or "
    "the folder of an encoder of TensorFlow Hub.",
  )
  flags.DEFINE_alias("tf1_checkpoint", "checkpoint")
  flags.DEFINE_string("bert_config_file", None, "Its bert_config.json; default: the one in the checkpoint's folder.")
  flags.DEFINE_string("vocab_file", None, "Its vocab.txt; default: the one in the checkpoint's folder.")
  flags.DEFINE_boolean(
    "do_lower_case",
    None,
    "True for an uncased model. Default: tokenizer_config.json in the vocabulary's folder; else `cased` or `uncased` "
    "in the name of that folder; else uncased if no word piece has a capital letter.",
  )
  common_flags.define_output_folder(
    "With checkpoint: folder that gets encoder/, flow/, classifier/ and conversion.json. Else: prefix of the "
    "checkpoint to write, such as BACK/model.ckpt-1000, which sets global_step to 1000; bert_config.json and vocab.txt "
    "are written to its folder."
  )
  flags.DEFINE_alias("output_checkpoint", "output")
  of_encoder = ("hidden_act", "max_input_chars_per_word", "model_revision", "model_cache_dir")
  common_flags.define_settings(EncoderSettings, ("model", *_OF_POOLING, *of_encoder))
  flags.DEFINE_alias("encoder", "model")
  flags.DEFINE_string("flow_folder", None, "Flow to write into the checkpoint, such as exp/NAME/flow.")
  flags.DEFINE_string("classifier_folder", None, "Classifier to write into it, such as exp/NAME/classifier.")
  flags.DEFINE_boolean("allow_other_encoder", False, "Convert a flow with another encoder than it was fitted for.")


def check_flags() -> bool:
  """Validates the flags before anything is loaded; returns True to read a checkpoint, False to write one."""
  reads = FLAGS.checkpoint is not None
  if not reads and FLAGS.output is None:
    raise ConfigError("checkpoint: missing; expected it, or model and output", argument="checkpoint")
  if reads:
    common_flags.reject(_WRITE, "cannot be combined with checkpoint")
  else:
    common_flags.reject(_READ, "needs checkpoint")
  if FLAGS.output is None:
    raise ConfigError("output: missing; checkpoint needs it", argument="output")
  return reads


def main() -> None:
  """Converts in one direction and prints lines about the written files."""
  reads = check_flags()
  quiet.import_tensorflow()  # takes seconds: after the flags are checked
  from bert_flow_tf.tf1 import read, write

  if reads:
    pooling = common_flags.settings(EncoderSettings).model_arguments()
    pooling["sentence_embedding_type"] = pooling["sentence_embedding_type"] or DEFAULT_POOLING
    pooling["max_seq_length"] = pooling["max_seq_length"] or DEFAULT_MAX_SEQ_LENGTH
    checkpoint, *others = [FLAGS[name] for name in _SOURCE]
    arguments = {flag.name: flag.value for flag in others} | pooling
    arguments["allow_other_encoder"] = FLAGS.allow_other_encoder
    lines = read.write_folders(checkpoint.value, FLAGS.output, **arguments)
  else:
    heads = {name: FLAGS[name].value for name in _HEADS}
    hub = {"revision": FLAGS.model_revision, "cache_dir": FLAGS.model_cache_dir}
    arguments = {**heads, **hub, "allow_other_encoder": FLAGS.allow_other_encoder}
    lines = write.write_model(FLAGS.model, FLAGS.output, **arguments)
  print("\n".join(lines))


console = runner.command(define_flags, main, resumes=False)

if __name__ == "__main__":
  console()
