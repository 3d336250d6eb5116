"""data/pipeline.py: the order of the pairs."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.data.pipeline import batched, pair_order


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


def test_every_pass_has_every_pair_once_in_an_order_of_its_own():
  passes = positions(pair_order(300, 5), 3 * 300).reshape(3, 300)
  for number, one in enumerate(passes):
    np.testing.assert_array_equal(np.sort(one), np.arange(300))
    # Neighbours of the file are far apart, and a pair's place in one pass says nothing of its place in the next.
    assert np.abs(np.diff(one)).mean() > 70
    for other in (np.arange(300), *passes[:number]):
      assert abs(np.corrcoef(np.argsort(one), np.argsort(other))[0, 1]) < 0.2


def test_the_programs_own_seed_changes_nothing():
  found = []
  for seed in (1, 2):
    tf.random.set_seed(seed)
    found.append(positions(pair_order(50, 3), 100))
  np.testing.assert_array_equal(*found)


def test_shards_are_equal_parts_of_each_step():
  order = pair_order(50, 3)
  whole = batches(batched(order, 6, start_step=2), 5)
  parts = [batches(batched(order, 6, start_step=2, num_shards=3, shard=shard), 5) for shard in range(3)]
  joined = [list(itertools.chain(*step)) for step in zip(*parts, strict=True)]
  assert joined == whole
