"""Weights of a `Transformer`: their names, and its variables by arrays of files, by a user's model or at random.

encoder/layer_._0/output/dense/kernel      path, as in transformers' TensorFlow models, below the main layer
encoder.layer.0.output.dense.weight        PyTorch's name, whose kernels are transposed
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.transformer import transformer
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.transformer import Transformer
from bert_flow_tf.errors import EncoderError

# Function that reads an array when it is needed.
Read = Callable[[], np.ndarray]
# Old files of PyTorch call a normalization's weights gamma and beta.
_OLD = {"gamma": "weight", "beta": "bias"}
_NORM = {"weight": "gamma", "bias": "beta"}
_TABLES = ("position_embeddings", "token_type_embeddings", "relative_attention_bias")
_WORDS = ("word_embeddings", "tok_embeddings")
# TensorFlow's models have this weight under PyTorch's name.
_DISTANCES = "rel_embeddings"
_BLOCK = re.compile(r"((encoder|transformer)/(layer|albert_layer_groups)|layers)_\._")
_KERNEL = "/kernel"


def path_of_name(name: str) -> str:
  """Returns the path for PyTorch's name without the main layer's."""
  stem, _, last = re.sub(r"/(\d+)(?=/)", r"_._\1", name.replace(".", "/")).rpartition("/")
  last = _OLD.get(last, last)
  layer = stem.rpartition("/")[2]
  if layer == _DISTANCES:
    return f"{stem}.{last}"
  if layer in _TABLES:
    last = "embeddings"
  elif "norm" in layer.lower():
    last = _NORM.get(last, last)
  elif last == "weight" and layer not in _WORDS:
    last = "kernel"
  return f"{stem}/{last}"


def name_of_path(path: str) -> str:
  """Returns PyTorch's name for a path."""
  stem, _, last = re.sub(r"_\._(\d+)", r"/\1", path).rpartition("/")
  names = {"kernel": "weight", "embeddings": "weight", "gamma": "weight", "beta": "bias"}
  return f"{stem}/{names.get(last, last)}".replace("/", ".")


def from_pytorch(path: str, array: np.ndarray) -> np.ndarray:
  """Returns PyTorch's array of a weight as TensorFlow's, or TensorFlow's as PyTorch's."""
  if path.endswith(_KERNEL):
    return array.T
  return array


def shapes_of(config: EncoderConfig, has_pooler: bool) -> dict[str, tuple[int, ...]]:
  """Returns {path: shape} of the weights of a model."""
  shapes: dict[str, tuple[int, ...]] = {}

  def record(path, shape):
    shapes[path] = tuple(map(int, shape))

  Transformer(config, record, has_pooler)
  return shapes


def make_transformer(config: EncoderConfig, arrays: Mapping[str, Read], has_pooler: bool, where: Any) -> Transformer:
  """Returns a model with the arrays of its weights, {path: function that reads it}; `where` they are, for messages.

  Raises:
    EncoderError: an array holds NaN or infinity.
  """
  main = config.architecture.main

  def variable(path, shape):
    value = np.asarray(arrays[path](), np.float32)
    if not np.isfinite(value).all():
      raise EncoderError(f"{where} holds NaN or infinity in {main}/{path}; use another checkpoint")
    return tf.Variable(value, dtype=tf.float32, name=f"{main}/{path}")

  return Transformer(config, variable, has_pooler)


def check_weights(config: EncoderConfig, shapes: Mapping[str, Sequence[int]], has_pooler: bool, where: Any) -> None:
  """Raises an EncoderError unless files hold the weights of a configuration: {path: shape in the file}."""
  expected = shapes_of(config, has_pooler)
  main = config.architecture.main
  mismatched = [path for path, shape in expected.items() if path in shapes and tuple(shapes[path]) != shape]
  missing = sorted(set(expected) - set(shapes))
  # Heads (MLM, next sentence, classifiers) are not needed; without a block it would be another encoder.
  blocks = sorted(path for path in set(shapes) - set(expected) if _BLOCK.match(path))
  if mismatched:
    path = mismatched[0]
    about = f"{main}.{name_of_path(path)}: expected {expected[path]}, got {tuple(shapes[path])}"
    problem = f"{len(mismatched)} weights of another shape than in config.json, first {about}"
  elif missing:
    problem = f"not the {len(missing)} weights that config.json requires, first {main}.{name_of_path(missing[0])}"
  elif blocks:
    problem = f"{len(blocks)} weights of blocks that config.json does not have, first {main}.{name_of_path(blocks[0])}"
  else:
    return
  raise EncoderError(f"{where} holds {problem}; use the config.json that was saved with the weights")


def share_weights(config: EncoderConfig, variables: Sequence[tf.Variable], has_pooler: bool) -> Transformer:
  """Returns a model on the variables of another model, so that training one trains both.

  Raises:
    EncoderError: the configuration has other variables.
  """
  by_path = {transformer.path_of_variable(variable): variable for variable in variables}
  expected = shapes_of(config, has_pooler)
  missing = [path for path, shape in expected.items() if path not in by_path or by_path[path].shape != shape]
  others = missing + [variable.name for path, variable in by_path.items() if path not in expected]
  if others:
    raise EncoderError(
      f"bert: {len(others)} weights do not belong to a plain {config.architecture.name}, first {others[0]}; adapters "
      "and layers of your own cannot be used: merge them into the weights",
      argument="bert",
    )
  return Transformer(config, lambda path, shape: by_path[path], has_pooler)


def initial_value(path: str, shape: Sequence[int], seed: Sequence[int], stddev: float) -> tf.Tensor:
  """Returns BERT's initial value of a weight: 1 for gamma, 0 for biases, else truncated normal by a seed of two."""
  if path.endswith("/gamma"):
    return tf.ones(shape)
  if path.endswith(("bias", "/beta")):
    return tf.zeros(shape)
  return tf.random.stateless_truncated_normal(shape, seed, stddev=stddev)


def random_transformer(config: EncoderConfig, seed: int = 0, has_pooler: bool | None = None) -> Transformer:
  """Returns a model with BERT's initial weights; `has_pooler`: None for what its architecture has."""
  if has_pooler is None:
    has_pooler = bool(config.architecture.pooler)
  arrays = {}
  for number, (path, shape) in enumerate(shapes_of(config, has_pooler).items()):
    arrays[path] = initial_value(path, shape, [seed, number], config.initializer_range).numpy
  return make_transformer(config, arrays, has_pooler, "random weights")
