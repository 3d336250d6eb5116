"""Pairs of vectors that stay on disk while a flow is fitted on them."""

import hashlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_flow_tf.calibration.moments import Moments
from bert_flow_tf.errors import TrainingError
from bert_flow_tf.training.sources import EmbeddingPairs

# Rows read at once for the checksum.
_ROWS = 8192


class VectorPairs(EmbeddingPairs):
  """Neighboring rows of arrays as pairs: rows 0 and 1, 2 and 3, ...; only the rows of a step are in memory.

  Args:
    arrays: numbers [n, dim] each, such as memory-mapped files; one after another they make the rows. The last row of
      an odd number is left out.

  Raises:
    TrainingError: not arrays [n, dim] of the same dim.
  """

  def __init__(self, arrays: Sequence[np.ndarray]) -> None:
    shapes = [array.shape for array in arrays]
    if not shapes or any(len(shape) != 2 or shape[1] != shapes[0][-1] for shape in shapes):
      raise TrainingError(f"vectors: found arrays of shapes {shapes}, expected [n, dim] with one dim", "vectors")
    self._arrays = list(arrays)
    self._starts = np.cumsum([0, *(len(array) for array in arrays)])

  @property
  def dim(self) -> int:
    """Dimensions of a vector."""
    return self._arrays[0].shape[1]

  def __len__(self) -> int:
    return int(self._starts[-1]) // 2

  def fingerprint(self) -> str:
    """Returns the hexadecimal SHA-256 of the vectors."""
    digest = hashlib.sha256(repr((len(self), self.dim)).encode())
    for array in self._arrays:
      for start in range(0, len(array), _ROWS):
        digest.update(np.ascontiguousarray(array[start : start + _ROWS], np.float32).data)
    return digest.hexdigest()

  def moments(self) -> Moments:
    """Returns the moments of the vectors, without covariances."""
    moments = Moments.of(np.zeros([0, self.dim]), False)
    for array, start in zip(self._arrays, self._starts[:-1], strict=True):
      moments = moments.merged(Moments.of(array[: max(0, 2 * len(self) - start)], False))
    return moments

  def features(self, positions: tf.data.Dataset) -> tf.data.Dataset:
    """Maps a dataset of positions [batch] to one of (a [batch, dim], b [batch, dim])."""

    def read(chosen):
      sides = tf.numpy_function(self._read, [chosen], [tf.float32, tf.float32])
      for side in sides:
        side.set_shape([chosen.shape[0], self.dim])
      return tuple(sides)

    return positions.map(read)

  def _read(self, positions):
    return self._rows_at(2 * positions), self._rows_at(2 * positions + 1)

  def _rows_at(self, rows):
    """Reads rows, float32 [batch, dim]."""
    files = np.searchsorted(self._starts, rows, side="right") - 1
    return np.stack(
      [self._arrays[file][row - self._starts[file]] for file, row in zip(files, rows, strict=True)]
    ).astype(np.float32)
