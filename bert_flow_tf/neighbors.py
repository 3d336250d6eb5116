"""Nearest neighbors and near-duplicates by cosine: exact, in blocks, without an array of all pairs; NumPy alone."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bert_flow_tf.data.pairs import Texts, check_sentences
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.evaluation.metrics import normalized
from bert_flow_tf.io.checks import check_counts, check_rows, chunks
from bert_flow_tf.progress import Progress

# Rows whose near-duplicates are looked for at once, and kept rows that they are compared with at once.
_ROWS, _COLUMNS = 1024, 4096
# Below the cosine of any pair.
_LOWEST = -2.0
# Cosines of equal rows differ from 1 by less, since float32 rounds.
_ROUNDING = 1e-6


class Model(Protocol):
  """Model that embeds sentences, as `SentenceModel`."""

  def encode(self, sentences: list[str], *, batch_size: int, show_progress_bar: bool) -> np.ndarray:
    """Returns the embeddings of n sentences, [n, dim]."""


class Neighbors(NamedTuple):
  """Nearest rows of a corpus for m queries, the nearest first.

  Attributes:
    scores: cosines, float32 [m, k].
    rows: rows of the corpus, from 0, int64 [m, k].
  """

  scores: np.ndarray
  rows: np.ndarray


def search(
  model: Any,
  queries: str | Texts,
  texts: Texts | None = None,
  *,
  top_k: int = 10,
  batch_size: int = 64,
  query_chunk_size: int = 1024,
  corpus_chunk_size: int = 16384,
  show_progress_bar: bool = False,
) -> Neighbors:
  """Returns the texts that are nearest to each query, by the cosine of their embeddings.

      scores, rows = search(model, ["Who plays?"], texts, top_k=3)
      [texts[row] for row in rows[0]]

  `search(query_embeddings, corpus_embeddings, top_k=3)` is `search_embeddings`, for several searches in one corpus.

  Args:
    model: a `SentenceModel`, or another object with its `encode`.
    queries: m sentences, as `SentenceModel.encode` takes them; or one str.
    texts: n sentences to search in; blank ones are not found.
    top_k: number of neighbors of a query; all n that are not blank, if that is less.
    batch_size: see `SentenceModel.encode`.
    query_chunk_size: see `search_embeddings`.
    corpus_chunk_size: see `search_embeddings`.
    show_progress_bar: see `SentenceModel.encode`.

  Returns:
    `Neighbors`: scores and rows, [m, min(top_k, n)] each.

  Raises:
    DataError: not str, or a query is blank.
    ConfigError: another argument is not allowed.
    EncoderError, CalibrationError: an embedding is not finite.
  """
  check_counts(top_k=top_k, query_chunk_size=query_chunk_size, corpus_chunk_size=corpus_chunk_size)
  if hasattr(model, "encode"):
    if texts is None:
      raise ConfigError("texts: missing; expected the sentences to search in", argument="texts")
    if isinstance(queries, str):
      queries = [queries]
    query_texts, corpus_texts = _check_queries(queries), check_sentences(texts, "texts")
    with_text = rows_with_text(corpus_texts)
    if not len(with_text):
      return Neighbors(np.zeros([len(query_texts), 0], np.float32), np.zeros([len(query_texts), 0], np.int64))
    corpus_texts = [corpus_texts[row] for row in with_text]
    corpus = model.encode(corpus_texts, batch_size=batch_size, show_progress_bar=show_progress_bar)
    query_embeddings = model.encode(query_texts, batch_size=batch_size, show_progress_bar=False)
    settings = (top_k, query_chunk_size, corpus_chunk_size, show_progress_bar)
    scores, rows = search_embeddings(query_embeddings, corpus, *settings)
    return Neighbors(scores, with_text[rows])
  elif texts is None:
    embeddings: Any = queries
  else:
    message = f"model: expected a SentenceModel or another object with encode, got {type(model).__name__}"
    raise ConfigError(message, argument="model")
  return search_embeddings(model, embeddings, top_k, query_chunk_size, corpus_chunk_size, show_progress_bar)


def _check_queries(queries):
  """Returns queries as a list of str; raises a DataError for a blank one."""
  texts = check_sentences(queries, "queries")
  for position, query in enumerate(texts):
    if not query.strip():
      raise DataError(f"queries[{position}] is {query!r}: blank; expected text", argument="queries")
  return texts


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
    `Neighbors`: scores and rows, [m, min(top_k, n)] each.

  Raises:
    CalibrationError: embeddings are not [n, dim] of finite numbers, or their dimensions differ.
    ConfigError: another argument is not allowed.
  """
  check_counts(top_k=top_k, query_chunk_size=query_chunk_size, corpus_chunk_size=corpus_chunk_size)
  corpus = _unit_rows(corpus_embeddings, "corpus_embeddings")
  queries = _unit_rows(np.atleast_2d(np.asarray(query_embeddings)), "query_embeddings", corpus.shape[1])
  k = min(top_k, len(corpus))
  scores = np.zeros([len(queries), k], np.float32)
  rows = np.zeros([len(queries), k], np.int64)
  with Progress(len(queries), show_progress_bar, "searching", "query") as progress:
    for start in range(0, len(queries), query_chunk_size):
      block = slice(start, start + query_chunk_size)
      scores[block], rows[block] = _nearest(queries[block], corpus, k, corpus_chunk_size)
      progress.update(len(queries[block]))
  return Neighbors(scores, rows)


