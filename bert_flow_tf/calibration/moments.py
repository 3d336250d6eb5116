"""Mean and covariance of embeddings, accumulated over batches, and the directions in which they vary."""

import dataclasses
import functools

import numpy as np
import scipy.linalg
from absl import logging

from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.io.checks import chunks

# Embeddings come from the encoder as float32, with a relative precision of 1.2e-7.
FLOAT32_EPSILON = float(np.finfo(np.float32).eps)
_FLOAT64_EPSILON = float(np.finfo(np.float64).eps)

Directions = tuple[np.ndarray, np.ndarray]  # eigenvalues [rank], descending; eigenvectors [dim, rank]


@dataclasses.dataclass(frozen=True, eq=False)
class Moments:
  """First and second moments of n rows x [dim].

      mean = sum x / n,  scatter = sum (x - mean) (x - mean)^T

  Two sets of rows merge exactly, for any split (Chan, Golub and LeVeque 1983, "Algorithms for computing the sample
  variance", equation 2.1): with delta = mean_b - mean_a and n = n_a + n_b,

      mean = mean_a + delta n_b / n,  scatter = scatter_a + scatter_b + delta delta^T n_a n_b / n
  """

  count: int
  mean: np.ndarray  # float64 [dim]
  scatter: np.ndarray  # float64 [dim, dim], or only its diagonal, [dim]

  @classmethod
  def of(cls, rows: np.ndarray, cross: bool) -> "Moments":
    """Returns the moments of finite rows [n, dim]; with `cross` the whole scatter, else its diagonal."""
    dim = rows.shape[1]
    moments = cls(0, np.zeros(dim), np.zeros([dim] * (1 + cross)))
    for _, chunk in chunks(rows):
      # Centered by the chunk's mean: a sum of squares would lose the digits of rows far from 0.
      mean = chunk.mean(axis=0)
      centered = chunk - mean
      scatter = centered.T @ centered if cross else np.sum(centered**2, axis=0)
      moments = moments.merged(cls(len(chunk), mean, scatter))
    return moments

  def merged(self, other: "Moments") -> "Moments":
    """Returns the moments of the rows of both."""
    count = self.count + other.count
    if not count:
      return self
    # Not by sums of squares, which lose their digits where the mean is far larger than the deviations.
    delta = other.mean - self.mean
    square = np.outer(delta, delta) if self.scatter.ndim == 2 else delta**2
    mean = self.mean + delta * (other.count / count)
    return Moments(count, mean, self.scatter + other.scatter + square * (self.count * (other.count / count)))

  @property
  def dim(self) -> int:
    """Number of dimensions."""
    return len(self.mean)

  @property
  def variance(self) -> np.ndarray:
    """Mean of (x - mean)^2 of each dimension, float64 [dim]."""
    squares = np.diagonal(self.scatter) if self.scatter.ndim == 2 else self.scatter
    return squares / self.count

  @property
  def mean_square(self) -> np.ndarray:
    """Mean of x^2 of each dimension, float64 [dim]: the scale of x's rounding errors."""
    return self.variance + self.mean**2

  @functools.cached_property
  def inverse_deviations(self) -> np.ndarray:
    """1 / standard deviation of each dimension, float64 [dim]; 0 for a dimension without variance.

    A dimension has no variance if its deviation is within the float32 rounding error of its values: a division by it
    would amplify noise (the last layer of all-MiniLM-L6-v2 has a dimension like this).
    """
    varying = self.variance > FLOAT32_EPSILON**2 * self.mean_square
    return np.divide(1.0, np.sqrt(self.variance), out=np.zeros(self.dim), where=varying)

  @functools.cached_property
  def scale(self) -> np.ndarray:
    """The inverse deviations, [dim], not all 0; dimensions without variance are logged."""
    scale = self.inverse_deviations
    self.check_varying(scale)
    constant = np.flatnonzero(scale == 0)
    if constant.size:
      shown = ", ".join(map(str, constant[:10]))
      if constant.size > 10:
        shown += ", ..."
      message = "calibration: %d of %d dimensions have no variance and become 0: %s"
      logging.warning(message, constant.size, self.dim, shown)
    return scale

  @functools.cached_property
  def directions(self) -> Directions:
    """Eigenvalues and eigenvectors of the covariance, divided by n - 1; see `directions`."""
    return directions(self.scatter / (self.count - 1), self.mean_square)

  @functools.cached_property
  def shrunk_directions(self) -> Directions:
    """Eigenvalues and eigenvectors of the covariance, shrunk toward a multiple of the identity by the number of rows.

    Oracle approximating shrinkage; see `calibration.linear._tempered_whitening`.
    """
    covariance = self.scatter / (self.count - 1)
    trace, square = np.trace(covariance), np.sum(covariance**2)
    excess = (self.count + 1 - 2 / self.dim) * (square - trace**2 / self.dim)
    weight = (1 - 2 / self.dim) * square + trace**2
    # All variances equal, up to rounding: nothing is left to shrink.
    rho = 1.0 if excess <= weight else weight / excess
    # Not of the shrunk matrix: where most eigenvalues are rho, the faster driver of `directions` may not converge.
    values, vectors = scipy.linalg.eigh(covariance, driver="evd")
    values = (1 - rho) * np.maximum(values, 0) + rho * trace / self.dim
    return values[::-1], _with_signs(vectors[:, ::-1])

  @functools.cached_property
  def uncentered_directions(self) -> Directions:
    """Eigenvalues and eigenvectors of the mean of x x^T: its right singular vectors."""
    return directions(self.scatter / self.count + np.outer(self.mean, self.mean), self.mean_square)

  @functools.cached_property
  def standardized_directions(self) -> Directions:
    """Eigenvalues and eigenvectors of the correlation matrix: right singular vectors of (x - mean) / std."""
    scale = self.scale
    return directions(self.scatter / self.count * np.outer(scale, scale), self.mean_square * scale**2)

  def check_varying(self, varying: np.ndarray) -> None:
    """Raises an error if an array that is 0 for each constant dimension or direction is all 0."""
    if not np.any(varying):
      rows = f"{self.count} that are equal up to float32 rounding"
      raise CalibrationError(f"embeddings: expected texts or vectors that differ, got {rows}", "embeddings")


def directions(matrix: np.ndarray, mean_square: np.ndarray) -> Directions:
  """Returns eigenvalues [rank], descending, and eigenvectors [dim, rank] in columns, of a covariance or second moment.

  Directions with only rounding errors are left out. A direction v is kept if its eigenvalue is over
  dim * 2.2e-16 * the largest one, the error of an eigenvalue in float64 (as in `numpy.linalg.matrix_rank`), and over
  (1.2e-7)^2 * sum v_i^2 mean_square_i, the variance along v from the float32 rounding of the rows.
  """
  values, vectors = scipy.linalg.eigh(matrix)
  values, vectors = values[::-1], vectors[:, ::-1]  # descending
  float64_error = len(values) * _FLOAT64_EPSILON * values[0]
  float32_error = FLOAT32_EPSILON**2 * (mean_square @ vectors**2)
  kept = values > np.maximum(float64_error, float32_error)
  values, vectors = values[kept], vectors[:, kept]
  return values, _with_signs(vectors)


def _with_signs(vectors: np.ndarray) -> np.ndarray:
  """Returns directions [dim, rank], whose sign is arbitrary, with a positive largest entry: all machines agree."""
  largest = np.argmax(np.abs(vectors), axis=0)
  return vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])])
