"""Nearest neighbors and near-duplicates by cosine: exact, in blocks, without an array of all pairs; NumPy alone."""

from typing import Any, NamedTuple

import numpy as np

from bert_flow_tf.data.pairs import Texts, check_sentences
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.metrics import cosine_similarity
from bert_flow_tf.io.checks import check_counts, check_rows
from bert_flow_tf.progress import Progress

# Pairs whose exact cosine is computed at once: their rows of 1,024 dimensions are 64 MiB.
_PAIRS_AT_ONCE = 8192
# Below the cosine of any pair.
_LOWEST = -2.0


class Neighbors(NamedTuple):
  """Nearest rows of a corpus for m queries, the nearest first; equal cosines by their row.

  Attributes:
    scores: cosines, float64 [m, k].
    rows: rows of the corpus, from 0, int64 [m, k].
  """

  scores: np.ndarray
  rows: np.ndarray


def search(
  query_embeddings: Any,
  corpus_embeddings: Any,
  top_k: int = 10,
  query_chunk_size: int = 1024,
  corpus_chunk_size: int = 16384,
  show_progress_bar: bool = False,
) -> Neighbors:
  """Returns the rows of a corpus that are nearest to each query, by cosine; the arguments are sentence-transformers'.

  The result is that of comparing every pair in float64, and does not depend on the chunks: a product in float32 finds
  the rows that can be among the nearest, whose cosines are then computed in float64, each pair by itself. A row of
  zeros has the cosine 0 with every other. With a calibration NAME+characters these are cosines of `encode`, which
  approximate those of `SentenceModel.similarity` to some 0.03.

      scores, rows = search(model.encode(["Who plays?"]), model.encode(corpus), top_k=3)
      [corpus[row] for row in rows[0]]

  Args:
    query_embeddings: m embeddings, [m, dim], as `SentenceModel.encode` returns them; [dim] is one.
    corpus_embeddings: n embeddings, [n, dim]; or `Rows` of them, for several searches.
    top_k: number of neighbors of a query; all n, if that is less.
    query_chunk_size: queries compared at once.
    corpus_chunk_size: rows of the corpus that they are compared with at once; 1024 x 16384 are 64 MiB.
    show_progress_bar: whether a bar on a terminal or in a notebook, or lines in a log, show the progress.

  Returns:
    `Neighbors`: scores and rows, [m, min(top_k, n)] each.

  Raises:
    CalibrationError: embeddings are not [n, dim] of finite numbers, or their dimensions differ.
    ConfigError: another argument is not allowed.
  """
  check_counts(top_k=top_k, query_chunk_size=query_chunk_size, corpus_chunk_size=corpus_chunk_size)
  corpus = corpus_embeddings
  if not isinstance(corpus, Rows):
    corpus = Rows(corpus_embeddings, name="corpus_embeddings")
  queries = Rows(np.atleast_2d(np.asarray(query_embeddings)), corpus.values.shape[1], "query_embeddings")
  m, k = len(queries.values), min(top_k, len(corpus.values))
  found = Neighbors(np.zeros([m, k]), np.zeros([m, k], np.int64))
  if not k:
    return found
  with Progress(m, show_progress_bar, "searching", "query") as progress:
    for start in range(0, m, query_chunk_size):
      stop = min(start + query_chunk_size, m)
      found.scores[start:stop], found.rows[start:stop] = _nearest(queries, corpus, start, stop, k, corpus_chunk_size)
      progress.update(stop - start)
  return found


