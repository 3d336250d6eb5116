"""Weights of a `Transformer`: their names, in files, and as its variables, by a user's model or at random.

encoder/layer_._0/output/dense/kernel      path, as in transformers' TensorFlow models, below the main layer
encoder.layer.0.output.dense.weight        PyTorch's name, whose kernels are transposed
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_flow_tf.encoder.pooling import unit_rows_of_words
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.weight_names import checksum_of_values, path_of_variable, shapes_of
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.files import Json
from bert_flow_tf.io.lazy import load_tensorflow

if TYPE_CHECKING:  # imported where a model is made
  import tensorflow as tf

  from bert_flow_tf.encoder.transformer.transformer import Transformer

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


class StoredWeights:
  """A model whose weights lie in files, and are read when something needs them; a pickle holds them itself.

  Attributes:
    config: its `EncoderConfig`.
    has_pooler: whether it has weights for the pooled output.
    shapes: {path: shape} of the weights.
  """

  def __init__(self, config: EncoderConfig, arrays: Mapping[str, Read], has_pooler: bool, where: Any) -> None:
    """Takes {path: function that reads its array}; `where` they are, for messages."""
    self.config, self.has_pooler = config, has_pooler
    self.shapes = shapes_of(config, has_pooler)
    self._arrays, self._where = arrays, where

  def __reduce__(self) -> Any:
    """Returns function and arguments for a copy with the arrays, which the files may not outlive."""
    return _in_memory, (self.config, {path: self.read(path) for path in self.shapes}, self.has_pooler, str(self._where))

  def read(self, path: str) -> np.ndarray:
    """Returns the weight of a path, a float32 array; EncoderError if it holds NaN or infinity."""
    value = np.asarray(self._arrays[path](), np.float32)
    if not np.isfinite(value).all():
      name = f"{self.config.architecture.main}/{path}"
      raise EncoderError(f"{self._where} holds NaN or infinity in {name}; use another checkpoint")
    return value

  @functools.cached_property
  def transformer(self) -> Transformer:
    """The model with variables, in float32; made once."""
    tf = load_tensorflow()
    from bert_flow_tf.encoder.transformer.transformer import Transformer

    main = self.config.architecture.main

    def variable(path, shape):
      return tf.Variable(self.read(path), dtype=tf.float32, name=f"{main}/{path}")

    return Transformer(self.config, variable, self.has_pooler)

  def with_config(self, config: EncoderConfig) -> StoredWeights:
    """Returns the same weights as a model of another configuration with the same sizes."""
    return StoredWeights(config, self._arrays, self.has_pooler, self._where)

  @property
  def deciding_settings(self) -> Json:
    """See `Transformer`."""
    return self.config.deciding_settings

  def checksum(self) -> str:
    """Returns `Transformer.checksum` without making variables; each weight is read, with the errors of `read`."""
    main = self.config.architecture.main
    return checksum_of_values({f"{main}/{path}:0": functools.partial(self.read, path) for path in self.shapes})

  @functools.cached_property
  def word_embeddings(self) -> np.ndarray:
    """The word embeddings, float32 [vocab, word_size]."""
    return self.read(self.config.architecture.words)

  def word_rows(self, ids: Any, widened: bool = False) -> Any:
    """Returns `Transformer.word_rows` of token ids, an array of an array, a tensor of a tensor."""
    kernel = None
    if widened and self.config.projection:
      kernel = self.read(f"{self.config.projection}{_KERNEL}")
    return unit_rows_of_words(self.word_embeddings, ids, kernel)


def _in_memory(config, arrays, has_pooler, where):
  """Returns stored weights of {path: array}."""
  reads = {path: functools.partial(np.asarray, array) for path, array in arrays.items()}
  return StoredWeights(config, reads, has_pooler, where)


def make_transformer(config: EncoderConfig, arrays: Mapping[str, Read], has_pooler: bool, where: Any) -> Transformer:
  """Returns a model with the arrays of its weights, {path: function that reads it}; `where` they are, for messages.

  Raises:
    EncoderError: an array holds NaN or infinity.
  """
  return StoredWeights(config, arrays, has_pooler, where).transformer


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
  from bert_flow_tf.encoder.transformer.transformer import Transformer

  by_path = {path_of_variable(variable): variable for variable in variables}
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
  import tensorflow as tf

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
