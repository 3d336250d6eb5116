"""Measures of a search, as trec_eval computes them: nDCG, reciprocal rank, recall and average precision.

docs/conventions.md has the conventions.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from bert_flow_tf.data.beir import Qrels
from bert_flow_tf.errors import DataError

# Ranks of a run that count, as usual with trec_eval.
DEPTH = 1000
NDCG, MRR, RECALL_10, RECALL_100, MAP = "ndcg@10", "mrr@10", "recall@10", "recall@100", "map"
MEASURES = (NDCG, MRR, RECALL_10, RECALL_100, MAP)
# Last column of a run in TREC's format.
_RUN = "bert_flow"
_JUDGED = "{query's id: {document's id: grade}}"


@dataclasses.dataclass(frozen=True)
class RetrievalScores:
  """Measures x 100 of a search, of `MEASURES`.

  Attributes:
    query_ids: ids of the n judged queries.
    values: {measure: float64 [n]}.
  """

  query_ids: Sequence[str]
  values: Mapping[str, np.ndarray]

  @property
  def mean(self) -> dict[str, float]:
    """The mean of each measure over all judged queries."""
    return {measure: float(np.mean(values)) for measure, values in self.values.items()}

  @property
  def by_query(self) -> dict[str, dict[str, float]]:
    """The measures of each query, {id: {measure: value}}."""
    columns = {measure: values.tolist() for measure, values in self.values.items()}
    rows = zip(*columns.values(), strict=True)
    return {name: dict(zip(columns, row, strict=True)) for name, row in zip(self.query_ids, rows, strict=True)}


def score_rankings(rankings: Mapping[str, Sequence[str]], qrels: Qrels) -> RetrievalScores:
  """Returns the measures of {query's id: ids of documents, the best first} for all queries of the qrels.

  A query without a ranking has 0 in all measures, and so has a query without a relevant document.
  """
  rows = []
  for query, grades in qrels.items():
    ranks = {name: rank for rank, name in enumerate(rankings.get(query, ()), 1)}
    rows.append(_measures(ranks, {name: grade for name, grade in grades.items() if grade > 0}))
  columns = np.array(rows, np.float64).reshape(-1, len(MEASURES)).T
  return RetrievalScores(list(qrels), dict(zip(MEASURES, 100 * columns, strict=True)))


def _measures(ranks: Mapping[str, int], relevant: Mapping[str, int]) -> tuple[float, ...]:
  """Returns the `MEASURES` of a query by {document: its rank from 1} and {relevant document: its grade}."""
  if not relevant:
    return (0.0,) * len(MEASURES)
  found = sorted((ranks[name], grade) for name, grade in relevant.items() if name in ranks)
  best = sorted(relevant.values(), reverse=True)
  gain = _discounted(found) / _discounted(enumerate(best, 1))
  reciprocal = 0.0
  if found and found[0][0] <= 10:
    reciprocal = 1 / found[0][0]
  recalls = [sum(rank <= depth for rank, _ in found) / len(relevant) for depth in (10, 100)]
  precisions = math.fsum(count / rank for count, (rank, _) in enumerate(found, 1))
  return gain, reciprocal, *recalls, precisions / len(relevant)


def _discounted(ranked: Iterable[tuple[int, int]]) -> float:
  """Returns the discounted gain of (rank, grade) up to rank 10."""
  return math.fsum(grade / math.log2(rank + 1) for rank, grade in ranked if rank <= 10)


class JudgedSearch:
  """A search for judged queries, whose documents stand by falling id.

  trec_eval orders documents of equal scores so. A search that gives equal scores by increasing position agrees with it.

  Attributes:
    query_ids: ids of the m judged queries.
    queries: their texts.
    document_ids: ids of the n documents that have text.
    documents: their texts.
    depth: number of documents that a search must find for a query.

  Args:
    corpus: {id: text}, or {id: {"title": title, "text": text}} as BEIR reads it.
    queries: {id: text}.
    qrels: {query's id: {document's id: grade}}.
    ignore_identical_ids: whether a document with the id of the query is left out, as by BEIR, unless it is relevant.

  Raises:
    DataError: an argument is no such mapping, no query is judged, or an id of the qrels is unknown.
  """

  def __init__(
    self,
    corpus: Mapping[str, str | Mapping[str, str]],
    queries: Mapping[str, str],
    qrels: Qrels,
    ignore_identical_ids: bool = True,
  ) -> None:
    texts_by_id = "{id: text}"
    for argument, value, expected in (
      ("corpus", corpus, texts_by_id),
      ("queries", queries, texts_by_id),
      ("qrels", qrels, _JUDGED),
    ):
      if not isinstance(value, Mapping):
        raise DataError(f"{argument}: expected a dict {expected}, got a {type(value).__name__}", argument)
    if not qrels:
      raise DataError(f"qrels: empty; expected judged queries, {_JUDGED}", "qrels")
    for query, grades in qrels.items():
      if not isinstance(grades, Mapping):
        found = f"the grades of query {query!r} are a {type(grades).__name__}"
        raise DataError(f"qrels: {found}; expected {_JUDGED}, with the grade 1 for a relevant document", "qrels")
      unknown = [name for name in grades if name not in corpus]
      if not all(isinstance(grade, int | np.integer) for grade in grades.values()):
        raise DataError(
          f"qrels: the grades of query {query!r} are {list(grades.values())[:3]}; expected integers", "qrels"
        )
      if query not in queries:
        raise DataError(f"qrels: the query {query!r} is not in queries; expected ids of both", "qrels")
      if unknown:
        raise DataError(f"qrels: the document {unknown[0]!r} of query {query!r} is not in corpus", "qrels")
    texts = {name: _text_of(document) for name, document in corpus.items()}
    self._qrels = qrels
    self._ignores_identical = ignore_identical_ids
    self.query_ids = list(qrels)
    self.queries = [queries[name] for name in qrels]
    self.document_ids = sorted((name for name, text in texts.items() if text.strip()), reverse=True)
    self.documents = [texts[name] for name in self.document_ids]
    self.depth = DEPTH + ignore_identical_ids

  def ranking(self, rows: Iterable[np.ndarray], scores: Iterable[np.ndarray]) -> "Ranking":
    """Returns the ranking of positions of documents, the best first, and their scores, [up to `depth`] per query."""
    ids, of_scores = [], []
    for query, found, values in zip(self.query_ids, rows, scores, strict=True):
      names = [self.document_ids[row] for row in found]
      kept = list(range(len(names)))
      if self._ignores_identical and self._qrels[query].get(query, 0) <= 0:
        kept = [place for place in kept if names[place] != query]
      kept = kept[:DEPTH]
      ids.append([names[place] for place in kept])
      of_scores.append(np.asarray(values)[kept])
    return Ranking(self.query_ids, ids, of_scores)

  def measure(self, ranking: "Ranking") -> RetrievalScores:
    """Returns the measures of a ranking."""
    return score_rankings(dict(zip(ranking.query_ids, ranking.document_ids, strict=True)), self._qrels)


def _text_of(document):
  """Returns the text of a document, after its title."""
  if isinstance(document, str):
    return document
  if not isinstance(document, Mapping):
    message = f"corpus: a document is {document!r}; expected a str, or title and text as {{'title': ..., 'text': ...}}"
    raise DataError(message[:300], "corpus")
  parts = [document.get(key) or "" for key in ("title", "text")]
  if not all(isinstance(part, str) for part in parts):
    raise DataError(f"corpus: title and text of a document are {repr(parts)[:200]}; expected str", "corpus")
  return " ".join(filter(str.strip, parts))


@dataclasses.dataclass(frozen=True)
class Ranking:
  """What a search found for m queries, the best first.

  Attributes:
    query_ids: ids of the queries.
    document_ids: ids of the documents of each query.
    scores: their scores.
  """

  query_ids: Sequence[str]
  document_ids: Sequence[Sequence[str]]
  scores: Sequence[np.ndarray]

  def trec(self) -> str:
    """Returns a run in TREC's format."""
    lines = []
    for query, names, scores in zip(self.query_ids, self.document_ids, self.scores, strict=True):
      lines += [trec_line(query, *found) for found in zip(names, range(1, len(names) + 1), scores, strict=True)]
    return "".join(lines)


def trec_line(query: str, document: str, rank: int, score: float) -> str:
  """Returns a line of a run in TREC's format.

  trec_eval sorts by the score, so that it has all digits of float32: two are equal where the scores are equal.
  """
  return f"{query} Q0 {document} {rank} {score:.9g} {_RUN}\n"
