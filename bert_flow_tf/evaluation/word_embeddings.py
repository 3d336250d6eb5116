"""Word embeddings by word frequency: norm, and distances and dot products of neighbors (the paper's Table 1)."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import Progress

# Table 1's ranges of ranks, from 0, without the end. The paper prints "[5K, 1K)" for the last, a misprint.
RANK_GROUPS = ((0, 100), (100, 500), (500, 5000), (5000, 10000))
NEIGHBORS = (3, 5, 7)
# Numbers of a block of the distance matrix: 2^22 of float64 are 32 MiB.
_PIECE = 1 << 22


@dataclasses.dataclass(frozen=True)
class FrequencyGroup:
  """A column of Table 1.

  Attributes:
    first: first rank, from 0.
    end: rank after the last.
    words: number of words with such a rank; fewer than end - first if the ranking is shorter.
    mean_norm: mean l2-norm; NaN without words, also for the others.
    mean_distance: {k: mean l2-distance to the k nearest neighbors}; NaN if there are fewer than k others.
    mean_dot_product: {k: mean of the k largest dot products with other words}, NaN in the same case.
  """

  first: int
  end: int
  words: int
  mean_norm: float
  mean_distance: dict[int, float]
  mean_dot_product: dict[int, float]


def frequency_groups(
  embeddings: np.ndarray,
  order: Sequence[int] | np.ndarray | None = None,
  groups: Sequence[tuple[int, int]] = RANK_GROUPS,
  neighbors: Sequence[int] = NEIGHBORS,
  show_progress: bool | None = None,
) -> list[FrequencyGroup]:
  """Returns norms and neighbors of word embeddings, by rank of frequency: Table 1 of Li et al. 2020.

  Its caption says that neighbors are "among all the word embeddings", and the ranks those of a Wikipedia dump. We
  take all rows of the embedding matrix, also those without a rank ([CLS], [unused0]), but not the word itself. The
  neighbors of the distances are the k nearest by l2-distance, those of the dot products the k with the largest dot
  products: with the nearest by l2, the paper's norms, distances and dot products contradict each other. A word's
  value is the mean over its k neighbors, a group's the mean over its words. For neighbors among the ranked words
  alone, pass `embeddings[order]` and no order.

  A matrix product in float64 of the centered rows finds the nearest neighbors; their distances are computed from the
  rows, so that rounding can only exchange neighbors at the same distance.

  Args:
    embeddings: [vocab, dim], a row for each word.
    order: rows by falling frequency, int [ranked]; None if the rows are in this order.
    groups: (first rank, rank after the last) of each group.
    neighbors: the values of k.
    show_progress: False for neither a bar on a terminal nor lines in the log.

  Returns:
    A list in the order of `groups`.

  Raises:
    DataError: embeddings are not [vocab, dim] or not finite, order has a row twice or a row that does not exist, or
      a group or k is not allowed.
  """
  embeddings = _checked_embeddings(embeddings)
  order = _checked_order(order, len(embeddings))
  groups, neighbors = tuple(groups), tuple(neighbors)
  _check_groups(groups, neighbors)
  spans = [order[first:end] for first, end in groups]
  wanted = np.unique(np.concatenate(spans))
  most = min(max(neighbors), len(embeddings) - 1)
  distances, products = _neighbors(embeddings, wanted, most, show_progress is not False)
  columns = []
  for (first, end), rows in zip(groups, spans, strict=True):
    at = np.searchsorted(wanted, rows)
    norm = _mean(np.linalg.norm(embeddings[rows], axis=1))
    distance, product = (
      {k: _mean(values[at, :k]) if k <= most else math.nan for k in neighbors} for values in (distances, products)
    )
    columns.append(FrequencyGroup(first, end, len(rows), norm, distance, product))
  return columns


def _neighbors(embeddings, rows, most, show):
  """Returns the smallest l2-distances and the largest dot products of some rows with all others.

  Args:
    embeddings: float64 [vocab, dim].
    rows: int [rows], rows of `embeddings`.
    most: number of neighbors of each.
    show: whether progress is shown.

  Returns:
    (distances, products): float64 [rows, most] each; distances rise, products fall.
  """
  distances, products = np.empty([2, len(rows), most])
  if not most or not len(rows):
    return distances, products
  centered = embeddings - embeddings.mean(axis=0)
  squares = np.sum(centered**2, axis=1)
  piece = max(1, _PIECE // len(embeddings))
  with Progress(len(rows), show, "finding neighbors", "word") as progress:
    for start in range(0, len(rows), piece):
      chosen = rows[start : start + piece]
      words = slice(start, start + len(chosen))
      itself = np.arange(len(chosen)), chosen  # a word is not its own neighbor, an equal one is
      # |a - b|^2 less |a|^2, which is the same for all b.
      squared = squares - 2 * (centered[chosen] @ centered.T)
      squared[itself] = np.inf
      nearest = np.argpartition(squared, most - 1, axis=1)[:, :most]
      distances[words] = [
        np.sort(np.linalg.norm(embeddings[others] - embeddings[row], axis=1))
        for row, others in zip(chosen, nearest, strict=True)
      ]
      negative = -(embeddings[chosen] @ embeddings.T)
      negative[itself] = np.inf
      products[words] = -np.sort(np.partition(negative, most - 1, axis=1)[:, :most], axis=1)
      progress.update(len(chosen))
  return distances, products


def _mean(values):
  """Returns the mean of all values, NaN without any."""
  return float(np.mean(values)) if values.size else math.nan


def _checked_embeddings(embeddings):
  """Returns the embeddings as float64 [vocab, dim]."""
  try:
    embeddings = np.asarray(embeddings, np.float64)
  except (TypeError, ValueError) as error:
    raise DataError(f"word embeddings that are not numbers ({error}), expected an array [vocab, dim]") from error
  if embeddings.ndim != 2 or not embeddings.size:
    raise DataError(f"word embeddings of shape {embeddings.shape}, expected [vocab, dim] with at least one word")
  bad = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
  if bad.size:
    raise DataError(f"the word embedding of row {bad[0]} (counted from 0) is not finite, expected numbers")
  return embeddings


def _checked_order(order, vocab):
  """Returns the rows by falling frequency as int64 [ranked]."""
  if order is None:
    return np.arange(vocab)
  order = np.asarray(order)
  if order.ndim != 1 or (order.size and order.dtype.kind not in "iu"):
    raise DataError(f"the order of words is {order.dtype} of shape {order.shape}, expected row numbers [ranked]")
  order = order.astype(np.int64)
  outside = order[(order < 0) | (order >= vocab)]
  if outside.size:
    raise DataError(f"the order of words names row {outside[0]}, expected 0 to {vocab - 1}, the rows of the embeddings")
  rows, counts = np.unique(order, return_counts=True)
  if len(rows) < len(order):
    raise DataError(f"the order of words names row {rows[counts > 1][0]} twice, expected each row at most once")
  return order


def _check_groups(groups, neighbors):
  """Raises DataError unless ranks rise within each group and k is at least 1."""
  for first, end in groups:
    if not 0 <= first < end:
      raise DataError(f"the group of ranks {first} to {end}, expected 0 or more, then a larger one")
  if not groups or not neighbors or min(neighbors) < 1:
    raise DataError(f"{len(groups)} groups and k of {neighbors}, expected some of each, and k of 1 or more")