def paraphrase_mining(
  model: Model,
  sentences: Texts,
  show_progress_bar: bool = False,
  batch_size: int = 64,
  threshold: float | None = None,
  max_pairs: int = 500000,
  query_chunk_size: int = 1024,
  corpus_chunk_size: int = 16384,
) -> list[tuple[float, int, int]]:
  """Returns the most similar pairs among sentences: every pair is compared, each sentence with all others.

      for score, i, j in paraphrase_mining(model, sentences, threshold=0.9):
        print(score, sentences[i], sentences[j])

  Args:
    model: a `SentenceModel`, or another object with its `encode`.
    sentences: n sentences, as `SentenceModel.encode` takes them.
    show_progress_bar: see `SentenceModel.encode`.
    batch_size: see `SentenceModel.encode`.
    threshold: smallest cosine of a pair; None for no bound.
    max_pairs: largest number of pairs, which have the highest cosines.
    query_chunk_size: see `search_embeddings`.
    corpus_chunk_size: see `search_embeddings`.

  Returns:
    A list of (cosine, i, j) with i < j, positions in `sentences` from 0; the highest cosine first, equal ones by i, j.
    Blank sentences make no pair.

  Raises:
    DataError: not str.
    ConfigError: an argument is not allowed.
    EncoderError, CalibrationError: an embedding is not finite.
  """
  texts = check_sentences(sentences)
  with_text = rows_with_text(texts).tolist()
  if len(with_text) < 2:
    return []
  texts = [texts[row] for row in with_text]
  embeddings = model.encode(texts, batch_size=batch_size, show_progress_bar=show_progress_bar)
  pairs = paraphrase_mining_embeddings(
    embeddings, threshold, max_pairs, query_chunk_size, corpus_chunk_size, show_progress_bar
  )
  return [(score, with_text[i], with_text[j]) for score, i, j in pairs]


def paraphrase_mining_embeddings(
  embeddings: npt.ArrayLike,
  threshold: float | None = None,
  max_pairs: int = 500000,
  query_chunk_size: int = 1024,
  corpus_chunk_size: int = 16384,
  show_progress_bar: bool = False,
) -> list[tuple[float, int, int]]:
  """Returns the most similar pairs of rows of embeddings [n, dim]; see `paraphrase_mining`.

  Raises:
    CalibrationError: embeddings are not [n, dim] of finite numbers.
    ConfigError: another argument is not allowed.
  """
  check_counts(max_pairs=max_pairs, query_chunk_size=query_chunk_size, corpus_chunk_size=corpus_chunk_size)
  lowest = _LOWEST
  if threshold is not None:
    lowest = check_threshold(threshold)
  rows = _unit_rows(embeddings)
  scores, first, second = np.zeros(0, np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64)
  with Progress(len(rows), show_progress_bar, "comparing") as progress:
    for start in range(0, len(rows), query_chunk_size):
      block = rows[start : start + query_chunk_size]
      for other in range(start, len(rows), corpus_chunk_size):
        cosines = _cosines(block, rows[other : other + corpus_chunk_size])
        i, j = _best_pairs(cosines, start - other, lowest, max_pairs)
        scores = np.concatenate([scores, cosines[i, j]])
        first, second = np.concatenate([first, i + start]), np.concatenate([second, j + other])
        order = np.lexsort([second, first, -scores])[:max_pairs]
        scores, first, second = scores[order], first[order], second[order]
        if len(scores) == max_pairs:
          lowest = scores[-1]
      progress.update(len(block))
  return list(zip(scores.tolist(), first.tolist(), second.tolist(), strict=True))


def near_duplicates(
  embeddings: npt.ArrayLike, threshold: float = 0.9, show_progress_bar: bool = False, *, texts: Texts | None = None
) -> np.ndarray:
  """Returns for each row the first kept row with a cosine of at least `threshold`, or the row itself, which is kept.

  Rows are kept in their order: one is dropped only if a kept row before it is so similar. A row of zeros, as of a text
  without a known word, or of a blank text has no duplicates.

  Args:
    embeddings: n embeddings, [n, dim].
    threshold: smallest cosine of a near-duplicate, -1 to 1.
    show_progress_bar: see `search_embeddings`.
    texts: the n sentences, to know the blank ones, whose embeddings are equal; None without.

  Returns:
    int64 [n], rows from 0.

  Raises:
    DataError: not n texts.
    CalibrationError: embeddings are not [n, dim] of finite numbers.
    ConfigError: the threshold is not from -1 to 1.
  """
  lowest = check_threshold(threshold)
  all_rows = _unit_rows(embeddings)
  is_comparable = all_rows.any(axis=1)
  if texts is not None:
    sentences = check_sentences(texts, "texts")
    if len(sentences) != len(all_rows):
      raise DataError(f"texts: {len(sentences)} for {len(all_rows)} embeddings; expected as many", argument="texts")
    is_comparable &= np.isin(np.arange(len(all_rows)), rows_with_text(sentences))
  representatives = np.arange(len(all_rows))
  comparable = np.flatnonzero(is_comparable)
  representatives[comparable] = comparable[_first_similar(all_rows[comparable], lowest, show_progress_bar)]
  return representatives


