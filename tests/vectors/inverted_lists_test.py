"""The index of FAISS against all cosines, computed here."""

import numpy as np
import pytest

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.vectors import inverted_lists, near_duplicates
from bert_flow_tf.vectors.inverted_lists import AUTO, EXACT, IVF, InvertedLists, takes_lists
from bert_flow_tf.vectors.unit_rows import UnitRows, nearest
from tests.testing import rejected
from tests.vectors.toy_folder import needs_faiss
from tests.vectors.toy_rows import ROUNDING, repeated


def clustered(n, dim, noise, seed=0):
  """Rows in clusters of four, in random order, some with a factor."""
  rng = np.random.default_rng(seed)
  rows = np.repeat(rng.normal(size=[n // 4, dim]), 4, axis=0) + noise * rng.normal(size=[n, dim])
  return (rng.permutation(rows) * rng.uniform(0.5, 2, size=[n, 1])).astype(np.float32)


def all_cosines(a, b):
  """All cosines [m, n], by float64; 0 for a row of zeros."""
  units = [rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30) for rows in map(np.float64, (a, b))]
  return units[0] @ units[1].T


@needs_faiss
@pytest.mark.parametrize("dim", [16, 21])
def test_near_duplicates_of_the_index_are_true_and_nearly_all(dim):
  rows = clustered(2000, dim, 0.12)
  rows[7] = rows[1999] = 0
  threshold = 0.97
  kept = near_duplicates(rows, threshold, index=IVF)
  cosines = all_cosines(rows, rows)
  numbers = np.arange(len(rows))
  dropped = np.flatnonzero(kept != numbers)
  assert 500 < len(dropped) < 1900 and not np.isin([7, 1999], dropped).any()
  # A dropped row has a kept row before it that is so similar.
  originals = kept[dropped]
  assert (originals < dropped).all() and (kept[originals] == originals).all()
  assert (cosines[dropped, originals] >= threshold - ROUNDING).all()
  # Nearly all rows that have such a kept row are dropped.
  of_kept = np.triu(cosines, 1)[kept == numbers] >= threshold
  assert len(dropped) >= 0.99 * np.count_nonzero(of_kept.any(axis=0))


@needs_faiss
def test_equal_texts_are_found_before_the_index():
  rows = np.random.default_rng(0).normal(size=[60, 8])
  texts = [f"text {row % 50}" for row in range(60)]
  rows[55] = -rows[5]  # as if another batch had given another embedding
  kept = near_duplicates(rows, 1, texts=texts, index=IVF)
  assert kept.tolist() == [row % 50 for row in range(60)]
  assert near_duplicates(rows, 1, texts=texts).tolist() == kept.tolist()


@needs_faiss
@pytest.mark.parametrize("top_k", [1, 10, 300, 5000])
def test_search_has_exact_cosines(top_k):
  array = clustered(1200, 12, 0.5)
  rows = UnitRows([array[:500], array[500:]], 12)
  lists = InvertedLists.train(rows)
  lists.add_all(rows)
  lists.tune(rows)
  queries = clustered(300, 12, 0.5, seed=1)
  scores, found = lists.search(UnitRows([queries], 12).take(np.arange(300)), rows, top_k)
  cosines = all_cosines(queries, array)
  np.testing.assert_allclose(scores, np.take_along_axis(cosines, found, axis=1), atol=ROUNDING)
  assert all(len(set(row)) == min(top_k, 1200) for row in found.tolist()) and (np.diff(scores, axis=1) <= 0).all()
  lowest = -np.sort(-cosines, axis=1)[:, : found.shape[1]][:, -1:]
  assert np.mean(scores >= lowest - ROUNDING) > 0.97 and lists.recall > 0.98
  assert lists.search(np.zeros([0, 12], np.float32), rows, 3).scores.shape == (0, 3)


@needs_faiss
def test_the_recall_of_rows_that_repeat_is_that_of_new_queries():
  """The nearest rows of a row are its copies, in its own list: they say nothing of a query."""
  rng = np.random.default_rng(0)
  centers = rng.normal(size=[40, 64])
  distinct, queries = (centers[rng.integers(40, size=n)] + rng.normal(size=[n, 64]) for n in (400, 300))
  array = np.repeat(distinct, 30, axis=0)[rng.permutation(12000)].astype(np.float32)
  rows = UnitRows([array], 64)
  lists = InvertedLists.train(rows)
  lists.add_all(rows)
  lists.tune(rows)
  found = lists.search(UnitRows([queries], 64).take(np.arange(300)), rows, 1).scores
  nearest_scores = all_cosines(queries, distinct).max(axis=1, keepdims=True)
  assert np.mean(found >= nearest_scores - ROUNDING) >= lists.recall - 0.02 > 0.95


@needs_faiss
def test_a_recall_is_measured(monkeypatch):
  rows = UnitRows([np.random.default_rng(0).normal(size=[3000, 24]).astype(np.float32)], 24)
  lists = InvertedLists.train(rows)
  lists.add_all(rows)
  monkeypatch.setattr(inverted_lists, "_RECALL", 0.3)  # as if few lists were enough
  lists.tune(rows)
  assert lists.recall < 0.8


def test_auto_is_exact_up_to_a_minute(monkeypatch, caplog):
  monkeypatch.setattr(inverted_lists, "has_faiss", lambda: False)
  minute = inverted_lists._PRODUCTS_PER_MINUTE
  assert not takes_lists(AUTO, minute) and not takes_lists(EXACT, 9 * minute) and not caplog.messages
  with caplog.at_level("INFO", logger="absl"):
    assert not takes_lists(AUTO, 9 * minute)
  assert "about 9 minutes" in caplog.text and "pip install 'bert-flow-tf[search]'" in caplog.text
  monkeypatch.setattr(inverted_lists, "has_faiss", lambda: True)
  assert takes_lists(AUTO, 9 * minute)
  with rejected(ConfigError, "index"):
    near_duplicates(np.ones([2, 3]), index="hnsw")


def test_without_faiss_the_error_names_the_extra(monkeypatch):
  monkeypatch.setitem(__import__("sys").modules, "faiss", None)
  with rejected(ConfigError, "index", match=r"bert-flow-tf\[search\]"):
    near_duplicates(np.ones([2, 3]), index=IVF)


@needs_faiss
def test_candidates_are_as_many_as_dense_rows_need():
  """Among rows that are all similar, codes of 2 bits order hundreds before a near-duplicate."""
  rng = np.random.default_rng(0)
  center = np.full(64, 1 / 8)
  rows = (center + 0.35 * rng.normal(size=[3000, 64]) / 8).astype(np.float32)
  threshold = 0.93
  kept = np.flatnonzero(near_duplicates(rows, threshold, index=IVF) == np.arange(len(rows)))
  close = np.triu(all_cosines(rows[kept], rows[kept]) >= threshold + ROUNDING, 1)
  missed = np.count_nonzero(close.any(axis=0))
  assert missed <= 0.005 * (missed + len(rows) - len(kept))


@needs_faiss
def test_recall_is_that_of_new_queries():
  array = np.random.default_rng(0).normal(size=[6000, 16]).astype(np.float32)
  rows = UnitRows([array[:4000]], 16)
  seen = []
  lists = InvertedLists.train(rows)
  lists.add_all(rows)
  lists.search, search = lambda queries, *others: seen.append(queries) or search(queries, *others), lists.search
  lists.tune(rows)
  # No row that decided the centroids is counted.
  assert len(seen[0]) > 300 and inverted_lists._are_held_out(seen[0]).all()
  queries = UnitRows([array[4000:]], 16).take(np.arange(2000))
  cosines = all_cosines(queries, array[:4000])
  lowest = -np.sort(-cosines, axis=1)[:, 9:10]
  found = search(queries, rows, 10).scores >= lowest - ROUNDING
  # Three standard errors of some 500 and of 2,000 queries.
  assert abs(np.mean(found) - lists.recall) < 0.01


@needs_faiss
@pytest.mark.parametrize("copies", [[700], [60, 300, 40]])
def test_of_equal_rows_the_first_are_found(copies):
  rng = np.random.default_rng(0)
  array = rng.normal(size=[2000, 24]).astype(np.float32)
  positions = rng.permutation(2000)
  equal, start = [], 0
  for count in copies:
    equal.append(np.sort(positions[start : start + count]))
    array[equal[-1]] = array[equal[-1][0]]
    start += count
  rows = UnitRows([array[:500], array[500:]], 24)
  lists = InvertedLists.train(rows)
  lists.add_all(rows)
  lists.tune(rows)
  queries = rows.take(np.array([same[0] for same in equal]))
  queries = np.concatenate([queries, rows.take(np.arange(300))])
  for top_k in (1, 2, 10, 35, 90):
    found = lists.search(queries, rows, top_k)
    for query, same in enumerate(equal):
      np.testing.assert_array_equal(found.rows[query, : len(same)], same[:top_k])
    # Also where they are not the first hits, and with the scores of all cosines.
    scores = nearest(queries, rows, 2000)
    for query, of_query in enumerate(found.rows):
      for same in equal:
        hits = of_query[np.isin(of_query, same)]
        np.testing.assert_array_equal(hits, same[: len(hits)])
      places = np.argsort(scores.rows[query])[of_query]
      np.testing.assert_array_equal(scores.scores[query, places], found.scores[query])


@needs_faiss
def test_of_a_few_sentences_that_repeat_the_first_are_found():
  queries, array, order = repeated(2000, 24)
  rows = UnitRows([array], 24)
  lists = InvertedLists.train(rows)
  lists.add_all(rows)
  lists.tune(rows)
  for top_k in (1, 20, 400, 2000):
    found = lists.search(UnitRows([queries], 24).take(np.arange(12)), rows, top_k)
    np.testing.assert_array_equal(found.rows, order[:, :top_k])


@needs_faiss
def test_to_queries_of_zeros_the_first_rows_are_nearest():
  """Their lists are no nearer than others, and may hold too few rows."""
  rows = UnitRows([clustered(3000, 64, 0.5)], 64)
  lists = InvertedLists.train(rows)
  lists.add_all(rows)
  queries = rows.take(np.array([5, 700, 2000]))
  queries[1] = 0
  for top_k in (1, 3, 40, 3000):
    found = lists.search(queries, rows, top_k)
    assert found.rows[1].tolist() == list(range(top_k)) and not found.scores[1].any()
    assert found.rows[[0, 2], 0].tolist() == [5, 2000]


def test_no_rows_are_equal_by_chance():
  """Counts no row as a copy of another that it is not: where rows are copies, the index is made twice."""
  array = np.random.default_rng(0).normal(size=[200_000, 4]).astype(np.float32)
  array[-1] = array[7]
  assert len(inverted_lists._first_of_equal(np.split(array, 4))) == 199_999


@needs_faiss
@pytest.mark.parametrize(("copies", "times"), [(30, 1), (300, 2)])
def test_a_few_copies_do_not_make_the_lists_twice(monkeypatch, copies, times):
  array = clustered(2000, 16, 0.5)
  array[-copies:] = array[:copies]
  rows = UnitRows([array], 16)
  made = []
  add_all = InvertedLists.add_all
  monkeypatch.setattr(InvertedLists, "add_all", lambda lists, *others: made.append(lists) or add_all(lists, *others))
  lists = InvertedLists.train(rows)
  lists.add_all(rows)
  lists.tune(rows)
  assert len(made) == times and lists.recall > 0.95
