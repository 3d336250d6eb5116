"""The trained weights of a flow as one vector, and a checkpoint's view of such vectors in pieces."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_flow_tf.flow.layer import Read


class WeightVector:
  """One variable with the values of many: a step of a fit clips and updates it at once.

  Args:
    weights: variables of one dtype.

  Attributes:
    variable: [number of values], zeros until `load`.
  """

  def __init__(self, weights: Sequence[tf.Variable]) -> None:
    self._weights = tuple(weights)
    self._sizes = [weight.shape.num_elements() for weight in weights]
    self.variable = tf.Variable(tf.zeros([sum(self._sizes)], weights[0].dtype), name="weights")

  def load(self) -> None:
    """Copies the weights to the vector."""
    self.variable.assign(tf.concat([tf.reshape(weight, [-1]) for weight in self._weights], 0))

  def store(self) -> None:
    """Copies the vector to the weights."""
    for weight, value in zip(self._weights, self._split(tf.convert_to_tensor(self.variable)), strict=True):
      weight.assign(value)

  def reader(self, vector: tf.Tensor) -> Read:
    """Returns the function weight -> its value in a vector; variables that it does not hold are read."""
    values = dict(zip((weight.ref() for weight in self._weights), self._split(vector), strict=True))
    return lambda weight: values[weight.ref()] if weight.ref() in values else tf.convert_to_tensor(weight)

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
