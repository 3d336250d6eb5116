"""Turns TensorFlow 1 checkpoints, Google's and the original BERT-flow's, into our folders, and back.

python run_convert.py --tf1_checkpoint=exp/model.ckpt-1000 --bert_config_file=... --vocab_file=... --output_dir=FOLDER
python run_convert.py --encoder=FOLDER/encoder --flow_folder=FOLDER/flow --output_checkpoint=BACK/model.ckpt-1000
"""

import os
import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.flow.config import packaged_configs
from run_scripts import common_flags

FLAGS = flags.FLAGS

# What belongs to one direction alone.
_FROM_TF1 = (
  "labels",
  "tf1_checkpoint",
  "bert_config_file",
  "vocab_file",
  "do_lower_case",
  "output_dir",
  "flow_model_config",
  "sentence_embedding_type",
  "low_dim",
  "max_seq_length",
)
_TO_TF1 = ("encoder", "flow_folder", "classifier_folder", "output_checkpoint")
_PATHS = ("tf1_checkpoint", "bert_config_file", "vocab_file", "output_dir", *_TO_TF1)


def define_flags():
  """The flags of this runner."""
  flags.DEFINE_string(
    "tf1_checkpoint",
    None,
    "Checkpoint to turn into folders: a prefix, as exp/model.ckpt-1000, or a folder with one checkpoint or with "
    "TensorFlow's file `checkpoint`, which names the latest.",
  )
  flags.DEFINE_string("bert_config_file", None, "Its bert_config.json; the one beside the checkpoint if not given.")
  flags.DEFINE_string("vocab_file", None, "Its vocab.txt; the one beside the checkpoint if not given.")
  flags.DEFINE_boolean(
    "do_lower_case",
    None,
    "Whether the model wants lower-cased text. If not given: what a tokenizer_config.json beside the vocabulary says, "
    "else `cased` or `uncased` in the name of its folder, else whether it has word pieces with capital letters.",
  )
  flags.DEFINE_string("output_dir", None, "Folder that gets encoder/, flow/, classifier/ and conversion.json.")
  flags.DEFINE_string(
    "flow_model_config",
    None,
    f"Configuration that the flow must have: one of {', '.join(packaged_configs())}, or a json file. If not given, the "
    "variables tell it; only a dropout in the coupling they cannot tell.",
  )
  flags.DEFINE_list(
    "labels",
    None,
    "The classifier's labels in the order of its rows. If not given, of three contradiction, entailment and neutral, "
    "BERT's own order for NLI; else their numbers.",
  )
  common_flags.define_pooling_flags()
  flags.DEFINE_integer("max_seq_length", 64, "Most tokens of a sentence that flow and classifier were fitted with.")
  flags.DEFINE_string("encoder", None, "Encoder to write a TensorFlow 1 checkpoint of: whatever --model takes.")
  flags.DEFINE_string("flow_folder", None, "Flow to write into it, as exp/NAME/flow.")
  flags.DEFINE_string("classifier_folder", None, "Classifier to write into it, as exp/NAME/classifier.")
  flags.DEFINE_boolean("allow_other_encoder", False, "Convert a flow beside another encoder than it was fitted for.")
  flags.DEFINE_string(
    "output_checkpoint",
    None,
    "Prefix of the written checkpoint, as BACK/model.ckpt-1000, which also gives global_step = 1000; bert_config.json "
    "and vocab.txt are written beside.",
  )


def check_flags():
  """Refuses what needs no file to be seen wrong; returns whether the direction is from TensorFlow 1.

  Raises:
    ConfigError: a flag is missing, empty or of the other direction.
  """
  given = [name for name in (*_FROM_TF1, *_TO_TF1) if not FLAGS[name].using_default_value]
  common_flags.check_not_empty(_PATHS)
  from_tf1 = FLAGS.tf1_checkpoint is not None
  if not from_tf1 and FLAGS.output_checkpoint is None:
    raise ConfigError(
      "--tf1_checkpoint (to turn a checkpoint into folders, with --output_dir) or --output_checkpoint (to write one, "
      "with --encoder) is missing"
    )
  others = [name for name in given if name in (_TO_TF1 if from_tf1 else _FROM_TF1)]
  if others:
    ours, theirs = ("tf1_checkpoint", "reads") if from_tf1 else ("output_checkpoint", "writes")
    raise ConfigError(
      f"--{others[0]} is of no use with --{ours}, which {theirs} a TensorFlow 1 checkpoint; leave one out"
    )
  if from_tf1 and FLAGS.output_dir is None:
    raise ConfigError("--output_dir is missing: it names the folder that gets encoder/, flow/ and classifier/")
  if not from_tf1 and FLAGS.encoder is None:
    raise ConfigError("--encoder is missing: it names the encoder that --output_checkpoint is made of")
  return from_tf1


def main(argv):
  """Checkpoint to folders, or folders to checkpoint."""
  del argv
  from_tf1 = check_flags()
  # TensorFlow's import takes seconds: what is wrong above is said before it.
  from bert_flow_tf.tf1 import convert_from_tf1, convert_to_tf1

  path = {name: FLAGS[name].value and os.path.expanduser(FLAGS[name].value) for name in _PATHS}
  if from_tf1:
    output_dir = convert_from_tf1.check_output_dir(path["output_dir"])
    source = convert_from_tf1.read_source(
      path["tf1_checkpoint"],
      path["bert_config_file"],
      path["vocab_file"],
      FLAGS.do_lower_case,
      FLAGS.flow_model_config,
      FLAGS.labels,
    )
    pooling = common_flags.embedding_arguments()
    lines = convert_from_tf1.from_tf1(source, output_dir, pooling, FLAGS.allow_other_encoder)
  else:
    lines = convert_to_tf1.to_tf1(
      FLAGS.encoder,
      path["output_checkpoint"],
      path["flow_folder"],
      path["classifier_folder"],
      FLAGS.allow_other_encoder,
    )
  for line in lines:
    print(line)


def console():
  """Entry point of the installed command."""
  define_flags()
  common_flags.run(main)


if __name__ == "__main__":
  console()
