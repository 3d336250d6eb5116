"""Loading of a folder with a BERT as a frozen TFBertModel."""

import contextlib
import hashlib
import os
import pathlib
import re

import numpy as np
import tensorflow as tf
import transformers
from transformers.activations_tf import ACT2FN

from bert_flow_tf.encoder import folder as folder_lib
from bert_flow_tf.encoder import google_folder, hub, tf1_names, tf1_reader
from bert_flow_tf.encoder import precision as precision_lib
from bert_flow_tf.encoder.seeded_dropout import SeededDropout
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.checks import is_integer


class BertEncoder:
  """A BERT whose weights cannot be trained, with what is needed to use and identify it.

  Attributes:
    model: transformers.TFBertModel, `trainable` False.
    config: transformers.BertConfig.
    name: the `--model` value it was loaded from.
    folder: pathlib.Path of its files.
    has_pooler: whether the checkpoint held the pooled output's weights, without which `cls` is refused.
    precision: number format of its matrix products, see `precision`; its weights are float32 always.
  """

  def __init__(self, model, name, folder, has_pooler, precision=precision_lib.FLOAT32):
    self.model = model
    self.config = model.config
    self.name = name
    self.folder = folder
    self.has_pooler = has_pooler
    self.precision = precision
    self._dropout = SeededDropout(model)

  def __call__(self, ids, mask, dropout_seed=None):
    """Runs BERT with segment ids 0, as the original does (docs/original.md, "Encoder and pooling").

    Args:
      ids: int32 Tensor of shape [batch, seq_len].
      mask: int32 Tensor of shape [batch, seq_len], 1 for tokens, 0 for padding.
      dropout_seed: int32 Tensor of shape [2], dropout is on and its masks follow from it; None for no dropout.

    Returns:
      Tuple of num_hidden_layers + 1 float32 Tensors of shape [batch, seq_len, hidden] (0 is the embedding
      layer, i the output of the i-th block), and the pooled output, float32 [batch, hidden], or None.
    """
    with self._dropout.on(dropout_seed):
      output = self.model(
        input_ids=ids,
        attention_mask=mask,
        token_type_ids=tf.zeros_like(ids),
        output_hidden_states=True,
        return_dict=True,
        training=dropout_seed is not None,
      )
    return output.hidden_states, output.pooler_output

  def check_max_seq_length(self, max_seq_length):
    """Raises EncoderError unless [CLS], a token and [SEP] fit, and every position has an embedding."""
    limit = self.config.max_position_embeddings
    if not is_integer(max_seq_length, 3) or max_seq_length > limit:
      raise EncoderError(
        f"max_seq_length={max_seq_length}: expected an integer from 3 (a token between [CLS] and [SEP]) to {limit}, "
        f"the number of positions of the model '{self.name}'",
        argument="max_seq_length",
      )

  def word_embeddings(self):
    """Returns the word embeddings, float32 array of shape [vocab, hidden], before position and normalization."""
    return self.model.get_input_embeddings().weight.numpy()

  @property
  def weights_checksum(self):
    """Hexadecimal sha256 over the names, shapes and bytes of all variables, in order of name."""
    digest = hashlib.sha256()
    for weight in sorted(self.model.weights, key=_bare_name):
      value = np.ascontiguousarray(weight.numpy())
      digest.update(f"{_bare_name(weight)} {value.dtype} {value.shape} ".encode())
      digest.update(value.data)
    return digest.hexdigest()

  def tf1_variables(self):
    """Returns {name in Google's checkpoints: float32 array} of every weight."""
    return {tf1_names.of_keras(_bare_name(weight)): weight.numpy() for weight in self.model.weights}

  @property
  def architecture(self):
    """What changes the output without changing a weight, as a dict for cache keys."""
    config = self.config
    return {
      "num_attention_heads": config.num_attention_heads,
      "hidden_act": str(config.hidden_act),
      "layer_norm_eps": config.layer_norm_eps,
    }


def load_bert(name, cache_dir=None, precision=precision_lib.FLOAT32):
  """Loads the BERT of a model name; no weight stays random.

  Args:
    name: see `hub.resolve`; a folder may also be Google's, see `google_folder`, or the prefix of a checkpoint in it.
    cache_dir: folder of the hub's cache, its default if None.
    precision: see `BertEncoder`.

  Returns:
    A BertEncoder.

  Raises:
    ConfigError: no such precision.
    EncoderError: the model cannot be found, or its folder lacks a file, is damaged, or contradicts itself.
  """
  precision_lib.check_precision(precision)
  folder, checkpoint = _find(name, cache_dir)
  model, has_pooler = _load_hugging_face(folder) if checkpoint is None else _load_tf1(folder, checkpoint)
  model.trainable = False
  precision_lib.compute_in(model, precision)
  return BertEncoder(model, str(name), folder, has_pooler, precision)


def _find(name, cache_dir):
  """Returns the folder of a model, and its TensorFlow 1 checkpoint: a prefix, the folder, or None."""
  path = os.path.expanduser(name) if isinstance(name, str | os.PathLike) else None
  if path is not None and name not in hub.MODEL_NAMES and not os.path.isdir(path) and tf1_reader.is_prefix(path):
    return pathlib.Path(path).parent, path
  folder = hub.resolve(name, cache_dir)
  return folder, folder if google_folder.is_tf1(folder) else None


