"""Nearest neighbors and near-duplicates against a comparison of all pairs, and against scikit-learn."""

import tracemalloc

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

import bert_flow_tf
from bert_flow_tf import neighbors
from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.evaluation.metrics import cosine_similarity
from bert_flow_tf.neighbors import near_duplicates, paraphrase_mining, paraphrase_mining_embeddings, search

CHUNKS = [(1, 1), (3, 7), (7, 3), (1024, 16384)]


def embeddings(n, dim=5, seed=0):
  """Rows of few values, so that many cosines tie; some equal, opposite, scaled, tiny, or zero."""
  rows = np.random.default_rng(seed).integers(-2, 3, [n, dim]).astype(np.float32)
  rows[::7] *= 3e37
  rows[1::7] *= 1e-40
  rows[5::9] = rows[2]
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
  order = np.argsort(-cosines, axis=1, kind="stable")[:, :top_k]
  scores, rows = search(queries, corpus, top_k, *chunks)
  np.testing.assert_array_equal(rows, order)
  np.testing.assert_array_equal(scores, np.take_along_axis(cosines, order, axis=1))


def test_search_is_scikit_learns():
  generator = np.random.default_rng(0)
  corpus = (generator.normal(size=[3000, 48]) + 4).astype(np.float32)  # in a cone, as a BERT's
  queries = corpus[::10] + generator.normal(size=[300, 48]).astype(np.float32)
  reference = NearestNeighbors(n_neighbors=9, metric="cosine", algorithm="brute").fit(corpus.astype(np.float64))
  distances, rows = reference.kneighbors(queries.astype(np.float64))
  found = search(queries, corpus, 9, 64, 512)
  np.testing.assert_array_equal(found.rows, rows)
  np.testing.assert_allclose(found.scores, 1 - distances, atol=1e-12)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize(
  ("threshold", "max_pairs"), [(None, 10**6), (0.9, 10**6), (None, 37), (0.5, 1), (1, 40), (-1, 5)]
)
def test_paraphrase_mining_is_a_comparison_of_all_pairs(chunks, threshold, max_pairs):
  rows = embeddings(45)
  expected = [pair for pair in all_pairs(all_cosines(rows, rows)) if threshold is None or pair[0] >= threshold]
  assert paraphrase_mining_embeddings(rows, threshold, max_pairs, *chunks) == expected[:max_pairs]


@pytest.mark.parametrize("n", [45, 2500])
@pytest.mark.parametrize("threshold", [0.7, 1.0])
def test_near_duplicates_are_those_of_a_loop(n, threshold):
  rows = embeddings(n, dim=4 if n < 100 else 9)
  cosines = all_cosines(rows, rows)
  expected, kept = [], []
  for row in range(n):
    close = [before for before in kept if cosines[row, before] >= threshold]
    expected.append(close[0] if close else row)
    if not close:
      kept.append(row)
  assert near_duplicates(rows, threshold).tolist() == expected
  assert 1 < len(kept) < n


def test_no_array_of_all_pairs():
  rows = np.random.default_rng(0).normal(size=[12000, 16]).astype(np.float32)
  tracemalloc.start()
  paraphrase_mining_embeddings(rows, threshold=0.95, query_chunk_size=256, corpus_chunk_size=1024)
  search(rows[:3000], rows, 5, 256, 1024)
  near_duplicates(rows, 0.95)
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  assert peak < 12000 * 12000 / 4


def test_empty_and_single():
  nothing, one = np.zeros([0, 3], np.float32), np.ones([1, 3], np.float32)
  assert search(one, nothing).rows.shape == (1, 0) and search(nothing, one).scores.shape == (0, 1)
  assert search([1.0, 2.0, 3.0], one).rows.tolist() == [[0]]
  assert paraphrase_mining_embeddings(nothing) == paraphrase_mining_embeddings(one) == []
  assert near_duplicates(nothing).shape == (0,) and near_duplicates(one).tolist() == [0]


@pytest.mark.parametrize(
  ("call", "text"),
  [
    (lambda: search(np.ones([2, 3]), np.ones([4, 5])), r"query_embeddings: .* \[n, 5\], got \[2, 3\]"),
    (lambda: search(np.ones([2, 3]), ["a"]), "corpus_embeddings: expected real numbers"),
    (lambda: search(np.full([2, 3], np.nan), np.ones([4, 3])), "row 0"),
    (lambda: search(np.ones([2, 3]), np.ones([4, 3]), 0), "top_k=0"),
    (lambda: search(np.ones([2, 3]), np.ones([4, 3]), 1.5), "top_k=1.5"),
    (lambda: paraphrase_mining_embeddings(np.ones([2, 3]), max_pairs=0), "max_pairs=0"),
    (lambda: paraphrase_mining_embeddings(np.ones([2, 3]), threshold=2), "threshold=2"),
    (lambda: paraphrase_mining_embeddings(np.ones([2, 3]), threshold="0.5"), "threshold=0.5"),
    (lambda: near_duplicates(np.ones([2, 3]), float("nan")), "threshold=nan"),
    (lambda: paraphrase_mining(None, "one text"), "expected a list of str"),
  ],
)
def test_errors_name_the_argument(call, text):
  with pytest.raises(BertFlowError, match=text):
    call()


def test_with_a_model():
  model = bert_flow_tf.SentenceModel.from_pretrained("static:mini")
  sentences = ["A man is eating.", "Dogs run in the park.", "A man is eating.", "The dogs run."]
  pairs = bert_flow_tf.paraphrase_mining(model, sentences)
  assert pairs[0] == (1.0, 0, 2) and len(pairs) == 6
  scores, rows = bert_flow_tf.search(model.encode("A man is eating."), model.encode(sentences), top_k=3)
  assert rows[0, :2].tolist() == [0, 2]
  nearest = [sentences[row] for row in rows[0]]
  assert scores[0].tolist() == model.similarity(["A man is eating."] * 3, nearest).tolist()
  assert neighbors.Neighbors(scores, rows)._fields == ("scores", "rows")
