"""Evaluation of a model, and of BM25, by a search for judged queries."""

from collections.abc import Mapping
from typing import Any

from bert_flow_tf.data.beir import Qrels
from bert_flow_tf.evaluation.retrieval import JudgedSearch, Ranking, RetrievalScores
from bert_flow_tf.progress import either_name
from bert_flow_tf.vectors.bm25 import DEPTH, Bm25, WordCounts, fused
from bert_flow_tf.vectors.nearest import search
from bert_flow_tf.vectors.unit_rows import Neighbors


@either_name
def evaluate_retrieval(
  model: Any,
  corpus: Mapping[str, str | Mapping[str, str]],
  queries: Mapping[str, str],
  qrels: Qrels,
  *,
  hybrid: str | None = None,
  ignore_identical_ids: bool = True,
  batch_size: int = 64,
  show_progress_bar: bool = False,
) -> RetrievalScores:
  """Returns nDCG@10, MRR@10, recall@10, recall@100 and MAP x 100 of a search for judged queries, as trec_eval has them.

      scores = evaluate_retrieval(model, {"d1": "A man plays."}, {"q1": "Who plays?"}, {"q1": {"d1": 1}})
      scores.mean["ndcg@10"], scores.by_query["q1"]["map"]

  The ranking is that of `search`, of 1,000 documents; docs/conventions.md has the conventions. `data.beir.load_beir`
  reads a folder.

  Args:
    model: a `SentenceModel`, or another object as `search` takes it.
    corpus: {id: text} of the documents, or {id: {"title": title, "text": text}}, as BEIR and mteb have them: the title
      stands before the text. Those without text are not found.
    queries: {id: text}; queries without judgments are not evaluated.
    qrels: {query's id: {document's id: grade}}; from 1 on a document is relevant, and the grade is its gain.
    hybrid: see `search`.
    ignore_identical_ids: whether a document with the id of the query is left out, as by BEIR, unless it is relevant.
    batch_size: see `SentenceModel.encode`.
    show_progress_bar: see `SentenceModel.encode`.

  Returns:
    `RetrievalScores`: `mean`, {measure: value}; `by_query`, {query's id: {measure: value}}; `values`, {measure: float64
    [n]} in the order of `query_ids`.

  Raises:
    ConfigError: `hybrid` is not allowed, or bm25s is not installed.
    DataError: no query is judged, an id of the qrels is unknown, or a judged query is blank.
    EncoderError, CalibrationError: an embedding is not finite.
  """
  judged = JudgedSearch(corpus, queries, qrels, ignore_identical_ids)
  scores, rows = search(
    model,
    judged.queries,
    judged.documents,
    top_k=judged.depth,
    batch_size=batch_size,
    hybrid=hybrid,
    show_progress_bar=show_progress_bar,
  )
  return judged.measure(judged.ranking(rows, scores))


class Bm25Search:
  """What BM25 finds for judged queries, with English stop words; without documents that share no word.

  Args:
    judged: the search.

  Raises:
    ConfigError: bm25s is not installed.
  """

  def __init__(self, judged: JudgedSearch) -> None:
    self._judged = judged
    bm25 = Bm25(WordCounts.of_texts(judged.documents))
    self._rows, self._scores = bm25.search(judged.queries, judged.depth)

  @property
  def ranking(self) -> Ranking:
    """The ranking by BM25."""
    return self._judged.ranking(self._rows, self._scores)

  def ranking_with(self, near: Neighbors) -> Ranking:
    """Returns the ranking by both, as `search(hybrid="bm25")` has it, of the nearest documents of each query."""
    both = fused(near, [rows[:DEPTH] for rows in self._rows], self._judged.depth)
    return self._judged.ranking(both.rows, both.scores)
