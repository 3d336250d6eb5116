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
# Pairs whose exact cosines are computed at once, by rows that a cache of the processor holds.
_PAIRS = 512
# Rows that are taken at once.
_TAKEN = 8192
# Rows beside the k nearest that are kept where their cosines in float32 are as good; and one of so many rows is a large
# share of them.
_MORE, _SHARE = 256, 8
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
    parts = np.searchsorted(self._starts, rows, side="right") - 1
    present = np.unique(parts).tolist()
    if len(present) == 1:
      part = present[0]
      return self._unit(np.asarray(self.parts[part][rows - self._starts[part]], np.float32))
    taken = np.empty([len(rows), self.dim], np.float32)
    for part in present:
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


def exact_cosines_to(queries: np.ndarray, rows: np.ndarray, corpus: UnitRows) -> np.ndarray:
  """Returns the `exact_cosines` of each query and w rows of a corpus of its own, int64 [m, w]; float32 [m, w]."""
  cosines = np.empty(rows.shape, np.float32)
  on_grid = _on_grid(queries)
  many, few = max(1, _TAKEN // rows.shape[1]), max(1, _PAIRS // rows.shape[1])
  for start in range(0, len(rows), many):
    for first in range(0, rows.shape[1], _TAKEN):
      at_once = rows[start : start + many, first : first + _TAKEN]
      taken = corpus.take(at_once.ravel()).reshape([*at_once.shape, -1])
      for place in range(0, len(at_once), few):
        part = slice(start + place, start + min(place + few, many))
        products = _on_grid(taken[place : place + few]) @ on_grid[part, :, np.newaxis]
        cosines[part, first : first + _TAKEN] = products[:, :, 0] / _GRID**2
  return tied(cosines)


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


class _Found(NamedTuple):
  """Rows that may be among the nearest of m queries, [m, w] each.

  Attributes:
    cosines: cosines, with an error of at most `error_of`; -inf for no row.
    rows: the rows.
    is_exact: whether a cosine is the exact one.
  """

  cosines: np.ndarray
  rows: np.ndarray
  is_exact: np.ndarray

  @classmethod
  def none(cls, m: int, width: int) -> "_Found":
    """Returns no rows."""
    return cls(np.full([m, width], -np.inf, np.float32), np.zeros([m, width], np.int64), np.zeros([m, width], bool))

  def of(self, queries: np.ndarray) -> "_Found":
    """Returns the rows of queries of these numbers, int64 [n]."""
    return _Found(*(array[queries] for array in self))

  def put(self, queries: np.ndarray, found: "_Found") -> None:
    """Replaces the rows of queries of these numbers, int64 [n], by as many or fewer."""
    self.cosines[queries] = -np.inf
    for array, others in zip(self, found, strict=True):
      array[queries, : others.shape[1]] = others

  def kth(self, k: int) -> np.ndarray:
    """Returns the k-th largest of at least k cosines of each query, [m]."""
    return np.partition(self.cosines, -k, axis=1)[:, -k]

  def is_near(self, kth: np.ndarray, error: np.float32) -> np.ndarray:
    """Returns which rows may be among the k nearest, where the k-th largest cosines are `kth`; bool [m, w]."""
    return self.cosines >= (np.minimum(kth, TIED) - 2 * error)[:, np.newaxis]


def nearest(queries: np.ndarray, corpus: UnitRows, k: int, chunk: int = CHUNK) -> Neighbors:
  """Returns the k rows nearest to each query of length 1, by all cosines; equal ones by increasing row.

  The lists of a smaller k, of other queries beside these and of another `chunk` are the same.
  """
  m, k = len(queries), min(k, len(corpus))
  result = Neighbors(np.zeros([m, k], np.float32), np.tile(np.arange(k), [m, 1]))
  has_length = np.flatnonzero(queries.any(axis=1))  # all rows are as near to the others
  if k and has_length.size:
    result.scores[has_length], result.rows[has_length] = _nearest(queries[has_length], corpus, k, chunk)
  return result


def _nearest(queries, corpus, k, chunk):
  """Returns `nearest` of queries that are not zeros: by cosines in float32, then by exact ones of those near the k."""
  found, least = _Found.none(len(queries), 0), np.full(len(queries), -np.inf, np.float32)
  # Of a large share of rows, exact cosines of all take less time.
  of_block = _nearest_of_block if k > len(corpus) // _SHARE else _near_of_block
  for start, block in corpus.blocks(chunk):
    more = of_block(queries, block, k, least)
    more.rows[:] += start
    found = _Found(*(np.concatenate(arrays, axis=1) for arrays in zip(found, more, strict=True)))
    found, least = _without_others(found, queries, corpus, k)
  best = _exactly(found, queries, corpus, k)
  return Neighbors(best.cosines, best.rows)


def _near_of_block(queries, block, k, least):
  """Returns the rows of a block that may be among the k nearest, of cosines of at least `least`, [m]."""
  m, width = len(queries), min(k + _MORE, len(block))
  cosines = queries @ block.T
  is_near = cosines >= least[:, np.newaxis]
  if np.count_nonzero(is_near) > m * width:
    many, found = np.arange(m), _largest(cosines, width)
  else:
    query, place = np.nonzero(is_near)
    counts = np.bincount(query, minlength=m)
    column = np.arange(len(query)) - (np.cumsum(counts) - counts)[query]
    query, place, column = (numbers[column < width] for numbers in (query, place, column))
    found = _Found.none(m, min(width, int(counts.max())))
    found.cosines[query, column], found.rows[query, column] = cosines[query, place], place
    many = np.flatnonzero(counts > width)
    if many.size:
      found.put(many, _largest(cosines[many], width))
  if many.size and width < len(block):
    # Where the last ones are near, too, there may be others.
    of_many = found.of(many)
    is_crowded = of_many.is_near(of_many.kth(k), error_of(block.shape[1])) & (
      of_many.cosines >= least[many, np.newaxis]
    )
    crowded = many[is_crowded.all(axis=1)]
    if crowded.size:
      found.put(crowded, _nearest_of_block(queries[crowded], block, k))
  return found


def _largest(cosines, width):
  """Returns the rows of the `width` largest cosines of each query."""
  places = np.argpartition(cosines, cosines.shape[1] - width, axis=1)[:, cosines.shape[1] - width :]
  return _Found(np.take_along_axis(cosines, places, axis=1), places, np.zeros(places.shape, bool))


def _nearest_of_block(queries, block, k, _=None):
  """Returns the k nearest rows of a block, by exact cosines of all."""
  cosines = exact_cosines(queries, block)
  is_near = np.ones(cosines.shape, bool)
  if len(block) > k:  # the first ones of the equal
    kth = np.partition(cosines, -k, axis=1)[:, -k, np.newaxis]
    is_near, is_kth = cosines > kth, cosines == kth
    is_near |= is_kth & (np.cumsum(is_kth, axis=1, dtype=np.int32) <= k - is_near.sum(axis=1, keepdims=True))
  query, place = np.nonzero(is_near)
  shape = len(queries), min(k, len(block))
  return _Found(cosines[query, place].reshape(shape), place.reshape(shape), np.ones(shape, bool))


def _without_others(found, queries, corpus, k):
  """Returns (those that may be among the k nearest of the rows so far, which cosines of later rows may be, [m])."""
  m, width = found.cosines.shape
  if width <= k:
    return found, np.full(m, -np.inf, np.float32)
  error = error_of(corpus.dim)
  kth = found.kth(k)
  is_near = found.is_near(kth, error)
  crowded = np.flatnonzero(is_near.sum(axis=1) > k + _MORE)
  if crowded.size:
    best = _exactly(found.of(crowded), queries[crowded], corpus, k)
    found.put(crowded, best)
    is_near[crowded], kth[crowded] = np.arange(width) < k, best.cosines[:, -1]
  is_exact = (found.is_exact | ~is_near).all(axis=1)
  # Of later rows, an equal exact cosine is not enough, as the rows before have it; none is above 1.
  least = np.where(is_exact, np.where(kth == 1, np.inf, kth - error), np.minimum(kth, TIED) - 2 * error)
  most = int(is_near.sum(axis=1).max())
  if 2 * most < width:
    places = np.argpartition(found.cosines, width - most, axis=1)[:, width - most :]
    found = _Found(*(np.take_along_axis(array, places, axis=1) for array in found))
  return found, least.astype(np.float32)


def _exactly(found, queries, corpus, k):
  """Returns the k nearest of the rows, the nearest first, by exact cosines of those that may be."""
  is_near = found.is_near(found.kth(k), error_of(corpus.dim))
  cosines = np.where(is_near, found.cosines, -np.inf)
  is_unknown = is_near & ~found.is_exact
  places = np.argsort(~is_unknown, axis=1, kind="stable")[:, : is_unknown.sum(axis=1).max()]
  if places.size:
    exact = exact_cosines_to(queries, np.take_along_axis(found.rows, places, axis=1), corpus)
    is_unknown = np.take_along_axis(is_unknown, places, axis=1)
    np.put_along_axis(cosines, places, np.where(is_unknown, exact, np.take_along_axis(cosines, places, axis=1)), axis=1)
  best = best_first(cosines, found.rows)
  return _Found(best.scores[:, :k], best.rows[:, :k], np.ones([len(queries), k], bool))


def best_first(scores: np.ndarray, rows: np.ndarray) -> Neighbors:
  """Returns scores and rows [m, k] by decreasing score, equal ones by increasing row."""
  order = np.lexsort([rows, -scores], axis=1)
  return Neighbors(np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1))
