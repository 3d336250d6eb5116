"""Google's folders of a BERT: bert_config.json, bert_model.ckpt.* and vocab.txt."""

import functools
import pathlib

import numpy as np
from absl import logging

from bert_flow_tf.encoder.checkpoints import files, tf1, tf1_names
from bert_flow_tf.encoder.transformer.architectures import BERT
from bert_flow_tf.encoder.transformer.config import EncoderConfig, check_config
from bert_flow_tf.encoder.transformer.families.architecture import SIZES
from bert_flow_tf.encoder.transformer.weight_names import shapes_of
from bert_flow_tf.encoder.transformer.weights import StoredWeights
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.files import Json

# The keys of Google's BertConfig and its defaults, whose type_vocab_size is not Hugging Face's 2; sizes are required.
DEFAULTS = dict.fromkeys(SIZES) | {
  "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1,
  "attention_probs_dropout_prob": 0.1,
  "type_vocab_size": 16,
  "initializer_range": 0.02,
}
# The gelu of Google's modeling.py is the tanh form, transformers' gelu_new; transformers' gelu is the erf form. Our key
# of bert_config.json is true if its gelu is the erf form, too; Google's code ignores it.
_EXACT = "exact_gelu"
# A constant in Google's code, without a key in bert_config.json.
_LAYER_NORM_EPS = 1e-12
_WORDS = "bert/embeddings/word_embeddings"


def config_file(folder: pathlib.Path) -> pathlib.Path:
  """Returns the path of bert_config.json, or of config.json if the folder has only that."""
  path = folder / files.GOOGLE_CONFIG
  if not path.is_file() and (folder / "config.json").is_file():
    return folder / "config.json"
  return path


def read_config(path: pathlib.Path) -> Json:
  """Returns a bert_config.json as values of a Hugging Face configuration, with Google's defaults and activation."""
  if not path.is_file():
    raise EncoderError(f"{path.parent}: no {path.name}; expected it next to the checkpoint of TensorFlow 1")
  # Google's files leave out keys with default values.
  values = {"model_type": "bert", "layer_norm_eps": _LAYER_NORM_EPS, **DEFAULTS, **read_values(path)}
  if values["model_type"] != BERT:
    raise EncoderError(f"{path}: model_type is {values['model_type']!r}; a checkpoint of TensorFlow 1 is a BERT's")
  check_config(path, values)
  return values


def read_values(path: pathlib.Path) -> Json:
  """Returns the content of a bert_config.json, with its activation under transformers' name."""
  values = files.EncoderFiles(path.parent).without_checksums(path.name)
  # A file with the name config.json is Hugging Face's, whose activation is kept.
  is_googles = path.name != files.CONFIG and values.pop(_EXACT, None) is not True
  if is_googles and values.get("hidden_act", "gelu") == "gelu":
    values["hidden_act"] = "gelu_new"
  return values


def google_config(config: EncoderConfig) -> Json:
  """Returns the content of a bert_config.json for the settings of a BERT."""
  values = {key: getattr(config, key) for key in DEFAULTS}
  if values["hidden_act"] == "gelu":
    logging.warning("hidden_act is gelu, the erf form: Google's code ignores %s and uses the tanh form", _EXACT)
    values[_EXACT] = True
  elif values["hidden_act"] == "gelu_new":
    values["hidden_act"] = "gelu"
  if config.layer_norm_eps != _LAYER_NORM_EPS:
    logging.warning("layer_norm_eps is %g: Google's code uses %g", config.layer_norm_eps, _LAYER_NORM_EPS)
    values["layer_norm_eps"] = config.layer_norm_eps
  return values


class GoogleWeights:
  """Weights of a checkpoint, which are read when they are asked for."""

  def __init__(
    self,
    config_path: pathlib.Path,
    vocabulary: files.EncoderFiles,
    vocab_name: str,
    checkpoint: str | pathlib.Path,
    changes: Json,
  ) -> None:
    """Checks configuration and vocabulary, and opens the checkpoint.

    Args:
      config_path: the bert_config.json.
      vocabulary: files of the folder of the vocabulary.
      vocab_name: name of the vocabulary in it.
      checkpoint: a prefix, or a folder with a checkpoint.
      changes: values in place of the configuration's, as hidden_act.
    """
    values = read_config(config_path) | changes
    # Google's models have no word embeddings to spare.
    files.check_vocabulary(vocabulary, vocab_name, values["vocab_size"], least_share=1.0)
    self._config = EncoderConfig(values)
    self._reader = tf1.Checkpoint(tf1.find_prefix(checkpoint))
    self._shapes = _encoder_shapes(self._reader, values)

  def stored(self) -> StoredWeights:
    """Returns the weights."""
    has_pooler = tf1_names.has_pooler(self._shapes)
    arrays = {}
    for path in shapes_of(self._config, has_pooler):
      name = tf1_names.of_keras(f"bert/{path}")
      arrays[path] = functools.partial(self._reader.read_weight, name, self._shapes[name])
    return StoredWeights(self._config, arrays, has_pooler, self._reader.prefix)

  def word_embeddings(self) -> np.ndarray:
    """Returns the matrix of word embeddings, float32 [vocab, hidden], and reads no other weight."""
    return self._reader.read_weight(_WORDS, self._shapes[_WORDS])


def _encoder_shapes(checkpoint, values):
  """Returns {variable: shape} of the encoder; EncoderError if variables below bert/ are missing or unknown."""
  # Heads, optimizer and the original's flow are no part of an encoder.
  names = checkpoint.shapes
  expected = tf1_names.bert_shapes(values, pooler=tf1_names.has_pooler(names))
  bert = []
  for name in names:
    is_other = name.startswith(tf1_names.FLOW) or tf1_names.left_out(name, names)
    if name.startswith("bert/") and not is_other:
      bert.append(name)
  tf1_names.check_variables(bert, expected, checkpoint.prefix)
  others = sorted(set(names) - set(bert))
  if others:
    logging.info("%s: %d variables are not of the encoder, first %s", checkpoint.prefix, len(others), others[0])
  return expected
