"""The order of the pairs in a fit, and their token ids, as tf.data pipelines."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

# Part of a fit's identity: a fit that was started with another order is not resumed.
ORDER = "every pair once a pass"
# Rows in the shuffle buffer of the published code.
_PUBLISHED_BUFFER = 1000
# Placeholder for ids after a sentence's end.
_PADDING = -1


def pair_order(num_pairs: int, seed: int, shuffle: bool = True) -> tf.data.Dataset:
  """Returns an infinite data set of positions of pairs, scalar int64: each pass has every pair in its order."""
  # Consecutive rows of the STS files are similar, and a flow fitted on them in order is much worse. The published code
  # shuffles once, then has a shuffle buffer of 1000 pairs in each pass.

  def positions_of_pass(number: tf.Tensor) -> tf.data.Dataset:
    positions = tf.range(num_pairs, dtype=tf.int64)
    if shuffle:
      positions = tf.random.experimental.stateless_shuffle(positions, tf.stack([seed, number]))
    return tf.data.Dataset.from_tensor_slices(positions)

  return tf.data.Dataset.counter().flat_map(positions_of_pass)


def published_order(num_rows: int, seed: int) -> tf.data.Dataset:
  """Returns an infinite data set of rows, scalar int64, as the published code reads its file: by a small buffer."""
  # Copies of a pair are neighbors, and add no steps: with k copies an epoch reads about the first 1/k of the file.

  def rows_of_pass(number: tf.Tensor) -> tf.data.Dataset:
    # Seeded by the pass alone, so that a resumed fit skips to the same place.
    rows = tf.data.Dataset.range(num_rows)
    return rows.shuffle(_PUBLISHED_BUFFER, seed * 2**31 + number, reshuffle_each_iteration=False)

  return tf.data.Dataset.counter().flat_map(rows_of_pass)


def batched(order: tf.data.Dataset, batch_size: int, start_step: int = 0) -> tf.data.Dataset:
  """Returns batches of positions, int64 [batch_size], from a step on."""
  return order.skip(start_step * batch_size).batch(batch_size, drop_remainder=True)


class TokenPairs:
  """Token ids of both sides of pairs, n arrays each; batches are padded to their longest sentence, or to `length`."""

  def __init__(self, sides: Sequence[Sequence[np.ndarray]], pad_id: int, length: int | None = None) -> None:
    self._pad_id, self._length = pad_id, length
    # All ids of a side are in a single array, which `features` cuts into rows.
    self._ids, self._lengths = [], []
    for side in sides:
      self._ids.append(np.concatenate(side))
      self._lengths.append(np.array([len(ids) for ids in side], np.int64))

  def __len__(self) -> int:
    return len(self._lengths[0])

  def features(self, positions: tf.data.Dataset) -> tf.data.Dataset:
    """Maps a dataset of positions [batch] to one of (ids a, ids b), int32 [batch, seq_len], for `tokens`."""
    return positions.map(self.reader())

  def reader(self) -> Callable[[tf.Tensor], tuple[tf.Tensor, ...]]:
    """Returns the function that `features` maps."""
    with tf.device("CPU"):  # input pipelines run on it
      first, second = map(tf.RaggedTensor.from_row_lengths, self._ids, self._lengths)

    def padded(side, rows):
      return tf.gather(side, rows).to_tensor(_PADDING, shape=[None, self._length])

    return lambda rows: (padded(first, rows), padded(second, rows))

  def tokens(self, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns ids with [PAD] after a sentence's end, and mask, int32 [batch, seq_len], of ids from `features`."""
    mask = tf.cast(ids >= 0, tf.int32)
    return tf.where(ids >= 0, ids, self._pad_id), mask
