"""Buckets of the distances of two tokens, by which the attention of MPNet and DeBERTa reads a table; no TensorFlow."""

import numpy as np

# MPNet's number of buckets, and the distance from which all share the last bucket (Song et al. 2020, MPNet; the
# buckets are T5's).
MPNET_BUCKETS, _FARTHEST = 32, 128


def mpnet_buckets(distances: np.ndarray) -> np.ndarray:
  """Returns the buckets of distances, query's position - key's position, as int64 of their shape."""
  # Half of the buckets are for each direction; of these, half are for a single distance each, and the others widen
  # with the logarithm of the distance.
  half = MPNET_BUCKETS // 2
  exact = half // 2
  sizes = np.abs(distances)
  ratios = np.log(np.maximum(sizes, 1) / exact) / np.log(_FARTHEST / exact)
  far = np.minimum(exact + (ratios * (half - exact)).astype(int), half - 1)
  return np.where(sizes < exact, sizes, far) + half * (distances < 0)


def deberta_buckets(distances: np.ndarray, buckets: int, longest: int) -> np.ndarray:
  """Returns the rows of DeBERTa's table, [2 * buckets, size], for distances; from `longest` on, all share a row."""
  # A bucket each up to the middle, then wider with the logarithm. NumPy's logarithm is used: TensorFlow's can be a bit
  # larger, which gives the next bucket if the quotient is whole.
  middle = buckets // 2
  sizes = np.maximum(np.abs(distances), middle)
  ratios = np.log(sizes / middle) / np.log((longest - 1) / middle)
  far = (np.ceil(ratios * (middle - 1)).astype(int) + middle) * np.sign(distances)
  return np.clip(np.where(sizes <= middle, distances, far) + buckets, 0, 2 * buckets - 1)
