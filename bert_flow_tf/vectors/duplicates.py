"""Near-duplicates by cosine: each row is compared with the rows that are kept before it, or with an index of them.

Two texts are near-duplicates if their cosine reaches the threshold, their numbers are equal, and so is what the encoder
does not read of them: "Order 4711" and "Order 4712" are nearly one embedding, and two orders.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bert_flow_tf.data.pairs import Texts, check_sentences
from bert_flow_tf.errors import ConfigError, DataError, naming
from bert_flow_tf.io.checks import check_rows, is_integer, shown
from bert_flow_tf.progress import counted, either_name
from bert_flow_tf.vectors.inverted_lists import EXACT
from bert_flow_tf.vectors.kept_rows import first_similar
from bert_flow_tf.vectors.nearest import SupportsEncode, check_model, rows_with_text
from bert_flow_tf.vectors.unit_rows import CHUNK, UnitRows, cosines_of_pairs
from bert_flow_tf.vectors.unread_keys import READ, UNKNOWN, unread_keys
from bert_flow_tf.vectors.unrelated import check_threshold, check_threshold_of, is_calibrated
from bert_flow_tf.vectors.vector_folder import VectorFolder

EQUAL, NEAR = "equal", "near"
# Columns of the report with texts and without.
_COLUMNS = ("record", "text", "original_file", "original", "original_text", "cosine", "reason")
_COLUMNS_OF_IDS = tuple(name for name in _COLUMNS if "text" not in name)


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
  model: SupportsEncode | None = None,
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
  model: SupportsEncode | None = None,
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
  if model is not None:
    check_model(model)
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
    raise ConfigError(f"against={shown(against)}: expected a number of rows, 0 to {len(rows)}", argument="against")
  if sentences is not None:
    keys = unread_keys(model, sentences)
  arguments: Any = {"against": against, "allow_unrelated": allow_unrelated, "calibrated": is_calibrated(model)}
  return duplicates_of_rows(rows, lowest, index, show_progress_bar, sentences, keys, **arguments)


def _embedded(model, texts, batch_size, show_progress_bar):
  """Returns the embeddings of texts by a model, each distinct text once; rows of zeros for blank ones."""
  first = first_equal(texts)
  distinct = np.intersect1d(first, rows_with_text(texts))
  vectors = model.encode([texts[row] for row in distinct], batch_size=batch_size, show_progress_bar=show_progress_bar)
  # The last row is of the blank texts; as a part of its own, since to append it would copy all vectors.
  parts = [check_rows(vectors), np.zeros([1, vectors.shape[1]], np.float32)]
  places = np.full(len(texts), len(distinct))
  places[distinct] = np.arange(len(distinct))
  return UnitRows(parts, vectors.shape[1]).select(places[first])


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
  calibrated: bool = False,
) -> Duplicates:
  """Returns the near-duplicates among rows; `keys` are `unread_keys`, for other arguments see `find_duplicates`.

  `calibrated`: see `check_threshold_of`.
  """
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
  check_threshold_of(rows, positions, lowest, texts, allow_unrelated, keys, calibrated)
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


def duplicates_of_folder(
  vectors: VectorFolder,
  lowest: float,
  index: str,
  show_progress_bar: bool,
  *,
  against: VectorFolder | None = None,
  allow_unrelated: bool = True,
) -> Duplicates:
  """Returns the near-duplicates of a folder, compared after the vectors of the folder `against`, which are kept.

  Raises:
    ConfigError: see `find_duplicates`; or the folders are of different encoders or calibrations, or share vectors.
    DataError: a file is damaged.
  """
  vectors.check()
  rows, keys, old = vectors.rows, vectors.unread_keys(), 0
  if against is not None:
    with naming("against", instead_of="vectors"):
      against.check_against(vectors)
      against.check()
      keys = np.concatenate([against.unread_keys(), keys])
    rows, old = against.rows + rows, len(against.rows)
  calibrated = vectors.embedder.get("calibration_sha256") is not None
  arguments: Any = {"against": old, "allow_unrelated": allow_unrelated, "calibrated": calibrated}
  return duplicates_of_rows(rows, lowest, index, show_progress_bar, None, keys, **arguments)


def first_equal(texts: list[str]) -> np.ndarray:
  """Returns for each text the position of the first that is equal to it, int64 [n]."""
  first: dict[str, int] = {}
  return np.array([first.setdefault(text, position) for position, text in enumerate(texts)], np.int64)


def report_table(duplicates: Duplicates, record: Callable[[int], tuple], has_texts: bool, as_json: bool) -> str:
  """Returns a line for each row that is dropped, with its original, their cosine and the reason: TSV or JSON lines.

  `record` returns file, number or id, and, if the rows have texts, the text of a row.
  """
  names = _COLUMNS if has_texts else _COLUMNS_OF_IDS
  lines = []
  for row in duplicates.dropped.tolist():
    _, *values = record(row)
    original = record(int(duplicates.originals[row]))
    cosine = round(float(duplicates.cosines[row]), 6)
    lines.append((*values, *original, cosine, duplicates.reason(row)))
  if as_json:
    return "".join(json.dumps(dict(zip(names, line, strict=True)), ensure_ascii=False) + "\n" for line in lines)
  return "".join("\t".join(" ".join(str(value).split()) for value in line) + "\n" for line in [names, *lines])


def counts_of(duplicates: Duplicates, name: str, records: int, notes: Sequence[str] = ()) -> str:
  """Returns how many of a number of records, of this `name`, are kept and left out; `notes` are further counts."""
  dropped = len(duplicates.dropped)
  counts = [f"{counted(records - dropped, name)} of {records} kept", *notes]
  if dropped:
    equal = np.count_nonzero(duplicates.is_equal)
    counts.append(f"duplicates: {equal} equal, {dropped - equal} near")
  return "; ".join(counts)
