"""Mean and covariance of embeddings, accumulated over batches."""

import dataclasses
from collections.abc import Iterator

import numpy as np

# Rows converted to float64 at a time: 8192 rows of 1024 dimensions are 64 MiB.
CHUNK = 8192


@dataclasses.dataclass(frozen=True, eq=False)
class Moments:
  """First and second moments of n rows x [dim].

      mean = sum x / n,  scatter = sum (x - mean) (x - mean)^T

  Two sets of rows merge exactly, for any split (Chan, Golub and LeVeque 1983, "Algorithms for computing the sample
  variance", equation 2.1): with delta = mean_b - mean_a and n = n_a + n_b,

      mean = mean_a + delta n_b / n,  scatter = scatter_a + scatter_b + delta delta^T n_a n_b / n

  Attributes:
    count: n.
    mean: float64 [dim].
    scatter: float64 [dim, dim], or only its diagonal, [dim].
    rounded: float64 [dim], mean square of the numbers that were combined to x, which has their rounding errors; None if
      x was not combined.
  """

  count: int
  mean: np.ndarray
  scatter: np.ndarray
  rounded: np.ndarray | None = None

  @classmethod
  def of(cls, rows: np.ndarray, cross: bool) -> "Moments":
    """Returns the moments of finite rows [n, dim].

    Args:
      rows: [n, dim].
      cross: True for the whole scatter [dim, dim], False for its diagonal.
    """
    dim = rows.shape[1]
    moments = cls(0, np.zeros(dim), np.zeros([dim, dim] if cross else dim))
    for _, chunk in chunks(rows):
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
    return (np.diagonal(self.scatter) if self.scatter.ndim == 2 else self.scatter) / self.count

  @property
  def mean_square(self) -> np.ndarray:
    """Mean of x^2 of each dimension, float64 [dim], or `rounded`: the scale of x's rounding errors."""
    return self.variance + self.mean**2 if self.rounded is None else self.rounded


def chunks(rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
  """Yields (index of the first row, float64 rows) of consecutive parts of rows [n, dim], at most `CHUNK` rows each."""
  for start in range(0, len(rows), CHUNK):
    yield start, np.asarray(rows[start : start + CHUNK], np.float64)
