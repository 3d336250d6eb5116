"""data/pipeline.py: the order of the pairs."""

import itertools

import numpy as np
import pytest

from bert_flow_tf.data.pipeline import SHUFFLE_BUFFER, batched, pair_order


def positions(order, count):
  return np.array([int(position) for position in order.take(count)])


def batches(dataset, count):
  return [batch.numpy().tolist() for batch in dataset.take(count)]


def test_without_shuffling_the_file_again_and_again():
  np.testing.assert_array_equal(positions(pair_order(5, 0, shuffle=False), 12), [*range(5), *range(5), 0, 1])
  assert batches(batched(pair_order(5, 0, shuffle=False), 2), 4) == [[0, 1], [2, 3], [4, 0], [1, 2]]


def test_same_seed_same_order_other_seed_another():
  first = positions(pair_order(50, 3), 200)
  np.testing.assert_array_equal(positions(pair_order(50, 3), 200), first)
  assert (positions(pair_order(50, 4), 200) != first).any()


def test_every_iterator_sees_the_same_order():
  """The one that initialises the flow and the one that fits it, and the one that resumes."""
  order = pair_order(50, 3)
  first = positions(order, 200)
  np.testing.assert_array_equal(positions(order, 200), first)


@pytest.mark.parametrize("start_step", [1, 7, 30])
def test_order_does_not_depend_on_where_it_is_taken_up(start_step):
  order = pair_order(50, 3)
  whole = batches(batched(order, 4), 40)
  assert batches(batched(pair_order(50, 3), 4, start_step), 40 - start_step) == whole[start_step:]
  assert batches(batched(order, 4, start_step), 40 - start_step) == whole[start_step:]


def test_shuffled_once_then_a_buffer_of_1000():
  """Of 3000 pairs the first passes are a mix of the shuffled file's first part, not of all of it."""
  pairs, seed = 3000, 5
  assert SHUFFLE_BUFFER == 1000
  place = np.argsort(np.random.default_rng(seed).permutation(pairs))  # in the file shuffled once
  seen = place[positions(pair_order(pairs, seed), pairs - SHUFFLE_BUFFER)]
  # What leaves as number k was among the first k + 1000 that came in, and mostly not in its own place.
  assert (seen < np.arange(len(seen)) + SHUFFLE_BUFFER).all()
  assert (seen[:100] > 200).any() and (seen[:100] != np.arange(100)).mean() > 0.9
  # The shuffle before the buffer: neighbours of the file are far apart, which a buffer alone would not do.
  assert positions(pair_order(pairs, seed), 100).max() > 2000


def test_every_pair_equally_often():
  counts = np.bincount(positions(pair_order(40, 1), 40 * 200), minlength=40)
  # The buffer of 1000 holds 25 passes: no pair can be ahead or behind by more.
  assert counts.min() > 170 and counts.max() < 230


def test_shards_are_equal_parts_of_each_step():
  order = pair_order(50, 3)
  whole = batches(batched(order, 6, start_step=2), 5)
  parts = [batches(batched(order, 6, start_step=2, num_shards=3, shard=shard), 5) for shard in range(3)]
  joined = [list(itertools.chain(*step)) for step in zip(*parts, strict=True)]
  assert joined == whole
