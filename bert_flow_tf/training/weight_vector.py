"""The trained weights of a flow as one vector, and a checkpoint's view of such vectors in pieces."""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


class WeightVector:
  """One variable with the values of many: a step of a fit clips and updates it at once.

  Args:
    module: layer whose trainable weights are the values of attributes of its layers.

  Attributes:
    variable: [number of values], zeros until `load`.
  """

  def __init__(self, module: tf.Module) -> None:
    self._weights = tuple(module.trainable_variables)
    self._sizes = [weight.shape.num_elements() for weight in self._weights]
    self.variable = tf.Variable(tf.zeros([sum(self._sizes)], self._weights[0].dtype), name="weights")
    # Where the weights are: (layer, name of the attribute) in their order.
    places = {}
    for layer in module.submodules:
      for name, value in vars(layer).items():
        places[id(value)] = (layer, name)
    self._places = [places[id(weight)] for weight in self._weights]

  def load(self) -> None:
    """Copies the weights to the vector."""
    self.variable.assign(tf.concat([tf.reshape(weight, [-1]) for weight in self._weights], 0))

  def store(self) -> None:
    """Copies the vector to the weights."""
    for weight, value in zip(self._weights, self._split(tf.convert_to_tensor(self.variable)), strict=True):
      weight.assign(value)

  @contextlib.contextmanager
  def as_values(self, vector: tf.Tensor) -> Iterator[None]:
    """Puts the parts of a vector in place of the weights while the block computes with the module."""
    try:
      for (layer, name), value in zip(self._places, self._split(vector), strict=True):
        vars(layer)[name] = value  # not by setattr, with which Keras would forget the variable
      yield
    finally:
      for (layer, name), weight in zip(self._places, self._weights, strict=True):
        vars(layer)[name] = weight

  def pieces(self, vector: tf.Variable) -> list[tf.__internal__.tracking.Trackable]:
    """Returns a view of each weight's part of a vector, for checkpoints: they hold one value for each weight."""
    ends = [sum(self._sizes[: index + 1]) for index in range(len(self._sizes))]
    return [
      _Piece(vector, end - size, weight.shape)
      for weight, size, end in zip(self._weights, self._sizes, ends, strict=True)
    ]

  def _split(self, vector):
    parts = tf.split(vector, self._sizes)
    pairs = zip(parts, self._weights, strict=True)
    return [part if weight.shape.rank == 1 else tf.reshape(part, weight.shape) for part, weight in pairs]


class _Piece(tf.__internal__.tracking.Trackable):
  """Part of a vector under the key that a checkpoint gives to a variable."""

  def __init__(self, vector: tf.Variable, start: int, shape: tf.TensorShape) -> None:
    self._vector, self._shape = vector, shape
    self._start, self._end = start, start + shape.num_elements()

  def _serialize_to_tensors(self) -> dict[str, tf.Tensor]:
    part = tf.slice(tf.convert_to_tensor(self._vector), [self._start], [self._end - self._start])
    return {"VARIABLE_VALUE": tf.reshape(part, self._shape)}

  def _restore_from_tensors(self, restored: dict[str, tf.Tensor]) -> Any:
    values = tf.convert_to_tensor(self._vector)
    part = tf.reshape(restored["VARIABLE_VALUE"], [-1])
    return self._vector.assign(tf.concat([values[: self._start], part, values[self._end :]], 0))
