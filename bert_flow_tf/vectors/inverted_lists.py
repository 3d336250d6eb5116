"""Inverted lists of FAISS: rows by their nearest centroid, in 8 or 2 bits per dimension; cosines are computed exactly.

A search compares a query with the lists of its nearest centroids. How many it needs is measured: on sampled rows, whose
nearest rows are found by all cosines.
"""

import dataclasses
import importlib.util
import logging as std_logging
import math
import types
import zlib
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.errors import ConfigError, install_command, one_line
from bert_flow_tf.io import openmp
from bert_flow_tf.io.cpus import usable_cpus
from bert_flow_tf.progress import Progress, counted
from bert_flow_tf.vectors.unit_rows import (
  Neighbors,
  UnitRows,
  best_first,
  cosines_of_pairs,
  exact_cosines_to,
  nearest,
)

AUTO, EXACT, IVF = "auto", "exact", "ivf"
INDEXES = (AUTO, EXACT, IVF)
# Products of a comparison of all pairs on two cores in a minute: 200,000 rows of 256 dimensions took 179 seconds.
_PRODUCTS_PER_MINUTE = 1.7e12
# Rows by which recall is measured, and nearest rows of each.
SAMPLE, _NEIGHBORS = 1000, 10
# One row of so many is held out of the training: recall is measured on such rows, as new queries are held out, too.
_HELD_OUT = 8
# Share of the pairs of the sample that searches find; pairs of the sample that decide at the least.
_RECALL, _MIN_PAIRS = 0.99, 200
# Rows per centroid by which centroids are found; fewer rows have fewer centroids.
_ROWS_PER_CENTROID = 40
# Share of distinct rows from which on the others do not matter to a measured recall.
_DISTINCT = 0.95
# Distinct rows per centroid at the least, and the decimals by which rows are distinct.
_MIN_ROWS_PER_CENTROID, _DECIMALS = 4, 5
# Rows from which on 2 bits, whose tables need rows, are worth their time.
_MIN_ROWS = 1024
# Candidates that get exact cosines, at first and at most; pairs by which the error of 2 bits is measured.
_CANDIDATES, _MAX_CANDIDATES, _PAIRS = 32, 2048, 1000
# Share of near-duplicates whose lists are read, and whose cosine by 2 bits is above the limit of candidates.
_LISTS_SHARE, _CANDIDATES_SHARE = 0.997, 0.999
# Pairs of rows that are compared at once.
_BLOCK = 1 << 16
# Cosines of the same rows differ by less.
_ROUNDING = 1e-6
# Nearest rows for which a search finds candidates, at the least.
_DEPTH = 32
# Queries whose candidates are compared at once.
_QUERIES = 256


def import_faiss() -> types.ModuleType:
  """Returns faiss; a ConfigError names the extra if it is not installed."""
  std_logging.getLogger("faiss.loader").setLevel(std_logging.WARNING)
  try:
    with openmp.sleeping_threads():
      import faiss
  except ImportError as error:
    message = f"index={IVF}: needs FAISS, which cannot be imported ({error}): {install_command('search')}"
    raise ConfigError(message, argument="index") from error
  faiss.omp_set_num_threads(min(faiss.omp_get_max_threads(), usable_cpus()))  # OpenMP knows no quota of a container
  return faiss


def has_faiss() -> bool:
  """Returns whether FAISS is installed."""
  return importlib.util.find_spec("faiss") is not None


def takes_lists(index: str, products: float) -> bool:
  """Returns whether a choice among `INDEXES` means inverted lists, where exact cosines take so many products."""
  if index not in INDEXES:
    raise ConfigError(f"index={index}: expected one of {', '.join(INDEXES)}", argument="index")
  if index == IVF:
    import_faiss()
  minutes = products / _PRODUCTS_PER_MINUTE
  if index != AUTO or minutes <= 1:
    return index == IVF
  if not has_faiss():
    expected = f"every pair is compared, which takes about {counted(round(minutes), 'minute', ',')} on two cores"
    logging.info("%s; an index is faster: %s", expected, install_command("search"))
  return has_faiss()


def sample_of(n: int, most: int = SAMPLE) -> np.ndarray:
  """Returns at most `most` of n positions, at equal distances, int64."""
  return np.linspace(0, n - 1, min(most, n)).astype(np.int64)