def paraphrase_mining(
  model: Any,
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
    model: a `SentenceModel`, or another object with such an `encode`.
    sentences: n sentences, as `SentenceModel.encode` takes them.
    show_progress_bar: see `SentenceModel.encode`.
    batch_size: see `SentenceModel.encode`.
    threshold: smallest cosine of a pair; None for no bound.
    max_pairs: largest number of pairs, those with the highest cosines.
    query_chunk_size: see `search`.
    corpus_chunk_size: see `search`.

  Returns:
    A list of (cosine, i, j) with i < j, positions in `sentences` from 0; the highest cosine first, equal ones by i, j.

  Raises:
    DataError: not str.
    ConfigError: an argument is not allowed.
    EncoderError, CalibrationError: an embedding is not finite.
  """
  texts = check_sentences(sentences)
  embeddings = model.encode(texts, batch_size=batch_size, show_progress_bar=show_progress_bar)
  return paraphrase_mining_embeddings(
    embeddings, threshold, max_pairs, query_chunk_size, corpus_chunk_size, show_progress_bar
  )


def paraphrase_mining_embeddings(
  embeddings: Any,
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
  rows = Rows(embeddings)
  n = len(rows.values)
  scores, first, second = np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)
  with Progress(n, show_progress_bar, "comparing") as progress:
    for start in range(0, n, query_chunk_size):
      stop = min(start + query_chunk_size, n)
      for other in range(start, n, corpus_chunk_size):
        i, j = _close(rows, start, stop, other, corpus_chunk_size, lowest, max_pairs)
        cosines = _cosines(rows, rows, i, j)
        scores, first, second = map(np.concatenate, ((scores, cosines), (first, i), (second, j)))
        # The best until now: a later pair has to reach the last of them.
        order = np.lexsort([second, first, -scores])[:max_pairs]
        order = order[scores[order] >= lowest]
        scores, first, second = scores[order], first[order], second[order]
        if len(scores) == max_pairs:
          lowest = scores[-1]
      progress.update(stop - start)
  return list(zip(scores.tolist(), first.tolist(), second.tolist(), strict=True))


def near_duplicates(embeddings: Any, threshold: float = 0.9, show_progress_bar: bool = False) -> np.ndarray:
  """Returns for each row the first kept row with a cosine of at least `threshold`, or the row itself, which is kept.

  Rows are kept in their order: one is dropped only if a kept row before it is so similar.

  Args:
    embeddings: n embeddings, [n, dim].
    threshold: smallest cosine of a near-duplicate, -1 to 1.
    show_progress_bar: see `search`.

  Returns:
    int64 [n], rows from 0.

  Raises:
    CalibrationError: embeddings are not [n, dim] of finite numbers.
    ConfigError: the threshold is not from -1 to 1.
  """
  lowest = check_threshold(threshold)
  rows = Rows(embeddings)
  n, chunk = len(rows.values), 1024
  kept = np.arange(n)
  with Progress(n, show_progress_bar, "comparing") as progress:
    for start in range(0, n, chunk):
      stop = min(start + chunk, n)
      own = np.arange(start, stop)
      before = np.flatnonzero(kept[:start] == np.arange(start))
      # With the kept rows before the chunk, then with each other.
      for other in range(0, len(before), chunk):
        columns = before[other : other + chunk]
        undecided = own[kept[start:stop] == own]
        approximate = rows.unit[undecided] @ rows.unit[columns].T
        i, j = np.nonzero(approximate >= lowest - rows.margin)
        _drop(rows, undecided[i], columns[j], lowest, kept)
      i, j = _close(rows, start, stop, start, chunk, lowest, chunk * chunk)
      _drop(rows, j, i, lowest, kept)
      progress.update(stop - start)
  return kept


def check_threshold(threshold: Any) -> float:
  """Returns a smallest cosine; raises a ConfigError for anything but a number from -1 to 1."""
  is_number = isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool)
  if not is_number or not -1 <= threshold <= 1:
    raise ConfigError(f"threshold={threshold}: expected a cosine, a number from -1 to 1", argument="threshold")
  return float(threshold)


class Rows:
  """Embeddings prepared for comparisons: `values` [n, dim], and `unit`, divided by their lengths, float32 [n, dim].

  Two cosines of rows of `unit` in float32 differ from the exact difference by less than `margin`.

  Args:
    embeddings: n embeddings, [n, dim].
    dim: expected dimensions; None for any.
    name: of the argument, for errors.

  Raises:
    CalibrationError: embeddings are not [n, dim] of finite numbers.
  """

  def __init__(self, embeddings: Any, dim: int | None = None, name: str = "embeddings") -> None:
    self.values = check_rows(embeddings, dim, name=name)
    self.unit = np.empty(self.values.shape, np.float32)
    for start in range(0, len(self.values), _PAIRS_AT_ONCE):
      part = np.asarray(self.values[start : start + _PAIRS_AT_ONCE], np.float64)
      lengths = np.linalg.norm(part, axis=1, keepdims=True)
      self.unit[start : start + _PAIRS_AT_ONCE] = part / np.where(lengths > 0, lengths, 1.0)
    # dim products and sums, each rounded by up to 2^-24, and the rounding of both rows; twice, for two cosines.
    self.margin = (self.values.shape[1] + 3) * 2.0**-23


def _nearest(queries, corpus, start, stop, k, chunk):
  """Returns scores and rows, [stop - start, k], of the rows of the corpus nearest to some queries."""
  best = np.zeros([stop - start, 0], np.float32)
  parts = []
  for first in range(0, len(corpus.values), chunk):
    approximate = queries.unit[start:stop] @ corpus.unit[first : first + chunk].T
    best = _largest(np.concatenate([best, _largest(approximate, k)], axis=1), k)
    # Whatever is below the k-th best by more than rounding is out.
    floor = np.full(stop - start, _LOWEST, np.float32)
    if best.shape[1] == k:
      floor = best.min(axis=1) - corpus.margin
    query, column = np.nonzero(approximate >= floor[:, np.newaxis])
    parts.append((query, column + first, approximate[query, column]))
  query, row, value = map(np.concatenate, zip(*parts, strict=True))
  can_be = value >= floor[query]
  query, row = query[can_be], row[can_be]
  # By query, then by cosine, then by row; k of each query.
  scores = _cosines(queries, corpus, query + start, row)
  order = np.lexsort([row, -scores, query])
  firsts = np.searchsorted(query[order], np.arange(stop - start))
  chosen = order[firsts[:, np.newaxis] + np.arange(k)]
  return scores[chosen], row[chosen]


def _largest(values, k):
  """Returns the k largest values of each row, in any order; all of them if there are no more."""
  if values.shape[1] <= k:
    return values
  return np.partition(values, -k, axis=1)[:, -k:]


def _close(rows, start, stop, other, chunk, lowest, most):
  """Returns rows i < j, i from `start` to `stop` - 1, j in a chunk from `other`, of cosines that can reach `lowest`.

  Those that cannot be among the `most` highest are left out.
  """
  approximate = rows.unit[start:stop] @ rows.unit[other : other + chunk].T
  columns = np.arange(other, other + approximate.shape[1])
  approximate[columns <= np.arange(start, stop)[:, np.newaxis]] = -np.inf
  close = approximate >= lowest - rows.margin
  if np.count_nonzero(close) > most:
    values = approximate[close]
    close = approximate >= np.partition(values, -most)[-most] - rows.margin
  i, j = np.nonzero(close)
  return i + start, j + other


def _drop(rows, later, earlier, lowest, kept):
  """Marks in `kept` each row `later`, of pairs [p], that is a near-duplicate of a kept row `earlier`."""
  close = _cosines(rows, rows, later, earlier) >= lowest
  later, earlier = later[close], earlier[close]
  order = np.lexsort([earlier, later])
  for row, representative in zip(later[order].tolist(), earlier[order].tolist(), strict=True):
    if kept[row] == row and kept[representative] == representative:
      kept[row] = representative


def _cosines(a, b, rows_a, rows_b):
  """Returns the exact cosine of pairs of rows, float64 [p], which depends on nothing but the two rows."""
  # A few thousand copies of a sentence are millions of pairs: equal pairs are computed once.
  n = len(b.values)
  pairs, places = np.unique(_first_equal(a, rows_a) * n + _first_equal(b, rows_b), return_inverse=True)
  cosines = np.empty(len(pairs))
  for start in range(0, len(pairs), _PAIRS_AT_ONCE):
    part = slice(start, start + _PAIRS_AT_ONCE)
    of_a, of_b = np.divmod(pairs[part], n)
    cosines[part] = cosine_similarity(a.values[of_a], b.values[of_b])
  return np.nan_to_num(cosines)[places]


def _first_equal(embeddings, rows):
  """Returns for each of some rows the first among them with the same values."""
  distinct, places = np.unique(rows, return_inverse=True)
  seen: dict[bytes, int] = {}
  firsts = [seen.setdefault(embeddings.values[row].tobytes(), row) for row in distinct.tolist()]
  return np.array(firsts, np.int64)[places]
