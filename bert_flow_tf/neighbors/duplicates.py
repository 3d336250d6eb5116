"""Near-duplicates by cosine: each row is compared with the rows that are kept before it, or with an index of them."""

from typing import Protocol

import numpy as np
import numpy.typing as npt
from absl import logging

from bert_flow_tf.data.pairs import Texts, check_sentences
from bert_flow_tf.errors import DataError
from bert_flow_tf.io.checks import check_rows
from bert_flow_tf.neighbors.inverted_lists import EXACT, InvertedLists, sample_of, takes_lists
from bert_flow_tf.neighbors.nearest import rows_with_text
from bert_flow_tf.neighbors.paraphrases import check_threshold
from bert_flow_tf.neighbors.unit_rows import UnitRows, cosines_of
from bert_flow_tf.progress import Progress, either_name

# Rows whose near-duplicates are looked for at once, and kept rows that they are compared with at once.
_ROWS, _COLUMNS = 1024, 4096


@either_name
def near_duplicates(
  embeddings: npt.ArrayLike,
  threshold: float = 0.9,
  show_progress_bar: bool = False,
  *,
  texts: Texts | None = None,
  index: str = EXACT,
) -> np.ndarray:
  """Returns for each row the first kept row with a cosine of at least `threshold`, or the row itself, which is kept.

  Rows are kept in their order: one is dropped only if a kept row before it is so similar. A row of zeros, as of a text
  without a known word, or of a blank text has no duplicates.

  Args:
    embeddings: n embeddings, [n, dim].
    threshold: smallest cosine of a near-duplicate, -1 to 1.
    show_progress_bar: see `search_embeddings`.
    texts: the n sentences, to know the blank ones, whose embeddings are equal, and equal ones; None without.
    index: "exact" compares every pair; "ivf" looks into inverted lists of FAISS, misses a few near-duplicates, whose
      share is measured and logged, and names a kept row that need not be the first; "auto" is "ivf" where every pair
      would take over a minute, if FAISS is installed.

  Returns:
    int64 [n], rows from 0.

  Raises:
    DataError: not n texts.
    CalibrationError: embeddings are not [n, dim] of finite numbers.
    ConfigError: the threshold is not from -1 to 1, or FAISS is not installed.
  """
  lowest = check_threshold(threshold)
  array = check_rows(embeddings)
  is_comparable = array.any(axis=1)
  originals = np.arange(len(array))
  if texts is not None:
    sentences = check_sentences(texts, "texts")
    if len(sentences) != len(array):
      raise DataError(f"texts: {len(sentences)} for {len(array)} embeddings; expected as many", argument="texts")
    originals = first_equal(sentences)
    is_comparable &= np.isin(originals, rows_with_text(sentences))
  positions = np.flatnonzero(is_comparable & (originals == np.arange(len(array))))
  rows = UnitRows([array], array.shape[1])
  kept = first_similar(rows, positions, lowest, index, show_progress_bar)
  is_copy = is_comparable & (originals != np.arange(len(array)))
  kept[is_copy] = kept[originals[is_copy]]
  return kept


def first_equal(texts: list[str]) -> np.ndarray:
  """Returns for each text the position of the first that is equal to it, int64 [n]."""
  first: dict[str, int] = {}
  return np.array([first.setdefault(text, position) for position, text in enumerate(texts)], np.int64)


def first_similar(
  rows: UnitRows, positions: np.ndarray, lowest: float, index: str, show_progress_bar: bool
) -> np.ndarray:
  """Returns for each row a kept row before it with a cosine of at least `lowest`, or itself, int64 [n].

  Only rows at the increasing `positions` are compared; the others are kept.
  """
  kept = np.arange(len(rows))
  before: _Kept = _AllKept(rows.dim)
  if takes_lists(index, len(positions) ** 2 / 2 * rows.dim) and len(positions):
    before = _ListedKept(rows, positions, lowest)
  with Progress(len(positions), show_progress_bar, "comparing") as progress:
    for start in range(0, len(positions), _ROWS):
      numbers = positions[start : start + _ROWS]
      block = rows.take(numbers)
      found = before.find(block, lowest)
      kept[numbers[found >= 0]] = found[found >= 0]
      # Compare the block's rows with each other.
      close = np.triu(cosines_of(block, block) >= lowest, 1)
      for row in np.flatnonzero(close.any(axis=1)):
        if kept[numbers[row]] == numbers[row]:
          later = numbers[close[row]]
          kept[later[kept[later] == later]] = numbers[row]
      is_kept = kept[numbers] == numbers
      before.add(block[is_kept], numbers[is_kept])
      progress.update(len(block))
  if isinstance(before, _ListedKept):
    before.log_recall(kept, lowest)
  return kept


class _Kept(Protocol):
  """Rows that were kept so far."""

  def add(self, rows: np.ndarray, numbers: np.ndarray) -> None:
    """Adds rows of length 1, [m, dim], and their numbers."""

  def find(self, block: np.ndarray, lowest: float) -> np.ndarray:
    """Returns for each row of a block the number of a kept row with a cosine of at least `lowest`, or -1."""


class _AllKept:
  """Kept rows that a block is compared with one by one."""

  def __init__(self, dim):
    self._dim = dim
    self._blocks: list[tuple[np.ndarray, np.ndarray]] = []

  def add(self, rows, numbers):
    if self._blocks and len(self._blocks[-1][0]) < _COLUMNS:
      last_rows, last_numbers = self._blocks.pop()
      rows, numbers = np.concatenate([last_rows, rows]), np.concatenate([last_numbers, numbers])
    self._blocks.append((rows, numbers))

  def find(self, block, lowest):
    first = np.full(len(block), -1)
    for rows, numbers in self._blocks:
      close = cosines_of(block, rows) >= lowest
      found = close.any(axis=1) & (first < 0)
      first[found] = numbers[close[found].argmax(axis=1)]
    return first


class _ListedKept:
  """Kept rows in inverted lists."""

  def __init__(self, rows, positions, lowest):
    self._rows, self._positions = rows, positions
    compared = rows.select(positions)
    self._lists = InvertedLists.train(compared, fast=True)
    self._lists.tune(compared, lowest=lowest)

  def add(self, rows, numbers):
    self._lists.add(rows, numbers)

  def find(self, block, lowest):
    return self._lists.similar(block, self._rows, lowest)

  def log_recall(self, kept, lowest):
    """Logs how many near-duplicates among sampled rows were found, of those that all cosines find."""
    sample = self._positions[sample_of(len(self._positions))]
    queries = self._rows.take(sample)
    has_duplicate = np.zeros(len(sample), bool)
    originals = self._positions[kept[self._positions] == self._positions]
    for start, block in self._rows.select(originals).blocks():
      close = cosines_of(queries, block) >= lowest
      numbers = originals[start : start + len(block)]
      has_duplicate |= (close & (numbers < sample[:, np.newaxis])).any(axis=1)
    found = int(np.count_nonzero(has_duplicate & (kept[sample] != sample)))
    message = "index: %d of %d lists read per row; of %d sampled rows, %d have a near-duplicate by exact cosines, and "
    message += "%d of them were found"
    counts = (self._lists.probes, self._lists.lists, len(sample), np.count_nonzero(has_duplicate), found)
    logging.info(message, *counts)
