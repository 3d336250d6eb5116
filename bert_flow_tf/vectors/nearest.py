"""Nearest neighbors by cosine: exact, in blocks, without an array of all pairs; or by a `SentenceIndex`."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from absl import logging

from bert_flow_tf.data.pairs import Texts, check_sentences
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.io.checks import as_array, check_counts
from bert_flow_tf.progress import Progress, either_name
from bert_flow_tf.vectors.bm25 import Bm25, WordCounts, check_hybrid, search_both
from bert_flow_tf.vectors.unit_rows import Neighbors, UnitRows, checked_unit_rows, nearest

# Calibrations that keep a mean.
_UNCENTERED = ("none", "natsv")
# Queries whose mean is looked at, and the part of their squares in it from which they lie apart. Questions to the
# sentences of QNLI have 0.20 to 0.34 with two language models, 0.06 to 0.08 with all-MiniLM-L6-v2; eight sentences of
# the corpus in their place at most 0.05, in 50 draws.
_MIN_QUERIES, _APART = 8, 0.1
_WITH_A_MODEL = (
  "search(model.encode_query(queries), embeddings) compares them; in place of texts, search also takes "
  "SentenceIndex.build(embeddings, model)"
)


class SupportsEncode(Protocol):
  """Model that embeds sentences: a `SentenceModel`, or one of another package."""

  def encode(self, sentences: list[str], *, batch_size: int, show_progress_bar: bool) -> np.ndarray:
    """Returns the embeddings of n sentences, [n, dim]."""


@runtime_checkable
class Index(Protocol):
  """Index of embeddings, as `SentenceIndex`."""

  def check_model(self, model: Any) -> None:
    """Raises an EncoderError if the embeddings are not of this model."""

  def search(self, query_embeddings: npt.ArrayLike, top_k: int, queries: Sequence[str] | None = None) -> Neighbors:
    """Returns the nearest embeddings of each query; with the texts of the queries, by BM25, too."""


@either_name
def search(
  model: Any,
  queries: str | Texts,
  texts: Texts | Index | None = None,
  *,
  top_k: int = 10,
  hybrid: str | None = None,
  batch_size: int = 64,
  query_chunk_size: int = 1024,
  corpus_chunk_size: int = 16384,
  show_progress_bar: bool = False,
) -> Neighbors:
  """Returns the texts that are nearest to each query, by the cosine of their embeddings.

      scores, rows = search(model, ["Who plays?"], texts, top_k=3)
      [texts[row] for row in rows[0]]

  `search(query_embeddings, corpus_embeddings, top_k=3)` is `search_embeddings`, for several searches in one corpus.
  A `SentenceIndex` in place of the texts answers without a comparison with all of them.

  Args:
    model: a `SentenceModel`, or another object with its `encode`. Its `encode_query` and `encode_document` embed
      queries and texts, if it has them: the prompts that the encoder's folder declares for them stand before them.
    queries: m sentences, as `SentenceModel.encode` takes them; or one str.
    texts: n sentences to search in, of which blank ones are not found; or a `SentenceIndex` of their embeddings.
    top_k: number of neighbors of a query; all n that are not blank, if that is less.
    hybrid: "bm25" for the texts that share words with a query, too (`pip install 'bert-flow-tf[search]'`): the scores
      are sums of 1 / (60 + rank) over the 100 nearest texts and the first 100 by BM25. An index needs its texts.
    batch_size: see `SentenceModel.encode`.
    query_chunk_size: see `search_embeddings`.
    corpus_chunk_size: see `search_embeddings`.
    show_progress_bar: see `SentenceModel.encode`.

  Returns:
    `Neighbors`: scores and rows, [m, min(top_k, n)] each; equal scores by increasing row, so that the list of a smaller
    top_k is the beginning of that of a larger one.

  Raises:
    DataError: not str, or a query is blank.
    ConfigError: another argument is not allowed.
    EncoderError, CalibrationError: an embedding is not finite, or the index is of another encoder.
  """
  check_counts(top_k=top_k, query_chunk_size=query_chunk_size, corpus_chunk_size=corpus_chunk_size)
  check_hybrid(hybrid)
  if texts is not None:
    check_model(model)
  if _is_model(model):
    if texts is None:
      raise ConfigError("texts: missing; expected the sentences to search in", argument="texts")
    if isinstance(queries, str):
      queries = [queries]
    query_texts = _check_queries(queries)
    encode_query, encode_document = (getattr(model, name, model.encode) for name in ("encode_query", "encode_document"))
    if isinstance(texts, Index):
      texts.check_model(model)
      query_embeddings = encode_query(query_texts, batch_size=batch_size, show_progress_bar=False)
      log_apart(model, query_embeddings)
      if hybrid is None:
        return texts.search(query_embeddings, top_k)
      return texts.search(query_embeddings, top_k, query_texts)
    corpus_texts = check_texts(texts, "texts", _WITH_A_MODEL)
    with_text = rows_with_text(corpus_texts)
    if not len(with_text):
      return Neighbors(np.zeros([len(query_texts), 0], np.float32), np.zeros([len(query_texts), 0], np.int64))
    corpus_texts = [corpus_texts[row] for row in with_text]
    corpus = encode_document(corpus_texts, batch_size=batch_size, show_progress_bar=show_progress_bar)
    query_embeddings = encode_query(query_texts, batch_size=batch_size, show_progress_bar=False)
    log_apart(model, query_embeddings)
    bm25 = None
    if hybrid is not None:
      bm25 = Bm25(WordCounts.of_texts(corpus_texts))

    def find(k):
      settings = (query_chunk_size, corpus_chunk_size, show_progress_bar)
      return search_embeddings(query_embeddings, corpus, k, *settings)

    scores, rows = search_both(find, bm25, top_k, query_texts)
    return Neighbors(scores, with_text[rows])
  elif hybrid is not None:
    raise ConfigError(f"hybrid={hybrid}: embeddings have no words; search(model, queries, texts) has", "hybrid")
  embeddings: Any = queries
  return search_embeddings(model, embeddings, top_k, query_chunk_size, corpus_chunk_size, show_progress_bar)


def check_model(model: object) -> None:
  """Raises a ConfigError for an object that does not embed texts, as the name of a model."""
  if not _is_model(model):
    message = f"model: expected a SentenceModel or another object with encode, got {type(model).__name__}"
    raise ConfigError(message, argument="model")


def check_texts(texts: Texts, argument: str, way: str) -> list[str]:
  """Returns texts as `check_sentences`; a DataError that tells the way of embeddings, if these are in their place."""
  try:
    return check_sentences(texts, argument)
  except DataError as error:
    first: Any = texts
    while isinstance(first, list | tuple) and first:
      first = first[0]
    if isinstance(first, float) or "float" in str(getattr(first, "dtype", "")):
      raise DataError(f"{argument}: expected str, got embeddings; {way}", argument) from error
    raise


def _is_model(model):
  return hasattr(model, "encode") and not isinstance(model, str)  # whose `encode` is another


def log_apart(model: Any, query_embeddings: np.ndarray) -> None:
  """Logs a warning if queries lie apart from the sentences on which a calibration was fitted, whose mean it makes 0.

  The mean product of two different queries, relative to that of a query with itself, is the part of their squares that
  lies in their mean.
  """
  calibration = getattr(model, "calibration", None)
  count = len(query_embeddings)
  if calibration is None or calibration.name.startswith(_UNCENTERED) or calibration.query_shift is not None:
    return
  if model.characters is not None:  # which have a mean of their own
    return
  if count < _MIN_QUERIES:
    return
  rows = np.asarray(query_embeddings, np.float64)
  squares = np.sum(rows**2)
  share = (np.sum(rows.sum(axis=0) ** 2) - squares) / max((count - 1) * squares, np.finfo(float).tiny)
  if share > _APART:
    message = "queries lie apart from the sentences of the calibration's fit (%.0f%% of their squares in their mean), "
    message += (
      "which may cost much of what a search finds; fit with some 64 queries: --queries, fit(documents, queries=)"
    )
    logging.warning(message, 100 * share)


def _check_queries(queries):
  """Returns queries as a list of str; raises a DataError for a blank one."""
  texts = check_texts(queries, "queries", "search(query_embeddings, corpus_embeddings) takes them")
  for position, query in enumerate(texts):
    if not query.strip():
      raise DataError(f"queries[{position}] is {query!r}: blank; expected text", argument="queries")
  return texts


@either_name
def search_embeddings(
  query_embeddings: npt.ArrayLike,
  corpus_embeddings: npt.ArrayLike,
  top_k: int = 10,
  query_chunk_size: int = 1024,
  corpus_chunk_size: int = 16384,
  show_progress_bar: bool = False,
) -> Neighbors:
  """Returns the rows of a corpus that are nearest to each query, by cosine; a row of zeros has the cosine 0.

  Args:
    query_embeddings: m embeddings, [m, dim], as `SentenceModel.encode` returns them; [dim] is one.
    corpus_embeddings: n embeddings, [n, dim].
    top_k: number of neighbors of a query; all n, if that is less.
    query_chunk_size: number of queries that are compared at once.
    corpus_chunk_size: rows of the corpus that they are compared with at once; 1024 x 16384 are 64 MiB.
    show_progress_bar: whether a bar on a terminal or in a notebook, or lines in a log, show the progress.

  Returns:
    `Neighbors`: scores and rows, [m, min(top_k, n)] each; equal scores by increasing row.

  Raises:
    CalibrationError: embeddings are not [n, dim] of finite numbers, or their dimensions differ.
    ConfigError: another argument is not allowed.
  """
  check_counts(top_k=top_k, query_chunk_size=query_chunk_size, corpus_chunk_size=corpus_chunk_size)
  array = checked_unit_rows(corpus_embeddings, "corpus_embeddings")
  corpus = UnitRows([array], array.shape[1], is_unit=True)
  array = np.atleast_2d(as_array(query_embeddings, "query_embeddings"))
  queries = checked_unit_rows(array, "query_embeddings", corpus.dim)
  return search_rows(queries, corpus, top_k, query_chunk_size, corpus_chunk_size, show_progress_bar)


def search_rows(
  queries: np.ndarray,
  corpus: UnitRows,
  top_k: int,
  query_chunk_size: int = 1024,
  corpus_chunk_size: int = 16384,
  show_progress_bar: bool = False,
) -> Neighbors:
  """Returns the rows nearest to queries of length 1, float32 [m, dim]; other arguments as in `search_embeddings`."""
  k = min(top_k, len(corpus))
  scores = np.zeros([len(queries), k], np.float32)
  rows = np.zeros([len(queries), k], np.int64)
  with Progress(len(queries), show_progress_bar, "searching", "query") as progress:
    for start in range(0, len(queries), query_chunk_size):
      block = slice(start, start + query_chunk_size)
      scores[block], rows[block] = nearest(queries[block], corpus, k, corpus_chunk_size)
      progress.update(len(queries[block]))
  return Neighbors(scores, rows)


def rows_with_text(texts: list[str]) -> np.ndarray:
  """Returns the positions of texts that are not blank, int64 [m]."""
  return np.array([row for row, text in enumerate(texts) if text.strip()], np.int64)
