"""Rows of length 1 of arrays that may be larger than memory, their cosines and their nearest rows; NumPy alone."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bert_flow_tf.evaluation.metrics import normalized
from bert_flow_tf.io.checks import check_rows, chunks

# Cosines of equal rows differ from 1 by less, since float32 rounds.
_ROUNDING = 1e-6
# Rows of a corpus that queries are compared with at once; with 1024 queries, 64 MiB of cosines.
CHUNK = 16384


class Neighbors(NamedTuple):
  """Nearest rows of a corpus for m queries, the nearest first.

  Attributes:
    scores: cosines, float32 [m, k].
    rows: rows of the corpus, from 0, int64 [m, k].
  """

  scores: np.ndarray
  rows: np.ndarray


class RowSource(Protocol):
  """Array [n, dim], or a file that is read as an array."""

  def __len__(self) -> int:
    """Returns n."""

  def __getitem__(self, rows: np.ndarray | slice, /) -> np.ndarray:
    """Returns the rows of these positions, [m, dim]."""


class UnitRows:
  """Rows [n, dim] of one or more arrays or files, which are divided by their lengths when they are taken.

  Args:
    parts: the arrays, one after the other.
    dim: their dimensions.
    is_unit: whether they have the length 1 already.
  """

  def __init__(self, parts: Sequence[RowSource], dim: int, is_unit: bool = False) -> None:
    self.parts, self.dim = list(parts), dim
    self._starts = np.cumsum([0, *map(len, parts)])
    self._unit = _same if is_unit else unit

  def __len__(self) -> int:
    return int(self._starts[-1])

  def __add__(self, other: "UnitRows") -> "UnitRows":
    return UnitRows([*self.parts, *other.parts], self.dim)

  def take(self, rows: np.ndarray) -> np.ndarray:
    """Returns the rows of these positions, float32 [m, dim], of length 1; a row of zeros stays."""
    taken = np.empty([len(rows), self.dim], np.float32)
    parts = np.searchsorted(self._starts, rows, side="right") - 1
    for part in np.unique(parts).tolist():
      here = parts == part
      taken[here] = self.parts[part][rows[here] - self._starts[part]]
    return self._unit(taken)

  def blocks(self, size: int = CHUNK) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (position of the first row, rows of length 1) of consecutive blocks of at most `size` rows."""
    for start, part in zip(self._starts.tolist(), self.parts, strict=False):
      for first in range(0, len(part), size):
        yield start + first, self._unit(part[first : first + size])

  def select(self, positions: np.ndarray) -> "UnitRows":
    """Returns the rows of some positions, int64 [m], as rows of their own."""
    return UnitRows([_Selected(self, positions)], self.dim)


class _Selected:
  """Some rows, by their positions."""

  def __init__(self, rows, positions):
    self._rows, self._positions = rows, positions

  def __len__(self):
    return len(self._positions)

  def __getitem__(self, rows):
    return self._rows.take(self._positions[rows])


def _same(rows):
  return rows


def unit(rows: np.ndarray) -> np.ndarray:
  """Returns rows [n, dim] divided by their lengths, float32; rows of zeros stay."""
  result = np.empty(rows.shape, np.float32)
  for start, chunk in chunks(rows):
    result[start : start + len(chunk)] = normalized(chunk)
  return result


def checked_unit_rows(embeddings: npt.ArrayLike, name: str = "embeddings", dim: int | None = None) -> np.ndarray:
  """Returns checked embeddings [n, dim] divided by their lengths, float32; a CalibrationError names a wrong array."""
  return unit(check_rows(embeddings, dim, name=name))


def cosines_of(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  """Returns the cosines of rows of length 1, float32 [n, m]; 1 for rows that are equal but for rounding."""
  return tied(a @ b.T)


def cosines_of_pairs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  """Returns the cosine of each pair of rows of length 1, float32 [n]; rounded as `cosines_of`."""
  return tied(np.einsum("nd,nd->n", a, b))


def tied(cosines: np.ndarray) -> np.ndarray:
  """Returns cosines, in place those that are 1 but for rounding as 1."""
  cosines[cosines > 1 - _ROUNDING] = 1
  return cosines


def nearest(queries: np.ndarray, corpus: UnitRows, k: int, chunk: int = CHUNK) -> Neighbors:
  """Returns the k rows nearest to each query of length 1, by all cosines."""
  scores, rows = np.zeros([len(queries), 0], np.float32), np.zeros([len(queries), 0], np.int64)
  for start, block in corpus.blocks(chunk):
    cosines = cosines_of(queries, block)
    places = _largest(cosines, k)
    # The best of this block and of the blocks before.
    scores = np.concatenate([scores, np.take_along_axis(cosines, places, axis=1)], axis=1)
    rows = np.concatenate([rows, places + start], axis=1)
    places = _largest(scores, k)
    scores, rows = np.take_along_axis(scores, places, axis=1), np.take_along_axis(rows, places, axis=1)
  return best_first(scores, rows)


def best_first(scores: np.ndarray, rows: np.ndarray) -> Neighbors:
  """Returns scores and rows [m, k] by decreasing score, equal ones by increasing row."""
  order = np.lexsort([rows, -scores], axis=1)
  return Neighbors(np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1))


def _largest(values: np.ndarray, k: int) -> np.ndarray:
  """Returns the places of the k largest values of each row, in any order; all places if there are no more."""
  if values.shape[1] <= k:
    return np.broadcast_to(np.arange(values.shape[1]), values.shape)
  return np.argpartition(values, -k, axis=1)[:, -k:]
