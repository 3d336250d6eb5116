"""Mean and covariance of embeddings, batch after batch."""

import dataclasses

import numpy as np

from bert_flow_tf.errors import CalibrationError

# Rows that are taken to float64 at a time: 8192 rows of 1024 dimensions are 64 MiB.
CHUNK = 8192
_FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True, eq=False)
class Moments:
  """First and second moments of n rows x [dim].

      mean = sum x / n,  scatter = sum (x - mean) (x - mean)^T

  Two sets of rows merge exactly, whatever the split (Chan, Golub and LeVeque 1983, "Algorithms for computing the sample
  variance", equation 2.1): with delta = mean_b - mean_a and n = n_a + n_b,

      mean = mean_a + delta n_b / n,  scatter = scatter_a + scatter_b + delta delta^T n_a n_b / n

  Attributes:
    count: n.
    mean: float64 [dim].
    scatter: float64 [dim, dim], or its diagonal alone, [dim].
  """

  count: int
  mean: np.ndarray
  scatter: np.ndarray

  @classmethod
  def of(cls, rows, cross):
    """Moments of rows [n, dim] that `check_rows` has passed.

    Args:
      rows: [n, dim].
      cross: True for the whole scatter [dim, dim], False for its diagonal.
    """
    dim = rows.shape[1]
    found = cls(0, np.zeros(dim), np.zeros([dim, dim] if cross else dim))
    for _, chunk in chunks(rows):
      mean = chunk.mean(axis=0)
      centred = chunk - mean
      scatter = centred.T @ centred if cross else np.sum(centred**2, axis=0)
      found = found.merged(cls(len(chunk), mean, scatter))
    return found

  def merged(self, other):
    """Moments of the rows of both."""
    count = self.count + other.count
    if not count:
      return self
    delta = other.mean - self.mean
    square = np.outer(delta, delta) if self.scatter.ndim == 2 else delta**2
    mean = self.mean + delta * (other.count / count)
    return Moments(count, mean, self.scatter + other.scatter + square * (self.count * (other.count / count)))

  @property
  def dim(self):
    """Number of dimensions."""
    return len(self.mean)

  @property
  def variance(self):
    """Mean of (x - mean)^2 of each dimension, float64 [dim]."""
    return (np.diagonal(self.scatter) if self.scatter.ndim == 2 else self.scatter) / self.count

  @property
  def mean_square(self):
    """Mean of x^2 of each dimension, float64 [dim]."""
    return self.variance + self.mean**2


def chunks(rows):
  """(First row, float64 rows from there) of the pieces of rows [n, dim], at most `CHUNK` rows each."""
  for start in range(0, len(rows), CHUNK):
    yield start, np.asarray(rows[start : start + CHUNK], np.float64)


def check_rows(embeddings, dim=None):
  """Embeddings as an array [n, dim] of real numbers that float32 can hold.

  Args:
    embeddings: [n, dim], anything that NumPy takes as an array.
    dim: expected dimensions, None for any.

  Raises:
    CalibrationError: another shape, something that is not a number, NaN, infinity.
  """
  expected = f"[n, {'dim' if dim is None else dim}]"
  try:
    rows = np.asarray(embeddings)
  except (TypeError, ValueError) as error:
    raise CalibrationError(f"embeddings are no array, expected numbers of shape {expected} ({error})") from error
  if rows.dtype.kind not in "fiu":
    raise CalibrationError(f"embeddings are of type {rows.dtype}, expected real numbers of shape {expected}")
  if rows.ndim != 2 or not rows.shape[1] or dim not in (None, rows.shape[1]):
    raise CalibrationError(f"embeddings have the shape {list(rows.shape)}, expected {expected}")
  for start, chunk in chunks(rows):
    bad = np.flatnonzero(~(np.abs(chunk) <= _FLOAT32_MAX).all(axis=1))  # NaN compares as False
    if bad.size:
      raise CalibrationError(
        f"row {start + bad[0]} (counted from 0) of the embeddings has NaN, infinity or a number over 3.4e38"
      )
  return rows
