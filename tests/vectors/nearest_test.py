"""Nearest neighbors and near-duplicates against a comparison of all pairs, and against scikit-learn."""

import functools
import tracemalloc

import numpy as np
import pytest

import bert_flow_tf
from bert_flow_tf.errors import CalibrationError, ConfigError, DataError
from bert_flow_tf.evaluation.metrics import cosine_similarity
from bert_flow_tf.vectors import (
  duplicates,
  near_duplicates,
  paraphrase_mining,
  paraphrase_mining_embeddings,
  search,
  search_embeddings,
)
from tests.testing import rejected

CHUNKS = [(1, 1), (3, 7), (7, 3), (1024, 16384)]
MODEL = functools.cache(lambda: bert_flow_tf.SentenceModel.from_pretrained("static:mini"))
# float32 rounds each of the products and sums of a cosine by up to 2^-24.
ROUNDING = 1e-6


def embeddings(n, dim=5, seed=0):
  """Rows without equal cosines, except for copies of a row; the last row is zeros."""
  rows = np.random.default_rng(seed).normal(size=[n, dim]).astype(np.float32)
  rows[5::9] = rows[2] * 3
  rows[-1] = 0
  return rows


def all_cosines(a, b):
  """All cosines [m, n], each pair by itself, as `SentenceModel.similarity` has them."""
  left, right = np.repeat(a, len(b), axis=0), np.tile(b, [len(a), 1])
  return np.nan_to_num(cosine_similarity(left, right)).reshape(len(a), len(b))


def all_pairs(cosines):
  """All pairs (cosine, i, j), i < j, in the order of `paraphrase_mining`."""
  n = len(cosines)
  pairs = [(cosines[i, j], i, j) for i in range(n) for j in range(i + 1, n)]
  return sorted(pairs, key=lambda pair: (-pair[0], pair[1:]))


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
@pytest.mark.parametrize(
  ("threshold", "max_pairs"), [(None, 10**6), (0.9, 10**6), (None, 37), (0.5, 1), (1, 40), (-1, 5)]
)
def test_paraphrase_mining_is_a_comparison_of_all_pairs(chunks, threshold, max_pairs):
  rows = embeddings(45)
  expected = [pair for pair in all_pairs(all_cosines(rows, rows)) if threshold is None or pair[0] >= threshold]
  mined = paraphrase_mining_embeddings(rows, threshold, max_pairs, *chunks)
  np.testing.assert_allclose([pair[0] for pair in mined], [pair[0] for pair in expected[:max_pairs]], atol=ROUNDING)
  assert all(i < j for _, i, j in mined)
  assert {pair[1:] for pair in mined} <= {pair[1:] for pair in expected} and len(set(mined)) == len(mined)
  ones = [pair for pair in expected[:max_pairs] if pair[0] == 1]
  assert mined[: len(ones)] == ones


@pytest.mark.parametrize("chunks", [(1024, 4096), (7, 5)])
@pytest.mark.parametrize("threshold", [0.7, 1.0])
def test_near_duplicates_are_those_of_a_loop(monkeypatch, chunks, threshold):
  monkeypatch.setattr(duplicates, "_ROWS", chunks[0])
  monkeypatch.setattr(duplicates, "_COLUMNS", chunks[1])
  rows = embeddings(120, dim=4)
  cosines = all_cosines(rows, rows)
  expected, first_rows = [], []
  for row in range(len(rows)):
    close = [before for before in first_rows if cosines[row, before] >= threshold]
    expected.append(close[0] if close else row)
    if not close:
      first_rows.append(row)
  assert near_duplicates(rows, threshold).tolist() == expected
  assert 1 < len(first_rows) < len(rows)


