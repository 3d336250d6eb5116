"""Base class of the flow's layers."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from bert_flow_tf.errors import FlowError
from bert_flow_tf.flow.keras import (
  DType,
  Layer,
  Shape,
  as_output_shape,
  build_scope,
  is_symbolic,
  keras,
  name_in_file,
  parts_of,
  track_parts,
)
from bert_flow_tf.flow.named_weights import NamedWeight
from bert_flow_tf.io.checks import as_array

if TYPE_CHECKING:  # a fit needs only `forward_and_log_det`, and TensorFlow Probability takes a second to import
  import tensorflow_probability as tfp

Vectors: TypeAlias = npt.ArrayLike | tf.Tensor
# The network of a coupling: a layer, a function from its number of outputs to a new layer, or either as `to_keras`.
Network: TypeAlias = Layer | Callable[[int], Layer] | dict[str, object]


class FlowLayer(Layer):
  """Keras layer that owns its weights and gives a `tfb.Bijector` from embedding u to latent z.

  Calling the layer applies the bijector forward: u [..., dim] -> z [..., dim]. It computes in the dtype of its weights,
  also under a policy of mixed precision.
  """

  has_dropout = False

  def __init__(self, arguments: dict[str, Any], dtype: DType = None, **kwargs: object) -> None:
    super().__init__(dtype=weights_dtype(dtype), **kwargs)
    self._arguments = arguments
    self.supports_masking = True  # each vector is mapped alone

  def __call__(self, inputs: Vectors, *args: object, **kwargs: object) -> tf.Tensor:
    """Calls the layer as Keras does; a list is one tensor."""
    if isinstance(inputs, list | tuple) or _has_objects(inputs):
      inputs = _as_tensor(inputs, self.dtype)
    return super().__call__(inputs, *args, **kwargs)

  def __reduce__(self) -> tuple:
    """Pickles and copies the layer by its arguments, weights, and which parts are trainable."""
    shape = None
    build_config = self.get_build_config()
    if self.built and build_config is not None:
      shape = list(build_config["input_shape"])  # Keras 3's own lists cannot be pickled
    trainable = [part.trainable for part in parts_of(self)]
    return _revived, (type(self), self.get_config(), shape, trainable, self.get_weights())

  def get_config(self) -> dict[str, object]:
    """Returns the constructor's arguments."""
    return {**super().get_config(), **self._arguments}

  def build(self, input_shape: Shape) -> None:
    """Ends the building: the parts of a frozen layer are frozen, too, as Keras orders saved weights by it."""
    super().build(input_shape)
    self.dim = tf.TensorShape(input_shape)[-1]
    track_parts(self)
    if not self.trainable:
      for part in parts_of(self):
        part.trainable = False

  def forward_and_log_det(
    self, u: tf.Tensor, dropout_seed: tf.Tensor | None = None
  ) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Returns z [..., dim] of u [..., dim], and log|det dz/du|, [...] or a scalar; None if it is always 0.

    `dropout_seed`, int32 [2], is the seed of the coupling's dropout while fitting; None for no dropout.
    """
    raise NotImplementedError

  def inverse(self, z: tf.Tensor, dropout_seed: tf.Tensor | None = None) -> tf.Tensor:
    """Returns u [..., dim] of z [..., dim]; arguments as in `forward_and_log_det`."""
    raise NotImplementedError

  def make_bijector(self, dropout_seed: tf.Tensor | None = None) -> "tfp.bijectors.Bijector":
    """Returns a new bijector over this layer's weights; forward is u -> z. The first tensor builds a new layer.

    It always computes by the current weights. A `tfb.Chain` of your own around it keeps results by tensor.
    """
    from bert_flow_tf.flow.bijectors import LayerBijector

    return LayerBijector(self, dropout_seed)

  def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
    """u [..., dim] -> z [..., dim]; with `training=True` a new dropout mask, if the layer has dropout."""
    return self.forward_and_log_det(inputs, self.training_seed(training))[0]

  def compute_output_shape(self, input_shape: Shape) -> tuple[int | None, ...] | tf.TensorShape:
    """Returns the shape of z [..., dim], the shape of u."""
    return as_output_shape(tf.TensorShape(input_shape).as_list())

  def training_seed(self, training: bool | None) -> tf.Tensor | None:
    """Returns a new seed of dropout, int32 [2], which follows `tf.random.set_seed`; None outside of training."""
    if not self.has_dropout or not training:
      return None
    return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)

  def adapt(self, data: Vectors | tf.data.Dataset, batch_size: int | None = None, steps: int | None = None) -> None:
    """Initializes the weights that depend on data, as Keras' `Normalization.adapt`; arguments as in `Glow.adapt`."""
    self.initialize(rows_of(data, batch_size, steps))

  def initialize(self, inputs: Vectors) -> tf.Tensor:
    """Sets the weights that depend on data from u [batch, dim]; returns the layer's output for it."""
    return self(inputs)

  def prepared(self, values: Vectors) -> tf.Tensor:
    """Returns values [..., dim] as a tensor of the layer's dtype; builds the layer if it is new.

    Raises:
      FlowError: the values are symbolic, no numbers, or of another shape.
    """
    if is_symbolic(values):
      hint = "use layers on it, the flow itself or NegativeLogLikelihood(flow)"
      raise FlowError(f"embeddings: a symbolic tensor of Keras; {hint}", "embeddings")
    tensor = _as_tensor(values, self.dtype)
    if not self.built:
      # Weights belong to no graph, though the first tensor may.
      with tf.init_scope(), build_scope(self):
        self.build(tensor.shape)
    shape = tensor.shape
    if shape.rank == 0 or shape[-1] not in (None, self.dim):
      raise FlowError(f"embeddings: expected shape [..., {self.dim}], got {shape}", "embeddings")
    if shape[-1] is None:
      tensor = tf.reshape(tensor, tf.concat([tf.shape(tensor)[:-1], [self.dim]], axis=0))
    return tensor

  def named_weights(self) -> dict[str, NamedWeight]:
    """Returns the weights by their names below this layer, in the original's checkpoint."""
    return {}


