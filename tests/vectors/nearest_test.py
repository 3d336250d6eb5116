"""Nearest neighbors against a comparison of all pairs."""

import tracemalloc

import numpy as np
import pytest

import bert_flow_tf
from bert_flow_tf.errors import CalibrationError, ConfigError, DataError
from bert_flow_tf.vectors import search, search_embeddings
from tests.testing import rejected
from tests.vectors.toy_rows import CHUNKS, MODEL, ROUNDING, all_cosines, embeddings


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("top_k", [1, 4, 500])
def test_search_is_a_comparison_of_all_pairs(chunks, top_k):
  queries, corpus = embeddings(20, seed=1), embeddings(60)
  cosines = all_cosines(queries, corpus)
  scores, rows = search(queries, corpus, top_k=top_k, query_chunk_size=chunks[0], corpus_chunk_size=chunks[1])
  np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1)[:, :top_k], atol=ROUNDING)
  np.testing.assert_allclose(scores, np.take_along_axis(cosines, rows, axis=1), atol=ROUNDING)
  assert all(len(set(of_query)) == min(top_k, 60) for of_query in rows.tolist())


def repeated(rng, rows, distinct, dim):
  """Returns rows that repeat, one of them zeros: other rows have other cosines."""
  vectors = rng.normal(size=[distinct, dim]).astype(np.float32)
  vectors[0] = 0
  return vectors[rng.integers(0, distinct, rows)]


@pytest.mark.parametrize(("dim", "rows", "distinct"), [(1, 40, 5), (7, 300, 12), (96, 500, 40), (384, 700, 3)])
def test_a_list_is_the_beginning_of_one_order(dim, rows, distinct):
  """Whatever top_k, the sizes of blocks, and the queries beside a query: by cosine, then by row."""
  rng = np.random.default_rng(dim)
  corpus = repeated(rng, rows, distinct, dim)
  queries = np.concatenate([corpus[:3], rng.normal(size=[5, dim])]).astype(np.float32)
  cosines = np.round(all_cosines(np.float64(queries), np.float64(corpus)), 12)
  order = np.lexsort([np.broadcast_to(np.arange(rows), cosines.shape), -cosines], axis=1)
  whole = search_embeddings(queries, corpus, rows)
  np.testing.assert_array_equal(whole.rows, order)
  assert (np.diff(whole.scores, axis=1) <= 0).all()
  for top_k in (1, 2, 3, 10, rows // 2, rows - 1):
    for chunks in ((1024, 16384), (1, 64), (3, 17), (8, 1)):
      if chunks[1] == 1 and rows > 300:
        continue
      found = search_embeddings(queries, corpus, top_k, *chunks)
      np.testing.assert_array_equal(found.rows, order[:, :top_k])
      np.testing.assert_array_equal(found.scores, whole.scores[:, :top_k])


def test_queries_and_corpus_as_lists():
  queries, corpus = embeddings(5, seed=1), embeddings(60)
  expected = search_embeddings(queries, corpus, 3)
  for form in (np.ndarray.tolist, list, np.ma.masked_array):
    found = search_embeddings(form(queries), form(corpus), 3)
    np.testing.assert_array_equal(found.rows, expected.rows)
  masked = np.ma.masked_where(queries == queries[0, 0], queries)
  for wrong in (masked, list(masked), [[1.0, 2.0], [3.0]]):
    with rejected(CalibrationError, "query_embeddings"):
      search_embeddings(wrong, corpus)
    with rejected(CalibrationError, "corpus_embeddings"):
      search_embeddings(queries, wrong)


def test_no_array_of_all_pairs():
  rows = np.random.default_rng(0).normal(size=[5000, 16]).astype(np.float32)
  tracemalloc.start()
  search_embeddings(rows[:1000], rows, 5, 256, 1024)
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  assert peak < 5000 * 5000 / 2


def test_empty_and_single():
  nothing, one = np.zeros([0, 3], np.float32), np.ones([1, 3], np.float32)
  assert search(one, nothing).rows.shape == (1, 0) and search(nothing, one).scores.shape == (0, 1)
  assert search([1.0, 2.0, 3.0], one).rows.tolist() == [[0]]


@pytest.mark.parametrize(
  ("call", "error", "argument"),
  [
    (lambda: search(np.ones([2, 3]), np.ones([4, 5])), CalibrationError, "query_embeddings"),
    (lambda: search(np.ones([2, 3]), ["a"]), CalibrationError, "corpus_embeddings"),
    (lambda: search(np.full([2, 3], np.nan), np.ones([4, 3])), CalibrationError, "query_embeddings"),
    (lambda: search(np.ones([2, 3]), np.ones([4, 3]), top_k=0), ConfigError, "top_k"),
    (lambda: search(np.ones([2, 3]), np.ones([4, 3]), top_k=1.5), ConfigError, "top_k"),
    (lambda: search(np.ones([2, 3]), np.ones([4, 3]), 5), ConfigError, "model"),
    (lambda: search(MODEL(), ["a"]), ConfigError, "texts"),
    (lambda: search(MODEL(), ["a"], "b"), DataError, "texts"),
    (lambda: search(MODEL(), [1], ["b"]), DataError, "queries"),
    (lambda: search(MODEL(), ["a", " "], ["b"]), DataError, "queries"),
    (lambda: search(MODEL(), "", ["b"]), DataError, "queries"),
  ],
)
def test_errors_name_the_argument(call, error, argument):
  with rejected(error, argument):
    call()


def test_blank_texts_are_not_found():
  texts = ["", "A cat sleeps.", " \n", "A dog runs.", "\u2003"]
  for chunks in ({}, {"query_chunk_size": 1, "corpus_chunk_size": 1}):
    found = search(MODEL(), ["A dog runs.", "A cat sleeps."], texts, top_k=4, **chunks)
    assert found.rows.tolist() == [[3, 1], [1, 3]]
  assert search(MODEL(), "A dog.", [""]).rows.shape == (1, 0)


def test_with_a_model():
  sentences = ["A man is eating.", "Dogs run in the park.", "A man is eating.", "The dogs run."]
  scores, rows = bert_flow_tf.search(MODEL(), "A man is eating.", sentences, top_k=3)
  assert rows[0, :2].tolist() == [0, 2] and scores.shape == (1, 3)
  nearest = [sentences[row] for row in rows[0]]
  np.testing.assert_allclose(scores[0], MODEL().similarity(["A man is eating."] * 3, nearest), atol=ROUNDING)
  # Two queries, and embeddings in place of texts.
  texts = bert_flow_tf.search(MODEL(), sentences[:2], sentences)
  vectors = bert_flow_tf.search(MODEL().encode(sentences[:2]), MODEL().encode(sentences))
  np.testing.assert_array_equal(texts.rows, vectors.rows)
  np.testing.assert_array_equal(texts.scores, vectors.scores)
