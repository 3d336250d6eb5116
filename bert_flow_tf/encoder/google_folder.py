"""Google's folders of a BERT: bert_config.json, bert_model.ckpt.* and vocab.txt."""

import json

from absl import logging

from bert_flow_tf.encoder import folder as folder_lib
from bert_flow_tf.encoder import tf1_names, tf1_reader
from bert_flow_tf.errors import EncoderError

CONFIG_FILE = "bert_config.json"
# The keys of Google's BertConfig. What a file leaves out has Google's default, which for type_vocab_size is not
# Hugging Face's 2; sizes must be given.
DEFAULTS = {
  "vocab_size": None,
  "hidden_size": None,
  "num_hidden_layers": None,
  "num_attention_heads": None,
  "intermediate_size": None,
  "max_position_embeddings": None,
  "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1,
  "attention_probs_dropout_prob": 0.1,
  "type_vocab_size": 16,
  "initializer_range": 0.02,
}
# Google's layer normalisation has no key for it.
_LAYER_NORM_EPS = 1e-12


def is_tf1(folder):
  """Whether a folder is Google's: a bert_config.json and no config.json, or a TF1 checkpoint and no other weights."""
  if (folder / CONFIG_FILE).is_file() and not (folder / "config.json").is_file():
    return True
  others = any((folder / name).is_file() for name in folder_lib.WEIGHTS)
  return bool(tf1_reader.prefixes_in(folder)) and not others


def config_file(folder):
  """The folder's bert_config.json, or the config.json that stands for it."""
  path = folder / CONFIG_FILE
  return path if path.is_file() or not (folder / "config.json").is_file() else folder / "config.json"


def read_config(path):
  """Values of a bert_config.json as a Hugging Face configuration has them: a dict, nothing left to a default.

  Raises:
    EncoderError: it is absent or damaged, or a size is missing or wrong.
  """
  if not path.is_file():
    raise EncoderError(
      f"{path.parent}: found no {path.name}, expected {CONFIG_FILE}, a checkpoint and vocab.txt in a folder of "
      "TensorFlow 1: copy the file that belongs to the checkpoint there."
    )
  try:
    values = json.loads(path.read_text(encoding="utf-8"))
  except (OSError, ValueError, RecursionError) as error:
    raise EncoderError(f"{path}: not readable as JSON ({error}): download or save it again.") from error
  if isinstance(values, dict):
    kept = {key: values.get(key, default) for key, default in DEFAULTS.items()}
    values = {"model_type": "bert", **values, **kept, "layer_norm_eps": values.get("layer_norm_eps", _LAYER_NORM_EPS)}
  folder_lib.check_config(path, values)
  return values


def google_config(config):
  """Content of a bert_config.json: a dict.

  Args:
    config: transformers.BertConfig.
  """
  values = {key: getattr(config, key) for key in DEFAULTS}
  if config.layer_norm_eps != _LAYER_NORM_EPS:
    logging.warning(
      "layer_norm_eps is %g: bert_config.json says so and we read it there, but Google's code computes with %g",
      config.layer_norm_eps,
      _LAYER_NORM_EPS,
    )
    values["layer_norm_eps"] = config.layer_norm_eps
  return values


def check_vocabulary(path, vocab_size):
  """As `folder.check_vocabulary`, and says where rows of the table have no word piece.

  Args:
    path: the vocab.txt.
    vocab_size: of the configuration.
  """
  count = folder_lib.check_vocabulary(path, vocab_size)
  if count < vocab_size:
    logging.warning(
      "%s has %d word pieces, the table of word embeddings %d rows: is it the model's own vocabulary?",
      path,
      count,
      vocab_size,
    )


def check_variables(checkpoint, values):
  """Every variable that the configuration asks for is there, and no other one below bert/.

  What lies elsewhere (heads, optimizer) and the original's flow is no part of an encoder and left out; that is logged.

  Args:
    checkpoint: a `Tf1Checkpoint`.
    values: of `read_config`.

  Returns:
    {variable: shape} of the encoder; without the pooled output's two where the checkpoint has neither.

  Raises:
    EncoderError: variables are missing or unknown; the message lists them.
  """
  names = checkpoint.shapes
  tf1_names.check_layers(names, values, checkpoint.prefix)
  expected = tf1_names.bert_shapes(values, pooler=tf1_names.has_pooler(names))
  bert = [
    name
    for name in names
    if name.startswith("bert/") and not name.startswith(tf1_names.FLOW) and not tf1_names.left_out(name, names)
  ]
  tf1_names.check_names(bert, expected, checkpoint.prefix)
  others = sorted(set(names) - set(bert))
  if others:
    logging.info(
      "%s: %d variables beside the encoder are left out, first %s", checkpoint.prefix, len(others), others[0]
    )
  return expected