def _load_hugging_face(folder):
  """Loads a Hugging Face folder: TFBertModel, and whether it has the pooled output's weights."""
  config = _bert_config(folder / "config.json", folder_lib.read_config(folder))
  folder_lib.check_vocabulary(folder / "vocab.txt", config.vocab_size)
  weights = folder_lib.find_weights(folder)
  folder_lib.check_size(folder, weights, tf1_names.bert_shapes(config.to_dict(), pooler=False).values())
  try:
    with _quiet():
      model, info = transformers.TFBertModel.from_pretrained(
        str(folder),
        config=config,
        local_files_only=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # so that they are listed, and refused below
      )
  except Exception as error:  # safetensors, h5py, json and TensorFlow raise whatever they like
    raise EncoderError(
      f"{folder}: cannot load {weights}, expected all weights of the BERT that config.json describes "
      f"({_reason(folder / weights, error)}): download or save it again."
    ) from error
  _check_loading(folder, weights, info)
  has_pooler = not any("pooler" in key for key in info["missing_keys"])
  if not has_pooler:
    model.bert.pooler = None  # its weights are random: nothing may read them, nor the checksum depend on them
  for weight in model.weights:
    if not np.isfinite(weight.numpy()).all():
      raise EncoderError(
        f"{folder}: {weights} holds NaN or infinity in {_bare_name(weight)}: download or save it again."
      )
  return model, has_pooler


def _load_tf1(folder, checkpoint):
  """Loads the same from Google's folder; `checkpoint` is a prefix, or a folder with a checkpoint."""
  path = google_folder.config_file(folder)
  values = google_folder.read_config(path)
  config = _bert_config(path, values)
  google_folder.check_vocabulary(folder / "vocab.txt", config.vocab_size)
  opened = tf1_reader.Tf1Checkpoint(tf1_reader.find_prefix(checkpoint))
  shapes = google_folder.check_variables(opened, values)
  for name, shape in shapes.items():
    opened.check_shape(name, shape)  # before a model of the configuration's size is made
  try:
    model = transformers.TFBertModel(config)
    model.build_in_name_scope()
  except Exception as error:  # a dropout that is no number, and whatever else Keras stumbles over
    raise EncoderError(f"{path}: no BERT can be made of it ({_reason(path, error)}): correct it.") from error
  has_pooler = tf1_names.has_pooler(shapes)
  if not has_pooler:
    model.bert.pooler = None
  for weight in model.weights:
    name = tf1_names.of_keras(_bare_name(weight))
    weight.assign(opened.read_weight(name, shapes[name]))
  return model, has_pooler


def _bare_name(weight):
  """A weight's name without its first part, which counts the models of this process (tf_bert_model_1/...)."""
  return weight.name.split("/", 1)[1]


def _bert_config(path, values):
  """Returns the BertConfig of the values of config.json."""
  activation = values.get("hidden_act", "gelu")
  if not isinstance(activation, str) or activation not in ACT2FN:
    raise EncoderError(f"{path}: found hidden_act = {activation!r}, expected one of {', '.join(ACT2FN)}.")
  try:
    return transformers.BertConfig.from_dict(values)
  except Exception as error:  # transformers checks values in many places
    raise EncoderError(f"{path}: not a BERT configuration ({error}): download or save it again.") from error


def _check_loading(folder, weights, info):
  """Raises EncoderError if a weight stayed random, or if config.json lacks blocks of the weights."""
  mismatched = info["mismatched_keys"]
  if mismatched:
    key, found, expected = mismatched[0]
    raise EncoderError(
      f"{folder}: {len(mismatched)} weight(s) of {weights} differ in shape from config.json, first "
      f"{key}: found {tuple(found)}, expected {tuple(expected)}: use the config.json saved with the weights."
    )
  missing = sorted(key for key in info["missing_keys"] if "pooler" not in key)
  if missing:
    raise EncoderError(
      f"{folder}: {weights} lacks {len(missing)} weight(s) that config.json asks for, first "
      f"{missing[0]}: use the config.json saved with the weights, or download or save the model again."
    )
  # Heads (MLM, next sentence, classifiers) are left out quietly; a left-out block makes another encoder.
  blocks = sorted(key for key in info["unexpected_keys"] if re.search(r"encoder[./]layer[._/]", key))
  if blocks:
    raise EncoderError(
      f"{folder}: {weights} holds {len(blocks)} weight(s) of blocks that config.json does not have, first "
      f"{blocks[0]}: correct num_hidden_layers in config.json."
    )


def _reason(path, error):
  """Returns the reason why weights cannot be read, in one line."""
  with path.open("rb") as file:
    if file.read(40).startswith(b"version https://git-lfs"):
      return "the file is a Git LFS pointer, not the weights: run git lfs pull"
  while error.__context__ is not None:  # transformers turns h5py's reason into advice about PyTorch
    error = error.__context__
  lines = str(error).strip().splitlines() or [""]
  return f"{type(error).__name__}: {lines[0][:200]}"


@contextlib.contextmanager
def _quiet():
  """Silences transformers' warnings about heads that are not loaded; what matters is checked here."""
  before = transformers.logging.get_verbosity()
  transformers.logging.set_verbosity_error()
  try:
    yield
  finally:
    transformers.logging.set_verbosity(before)
