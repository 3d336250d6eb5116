"""Evaluation of a search by a model and by BM25."""

import sys

import numpy as np
import pytest

from bert_flow_tf import evaluate_retrieval
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.retrieval import JudgedSearch
from bert_flow_tf.vectors.retrieval import Bm25Search

CORPUS = {
  "a": {"title": "Cats", "text": "sleep a lot"},
  "b": {"title": "", "text": "dogs run"},
  "c": {"text": "dogs run"},
  "d": "birds sing",
  "blank": "",
}
QUERIES = {"q1": "dogs", "q2": "cats and birds", "q3": "never judged", "q4": "the"}
QRELS = {"q1": {"b": 1}, "q2": {"a": 2, "d": 1}, "q4": {"a": 1}}


class Letters:
  """Model whose embeddings count words; queries are shifted."""

  words = ("cats", "dogs", "birds", "sleep", "the")

  def __init__(self):
    self.queries, self.documents = [], []

  def encode(self, sentences, **_):
    raise AssertionError("expected the embeddings of roles")

  def encode_query(self, sentences, **_):
    self.queries += sentences
    return self._rows(sentences)

  def encode_document(self, sentences, **_):
    self.documents += sentences
    return self._rows(sentences)

  def _rows(self, sentences):
    counts = [[text.lower().split().count(word) for word in self.words] for text in sentences]
    return np.array(counts, np.float32) + 1e-3


def test_a_model_by_roles():
  model = Letters()
  scores = evaluate_retrieval(model, CORPUS, QUERIES, QRELS)
  assert model.queries == ["dogs", "cats and birds", "the"]
  assert sorted(model.documents) == ["Cats sleep a lot", "birds sing", "dogs run", "dogs run"]
  # c and b are equal, and c comes first by trec_eval's falling ids; both d and a are found for q2, d first.
  assert scores.by_query["q1"]["mrr@10"] == 50 and scores.by_query["q2"]["map"] == 100
  gain = (1 + 2 / np.log2(3)) / (2 + 1 / np.log2(3))
  assert scores.by_query["q2"]["ndcg@10"] == pytest.approx(100 * gain)
  assert scores.mean["recall@10"] == 100


def test_both_rankings_as_one():
  pytest.importorskip("bm25s", reason="bm25s is not installed: it is the extra search")
  corpus = {"e": "the fox", "f": "fox fox", "g": "the the", "h": "the birds", "i": "the cats"}
  judged = corpus, {"q": "the fox"}, {"q": {"e": 1}}
  # The embedding has g, e, i, h, f, and the words f, e: 2 / 62 is more than 1 / 61 + 1 / 65.
  assert evaluate_retrieval(Letters(), *judged).mean["mrr@10"] == 50
  assert evaluate_retrieval(Letters(), *judged, hybrid="bm25").mean["mrr@10"] == 100


def test_bm25_is_that_of_bm25s():
  bm25s = pytest.importorskip("bm25s", reason="bm25s is not installed: it is the extra search")
  judged = JudgedSearch(CORPUS, QUERIES, QRELS)
  ranking = Bm25Search(judged).ranking
  assert ranking.document_ids == [["c", "b"], ["d", "a"], []]  # "the" is a stop word
  retriever = bm25s.BM25()
  retriever.index(bm25s.tokenize(judged.documents, show_progress=False), show_progress=False)
  expected = retriever.get_scores(["dogs"])
  np.testing.assert_allclose(ranking.scores[0], expected[expected > 0], rtol=1e-6)
  assert judged.measure(ranking).by_query["q4"]["map"] == 0
  assert Bm25Search(JudgedSearch({"a": "the"}, QUERIES, {"q1": {"a": 1}})).ranking.document_ids == [[]]


def test_without_bm25s(monkeypatch):
  monkeypatch.setitem(sys.modules, "bm25s", None)
  with pytest.raises(ConfigError, match=r"pip install 'bert-flow-tf\[search\]'"):
    Bm25Search(JudgedSearch(CORPUS, QUERIES, QRELS))