@dataclasses.dataclass
class InvertedLists:
  """Rows of length 1 in lists.

  Attributes:
    index: FAISS's index.
    probes: number of lists that a search reads.
    recall: share of the nearest rows of a sample that searches find; NaN before it is measured.
    margin: how much lower the codes may estimate a cosine; see `tune`.
  """

  index: Any  # FAISS has no types
  probes: int = 1
  recall: float = math.nan
  margin: float = 0.0

  @classmethod
  def train(cls, rows: UnitRows, fast: bool = False) -> "InvertedLists":
    """Returns empty lists for rows, by a sample; `fast` for 2 bits per dimension, which take a sixth of the time."""
    faiss = import_faiss()
    n = len(rows)
    lists = max(1, min(round(2 * math.sqrt(n)), n // _ROWS_PER_CENTROID))
    sample = rows.take(sample_of(n, lists * _ROWS_PER_CENTROID))
    if not fast and not _are_held_out(sample).all():
      sample = sample[~_are_held_out(sample)]
    # Equal rows count once: as equal centroids, they would be read in place of other lists.
    sample = sample[_first_of_equal([sample])]
    lists = max(1, min(lists, len(sample) // _MIN_ROWS_PER_CENTROID))
    codes = "SQ8"
    if fast and n >= _MIN_ROWS and len(sample) >= 16 * _ROWS_PER_CENTROID:  # 16 centroids per part
      parts = rows.dim // 2 if rows.dim % 2 == 0 else rows.dim
      codes = f"PQ{parts}x4fs"
    index = faiss.index_factory(rows.dim, f"IVF{lists},{codes}", faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1  # no warning
    logging.info("finding %s by %s", counted(lists, "centroid", ","), counted(len(sample), "row", ","))
    index.train(sample)
    return cls(index)

  @classmethod
  def of_bytes(cls, content: bytes, dim: int) -> "InvertedLists":
    """Returns the lists of `to_bytes`, of `dim` dimensions and without rows; a ValueError for other bytes."""
    faiss = import_faiss()
    try:
      index = faiss.deserialize_index(np.frombuffer(content, np.uint8))
    except Exception as error:  # RuntimeError, MemoryError and others of FAISS
      raise ValueError(f"no index of FAISS: {one_line(error)}") from error
    is_known = isinstance(index, faiss.IndexIVF) and index.is_trained and index.d == dim
    if not is_known or not index.quantizer.ntotal == index.nlist == index.invlists.nlist or index.quantizer.d != dim:
      raise ValueError(f"no lists of {dim} dimensions")
    index.set_direct_map_type(faiss.DirectMap.NoMap)
    index.reset()
    return cls(index)

  def to_bytes(self) -> bytes:
    """Returns FAISS's bytes of the lists."""
    return import_faiss().serialize_index(self.index).tobytes()

  def empty(self) -> "InvertedLists":
    """Returns lists of the same centroids, without rows."""
    return self.of_bytes(self.to_bytes(), self.index.d)

  @property
  def lists(self) -> int:
    """Number of lists."""
    return self.index.nlist

  def __len__(self) -> int:
    return self.index.ntotal

  def add(self, rows: np.ndarray, ids: np.ndarray) -> None:
    """Adds rows of length 1, float32 [m, dim], under ids, int64 [m]."""
    self.index.add_with_ids(rows, ids)

  def codes(self, rows: np.ndarray) -> np.ndarray:
    """Returns the lists and the 8 bits of rows of length 1, uint8 [m, bytes]."""
    return self.index.sa_encode(rows)

  def add_codes(self, codes: np.ndarray, rows: int) -> None:
    """Adds rows by their codes, uint8 [rows * bytes], under the next ids; a ValueError for codes of other lists."""
    width = self.index.sa_code_size()
    if codes.size != rows * width:
      raise ValueError(f"{codes.size} bytes for {rows} rows, expected {width} bytes per row")
    codes = codes.reshape([rows, width])
    # A code begins with the number of its list, the lowest byte first. FAISS does not check it.
    places = 256 ** np.arange(self.index.coarse_code_size())
    if rows and (codes[:, : len(places)] @ places).max() >= self.lists:
      raise ValueError(f"a code names a list above {self.lists - 1}")
    self.index.add_sa_codes(codes, np.arange(len(self), len(self) + rows))

  def add_all(self, rows: UnitRows, first: int = 0, show_progress_bar: bool = False) -> None:
    """Adds rows, whose ids are their positions after `first`."""
    with Progress(len(rows), show_progress_bar, "indexing") as progress:
      for start, block in rows.blocks():
        self.add(block, np.arange(first + start, first + start + len(block)))
        progress.update(len(block))

  def candidates(self, queries: np.ndarray, k: int, probes: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Returns approximate cosines and ids of the k rows nearest to each query, [m, k] each; ids -1 for none."""
    parameters = import_faiss().SearchParametersIVF(nprobe=min(probes or self.probes, self.lists))
    return self.index.search(queries, k, params=parameters)

  def search(self, queries: np.ndarray, rows: UnitRows, k: int) -> Neighbors:
    """Returns the rows nearest to queries of length 1, [m, k], by exact cosines of a few more candidates.

    Equal cosines are by increasing row, and lists of up to `_DEPTH` rows are beginnings of one list.
    """
    k = min(k, len(rows))
    depth = min(max(k, _DEPTH), len(rows))
    probes = self._probes_of(depth, len(rows))
    result = nearest(np.zeros_like(queries), rows, k)  # of queries of zeros, which are in no list
    has_length = np.flatnonzero(queries.any(axis=1))
    for start in range(0, len(has_length), _QUERIES):
      part = has_length[start : start + _QUERIES]
      found = self._search(queries[part], rows, k, depth, 2 * depth + 16, probes)
      result.scores[part], result.rows[part] = found
    return result

  def _probes_of(self, depth, rows):
    """Returns the number of lists that a search reads for `depth` of a number of rows: enough for so many."""
    return min(self.lists, max(self.probes, math.ceil(4 * depth * self.lists / rows)))

  def _search(self, queries, rows, k, depth, count, probes):
    """Returns the k nearest rows of each query in a block, by `count` candidates for `depth` rows in `probes` lists."""
    if count > _MAX_CANDIDATES * depth // _DEPTH:
      return nearest(queries, rows, k)
    count = min(count, len(rows))
    estimates, ids = self.candidates(queries, count, probes)
    scores = np.where(ids >= 0, exact_cosines_to(queries, np.maximum(ids, 0), rows), -np.inf)
    # Equal rows have equal estimates: beside the last candidates there may be others, as near as these.
    is_last = (ids >= 0) & (estimates <= estimates[:, -1:] + _ROUNDING)
    worst = np.partition(scores, -depth, axis=1)[:, -depth, np.newaxis]
    is_cut = (is_last & (scores >= worst)).any(axis=1) & (ids[:, -1] >= 0) & (count < len(rows))
    best = best_first(scores, ids)
    scores, found = best.scores[:, :k], best.rows[:, :k]
    # More lists where these have too few rows, and more candidates where the last ones may be among the nearest.
    is_short = (ids[:, depth - 1] < 0) & (probes < self.lists)
    for places, more in ((is_short, (count, self.lists)), (is_cut & ~is_short, (4 * count, probes))):
      if places.any():
        scores[places], found[places] = self._search(queries[places], rows, k, depth, *more)
    return Neighbors(scores, found)

  def similar(
    self, queries: np.ndarray, rows: UnitRows, lowest: float, keys: np.ndarray, keys_of_rows: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each query the first row that was found with its key and an exact cosine of at least `lowest`, or -1.

    The second result says whether a row of another key is so similar. `keys` are of the queries, [m], `keys_of_rows` of
    all rows, [n].
    """
    first, is_other = np.full(len(queries), -1), np.zeros(len(queries), bool)
    waiting, count = np.arange(len(queries)), _CANDIDATES
    while len(self) and waiting.size:
      scores, ids = self.candidates(queries[waiting], count)
      is_candidate = (ids >= 0) & (scores >= lowest - self.margin)
      query, place = np.nonzero(is_candidate)
      query, candidates = waiting[query], ids[query, place]
      is_close = _cosines(queries, query, rows, candidates) >= lowest
      has_key = keys_of_rows[candidates] == keys[query]
      is_other[query[is_close & ~has_key]] = True
      query, candidates = query[is_close & has_key], candidates[is_close & has_key]
      order = np.lexsort([candidates, query])
      found, places = np.unique(query[order], return_index=True)
      first[found] = candidates[order][places]
      # Where the last candidate is near enough, there may be more of them.
      waiting = waiting[is_candidate[:, -1] & (first[waiting] < 0)]
      count *= 4
      if count > _MAX_CANDIDATES:
        break
    return first, is_other

  def tune(self, rows: UnitRows, lowest: float | None = None) -> None:
    """Sets `probes` by the exact nearest rows of sampled rows; with `lowest`, by the pairs that are so similar.

    Without `lowest`, the rows are in the lists, and `recall` is measured. With it, `margin` is: the codes of nearly all
    of these pairs have a cosine of at least `lowest - margin`.
    """
    if lowest is None:
      first = _first_of_equal(block for _, block in rows.blocks())
      if len(first) < _DISTINCT * len(rows):
        self._tune_by_distinct(rows.select(first))
        return
    sample = sample_of(len(rows), SAMPLE if lowest is not None else _HELD_OUT * SAMPLE)
    queries = rows.take(sample)
    held_out = _are_held_out(queries)
    if lowest is None and held_out.any():
      sample, queries = sample[held_out], queries[held_out]
    exact = nearest(queries, rows, min(_NEIGHBORS + 1, len(rows)))
    query, place = np.nonzero(exact.rows != sample[:, np.newaxis])
    scores = exact.scores[query, place]
    if lowest is not None and len(scores) > _MIN_PAIRS:
      # Few pairs may be so similar; the most similar ones stand for them.
      bound = min(lowest, np.sort(scores)[-_MIN_PAIRS])
      query, place = query[scores >= bound], place[scores >= bound]
    if len(query):
      ranks = self._ranks(queries, query, rows.take(exact.rows[query, place]))
      share = _RECALL if lowest is None else _LISTS_SHARE
      self.probes = int(np.quantile(ranks, share, method="higher")) + 1
    if lowest is not None and len(query):
      few = np.linspace(0, len(query) - 1, min(_PAIRS, len(query))).astype(np.int64)
      errors = self._errors(queries, query[few], rows, exact.rows[query, place][few])
      self.margin = max(0.0, float(np.quantile(errors, _CANDIDATES_SHARE, method="higher")))
    if lowest is None:
      # Of rows that the training did not see, as it does not see queries.
      found = self.search(queries, rows, exact.rows.shape[1])
      others = found.scores[:, min(1, found.scores.shape[1] - 1) :]  # the nearest row is the row itself
      self.recall = float(np.mean(others >= exact.scores[:, -1:] - _ROUNDING))

  def _tune_by_distinct(self, rows):
    """Tunes by the distinct rows of the lists: the nearest rows of a row would be its copies, in its own list."""
    lists = self.empty()
    lists.add_all(rows)
    lists.tune(rows)
    # Fewer rows need more lists for as many candidates, and recall was measured with these.
    self.probes, self.recall = lists._probes_of(min(_DEPTH, len(rows)), len(rows)), lists.recall

  def _errors(self, queries, query, rows, others):
    """Returns how much lower than the cosines of queries of these numbers and other rows the codes estimate them."""
    ids, columns = np.unique(others, return_inverse=True)
    lists = self.empty()
    lists.add(rows.take(ids), np.arange(len(ids)))
    scores, places = lists.candidates(queries, len(ids), self.lists)
    estimates = np.empty_like(scores)
    np.put_along_axis(estimates, places, scores, axis=1)
    return _cosines(queries, query, rows, others) - estimates[query, columns]

  def _ranks(self, queries, query, others):
    """Returns how many centroids are nearer to the queries of these numbers than the centroids of other rows."""
    _, order = self.index.quantizer.search(queries, self.lists)
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(self.lists)[np.newaxis], axis=1)
    _, lists = self.index.quantizer.search(others, 1)
    return ranks[query, lists[:, 0]]


def _first_of_equal(blocks):
  """Returns the positions of the first of equal rows, increasing, int64 [m], of consecutive blocks [n, dim]."""
  # Hashes of 64 bits: among 200,000 rows, 32 bits would have chance collisions.
  numbers = [hash(row.tobytes()) for block in blocks for row in block.round(_DECIMALS) + 0]
  return np.sort(np.unique(numbers, return_index=True)[1])


def _are_held_out(rows):
  """Returns for rows [n, dim] whether they are held out, which their numbers decide: added rows change nothing."""
  return np.fromiter((zlib.crc32(row) % _HELD_OUT == 0 for row in rows), bool, len(rows))


def _cosines(queries, query, rows, others):
  """Returns the cosines of queries of these numbers and rows of these positions, float32 [m]."""
  parts = [np.empty(0, np.float32)]
  for start in range(0, len(query), _BLOCK):
    part = slice(start, start + _BLOCK)
    parts.append(cosines_of_pairs(queries[query[part]], rows.take(others[part])))
  return np.concatenate(parts)
