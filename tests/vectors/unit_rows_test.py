"""Rows of length 1 of several arrays, against one array in NumPy."""

import numpy as np
import pytest

from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.vectors import unit_rows
from bert_flow_tf.vectors.unit_rows import (
  UnitRows,
  checked_unit_rows,
  cosines_of,
  cosines_of_pairs,
  error_of,
  exact_cosines,
  exact_cosines_of_pairs,
  nearest,
)
from tests.testing import rejected
from tests.vectors.toy_rows import CHUNKS, ROUNDING, all_cosines, embeddings, repeated


@pytest.fixture
def parts():
  """Returns an array, and `UnitRows` of three parts of it, one of them empty."""
  array = embeddings(40)
  return array, UnitRows([array[:7], array[7:7]], 5) + UnitRows([array[7:]], 5)


def test_rows_are_those_of_one_array(parts):
  array, rows = parts
  lengths = np.linalg.norm(array, axis=1, keepdims=True)
  expected = np.divide(array, lengths, out=np.zeros_like(array), where=lengths > 0)  # the last row is of zeros
  order = np.random.default_rng(0).permutation(40)
  assert len(rows) == 40
  np.testing.assert_allclose(rows.take(order), expected[order], atol=ROUNDING)
  np.testing.assert_allclose(checked_unit_rows(array), expected, atol=ROUNDING)
  for size in (1, 6, 100):
    starts, blocks = zip(*rows.blocks(size), strict=True)
    np.testing.assert_allclose(np.concatenate(blocks), expected, atol=ROUNDING)
    assert list(starts) == np.cumsum([0, *map(len, blocks)])[:-1].tolist() and max(map(len, blocks)) <= size
  selected = rows.select(order[:9])
  assert len(selected) == 9
  np.testing.assert_allclose(selected.take(np.array([3, 0])), expected[order[[3, 0]]], atol=ROUNDING)


@pytest.mark.parametrize("chunk", [chunk for _, chunk in CHUNKS])
def test_the_nearest_rows(parts, chunk):
  array, rows = parts
  queries = checked_unit_rows(embeddings(12, seed=1))
  cosines = all_cosines(queries, array)
  scores, found = nearest(queries, rows, 6, chunk)
  np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1)[:, :6], atol=ROUNDING)
  np.testing.assert_allclose(scores, np.take_along_axis(cosines, found, axis=1), atol=ROUNDING)


def test_parts_and_chunks_change_nothing():
  queries, corpus, order = repeated(90)
  queries = checked_unit_rows(queries)
  whole = nearest(queries, UnitRows([corpus], 384), 90)
  np.testing.assert_array_equal(whole.rows, order)
  parts = UnitRows([corpus[:7], corpus[7:8], corpus[8:]], 384)
  for k, chunk in ((1, 5), (20, 16), (50, 1)):
    scores, rows = nearest(queries, parts, k, chunk)
    np.testing.assert_array_equal(rows, whole.rows[:, :k])
    np.testing.assert_array_equal(scores, whole.scores[:, :k])
  shuffled = np.random.default_rng(1).permutation(90)
  scores, rows = nearest(queries, UnitRows([corpus], 384).select(shuffled), 90)
  np.testing.assert_array_equal(scores, whole.scores)


def _copies(rng, rows):
  return rows[rng.integers(len(rows) // 20, size=len(rows))]


def _cone(_, rows):
  return rows * np.float32(0.001) + 1


def _nearly_equal(_, rows):
  return rows[:1] + rows * np.float32(2e-4)


def _half_zeros(rng, rows):
  return rows * (rng.random([len(rows), 1]) < 0.5).astype(np.float32)


@pytest.mark.parametrize("kind", [_copies, _cone, _nearly_equal, _half_zeros])
@pytest.mark.parametrize("dim", [2, 64])
def test_nearest_rows_are_in_the_order_of_exact_cosines(monkeypatch, kind, dim):
  rng = np.random.default_rng(0)
  corpus = checked_unit_rows(kind(rng, rng.normal(size=[600, dim]).astype(np.float32)))
  queries = checked_unit_rows(kind(rng, rng.normal(size=[40, dim]).astype(np.float32)))
  queries[::4], queries[1] = corpus[:40:4], 0
  cosines = exact_cosines(queries, corpus)
  order = np.lexsort([np.broadcast_to(np.arange(600), cosines.shape), -cosines], axis=1)
  parts = UnitRows([corpus[:450], corpus[450:453], corpus[453:]], dim, is_unit=True)
  for more in (1, 256):  # many queries with more near rows than are kept, or few
    monkeypatch.setattr(unit_rows, "_MORE", more)
    for k in (1, 2, 30, 74, 300, 599, 600):
      for chunk in (40, 16384):
        scores, rows = nearest(queries, parts, k, chunk)
        np.testing.assert_array_equal(rows, order[:, :k])
        np.testing.assert_array_equal(scores, np.take_along_axis(cosines, rows, axis=1))


@pytest.mark.parametrize("dim", [3, 384, 1000])
def test_an_exact_cosine_depends_on_its_two_rows_alone(dim):
  rows = checked_unit_rows(np.random.default_rng(0).normal(size=[70, dim]))
  cosines = exact_cosines(rows, rows)
  np.testing.assert_allclose(cosines, np.float64(rows) @ np.float64(rows).T, atol=ROUNDING)
  assert np.abs(cosines - cosines_of(rows, rows)).max() <= error_of(dim)
  np.testing.assert_array_equal(cosines, cosines.T)
  np.testing.assert_array_equal(exact_cosines(rows[3:4], rows[5:19]), cosines[3:4, 5:19])
  np.testing.assert_array_equal(exact_cosines_of_pairs(rows[:50], rows[20:]), np.diag(cosines, 20))


def test_equal_rows_have_the_cosine_1():
  rows = checked_unit_rows(np.random.default_rng(0).normal(size=[200, 21]))
  assert (np.diag(cosines_of(rows, rows)) == 1).all() and (cosines_of_pairs(rows, rows) == 1).all()


def test_a_wrong_array_is_named():
  with rejected(CalibrationError, "queries"):
    checked_unit_rows(np.ones([2, 3]), "queries", dim=4)
