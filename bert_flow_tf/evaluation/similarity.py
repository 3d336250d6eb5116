"""Cosine similarity of embeddings."""

import numpy as np

from bert_flow_tf.errors import DataError

# Less than float32's rounding around 1; only a vector of zeros is shorter.
_SHORTEST = 1e-30


def cosine_similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  """Returns the cosine of each pair of rows.

  Args:
    a: [n, dim].
    b: [n, dim].

  Returns:
    float64 [n]; NaN if a row is zero or not finite.

  Raises:
    DataError: the shapes differ or are not [n, dim].
  """
  a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
  if a.shape != b.shape or a.ndim != 2:
    raise DataError(f"embeddings of shapes {a.shape} and {b.shape}, expected [n, dim] twice")
  with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
    return np.sum(a * b, axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def normalized(embeddings: np.ndarray) -> np.ndarray:
  """Divides rows [n, dim] by their length; rows of zeros stay."""
  return embeddings / np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), _SHORTEST)


def random_pair_cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  """Returns the cosine of each first sentence and the second sentence half the list further on, float64 [n].

  Neighbors in a list are often alike, rows half the list apart are not.

  Args:
    a: embeddings [n, dim] of the first sentences.
    b: embeddings [n, dim] of the second sentences.
  """
  return cosine_similarity(a, np.roll(np.asarray(b), len(b) // 2, axis=0))


def mean_random_cosine(a: np.ndarray, b: np.ndarray) -> float:
  """Returns the mean of `random_pair_cosines`, a measure of anisotropy (the paper's section 2).

  Near 1 all embeddings lie in a narrow cone; for evenly spread directions it is 0.

  Args:
    a: embeddings [n, dim] of the first sentences.
    b: embeddings [n, dim] of the second sentences.

  Returns:
    NaN for fewer than 2 pairs, or if an embedding is zero.
  """
  if len(a) < 2:
    return float("nan")
  return float(np.mean(random_pair_cosines(a, b)))