def test_no_array_of_all_pairs(monkeypatch):
  monkeypatch.setattr(duplicates, "_ROWS", 256)
  monkeypatch.setattr(duplicates, "_COLUMNS", 1024)
  rows = np.random.default_rng(0).normal(size=[5000, 16]).astype(np.float32)
  tracemalloc.start()
  paraphrase_mining_embeddings(rows, threshold=0.95, query_chunk_size=256, corpus_chunk_size=1024)
  search_embeddings(rows[:1000], rows, 5, 256, 1024)
  near_duplicates(rows, 0.95)
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  assert peak < 5000 * 5000 / 2


def test_empty_and_single():
  nothing, one = np.zeros([0, 3], np.float32), np.ones([1, 3], np.float32)
  assert search(one, nothing).rows.shape == (1, 0) and search(nothing, one).scores.shape == (0, 1)
  assert search([1.0, 2.0, 3.0], one).rows.tolist() == [[0]]
  assert paraphrase_mining_embeddings(nothing) == paraphrase_mining_embeddings(one) == []
  assert near_duplicates(nothing).shape == (0,) and near_duplicates(one).tolist() == [0]


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
    (lambda: near_duplicates(np.ones([2, 3]), texts=["a"]), DataError, "texts"),
    (lambda: paraphrase_mining_embeddings(np.ones([2, 3]), max_pairs=0), ConfigError, "max_pairs"),
    (lambda: paraphrase_mining_embeddings(np.ones([2, 3]), threshold=2), ConfigError, "threshold"),
    (lambda: paraphrase_mining_embeddings(np.ones([2, 3]), threshold="0.5"), ConfigError, "threshold"),
    (lambda: near_duplicates(np.ones([2, 3]), float("nan")), ConfigError, "threshold"),
    (lambda: paraphrase_mining(None, "one text"), DataError, "sentences"),
  ],
)
def test_errors_name_the_argument(call, error, argument):
  with rejected(error, argument):
    call()


def test_blank_texts_and_zeros_are_like_nothing():
  texts = ["", "A cat sleeps.", " \n", "A dog runs.", "\u2003"]
  for chunks in ({}, {"query_chunk_size": 1, "corpus_chunk_size": 1}):
    assert [pair[1:] for pair in paraphrase_mining(MODEL(), texts, **chunks)] == [(1, 3)]
    found = search(MODEL(), ["A dog runs.", "A cat sleeps."], texts, top_k=4, **chunks)
    assert found.rows.tolist() == [[3, 1], [1, 3]]
  assert paraphrase_mining(MODEL(), ["", " "]) == [] and search(MODEL(), "A dog.", [""]).rows.shape == (1, 0)
  vectors = MODEL().encode(texts)
  assert near_duplicates(vectors, -1, texts=texts).tolist() == [0, 1, 2, 1, 4]
  assert near_duplicates(np.zeros([3, 2]), -1).tolist() == [0, 1, 2]
  assert near_duplicates(np.ones([3, 2]), texts=["a", "", "b"]).tolist() == [0, 1, 0]


def test_with_a_model():
  sentences = ["A man is eating.", "Dogs run in the park.", "A man is eating.", "The dogs run."]
  pairs = bert_flow_tf.paraphrase_mining(MODEL(), sentences)
  assert pairs[0] == (1.0, 0, 2) and len(pairs) == 6
  scores, rows = bert_flow_tf.search(MODEL(), "A man is eating.", sentences, top_k=3)
  assert rows[0, :2].tolist() == [0, 2] and scores.shape == (1, 3)
  nearest = [sentences[row] for row in rows[0]]
  np.testing.assert_allclose(scores[0], MODEL().similarity(["A man is eating."] * 3, nearest), atol=ROUNDING)
  # Two queries, and embeddings in place of texts.
  texts = bert_flow_tf.search(MODEL(), sentences[:2], sentences)
  vectors = bert_flow_tf.search(MODEL().encode(sentences[:2]), MODEL().encode(sentences))
  np.testing.assert_array_equal(texts.rows, vectors.rows)
  np.testing.assert_array_equal(texts.scores, vectors.scores)
