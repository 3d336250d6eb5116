"""The order in which a fit sees the pairs, as a tf.data pipeline."""

import numpy as np
import tensorflow as tf

# The published code's shuffle buffer.
SHUFFLE_BUFFER = 1000
# TensorFlow's where a program sets none (tensorflow.python.framework.random_seed); the pairs' order depends on it.
DEFAULT_GLOBAL_SEED = 87654321


def pair_order(num_pairs, seed, shuffle=True):
  """Endless positions of pairs, a scalar int64 an element; the same for the same seed.

  As the published code: shuffled once, repeated, then through a shuffle buffer of 1000. The shuffle matters:
  consecutive rows of the STS files are alike, and a flow fitted on them in order is much worse.

  Args:
    num_pairs: pairs to choose from.
    seed: integer.
    shuffle: False for the order of the file, again and again.
  """
  positions = np.arange(num_pairs, dtype=np.int64)
  if not shuffle:
    return tf.data.Dataset.from_tensor_slices(positions).repeat()
  positions = np.random.default_rng(seed).permutation(positions)
  order = tf.data.Dataset.from_tensor_slices(positions).repeat()
  # TensorFlow would shuffle anew for a second iterator: the fit's, after the one that initialised the flow.
  return order.shuffle(SHUFFLE_BUFFER, seed=seed, reshuffle_each_iteration=False)


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
