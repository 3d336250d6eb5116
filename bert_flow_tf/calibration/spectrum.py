"""What of the embeddings carries information: directions and dimensions with more than rounding in them."""

import numpy as np
import scipy.linalg

# Embeddings come from the encoder as float32: a number is known to 1.2e-7 of itself, and no better.
_FLOAT32_EPSILON = float(np.finfo(np.float32).eps)
_FLOAT64_EPSILON = float(np.finfo(np.float64).eps)


def inverse_deviations(moments):
  """1 / standard deviation of each dimension, float64 [dim]; 0 for a dimension without variance.

  Without variance is one whose deviation is within the float32 rounding of its own values: what divides by that
  magnifies noise (the last layer of all-MiniLM-L6-v2 has such a dimension).
  """
  varying = moments.variance > _FLOAT32_EPSILON**2 * moments.mean_square
  return np.divide(1.0, np.sqrt(moments.variance), out=np.zeros(moments.dim), where=varying)


def directions(matrix, mean_square):
  """Eigenvalues [dim], falling, and eigenvectors [dim, dim] in columns, of a covariance or second moment.

  Those that hold nothing but rounding are left out: [rank] and [dim, rank]. A direction v stays if its eigenvalue is
  over dim * 2.2e-16 * the largest one, the error of an eigenvalue in float64 (as in `numpy.linalg.matrix_rank`), and
  over (1.2e-7)^2 * sum v_i^2 mean_square_i, what the float32 rounding of the rows puts into v.

  Args:
    matrix: float64 [dim, dim], symmetric.
    mean_square: float64 [dim], mean square of each dimension of the rows behind it.
  """
  values, vectors = scipy.linalg.eigh(matrix)
  values, vectors = values[::-1], vectors[:, ::-1]
  floor = np.maximum(len(values) * _FLOAT64_EPSILON * values[0], _FLOAT32_EPSILON**2 * (mean_square @ vectors**2))
  values, vectors = values[values > floor], vectors[:, values > floor]
  # A direction and its opposite serve alike: the largest entry is made positive, so that machines agree on the sign.
  largest = np.argmax(np.abs(vectors), axis=0)
  return values, vectors * np.sign(vectors[largest, np.arange(len(values))])
