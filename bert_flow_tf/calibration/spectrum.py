"""Dimensions and directions of embeddings that vary by more than rounding errors."""

import numpy as np
import scipy.linalg

from bert_flow_tf.calibration.moments import Moments

# Embeddings come from the encoder as float32, with a relative precision of 1.2e-7.
_FLOAT32_EPSILON = float(np.finfo(np.float32).eps)
_FLOAT64_EPSILON = float(np.finfo(np.float64).eps)


def inverse_deviations(moments: Moments) -> np.ndarray:
  """Returns 1 / standard deviation of each dimension, float64 [dim]; 0 for a dimension without variance.

  A dimension has no variance if its deviation is within the float32 rounding error of its values: a division by it
  would amplify noise (the last layer of all-MiniLM-L6-v2 has such a dimension).
  """
  varying = moments.variance > _FLOAT32_EPSILON**2 * moments.mean_square
  return np.divide(1.0, np.sqrt(moments.variance), out=np.zeros(moments.dim), where=varying)


def directions(matrix: np.ndarray, mean_square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns eigenvalues [rank], descending, and eigenvectors [dim, rank] in columns, of a covariance or second moment.

  Directions with only rounding errors are left out. A direction v is kept if its eigenvalue is over
  dim * 2.2e-16 * the largest one, the error of an eigenvalue in float64 (as in `numpy.linalg.matrix_rank`), and over
  (1.2e-7)^2 * sum v_i^2 mean_square_i, the variance along v from the float32 rounding of the rows.

  Args:
    matrix: float64 [dim, dim], symmetric.
    mean_square: float64 [dim], mean square of each dimension of the rows.
  """
  values, vectors = scipy.linalg.eigh(matrix)
  values, vectors = values[::-1], vectors[:, ::-1]
  floor = np.maximum(len(values) * _FLOAT64_EPSILON * values[0], _FLOAT32_EPSILON**2 * (mean_square @ vectors**2))
  values, vectors = values[values > floor], vectors[:, values > floor]
  # The sign of a direction is arbitrary: the largest entry is made positive, so that all machines agree.
  largest = np.argmax(np.abs(vectors), axis=0)
  return values, vectors * np.sign(vectors[largest, np.arange(len(values))])
