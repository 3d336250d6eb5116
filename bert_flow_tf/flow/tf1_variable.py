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
      FlowError: another shape, not numbers, or NaN or infinite values.
    """
    array = np.asarray(array)
    if array.shape != tuple(self.shape):
      raise FlowError(f"variable {name} has shape {array.shape}, expected {tuple(self.shape)} for this flow")
    if not np.issubdtype(array.dtype, np.number) or not np.all(np.isfinite(array)):
      raise FlowError(f"variable {name} ({array.dtype}) holds values that are not finite numbers")
    return array.reshape(self.weight.shape).astype(self.weight.dtype.as_numpy_dtype)


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
    matrix = np.asarray(array)
    if matrix.shape != tuple(self.shape):
      raise FlowError(f"variable {name} has shape {matrix.shape}, expected {tuple(self.shape)} for this flow")
    indices = np.argmax(matrix, axis=0)
    if not np.array_equal(matrix, np.eye(len(indices))[:, indices]) or len(set(indices)) != len(indices):
      raise FlowError(f"variable {name} is not a permutation matrix, as this flow's configuration says")
    return indices.astype(self.weight.dtype.as_numpy_dtype)
