"""Nearest neighbors against a comparison of all pairs."""

import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

import bert_flow_tf
from bert_flow_tf.errors import CalibrationError, ConfigError, DataError
from bert_flow_tf.vectors import paraphrase_mining, search, search_embeddings
from tests.testing import rejected
from tests.vectors.toy_rows import CHUNKS, MODEL, ROUNDING, all_cosines, embeddings, repeated


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("top_k", [1, 4, 500])
def test_search_is_a_comparison_of_all_pairs(chunks, top_k):
  queries, corpus = embeddings(20, seed=1), embeddings(60)
  cosines = all_cosines(queries, corpus)
  scores, rows = search(queries, corpus, top_k=top_k, query_chunk_size=chunks[0], corpus_chunk_size=chunks[1])
  np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1)[:, :top_k], atol=ROUNDING)
  np.testing.assert_allclose(scores, np.take_along_axis(cosines, rows, axis=1), atol=ROUNDING)
  assert all(len(set(of_query)) == min(top_k, 60) for of_query in rows.tolist())


@pytest.mark.parametrize("chunks", CHUNKS)
def test_every_list_is_the_beginning_of_one_order(chunks):
  queries, corpus, order = repeated(150)
  scores, rows = search_embeddings(queries, corpus, 150)
  np.testing.assert_array_equal(rows, order)
  for top_k in (1, 2, 40, 149):
    for part in (slice(None), slice(1, 2)):
      found = search_embeddings(queries[part], corpus, top_k, *chunks)
      np.testing.assert_array_equal(found.rows, order[part, :top_k])
      np.testing.assert_array_equal(found.scores, scores[part, :top_k])


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


@pytest.mark.parametrize("distinct", [1, 5000])
def test_no_array_of_all_pairs(distinct):
  rows = np.random.default_rng(0).normal(size=[distinct, 16]).astype(np.float32).repeat(5000 // distinct, axis=0)
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
    (lambda: search("mini", ["a"], ["b"]), ConfigError, "model"),
    (lambda: search(None, ["a"], ["b"]), ConfigError, "model"),
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


@pytest.mark.parametrize("form", [np.asarray, list, np.ndarray.tolist, tf.constant, lambda rows: rows[0]])
def test_embeddings_in_place_of_texts(form):
  model, texts = MODEL(), ["A man is eating.", "A dog runs."]
  embeddings = form(model.encode(texts))
  with rejected(DataError, "texts", match=r"expected str, got embeddings; search\(model\.encode_query.*SentenceIndex"):
    search(model, texts, embeddings)
  with rejected(DataError, "queries", match="expected str, got embeddings"):
    search(model, embeddings, texts)
  with rejected(DataError, "sentences", match="paraphrase_mining_embeddings"):
    paraphrase_mining(model, embeddings)


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
