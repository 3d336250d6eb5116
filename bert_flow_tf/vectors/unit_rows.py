"""Rows of length 1 of arrays that may be larger than memory, their cosines and their nearest rows; NumPy alone."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bert_flow_tf.evaluation.metrics import normalized
from bert_flow_tf.io.checks import check_rows, chunks

# Cosines above this are those of equal rows, since float32 rounds.
TIED = np.float32(1 - 1e-6)
# Steps of numbers in exact cosines.
_GRID = np.float64(2.0**26)
# Candidates per nearest row that are few, and pairs whose exact cosines are computed at once.
_FEW, _PAIRS = 4, 8192
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


def exact_cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  """Returns the cosines of rows of length 1, float32 [n, m], whose last bits no size of a block and no order changes.

  By them, and then by rows, nearest rows are ordered. They take three times as long as `cosines_of`.
  """
  return tied((_on_grid(a) @ _on_grid(b).T / _GRID**2).astype(np.float32))


def exact_cosines_of_pairs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  """Returns the cosine of each pair of rows of length 1, float32 [n]; the same bits as `exact_cosines`."""
  return tied((np.einsum("nd,nd->n", _on_grid(a), _on_grid(b)) / _GRID**2).astype(np.float32))


def exact_cosines_at(a: np.ndarray, i: np.ndarray, b: np.ndarray, j: np.ndarray) -> np.ndarray:
  """Returns the `exact_cosines_of_pairs` of the rows i of `a` and j of `b`, int64 [n] each."""
  parts = [np.empty(0, np.float32)]
  for start in range(0, len(i), _PAIRS):
    part = slice(start, start + _PAIRS)
    parts.append(exact_cosines_of_pairs(a[i[part]], b[j[part]]))
  return np.concatenate(parts)


def error_of(dim: int) -> np.float32:
  """Returns a bound of the differences of cosines in float32, as `cosines_of`, and exact ones."""
  return np.float32((dim + 8) * 2.0**-24)


def _on_grid(rows):
  """Returns rows of length 1 as integers, float64: products of two rows add up to 2^52, without any rounding."""
  numbers = rows * _GRID
  return np.rint(numbers, out=numbers)


def tied(cosines: np.ndarray) -> np.ndarray:
  """Returns cosines, in place those that are 1 but for rounding as 1."""
  cosines[cosines > TIED] = 1
  return cosines


def nearest(queries: np.ndarray, corpus: UnitRows, k: int, chunk: int = CHUNK) -> Neighbors:
  """Returns the k rows nearest to each query of length 1, by all cosines; equal ones by increasing row.

  The lists of a smaller k, of other queries beside these and of another `chunk` are the same.
  """
  width = 0 if len(queries) else k
  best = Neighbors(np.zeros([len(queries), width], np.float32), np.zeros([len(queries), width], np.int64))
  least = np.full(len(queries), -np.inf, np.float32)
  found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
  for start, block in corpus.blocks(chunk):
    query, place, cosines = _candidates(queries, block, k, least)
    found.append((query, place + start, cosines))
    if sum(len(query) for query, _, _ in found) >= len(queries) * k:
      best, found = _best_of(best, found, k), []
      # An equal cosine is not enough any more, as the rows before have it; none is above 1.
      if best.rows.shape[1] == k:
        least = np.where(best.scores[:, -1] == 1, np.inf, best.scores[:, -1])
  return _best_of(best, found, k)


def _best_of(best, found, k):
  """Returns the k nearest rows of `best` and of lists (numbers of queries, rows, cosines), with as many per query."""
  m, width = best.rows.shape
  if not m or not found:
    return best
  query, rows, cosines = zip(
    (np.repeat(np.arange(m), width), best.rows.ravel(), best.scores.ravel()), *found, strict=True
  )
  query, rows, cosines = np.concatenate(query), np.concatenate(rows), np.concatenate(cosines)
  order = np.lexsort([rows, -cosines, query])
  first = np.searchsorted(query[order], np.arange(m))
  order = order[np.arange(len(order)) - first[query[order]] < k].reshape([m, -1])
  return Neighbors(cosines[order], rows[order])


def _candidates(queries, block, k, least):
  """Returns (numbers of queries, places in a block, cosines) with the k nearest of the block above `least`, [m]."""
  approximate, error = queries @ block.T, error_of(block.shape[1])
  least = least - error
  is_near = approximate >= least[:, np.newaxis]
  if len(block) > k and np.count_nonzero(is_near) > _FEW * k * len(queries):
    kth = np.minimum(np.partition(approximate, -k, axis=1)[:, -k], TIED) - 2 * error
    is_near = approximate >= np.maximum(least, kth)[:, np.newaxis]
  # All cosines take less time than those of many pairs: so many, measured for 384 dimensions.
  if np.count_nonzero(is_near) <= len(block) // 2 + is_near.size // 32:
    query, place = np.nonzero(is_near)
    return query, place, exact_cosines_at(queries, query, block, place)
  cosines = exact_cosines(queries, block)
  if len(block) > k:  # many are nearly equal: the first ones of the equal
    kth = np.partition(cosines, -k, axis=1)[:, -k, np.newaxis]
    is_near = cosines > kth
    is_kth = cosines == kth
    is_near |= is_kth & (np.cumsum(is_kth, axis=1, dtype=np.int32) <= k - is_near.sum(axis=1, keepdims=True))
  else:
    is_near = np.ones(cosines.shape, bool)
  query, place = np.nonzero(is_near)
  return query, place, cosines[query, place]


def best_first(scores: np.ndarray, rows: np.ndarray) -> Neighbors:
  """Returns scores and rows [m, k] by decreasing score, equal ones by increasing row."""
  order = np.lexsort([rows, -scores], axis=1)
  return Neighbors(np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1))
