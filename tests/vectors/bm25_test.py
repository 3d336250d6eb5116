"""Hybrid search against bm25s's own scores and ten lines of NumPy."""

import itertools
import sys

import numpy as np
import pytest

from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.evaluation.metrics import cosine_similarity
from bert_flow_tf.vectors import search, search_embeddings
from bert_flow_tf.vectors.bm25 import Bm25, WordCounts
from bert_flow_tf.vectors.sentence_index import SentenceIndex
from tests.testing import rejected
from tests.vectors.toy_folder import needs_faiss
from tests.vectors.toy_rows import Hasher

bm25s = pytest.importorskip("bm25s", reason="bm25s is not installed: it is the extra search")

_WORDS = "saturn rings planet moon water river bridge stone night train music piano singer crowd street"


def corpus(n=300, seed=0):
  """Texts of common and rare words, some of them equal, blank, or of stop words alone."""
  rng = np.random.default_rng(seed)
  texts = []
  for number in range(n):
    words = rng.choice(_WORDS.split(), size=rng.integers(1, 8), p=np.arange(1, 16) / 120)
    texts.append(f"{' '.join(words)} the {number % 40}th")
  texts[7], texts[8], texts[60:63] = "It is the.", "z 土星有环", [texts[5]] * 3
  return texts


QUERIES = [
  "Rings of the planet Saturn",
  "piano music, music!",
  "crowd 12th",
  "nothing known xyzzy",
  "the of is",
  "土星",
]


def reference_scores(texts, queries):
  """Scores [m, n] of bm25s's own index."""
  ranker = bm25s.BM25()
  ranker.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
  tokens = bm25s.tokenize(queries, stopwords="en", return_ids=False, show_progress=False)
  return np.array([ranker.get_scores_from_ids(ranker.get_tokens_ids(of_query)) for of_query in tokens])


def reference(cosines, scores, k):
  """Reciprocal rank fusion of the first 100 of both lists, in plain NumPy."""
  result = []
  for of_cosines, of_scores in zip(cosines, scores, strict=True):
    fused, rows = np.zeros(len(of_cosines)), np.arange(len(of_cosines))
    near = np.lexsort([rows, -of_cosines])
    found = [row for row in np.lexsort([rows, -of_scores]) if of_scores[row] > 0][:100]
    for rank, row in enumerate(near, 1):
      fused[row] += 1 / (60 + rank) if rank <= 100 or row not in found else 0
    for rank, row in enumerate(found, 1):
      fused[row] += 1 / (60 + rank)
    order = np.lexsort([rows, -fused.astype(np.float32)])[:k]
    result.append((fused[order], order))
  return map(np.array, zip(*result, strict=True))


def by_distinct_cosines(n, m, seed=1):
  rng = np.random.default_rng(seed)
  embeddings, queries = rng.normal(size=[n, 6]), rng.normal(size=[m, 6])
  cosines = cosine_similarity(np.repeat(queries, n, axis=0), np.tile(embeddings, [m, 1])).reshape(m, n)
  return embeddings, queries, cosines


class Table:
  """Model that knows the embeddings of some texts by their order."""

  def __init__(self, embeddings, queries):
    self._embeddings, self._queries = embeddings, queries

  def encode_document(self, texts, **_):
    return self._embeddings[: len(texts)]

  def encode_query(self, texts, **_):
    return self._queries[: len(texts)]

  encode = encode_document


def test_scores_are_those_of_bm25s_whatever_the_parts():
  texts = corpus()
  expected = reference_scores(texts, QUERIES)
  for bounds in ([0, 300], [0, 1, 130, 130, 300]):
    parts = [WordCounts.of_texts(texts[i:j]) for i, j in itertools.pairwise(bounds)]
    parts = [WordCounts.of_bytes(part.to_bytes()) for part in parts]
    for query, rows in enumerate(Bm25(parts).search(QUERIES, 300)):
      known = np.flatnonzero(expected[query])
      assert sorted(rows) == known.tolist()
      np.testing.assert_allclose(expected[query][rows], -np.sort(-expected[query][known]), rtol=1e-5)
  assert not len(Bm25([WordCounts.of_texts(["the of", ""])]).search(["the saturn"])[0])


def test_fusion_is_that_of_numpy_for_every_top_k():
  texts = corpus()
  embeddings, queries, cosines = by_distinct_cosines(300, len(QUERIES))
  model = Table(embeddings, queries)
  longest = search(model, QUERIES, texts, top_k=1000, hybrid="bm25")
  for k in (1, 10, 99, 100, 101, 150, 300):
    scores, rows = search(model, QUERIES, texts, top_k=k, hybrid="bm25")
    expected_scores, expected_rows = reference(cosines, reference_scores(texts, QUERIES), k)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-6)
    np.testing.assert_array_equal(longest.rows[:, :k], rows)
  # Without a word that is known, the nearest ones.
  np.testing.assert_array_equal(longest.rows[3], search_embeddings(queries[3], embeddings, 300).rows[0])
  assert longest.rows.shape == (6, 300)


def test_small_and_blank_corpora():
  assert search(Hasher(), "saturn", ["Saturn"], hybrid="bm25").rows.tolist() == [[0]]
  found = search(Hasher(), ["rings", "stone"], ["", "A stone", " ", "Rings"], top_k=9, hybrid="bm25")
  assert sorted(found.rows[0]) == [1, 3] and found.rows[0, 0] == 3 and found.rows[1, 0] == 1
  assert search(Hasher(), "saturn", ["", " "], hybrid="bm25").rows.shape == (1, 0)
  with rejected(ConfigError, "hybrid", match="hybrid=bm26: expected bm25"):
    search(Hasher(), "saturn", ["Saturn"], hybrid="bm26")
  with rejected(ConfigError, "hybrid", match="embeddings have no words"):
    search(np.eye(3), np.eye(3), hybrid="bm25")


@needs_faiss
def test_an_index_holds_vectors_and_words():
  texts = corpus()
  embeddings, queries, cosines = by_distinct_cosines(300, len(QUERIES))
  index = SentenceIndex.build(embeddings[:200], texts=texts[:200])
  index.add(embeddings[200:], texts[200:])
  expected_scores, expected_rows = reference(cosines, reference_scores(texts, QUERIES), 20)
  found = index.search(queries, 20, QUERIES)
  np.testing.assert_array_equal(found.rows, expected_rows)
  np.testing.assert_allclose(found.scores, expected_scores, rtol=1e-6)
  before = index.search(queries, 20).rows
  for call, error, argument in [
    (lambda: index.add(embeddings[:2]), ConfigError, "texts"),
    (lambda: index.add(embeddings[:2], texts[:1]), DataError, "texts"),
    (lambda: SentenceIndex.build(embeddings).add(embeddings, texts), ConfigError, "texts"),
    (lambda: SentenceIndex.build(embeddings, texts=texts[:3]), DataError, "texts"),
    (lambda: SentenceIndex.build(embeddings).search(queries, 3, QUERIES), ConfigError, "hybrid"),
  ]:
    with rejected(error, argument):
      call()
  np.testing.assert_array_equal(index.search(queries, 20).rows, before)
  assert len(index) == 300


def test_without_bm25s_it_is_one_sentence(monkeypatch):
  monkeypatch.setitem(sys.modules, "bm25s", None)
  with rejected(ConfigError, "hybrid", match=r"needs bm25s.*pip install 'bert-flow-tf\[search\]'"):
    search(Hasher(), "saturn", ["Saturn"], hybrid="bm25")