def _first_similar(rows: np.ndarray, lowest: float, show_progress_bar: bool) -> np.ndarray:
  """Returns for each row of length 1 the first kept row with a cosine of at least `lowest`, or itself, int64 [n]."""
  numbers = np.arange(len(rows))
  kept = numbers.copy()
  with Progress(len(rows), show_progress_bar, "comparing") as progress:
    for start in range(0, len(rows), _ROWS):
      block, indices = rows[start : start + _ROWS], numbers[start : start + _ROWS]
      # Compare the block with the rows that were kept before it.
      before = np.flatnonzero(kept[:start] == numbers[:start])
      for first in range(0, len(before), _COLUMNS):
        columns = before[first : first + _COLUMNS]
        close = _cosines(block, rows[columns]) >= lowest
        dropped = close.any(axis=1) & (kept[indices] == indices)
        kept[indices[dropped]] = columns[close[dropped].argmax(axis=1)]
      # Compare the block's rows with each other.
      close = np.triu(_cosines(block, block) >= lowest, 1)
      for row in np.flatnonzero(close.any(axis=1)):
        if kept[indices[row]] == indices[row]:
          later = indices[close[row]]
          kept[later[kept[later] == later]] = indices[row]
      progress.update(len(block))
  return kept


def rows_with_text(texts: list[str]) -> np.ndarray:
  """Returns the positions of texts that are not blank, int64 [m]."""
  return np.array([row for row, text in enumerate(texts) if text.strip()], np.int64)


def check_threshold(threshold: float) -> float:
  """Returns a smallest cosine; raises a ConfigError for anything but a number from -1 to 1."""
  is_number = isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool)
  if not is_number or not -1 <= threshold <= 1:
    raise ConfigError(f"threshold={threshold}: expected a cosine, a number from -1 to 1", argument="threshold")
  return float(threshold)


def _unit_rows(embeddings: npt.ArrayLike, name: str = "embeddings", dim: int | None = None) -> np.ndarray:
  """Returns embeddings [n, dim] divided by their lengths, float32 [n, dim]; rows of zeros stay."""
  rows = check_rows(embeddings, dim, name=name)
  unit = np.empty(rows.shape, np.float32)
  for start, chunk in chunks(rows):
    unit[start : start + len(chunk)] = normalized(chunk)
  return unit


def _cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  """Returns the cosines of rows of length 1, float32 [n, m]; 1 for rows that are equal but for rounding."""
  cosines = a @ b.T
  cosines[cosines > 1 - _ROUNDING] = 1
  return cosines


def _nearest(queries: np.ndarray, corpus: np.ndarray, k: int, chunk: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns scores and rows, [m, k] each, of the rows of the corpus nearest to queries; all rows have the length 1."""
  scores, rows = np.zeros([len(queries), 0], np.float32), np.zeros([len(queries), 0], np.int64)
  for start in range(0, len(corpus), chunk):
    cosines = _cosines(queries, corpus[start : start + chunk])
    places = _largest(cosines, k)
    # The best of this block and of the blocks before.
    scores = np.concatenate([scores, np.take_along_axis(cosines, places, axis=1)], axis=1)
    rows = np.concatenate([rows, places + start], axis=1)
    places = _largest(scores, k)
    scores, rows = np.take_along_axis(scores, places, axis=1), np.take_along_axis(rows, places, axis=1)
  order = np.lexsort([rows, -scores], axis=1)
  return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)


def _largest(values: np.ndarray, k: int) -> np.ndarray:
  """Returns the places of the k largest values of each row, in any order; all places if there are no more."""
  if values.shape[1] <= k:
    return np.broadcast_to(np.arange(values.shape[1]), values.shape)
  return np.argpartition(values, -k, axis=1)[:, -k:]


def _best_pairs(cosines: np.ndarray, offset: int, lowest: float, max_pairs: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns places i, j of a block's cosines of at least `lowest`; without those that cannot be among `max_pairs`.

  Column j is the row j - `offset` of the block: only later rows make pairs.
  """
  later = np.triu(np.ones(cosines.shape, bool), offset + 1)
  close = later & (cosines >= lowest)
  if np.count_nonzero(close) > max_pairs:
    close = later & (cosines >= np.partition(cosines[close], -max_pairs)[-max_pairs])
  i, j = np.nonzero(close)
  return i, j
