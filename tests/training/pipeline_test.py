"""training/pipeline.py: the order of the pairs."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.training.pipeline import batched, pair_order, published_order


def positions(order, count):
  return np.array([int(position) for position in order.take(count)])


def batches(dataset, count):
  return [batch.numpy().tolist() for batch in dataset.take(count)]


def test_without_shuffling_the_file_is_repeated():
  np.testing.assert_array_equal(positions(pair_order(5, 0, shuffle=False), 12), [*range(5), *range(5), 0, 1])
  assert batches(batched(pair_order(5, 0, shuffle=False), 2), 4) == [[0, 1], [2, 3], [4, 0], [1, 2]]


def test_the_seed_decides_the_order():
  order = pair_order(50, 3)
  first = positions(order, 200)
  # Initialization, fit and resumed fit each have their own iterator.
  for again in (order, pair_order(50, 3)):
    np.testing.assert_array_equal(positions(again, 200), first)
  assert (positions(pair_order(50, 4), 200) != first).any()


@pytest.mark.parametrize("start_step", [1, 7, 30])
def test_a_resumed_order_is_the_same(start_step):
  order = pair_order(50, 3)
  whole = batches(batched(order, 4), 40)
  assert batches(batched(pair_order(50, 3), 4, start_step), 40 - start_step) == whole[start_step:]
  assert batches(batched(order, 4, start_step), 40 - start_step) == whole[start_step:]


def test_each_pass_has_each_pair_once_in_its_own_order():
  passes = positions(pair_order(300, 5), 3 * 300).reshape(3, 300)
  for number, current in enumerate(passes):
    np.testing.assert_array_equal(np.sort(current), np.arange(300))
    # Neighbors in the file are far apart, and a pair's positions in two passes are not correlated.
    assert np.abs(np.diff(current)).mean() > 70
    for other in (np.arange(300), *passes[:number]):
      assert abs(np.corrcoef(np.argsort(current), np.argsort(other))[0, 1]) < 0.2


def test_the_global_seed_has_no_effect():
  orders = []
  for seed in (1, 2):
    tf.random.set_seed(seed)
    orders.append(positions(pair_order(50, 3), 100))
  np.testing.assert_array_equal(*orders)


@pytest.mark.parametrize(("copies", "expected"), [(2, 3106), (4, 1621), (10, 666)])
def test_published_order_of_copies(copies, expected):
  """Distinct pairs of STS-B's 5,749 that an epoch of 179 steps reads: the published code's order, simulated."""
  order = published_order(5749 * copies, 1234)
  rows = np.concatenate(list(batched(order, 32).take(179).as_numpy_iterator()))
  assert len({*(rows // copies)}) == pytest.approx(expected, rel=0.02)
  later = list(batched(order, 32, start_step=170).take(9).as_numpy_iterator())
  np.testing.assert_array_equal(np.concatenate(later), rows[170 * 32 :])


def test_published_order_has_every_row_once_a_pass():
  passes = np.reshape(list(published_order(7, 1).take(21).as_numpy_iterator()), [3, 7])
  np.testing.assert_array_equal(np.sort(passes), [range(7)] * 3)
  assert len({tuple(order) for order in passes}) == 3
