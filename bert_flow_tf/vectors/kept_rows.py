"""Comparison of rows with the rows that are kept before them: with all, in blocks, or with those that lists find."""

from typing import Protocol

import numpy as np
from absl import logging

from bert_flow_tf.progress import Progress
from bert_flow_tf.vectors.inverted_lists import InvertedLists, sample_of, takes_lists
from bert_flow_tf.vectors.unit_rows import UnitRows, cosines_of
from bert_flow_tf.vectors.unread_keys import READ


def first_similar(
  rows: UnitRows,
  positions: np.ndarray,
  lowest: float,
  index: str,
  show_progress_bar: bool,
  keys: np.ndarray,
  against: int = 0,
  block_rows: int = 1024,
  kept_rows: int = 4096,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns for each row a kept row before it with its key and a cosine of at least `lowest`, or itself, int64 [n].

  Only rows at the increasing `positions` are compared; the others are kept, and so are those before `against`. The
  second result says which kept rows have such a row of another key, bool [n]. `block_rows` rows are compared at once
  with `kept_rows` kept ones.
  """
  kept, is_unread = np.arange(len(rows)), np.zeros(len(rows), bool)
  before: _Kept = _AllKept(kept_rows)
  if takes_lists(index, len(positions) ** 2 / 2 * rows.dim) and len(positions):
    before = _ListedKept(rows, positions, lowest, keys)
  with Progress(len(positions), show_progress_bar, "comparing") as progress:
    for start in range(0, len(positions), block_rows):
      numbers = positions[start : start + block_rows]
      block, keys_of_block = rows.take(numbers), keys[numbers]
      found, is_other = before.find(block, keys_of_block, lowest)
      found[numbers < against] = -1
      kept[numbers[found >= 0]] = found[found >= 0]
      # Compare the block's rows with each other.
      close = np.triu(cosines_of(block, block) >= lowest, 1)
      for row in np.flatnonzero(close.any(axis=1)):
        if kept[numbers[row]] == numbers[row]:
          has_key = keys_of_block == keys_of_block[row]
          later = numbers[close[row] & has_key]
          kept[later[(kept[later] == later) & (later >= against)]] = numbers[row]
          is_other |= close[row] & ~has_key
      is_kept = kept[numbers] == numbers
      is_unread[numbers[is_other & is_kept & (numbers >= against)]] = True
      before.add(block[is_kept], numbers[is_kept], keys_of_block[is_kept])
      progress.update(len(block))
  if isinstance(before, _ListedKept):
    before.log_recall(kept, lowest)
  return kept, is_unread


class _Kept(Protocol):
  """Rows that were kept so far."""

  def add(self, rows: np.ndarray, numbers: np.ndarray, keys: np.ndarray) -> None:
    """Adds rows of length 1, [m, dim], their numbers and their keys."""

  def find(self, block: np.ndarray, keys: np.ndarray, lowest: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each row of a block the number of a kept row with its key and a cosine of at least `lowest`, or -1.

    The second result says whether a kept row of another key is so similar.
    """


class _AllKept:
  """Kept rows that a block is compared with one by one."""

  def __init__(self, block_rows: int) -> None:
    self._block_rows = block_rows
    self._blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

  def add(self, rows, numbers, keys):
    added = (rows, numbers, keys)
    if self._blocks and len(self._blocks[-1][0]) < self._block_rows:
      added = tuple(map(np.concatenate, zip(self._blocks.pop(), added, strict=True)))
    self._blocks.append(added)

  def find(self, block, keys, lowest):
    first, is_other = np.full(len(block), -1), np.zeros(len(block), bool)
    for rows, numbers, keys_of_rows in self._blocks:
      close = cosines_of(block, rows) >= lowest
      places = np.flatnonzero(close.any(axis=1))
      close = close[places]
      has_key = keys[places, np.newaxis] == keys_of_rows
      is_other[places] |= (close & ~has_key).any(axis=1)
      close &= has_key
      found = close.any(axis=1) & (first[places] < 0)
      first[places[found]] = numbers[close[found].argmax(axis=1)]
    return first, is_other


class _ListedKept:
  """Kept rows in inverted lists."""

  def __init__(self, rows, positions, lowest, keys):
    self._rows, self._positions, self._keys = rows, positions, keys
    self._of_key: dict[int, list[int]] = {}
    compared = rows.select(positions)
    self._lists = InvertedLists.train(compared, fast=True)
    self._lists.tune(compared, lowest=lowest)

  def add(self, rows, numbers, keys):
    self._lists.add(rows, numbers)
    is_unread = keys != READ
    for number, key in zip(numbers[is_unread].tolist(), keys[is_unread].tolist(), strict=True):
      self._of_key.setdefault(key, []).append(number)

  def find(self, block, keys, lowest):
    first, is_other = self._lists.similar(block, self._rows, lowest, keys, self._keys)
    # Similar rows of other keys may have taken the places of all candidates, as of texts that begin alike.
    for row in np.flatnonzero(is_other & (first < 0) & (keys != READ)):
      numbers = np.array(self._of_key.get(int(keys[row]), []), np.int64)
      close = cosines_of(block[row : row + 1], self._rows.take(numbers))[0] >= lowest
      first[row] = numbers[close.argmax()] if close.any() else -1
    return first, is_other

  def log_recall(self, kept, lowest):
    """Logs how many near-duplicates among sampled rows were found, of those that all cosines find."""
    sample = self._positions[sample_of(len(self._positions))]
    queries = self._rows.take(sample)
    has_duplicate = np.zeros(len(sample), bool)
    originals = self._positions[kept[self._positions] == self._positions]
    for start, block in self._rows.select(originals).blocks():
      close = cosines_of(queries, block) >= lowest
      numbers = originals[start : start + len(block)]
      close &= self._keys[numbers] == self._keys[sample, np.newaxis]
      has_duplicate |= (close & (numbers < sample[:, np.newaxis])).any(axis=1)
    found = int(np.count_nonzero(has_duplicate & (kept[sample] != sample)))
    message = "index: %d of %d lists read per row; of %d sampled rows, %d have a near-duplicate by exact cosines, and "
    message += "%d of them were found"
    counts = (self._lists.probes, self._lists.lists, len(sample), np.count_nonzero(has_duplicate), found)
    logging.info(message, *counts)