def _revived(cls, config, shape, trainable, weights):
  layer = cls.from_config(config)
  if shape is not None and not layer.built:
    with build_scope(layer):
      layer.build(shape)
  # First, as the order of the weights depends on it.
  for part, value in zip(parts_of(layer), trainable, strict=True):
    part.trainable = value
  layer.set_weights(weights)
  return layer


def _as_tensor(values, dtype):
  """Returns numbers as a tensor of a dtype; raises FlowError if they are none."""
  if isinstance(values, np.ma.MaskedArray) or _has_objects(values):
    values = as_array(values, error=FlowError)
  try:
    return tf.cast(values, dtype)
  except (TypeError, ValueError, tf.errors.OpError) as error:
    given = type(values).__name__
    raise FlowError(f"embeddings: expected numbers of shape [..., dim], got {given}", "embeddings") from error


def _has_objects(values):
  """Returns whether values are a column of pandas whose cells are rows, or another array of objects."""
  return getattr(getattr(values, "dtype", None), "kind", "") == "O"


def to_keras(layer: Layer | Callable[[int], Layer]) -> dict[str, object]:
  """Returns a layer, or a function that makes one, as `from_keras` reads it in all of Keras' formats."""
  if isinstance(layer, Layer):
    name_in_file(layer)
  config = keras.saving.serialize_keras_object(layer)
  if isinstance(layer, Layer) and config.get("registered_name"):
    config["class_name"] = config["registered_name"]  # .h5 and SavedModel know no other name
  return config


def from_keras(config: Network | None) -> Layer | Callable[[int], Layer] | None:
  """Returns the layer or function of `to_keras`; anything but a dict as it is."""
  if not isinstance(config, dict):
    return config
  try:
    return keras.saving.deserialize_keras_object(config)
  except ValueError:  # Keras' own layers in .h5 and SavedModel
    return keras.layers.deserialize(config)


def weights_dtype(dtype: DType) -> str:
  """Returns the dtype of weights that Keras creates under a dtype or policy; None for the global policy."""
  try:
    return Layer(dtype=dtype).dtype
  except (TypeError, ValueError):  # for the error of the layer itself
    return dtype


def last_dimension(shape: Shape) -> int:
  """Returns the size of the last axis; raises FlowError if it is unknown."""
  dim = tf.TensorShape(shape)[-1]
  if dim is None:
    expected = "a known last dimension, which a new layer's weights need"
    raise FlowError(f"input_shape={shape}: expected {expected}", "input_shape")
  return int(dim)


def build_part(part: Layer, dim: int) -> None:
  """Builds a layer of a layer for inputs [..., dim]; its name is part of the names of its weights."""
  with build_scope(part):
    part.build([None, dim])


def rows_of(
  data: np.ndarray | tf.Tensor | tf.data.Dataset, batch_size: int | None = None, steps: int | None = None
) -> np.ndarray | tf.Tensor:
  """Returns the rows [n, dim] of an array, or of a dataset of batches; at most `steps` batches."""
  if not isinstance(data, tf.data.Dataset):
    return data if steps is None else data[: steps * (batch_size or 32)]
  batches = []
  for batch in data.take(-1 if steps is None else steps):
    inputs = batch[0] if isinstance(batch, tuple) else batch
    batches.append(np.atleast_2d(inputs))
  return np.concatenate(batches) if batches else np.zeros([0, 0])


def product(x: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
  """x [..., inputs], matrix [inputs, outputs] -> x matrix [..., outputs]."""
  return tf.matmul(x, matrix) if x.shape.rank == 2 else tf.tensordot(x, matrix, 1)


def seed_stream(seed: int | None) -> Iterator[int]:
  """Yields independent integer seeds without end; with None, different ones at each call."""
  # Below 2**31, as TensorFlow's initializers take them.
  generator = np.random.default_rng(seed)
  while True:
    yield int(generator.integers(2**31))
