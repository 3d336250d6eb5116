"""The order of the pairs in a fit, as a tf.data pipeline."""

import tensorflow as tf

# Part of a fit's identity: a fit that was started with another order is not resumed.
ORDER = "every pair once a pass"


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


def batched(order: tf.data.Dataset, batch_size: int, start_step: int = 0) -> tf.data.Dataset:
  """Returns batches of positions, int64 [batch_size], from a step on."""
  return order.skip(start_step * batch_size).batch(batch_size, drop_remainder=True)
