"""The order in which a fit sees the pairs, as a tf.data pipeline."""

import tensorflow as tf

# Part of what a fit is: one that was begun in another order is not gone on with.
ORDER = "every pair once a pass"


def pair_order(num_pairs, seed, shuffle=True):
  """Endless positions of pairs, a scalar int64 an element; the same for the same seed, whatever the program's own.

  Each pass has every pair once, in an order of its own. The shuffle matters: consecutive rows of the STS files are
  alike, and a flow fitted on them in order is much worse. The published code repeats the pairs before its shuffle
  buffer of 1000, so that in "one epoch" of a small task some pairs come twice and some not at all.

  Args:
    num_pairs: pairs to choose from.
    seed: integer.
    shuffle: False for the order of the file, again and again.
  """

  def one_pass(number):
    positions = tf.range(num_pairs, dtype=tf.int64)
    if shuffle:
      positions = tf.random.experimental.stateless_shuffle(positions, tf.stack([seed, number]))
    return tf.data.Dataset.from_tensor_slices(positions)

  return tf.data.Dataset.counter().flat_map(one_pass)


def batched(order, batch_size, start_step=0, num_shards=1, shard=0):
  """Batches of positions, int64 [batch_size / num_shards], from the step `start_step` on.

  Args:
    order: what `pair_order` gives.
    batch_size: pairs of a step over all shards.
    start_step: steps already made, whose pairs are passed over.
    num_shards: number of shards; every one gets its own equal part of each step's pairs.
    shard: this one's number, from 0.
  """
  parts = order.skip(start_step * batch_size).batch(batch_size // num_shards, drop_remainder=True)
  return parts.shard(num_shards, shard)
