"""How one weight of ours stands for one variable of the original's checkpoint."""

import dataclasses

import numpy as np
import tensorflow as tf

from bert_flow_tf.errors import FlowError


@dataclasses.dataclass(frozen=True)
class Tf1Variable:
  """A weight under its original shape, for instance [1, 1, 1, C] for a vector of C.

  Attributes:
    weight: the `tf.Variable` that holds it here.
    shape: the original's shape.
  """

  weight: tf.Variable
  shape: tuple

  def read(self):
    """The weight as an array of the original's shape."""
    return np.reshape(tf.convert_to_tensor(self.weight).numpy(), self.shape)

  def parse(self, name, array):
    """Value for the weight from the original's array; assigns nothing.

    Raises:
      FlowError: another shape, not real numbers, or values that are not finite in the weight's dtype.
    """
    array = _of_shape(self.shape, name, array)
    if array.dtype.kind in "fiu":
      with np.errstate(over="ignore"):
        value = array.reshape(self.weight.shape).astype(self.weight.dtype.as_numpy_dtype)
      if np.isfinite(value).all():
        return value
    raise FlowError(f"variable {name} ({array.dtype}) holds values that are not finite numbers")


@dataclasses.dataclass(frozen=True)
class Tf1Signs(Tf1Variable):
  """A weight whose values are 1 and -1: no log-determinant is computed for it."""

  def parse(self, name, array):
    """As `Tf1Variable.parse`; a FlowError for other values too."""
    value = super().parse(name, array)
    if not np.isin(value, (-1, 1)).all():
      raise FlowError(f"variable {name} holds other values than 1 and -1")
    return value


@dataclasses.dataclass(frozen=True)
class Tf1Matrix(Tf1Variable):
  """A permutation matrix [C, C], kept as one: no log-determinant is computed for it."""

  def parse(self, name, array):
    """As `Tf1Variable.parse`; a FlowError for a matrix that is no permutation too."""
    _permutation_indices(self.shape, name, array)
    return super().parse(name, array)


@dataclasses.dataclass(frozen=True)
class Tf1Permutation(Tf1Variable):
  """A permutation, [C] indices here, stored by the original as the matrix w [C, C] of z = u w."""

  def read(self):
    """The permutation as a matrix of zeros and ones, float32."""
    indices = tf.convert_to_tensor(self.weight).numpy()
    return np.eye(len(indices), dtype=np.float32)[:, indices]

  def parse(self, name, array):
    """Indices of the permutation that the matrix stands for.

    Raises:
      FlowError: another shape, or the matrix is not a permutation.
    """
    return _permutation_indices(self.shape, name, array).astype(self.weight.dtype.as_numpy_dtype)


def _of_shape(shape, name, array):
  array = np.asarray(array)
  if array.shape != tuple(shape):
    raise FlowError(f"variable {name} has shape {array.shape}, expected {tuple(shape)} for this flow")
  return array


def _permutation_indices(shape, name, array):
  matrix = _of_shape(shape, name, array)
  if matrix.dtype.kind in "fiu":
    indices = np.argmax(matrix, axis=0)
    if np.array_equal(matrix, np.eye(len(indices))[:, indices]) and len(set(indices)) == len(indices):
      return indices
  raise FlowError(f"variable {name} is not a permutation matrix, as this flow's configuration says")
