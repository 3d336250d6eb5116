"""Near-duplicates by cosine: each row is compared with the rows that are kept before it, or with an index of them.

Two texts are near-duplicates if their cosine reaches the threshold, their numbers are equal, and so is what the encoder
does not read of them: "Order 4711" and "Order 4712" are nearly one embedding, and two orders.
"""

import dataclasses
import hashlib
import re
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from absl import logging

from bert_flow_tf.data.pairs import Texts, check_sentences
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.io.checks import check_rows, is_integer
from bert_flow_tf.progress import Progress, either_name
from bert_flow_tf.vectors.inverted_lists import EXACT, InvertedLists, sample_of, takes_lists
from bert_flow_tf.vectors.nearest import rows_with_text
from bert_flow_tf.vectors.paraphrases import check_threshold
from bert_flow_tf.vectors.unit_rows import CHUNK, UnitRows, cosines_of, cosines_of_pairs
from bert_flow_tf.vectors.unrelated import check_threshold_of

# Rows whose near-duplicates are looked for at once, and kept rows that they are compared with at once.
_ROWS, _COLUMNS = 1024, 4096
EQUAL, NEAR = "equal", "near"
# Keys of numbers and unread parts: of a text without any, and of one of which nothing is known; others are positive.
READ, UNKNOWN = 0, -1
# Words, of which Chinese, Japanese and Korean have no letters; marks at their end are of the sentence.
_WORD = re.compile(r"[^\s\u2e80-\ud7ff\uf900-\ufaff]+")
_AT_END = ".,;:!?)]}\"'\u2026\uff0c\uff1b\uff1a\uff01\uff1f\uff09"
_MINUS = ("-", "\u2013", "\u2212")


@dataclasses.dataclass(frozen=True)
class Duplicates:
  """Result of `find_duplicates`, by rows from 0.

  Attributes:
    originals: for each row the kept row that it is dropped for, or the row itself, which is kept; int64 [n].
    cosines: cosine of each row and its original, 1 for a kept row; float32 [n].
    is_equal: whether a row is dropped because its text is equal to its original's; bool [n].
    incomparable: rows of zeros, of blank texts and of texts of which the encoder knows nothing, which are kept; int64.
    differently_unread: rows that are kept although a kept row before them is so similar, because the two texts differ
      in numbers, or in parts that the encoder does not read (cut off, unknown or without weight); int64.
  """

  originals: np.ndarray
  cosines: np.ndarray
  is_equal: np.ndarray
  incomparable: np.ndarray
  differently_unread: np.ndarray

  @property
  def kept(self) -> np.ndarray:
    """Rows that are kept, increasing, int64."""
    return np.flatnonzero(self.originals == np.arange(len(self.originals)))

  @property
  def dropped(self) -> np.ndarray:
    """Rows that are dropped, increasing, int64."""
    return np.flatnonzero(self.originals != np.arange(len(self.originals)))

  def reason(self, row: int) -> str:
    """Returns why a row is dropped: "equal" for an equal text, "near" for a similar one; "" for a kept row."""
    if self.originals[row] == row:
      return ""
    return EQUAL if self.is_equal[row] else NEAR


@either_name
def near_duplicates(
  embeddings: npt.ArrayLike,
  threshold: float = 0.9,
  show_progress_bar: bool = False,
  *,
  texts: Texts | None = None,
  model: Any = None,
  index: str = EXACT,
) -> np.ndarray:
  """Returns for each row the first kept row with a cosine of at least `threshold`, or the row itself, which is kept.

  These are the `originals` of `find_duplicates`, which says more; for the arguments and errors see there.

  Returns:
    int64 [n], rows from 0.
  """
  arguments: Any = {"texts": texts, "model": model, "index": index}
  return find_duplicates(embeddings, threshold, show_progress_bar, **arguments).originals


