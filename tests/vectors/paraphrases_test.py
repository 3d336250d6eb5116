"""The most similar pairs against a comparison of all pairs."""

import tracemalloc

import numpy as np
import pytest

from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.vectors import paraphrase_mining, paraphrase_mining_embeddings, paraphrases
from bert_flow_tf.vectors.unit_rows import cosines_of
from tests.testing import rejected
from tests.vectors.toy_rows import CHUNKS, MODEL, ROUNDING, all_cosines, embeddings, repeated


def all_pairs(cosines):
  """All pairs (cosine, i, j), i < j, in the order of `paraphrase_mining`."""
  n = len(cosines)
  pairs = [(cosines[i, j], i, j) for i in range(n) for j in range(i + 1, n)]
  return sorted(pairs, key=lambda pair: (-pair[0], pair[1:]))


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


@pytest.mark.parametrize("chunks", CHUNKS)
def test_every_list_is_the_beginning_of_one_order(chunks):
  _, rows, _ = repeated(50)
  pairs = paraphrase_mining_embeddings(rows)
  expected = all_pairs(all_cosines(*[rows.astype(np.float64)] * 2).round(6))
  assert [pair[1:] for pair in pairs] == [pair[1:] for pair in expected]
  for max_pairs in (1, 30, 700):
    assert paraphrase_mining_embeddings(rows, None, max_pairs, *chunks) == pairs[:max_pairs]
  lowest = pairs[600][0]
  assert paraphrase_mining_embeddings(rows, lowest, 10**6, *chunks) == [pair for pair in pairs if pair[0] >= lowest]


@pytest.mark.parametrize("chunks", [(16, 16384), (70, 33), (1024, 16384)])
def test_of_many_equal_pairs_the_first_are_found(monkeypatch, chunks):
  distinct = np.random.default_rng(0).normal(size=[3, 384]).astype(np.float32)
  number = np.random.default_rng(1).integers(3, size=140)
  expected = all_pairs(all_cosines(distinct, distinct).round(6)[number][:, number])
  for share in (1, 10**6):  # exact cosines of pairs, or of all
    monkeypatch.setattr(paraphrases, "_SHARE", share)
    for max_pairs in (1, 500, 3000, 3300, 9000):
      mined = paraphrase_mining_embeddings(distinct[number], None, max_pairs, *chunks)
      assert [pair[1:] for pair in mined] == [pair[1:] for pair in expected[:max_pairs]]


def test_no_rows_are_compared_after_as_many_equal_ones(monkeypatch):
  compared = []
  monkeypatch.setattr(paraphrases, "cosines_of", lambda a, b: compared.append(len(a)) or cosines_of(a, b))
  assert len(paraphrase_mining_embeddings(np.ones([50, 3]), max_pairs=400, query_chunk_size=5)) == 400
  assert sum(compared) == 10


def test_no_array_of_all_pairs():
  rows = np.random.default_rng(0).normal(size=[5000, 16]).astype(np.float32)
  tracemalloc.start()
  paraphrase_mining_embeddings(rows, threshold=0.95, max_pairs=1000, query_chunk_size=256, corpus_chunk_size=1024)
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  assert peak < 5000 * 5000 / 2


def test_empty_and_single():
  nothing, one = np.zeros([0, 3], np.float32), np.ones([1, 3], np.float32)
  assert paraphrase_mining_embeddings(nothing) == paraphrase_mining_embeddings(one) == []
  assert paraphrase_mining(MODEL(), ["", " "]) == []


def test_blank_texts_make_no_pair():
  texts = ["", "A cat sleeps.", " \n", "A dog runs.", "\u2003"]
  for chunks in ({}, {"query_chunk_size": 1, "corpus_chunk_size": 1}):
    assert [pair[1:] for pair in paraphrase_mining(MODEL(), texts, **chunks)] == [(1, 3)]


def test_with_a_model():
  sentences = ["A man is eating.", "Dogs run in the park.", "A man is eating.", "The dogs run."]
  pairs = paraphrase_mining(MODEL(), sentences)
  assert pairs[0] == (1.0, 0, 2) and len(pairs) == 6


@pytest.mark.parametrize(
  ("call", "error", "argument"),
  [
    (lambda: paraphrase_mining_embeddings(np.ones([2, 3]), max_pairs=0), ConfigError, "max_pairs"),
    (lambda: paraphrase_mining_embeddings(np.ones([2, 3]), threshold=2), ConfigError, "threshold"),
    (lambda: paraphrase_mining_embeddings(np.ones([2, 3]), threshold="0.5"), ConfigError, "threshold"),
    (lambda: paraphrase_mining(None, "one text"), DataError, "sentences"),
    (lambda: paraphrase_mining("mini", ["a", "b"]), ConfigError, "model"),
  ],
)
def test_errors_name_the_argument(call, error, argument):
  with rejected(error, argument):
    call()
