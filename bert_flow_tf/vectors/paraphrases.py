"""The most similar pairs of a corpus: every pair is compared, in blocks, without an array of all pairs."""

import numpy as np
import numpy.typing as npt

from bert_flow_tf.data.pairs import Texts
from bert_flow_tf.io.checks import check_counts
from bert_flow_tf.progress import Progress, either_name
from bert_flow_tf.vectors.nearest import SupportsEncode, check_model, check_texts, rows_with_text
from bert_flow_tf.vectors.unit_rows import (
  TIED,
  UnitRows,
  checked_unit_rows,
  cosines_of,
  error_of,
  exact_cosines,
  exact_cosines_at,
)
from bert_flow_tf.vectors.unrelated import check_threshold, check_threshold_of, is_calibrated

# Below the cosine of any pair.
_LOWEST = -2.0
# One of so many pairs is a large share of them.
_SHARE = 16


@either_name
def paraphrase_mining(
  model: SupportsEncode,
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
    threshold: smallest cosine of a pair; None for no bound. Unrelated sentences that reach it are a warning.
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
  texts = check_texts(sentences, "sentences", "paraphrase_mining_embeddings(embeddings) takes them")
  check_model(model)
  with_text = rows_with_text(texts).tolist()
  if len(with_text) < 2:
    return []
  texts = [texts[row] for row in with_text]
  embeddings = model.encode(texts, batch_size=batch_size, show_progress_bar=show_progress_bar)
  settings = (threshold, max_pairs, query_chunk_size, corpus_chunk_size, show_progress_bar)
  pairs = _mined(embeddings, texts, *settings, is_calibrated(model))
  return [(score, with_text[i], with_text[j]) for score, i, j in pairs]


@either_name
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
  return _mined(embeddings, None, threshold, max_pairs, query_chunk_size, corpus_chunk_size, show_progress_bar)


def _mined(
  embeddings, texts, threshold, max_pairs, query_chunk_size, corpus_chunk_size, show_progress_bar, calibrated=False
):
  """Returns the pairs of `paraphrase_mining_embeddings`; a threshold that unrelated rows reach is a warning."""
  check_counts(max_pairs=max_pairs, query_chunk_size=query_chunk_size, corpus_chunk_size=corpus_chunk_size)
  lowest = _LOWEST
  if threshold is not None:
    lowest = check_threshold(threshold)
  rows = checked_unit_rows(embeddings)
  if threshold is not None:
    units, positions = UnitRows([rows], rows.shape[1], is_unit=True), np.flatnonzero(rows.any(axis=1))
    check_threshold_of(units, positions, lowest, texts, calibrated=calibrated)
  scores, first, second = np.zeros(0, np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64)
  with Progress(len(rows), show_progress_bar, "comparing") as progress:
    for start in range(0, len(rows), query_chunk_size):
      block = rows[start : start + query_chunk_size]
      for other in range(start, len(rows), corpus_chunk_size):
        others = rows[other : other + corpus_chunk_size]
        i, j, cosines = _best_pairs(block, others, start - other, lowest, max_pairs)
        scores = np.concatenate([scores, cosines])
        first, second = np.concatenate([first, i + start]), np.concatenate([second, j + other])
        order = np.lexsort([second, first, -scores])[:max_pairs]
        scores, first, second = scores[order], first[order], second[order]
        if len(scores) == max_pairs:
          lowest = scores[-1]
      progress.update(len(block))
      if len(scores) == max_pairs:
        # Of later rows, an equal cosine is not enough, as the pairs before have it; none is above 1.
        lowest = np.nextafter(scores[-1], np.float32(2))
        if lowest > 1:
          progress.update(len(rows) - start - len(block))
          break
  return list(zip(scores.tolist(), first.tolist(), second.tolist(), strict=True))


def _best_pairs(block, others, offset, lowest, max_pairs):
  """Returns (i, j, cosines) of at least `lowest` of two blocks; without those that cannot be among `max_pairs`.

  Row j of the others is the row j - `offset` of the block: only later rows make pairs.
  """
  approximate, error = cosines_of(block, others), error_of(block.shape[1])
  later = np.triu(np.ones(approximate.shape, bool), offset + 1)
  close = later & (approximate >= lowest - error)
  if np.count_nonzero(close) > max_pairs:
    least = np.partition(approximate[close], -max_pairs)[-max_pairs]
    close &= approximate >= min(least, TIED) - 2 * error
  if np.count_nonzero(close) <= close.size // _SHARE:
    i, j = np.nonzero(close)
    cosines = exact_cosines_at(block, i, others, j)
  else:  # exact cosines of all take less time
    exact = exact_cosines(block, others)
    i, j = np.nonzero(close & (exact >= lowest))
    cosines = exact[i, j]
  is_best = cosines >= lowest
  if np.count_nonzero(is_best) > max_pairs:  # the first ones of the equal: pairs are by i and j
    least = np.partition(cosines, -max_pairs)[-max_pairs]
    is_best, is_least = cosines > least, cosines == least
    is_best |= is_least & (np.cumsum(is_least) <= max_pairs - np.count_nonzero(is_best))
  return i[is_best], j[is_best], cosines[is_best]