@either_name
def find_duplicates(
  embeddings: npt.ArrayLike | None,
  threshold: float = 0.9,
  show_progress_bar: bool = False,
  *,
  texts: Texts | None = None,
  model: Any = None,
  index: str = EXACT,
  against: int = 0,
  batch_size: int = 64,
  allow_unrelated: bool = True,
) -> Duplicates:
  """Returns which rows are near-duplicates: their cosine with a kept row before them is at least `threshold`.

  Rows are kept in their order: one is dropped only if a kept row before it is so similar. A row of zeros or of a blank
  text has no duplicates. With `texts`, those with other numbers are no duplicates. With `model`, texts of which the
  encoder knows nothing have none, and other texts have them only if the parts are equal that the encoder does not read:
  cut off, unknown to its vocabulary or without weight.

      found = find_duplicates(None, texts=texts, model=model)
      [texts[row] for row in found.kept]

  Args:
    embeddings: n embeddings, [n, dim]; None for those of the texts by the model.
    threshold: smallest cosine of a near-duplicate, -1 to 1.
    show_progress_bar: see `search_embeddings`.
    texts: the n sentences, to know blank and equal ones, and their numbers; None without.
    model: the `SentenceModel` of the embeddings, to know what it reads of the texts; None without.
    index: "exact" compares every pair; "ivf" looks into inverted lists of FAISS, misses a few near-duplicates, whose
      share is measured and logged, and names a kept row that need not be the first; "auto" is "ivf" where every pair
      would take over a minute, if FAISS is installed.
    against: number of rows, the first ones, that are kept whatever they are; the others are compared with them, too.
    batch_size: see `SentenceModel.encode`.
    allow_unrelated: whether a threshold that random pairs of the rows reach is a warning, or else an error.

  Raises:
    DataError: not n texts.
    CalibrationError: embeddings are not [n, dim] of finite numbers.
    ConfigError: the threshold is not from -1 to 1, or unrelated rows reach it; texts or model are missing, another
      argument is not allowed, or FAISS is not installed.
  """
  lowest = check_threshold(threshold)
  if model is not None and texts is None:
    raise ConfigError("texts: missing; expected the sentences of the embeddings, as a model is given", "texts")
  if embeddings is None and model is None:
    raise ConfigError("model: missing; expected the model of the embeddings, or embeddings", argument="model")
  sentences, keys = None, None
  if texts is not None:
    sentences = check_sentences(texts, "texts")
  if embeddings is None:
    rows = _embedded(model, sentences, batch_size, show_progress_bar)
  else:
    array = check_rows(embeddings)
    rows = UnitRows([array], array.shape[1])
  if sentences is not None and len(sentences) != len(rows):
    raise DataError(f"texts: {len(sentences)} for {len(rows)} embeddings; expected as many", argument="texts")
  if not is_integer(against, 0) or against > len(rows):
    raise ConfigError(f"against={against}: expected a number of rows, 0 to {len(rows)}", argument="against")
  if sentences is not None:
    keys = unread_keys(model, sentences)
  return duplicates_of_rows(
    rows, lowest, index, show_progress_bar, sentences, keys, against=against, allow_unrelated=allow_unrelated
  )


def _embedded(model, texts, batch_size, show_progress_bar):
  """Returns the embeddings of texts by a model, each distinct text once; rows of zeros for blank ones."""
  first = first_equal(texts)
  distinct = np.intersect1d(first, rows_with_text(texts))
  vectors = model.encode([texts[row] for row in distinct], batch_size=batch_size, show_progress_bar=show_progress_bar)
  # The last row is of the blank texts.
  vectors = np.concatenate([vectors, np.zeros_like(vectors, shape=[1, vectors.shape[1]])])
  places = np.full(len(texts), len(distinct))
  places[distinct] = np.arange(len(distinct))
  return UnitRows([check_rows(vectors)], vectors.shape[1]).select(places[first])


def unread_keys(model: Any, texts: list[str]) -> np.ndarray:
  """Returns keys of the numbers of texts and of the parts that a model does not read, int64 [n]; equal for equal ones.

  READ without both, UNKNOWN for a text of which the model knows nothing. A model without `unread`, as None or one of
  another package, counts as reading all.
  """
  reads_all = not hasattr(model, "unread")
  keys = np.full(len(texts), READ)
  for start in range(0, len(texts), CHUNK):  # as many tokens in memory as while they are embedded
    chunk = texts[start : start + CHUNK]
    parts = [""] * len(chunk) if reads_all else model.unread(chunk)
    maybe_unknown = []
    for row, part in enumerate(parts, start):
      different = " ".join([*_numbers_of(texts[row]), part])
      if different:
        digest = hashlib.sha256(different.encode("utf-8", "surrogatepass")).digest()
        keys[row] = 1 + int.from_bytes(digest[:7], "little")
      if part or not any(map(str.isalnum, texts[row])):  # unknown punctuation is no part
        maybe_unknown.append(row)
    if reads_all:
      continue
    is_known = model.knows([texts[row] for row in maybe_unknown])
    keys[np.array(maybe_unknown, np.int64)[~is_known]] = UNKNOWN
  return keys


