"""BERT as a TFBertModel, from a Hugging Face folder or a TensorFlow 1 checkpoint."""

import contextlib
import pathlib
import re
from typing import Any

import numpy as np
import transformers
from transformers.activations_tf import ACT2FN

from bert_flow_tf.encoder import folder as folder_lib
from bert_flow_tf.encoder import google_folder, tf1_names, tf1_reader
from bert_flow_tf.encoder import static as static_lib
from bert_flow_tf.errors import ConfigError, EncoderError

_WORDS = "bert/embeddings/word_embeddings"
# No position has an embedding in a static encoder; the limit bounds the memory of a long text.
_STATIC_LENGTH = 65536


def check_activation(hidden_act: str | None) -> None:
  """Raises ConfigError unless an activation is None or transformers has it."""
  if hidden_act is not None and hidden_act not in ACT2FN:
    raise ConfigError(f"hidden_act={hidden_act}: expected one of {', '.join(sorted(ACT2FN))}", "hidden_act")


def load_hugging_face(folder: pathlib.Path, changes: dict[str, Any], static: bool = False) -> tuple[Any, bool]:
  """Loads the model of a Hugging Face folder.

  Args:
    folder: the folder.
    changes: {key: value} that replace values of the configuration.
    static: whether only the word rows are wanted.

  Returns:
    The TFBertModel, or the `WordRows`, and True if it has a pooled output.

  Raises:
    EncoderError: a file is missing, damaged or does not match another file.
  """
  values = folder_lib.read_config(folder) | changes
  folder_lib.check_vocabulary(folder / "vocab.txt", values["vocab_size"])
  weights = folder_lib.find_weights(folder)
  if static:
    rows = static_lib.read_word_rows(folder, weights, (values["vocab_size"], values["hidden_size"]))
    if rows is None:
      rows = load_hugging_face(folder, changes)[0].get_input_embeddings().weight.numpy()
    return _word_rows(values, rows), False
  try:
    with _quiet():
      model, info = transformers.TFBertModel.from_pretrained(
        str(folder),
        config=transformers.BertConfig.from_dict(values),
        local_files_only=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # lists them, so that `_check_loading` can name them
      )
  except Exception as error:  # safetensors, h5py, json and TensorFlow raise errors of many classes
    raise EncoderError(
      f"{folder}: cannot load {weights} as the BERT that config.json describes "
      f"({folder_lib.reason(folder / weights, error)}); download or save it again"
    ) from error
  _check_loading(folder, weights, info)
  has_pooler = not any("pooler" in key for key in info["missing_keys"])
  for weight in model.weights:
    if not np.isfinite(weight.numpy()).all():
      raise EncoderError(f"{folder}: {weights} holds NaN or infinity in {bare_name(weight)}; use another checkpoint")
  return model, has_pooler


def load_tf1(
  path: pathlib.Path,
  folder: pathlib.Path,
  checkpoint: str | pathlib.Path,
  changes: dict[str, Any],
  static: bool = False,
) -> tuple[Any, bool]:
  """Loads the model of a TensorFlow 1 checkpoint.

  Args:
    path: its configuration.
    folder: folder of its vocabulary.
    checkpoint: a prefix, or a folder with a checkpoint.
    changes: see `load_hugging_face`.
    static: see `load_hugging_face`.

  Returns:
    See `load_hugging_face`.

  Raises:
    EncoderError: see `load_hugging_face`.
  """
  values = google_folder.read_config(path) | changes
  google_folder.check_vocabulary(folder / "vocab.txt", values["vocab_size"])
  reader = tf1_reader.Tf1Checkpoint(tf1_reader.find_prefix(checkpoint))
  shapes = google_folder.check_variables(reader, values)
  if static:
    return _word_rows(values, reader.read_weight(_WORDS, shapes[_WORDS])), False
  try:
    config: Any = transformers.BertConfig.from_dict(values)
    model = transformers.TFBertModel(config)
    model.build_in_name_scope()
  except Exception as error:  # transformers and Keras raise errors of many classes
    raise EncoderError(f"{path}: not a BERT's configuration ({folder_lib.reason(path, error)})") from error
  has_pooler = tf1_names.has_pooler(shapes)
  for weight in model.weights:
    name = tf1_names.of_keras(bare_name(weight))
    if has_pooler or name not in tf1_names.POOLER:
      weight.assign(reader.read_weight(name, shapes[name]))
  return model, has_pooler


def _word_rows(values, rows):
  """Returns the `WordRows` of a configuration's values and a matrix."""
  values = {**values, "num_hidden_layers": 0, "max_position_embeddings": _STATIC_LENGTH}
  return static_lib.WordRows(transformers.BertConfig.from_dict(values), rows)


def bare_name(weight):
  """Returns a weight's name without its first part, which counts the models of this process (tf_bert_model_1/...)."""
  return weight.name.split("/", 1)[1]


def _check_loading(folder, weights, info):
  """Raises EncoderError if a weight stayed random, or if config.json lacks blocks of the weights."""
  mismatched = info["mismatched_keys"]
  if mismatched:
    key, shape, expected = mismatched[0]
    raise EncoderError(
      f"{folder}: {len(mismatched)} weights of {weights} differ in shape from config.json, first {key}: expected "
      f"{tuple(expected)}, got {tuple(shape)}; use the config.json that was saved with the weights"
    )
  missing = sorted(key for key in info["missing_keys"] if "pooler" not in key)
  if missing:
    raise EncoderError(
      f"{folder}: {weights} lacks {len(missing)} weights that config.json requires, first {missing[0]}; use the "
      "config.json that was saved with the weights, or download or save the model again"
    )
  # Heads (MLM, next sentence, classifiers) are not needed; without a block it would be another encoder.
  blocks = sorted(key for key in info["unexpected_keys"] if re.search(r"encoder[./]layer[._/]", key))
  if blocks:
    raise EncoderError(
      f"{folder}: {weights} holds {len(blocks)} weights of blocks that config.json does not have, first {blocks[0]}; "
      "correct num_hidden_layers in config.json"
    )


@contextlib.contextmanager
def _quiet():
  """Silences transformers' warnings about heads that are not loaded; `_check_loading` checks the other weights."""
  before = transformers.logging.get_verbosity()
  transformers.logging.set_verbosity_error()
  try:
    yield
  finally:
    transformers.logging.set_verbosity(before)
