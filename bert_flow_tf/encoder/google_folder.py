"""Google's folders of a BERT: bert_config.json, bert_model.ckpt.* and vocab.txt."""

import pathlib
from typing import Any

from absl import logging

from bert_flow_tf.encoder import folder as folder_lib
from bert_flow_tf.encoder import tf1_names, tf1_reader
from bert_flow_tf.errors import EncoderError

CONFIG_FILE = "bert_config.json"
# The keys of Google's BertConfig and its defaults, whose type_vocab_size is not Hugging Face's 2; sizes are required.
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
# Google's modeling.py means the tanh form of GELU, which transformers calls gelu_new; its gelu is the erf form.
_ACTIVATIONS = {"gelu": "gelu_new"}
# Our key of bert_config.json, true if its gelu is the erf form; Google's code ignores it.
_EXACT = "exact_gelu"
# A constant in Google's code, without a key in bert_config.json.
_LAYER_NORM_EPS = 1e-12


def is_tf1(folder: pathlib.Path) -> bool:
  """Returns whether a folder is Google's.

  Such a folder has a bert_config.json and no config.json, or a TensorFlow 1 checkpoint and no other weights.
  """
  if (folder / CONFIG_FILE).is_file() and not (folder / "config.json").is_file():
    return True
  has_other_weights = any((folder / name).is_file() for name in folder_lib.WEIGHTS)
  return bool(tf1_reader.prefixes_in(folder)) and not has_other_weights


def config_file(folder: pathlib.Path) -> pathlib.Path:
  """Returns the path of bert_config.json, or of config.json if the folder has only that."""
  path = folder / CONFIG_FILE
  return path if path.is_file() or not (folder / "config.json").is_file() else folder / "config.json"


def read_config(path: pathlib.Path) -> dict[str, Any]:
  """Reads a bert_config.json as values of a Hugging Face configuration, with Google's defaults and activation.

  Args:
    path: the file; one with the name config.json is Hugging Face's, whose activation is kept.

  Raises:
    EncoderError: it is missing or damaged, or a size is missing or wrong.
  """
  if not path.is_file():
    raise EncoderError(
      f"{path.parent}: no {path.name}; expected {CONFIG_FILE}, a checkpoint and vocab.txt in a TensorFlow 1 folder"
    )
  values = folder_lib.check_files(path, folder_lib.read_json(path))
  if isinstance(values, dict):
    kept = {key: values.get(key, default) for key, default in DEFAULTS.items()}
    if path.name != "config.json" and values.pop(_EXACT, None) is not True:
      kept["hidden_act"] = converted_activation(kept["hidden_act"])
    values = {"model_type": "bert", **values, **kept, "layer_norm_eps": values.get("layer_norm_eps", _LAYER_NORM_EPS)}
  folder_lib.check_config(path, values)
  return values


def converted_activation(hidden_act: Any) -> Any:
  """Returns transformers' name of an activation of bert_config.json."""
  return _ACTIVATIONS.get(hidden_act, hidden_act) if isinstance(hidden_act, str) else hidden_act


def google_config(config: Any) -> dict[str, Any]:
  """Returns the content of a bert_config.json for a transformers.BertConfig."""
  values = {key: getattr(config, key) for key in DEFAULTS}
  if values["hidden_act"] in _ACTIVATIONS:
    logging.warning(
      "hidden_act is gelu, the erf form: %s says so in bert_config.json, and is read from it here, but Google's and "
      "the original's code use the tanh form, whose embeddings differ by about 3e-4",
      _EXACT,
    )
    values[_EXACT] = True
  google_names = {theirs: ours for ours, theirs in _ACTIVATIONS.items()}
  values["hidden_act"] = google_names.get(values["hidden_act"], values["hidden_act"])
  if config.layer_norm_eps != _LAYER_NORM_EPS:
    logging.warning(
      "layer_norm_eps is %g: it is written to bert_config.json and read from it here, but Google's code uses %g",
      config.layer_norm_eps,
      _LAYER_NORM_EPS,
    )
    values["layer_norm_eps"] = config.layer_norm_eps
  return values


def check_vocabulary(path: pathlib.Path, vocab_size: int) -> None:
  """Checks a vocab.txt as `folder.check_vocabulary` does; Google's models have no word embeddings to spare."""
  folder_lib.check_vocabulary(path, vocab_size, least_share=1.0)


def check_variables(checkpoint: tf1_reader.Tf1Checkpoint, values: dict[str, Any]) -> dict[str, tuple[int, ...]]:
  """Checks that the variables below bert/ are those of the configuration.

  Other variables (heads, optimizer, the original's flow) are no part of an encoder; their number is logged.

  Args:
    checkpoint: the opened checkpoint.
    values: of `read_config`.

  Returns:
    {variable: shape} of the encoder; without the pooled output's two if the checkpoint has neither.

  Raises:
    EncoderError: variables are missing or unknown; the message lists them.
  """
  names = checkpoint.shapes
  expected = tf1_names.bert_shapes(values, pooler=tf1_names.has_pooler(names))
  bert = [
    name
    for name in names
    if name.startswith("bert/") and not name.startswith(tf1_names.FLOW) and not tf1_names.left_out(name, names)
  ]
  tf1_names.check_names(bert, expected, checkpoint.prefix)
  others = sorted(set(names) - set(bert))
  if others:
    logging.info("%s: %d variables are not of the encoder, first %s", checkpoint.prefix, len(others), others[0])
  return expected