def _numbers_of(text: str) -> list[str]:
  """Returns the words of a text that have a digit: "4711", "3-5", "$.5", "10k", "- 5"."""
  if not any(map(str.isdigit, text)):
    return []
  words = _WORD.findall(text.casefold())
  found = []
  for place, word in enumerate(words):
    if any(map(str.isdigit, word)):
      sign = "- " if place and words[place - 1] in _MINUS else ""
      found.append(sign + word.rstrip(_AT_END))
  return found


def duplicates_of_rows(
  rows: UnitRows,
  lowest: float,
  index: str,
  show_progress_bar: bool,
  texts: list[str] | None = None,
  keys: np.ndarray | None = None,
  *,
  against: int = 0,
  allow_unrelated: bool = True,
) -> Duplicates:
  """Returns the near-duplicates among rows; `keys` are `unread_keys`, for other arguments see `find_duplicates`."""
  numbers = np.arange(len(rows))
  parts = [block.any(axis=1) for _, block in rows.blocks()]
  is_comparable = np.concatenate([np.zeros(0, bool), *parts])
  originals = numbers
  if keys is None:
    keys = np.full(len(rows), READ)
  is_comparable &= keys != UNKNOWN
  if texts is not None:
    is_comparable &= np.isin(numbers, rows_with_text(texts))
    originals = first_equal(texts)
    originals[:against] = numbers[:against]
  is_copy = is_comparable & (originals != numbers)
  positions = np.flatnonzero(is_comparable & ~is_copy)
  check_threshold_of(rows, positions, lowest, texts, allow_unrelated, keys)
  kept, is_unread = first_similar(rows, positions, lowest, index, show_progress_bar, keys, against)
  kept[is_copy] = kept[originals[is_copy]]
  dropped = np.flatnonzero(kept != numbers)
  cosines = np.ones(len(rows), np.float32)
  for start in range(0, len(dropped), CHUNK):
    part = dropped[start : start + CHUNK]
    cosines[part] = cosines_of_pairs(rows.take(part), rows.take(kept[part]))
  is_equal = is_copy & (kept == originals)
  cosines[is_equal] = 1
  return Duplicates(kept, cosines, is_equal, np.flatnonzero(~is_comparable), np.flatnonzero(is_unread))


def first_equal(texts: list[str]) -> np.ndarray:
  """Returns for each text the position of the first that is equal to it, int64 [n]."""
  first: dict[str, int] = {}
  return np.array([first.setdefault(text, position) for position, text in enumerate(texts)], np.int64)


def first_similar(
  rows: UnitRows,
  positions: np.ndarray,
  lowest: float,
  index: str,
  show_progress_bar: bool,
  keys: np.ndarray,
  against: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns for each row a kept row before it with its key and a cosine of at least `lowest`, or itself, int64 [n].

  Only rows at the increasing `positions` are compared; the others are kept, and so are those before `against`. The
  second result says which kept rows have such a row of another key, bool [n].
  """
  kept, is_unread = np.arange(len(rows)), np.zeros(len(rows), bool)
  before: _Kept = _AllKept()
  if takes_lists(index, len(positions) ** 2 / 2 * rows.dim) and len(positions):
    before = _ListedKept(rows, positions, lowest, keys)
  with Progress(len(positions), show_progress_bar, "comparing") as progress:
    for start in range(0, len(positions), _ROWS):
      numbers = positions[start : start + _ROWS]
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

  def __init__(self):
    self._blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

  def add(self, rows, numbers, keys):
    added = (rows, numbers, keys)
    if self._blocks and len(self._blocks[-1][0]) < _COLUMNS:
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
