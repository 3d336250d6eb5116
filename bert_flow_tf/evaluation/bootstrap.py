"""Confidence intervals of gains, by the paired bootstrap."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation.metrics import auc, correlation
from bert_flow_tf.evaluation.subsets import rows_of_subsets, subset_correlations

# Numbers of an array of resamples: 2^20 of float64 are 8 MiB, and several such arrays exist at once.
_PIECE = 1 << 20


@dataclasses.dataclass(frozen=True)
class Gain:
  """Difference of two Spearman correlations x 100, or two AUCs x 100, on the same pairs.

  Attributes:
    gain: score of the second method minus that of the first.
    low: lower end of its interval.
    high: upper end.
    level: the interval's level, 0.95 for 95 %.
    pairs: number of scored pairs.
    reason: why gain, or the interval alone, is NaN, else "".
    metric: "spearman" or "auc".
  """

  gain: float
  low: float
  high: float
  level: float
  pairs: int
  reason: str = ""
  metric: str = "spearman"


def bootstrap_gain(
  before: np.ndarray,
  after: np.ndarray,
  gold: np.ndarray,
  subsets: Sequence[str] | None = None,
  n_boot: int = 1000,
  seed: int = 0,
  level: float = 0.95,
  metric: str = "spearman",
) -> Gain:
  """Returns the gain in Spearman or AUC x 100, with the percentile interval of a paired bootstrap.

  A resample draws n of the n pairs with replacement, the same ones for both methods, so that the difficulty of a pair
  cancels (Efron and Tibshirani 1993, chapter 13.3; Berg-Kirkpatrick et al. 2012). Subsets are resampled separately, and
  the gain is that of "wmean", the mean weighted by size.

  Args:
    before: similarities [n] of one method, or [seeds, n]: its score is the mean over the seeds.
    after: similarities of the other, as before.
    gold: [n] scores; pairs with NaN are left out.
    subsets: [n] names, or None.
    n_boot: number of resamples, at least 100.
    seed: integer; the same seed gives the same interval.
    level: of the interval, between 0 and 1.
    metric: "spearman", or "auc" if gold is 0 or 1, without subsets.

  Raises:
    DataError: the lengths differ, a number is not finite, or an argument is out of its range.
  """
  if metric not in ("spearman", "auc") or (metric == "auc" and subsets is not None):
    raise DataError(f"metric is {metric!r}, expected 'spearman', or 'auc' without subsets")
  if n_boot < 100 or not 0 < level < 1:
    raise DataError(f"n_boot is {n_boot} and level {level:g}, expected at least 100 and a number between 0 and 1")
  gold = np.asarray(gold, np.float64)
  methods = [np.atleast_2d(np.asarray(values, np.float64)) for values in (before, after)]
  scores = [[_score(values, gold, subsets, metric) for values in method] for method in methods]
  reasons = (part.reason for method in scores for part in method)
  pairs, reason = scores[0][0].pairs, "; ".join(dict.fromkeys(filter(None, reasons)))
  if reason:
    return Gain(math.nan, math.nan, math.nan, level, pairs, reason, metric)
  means = [math.fsum(getattr(part, metric) for part in method) / len(method) for method in scores]
  gain = means[1] - means[0]
  scored = np.flatnonzero(~np.isnan(gold))
  names = [""] * len(scored) if subsets is None else [subsets[int(row)] for row in scored]
  rng = np.random.default_rng(seed)
  gains = np.zeros(n_boot)
  for rows in rows_of_subsets(names, pairs).values():
    drawn = scored[rows]
    resampled = _resampled_gains([method[:, drawn] for method in methods], gold[drawn], n_boot, rng, metric)
    gains += 100.0 * len(rows) / pairs * resampled
  undefined = int(np.isnan(gains).sum())
  if undefined:
    reason = f"{undefined} of {n_boot} resamples of {pairs} pairs have scores that do not differ: no interval"
    return Gain(gain, math.nan, math.nan, level, pairs, reason, metric)
  low, high = np.quantile(gains, [(1 - level) / 2, (1 + level) / 2])
  return Gain(gain, float(low), float(high), level, pairs, metric=metric)


def _score(values, gold, subsets, metric):
  if metric == "auc":
    return auc(values, gold)
  return correlation(values, gold) if subsets is None else subset_correlations(values, gold, subsets).wmean


def _resampled_gains(methods, gold, n_boot, rng, metric):
  """Returns the gain of each resample, from -1 to 1, float64 [n_boot]; NaN if not defined."""
  n = len(gold)
  piece = max(1, _PIECE // n)
  of_gold, groups = _tie_groups(gold), [[_tie_groups(values) for values in method] for method in methods]
  agreement = _weighted_auc if metric == "auc" else _weighted_pearson
  gains = []
  for start in range(0, n_boot, piece):
    size = min(piece, n_boot - start)
    draws = rng.integers(n, size=[size, n]) + n * np.arange(size)[:, None]
    counts = np.bincount(draws.ravel(), minlength=size * n).reshape(size, n)
    target = gold if metric == "auc" else _resampled_ranks(counts, *of_gold)
    before, after = (
      sum(agreement(counts, _resampled_ranks(counts, *group), target) for group in method) / len(method)
      for method in groups
    )
    gains.append(after - before)
  return np.concatenate(gains)


def _tie_groups(values):
  """Returns the pairs sorted by value [n], the first position of each group of ties [groups], each pair's group [n]."""
  _, begins, group = np.unique(np.sort(values), return_index=True, return_inverse=True)
  order = np.argsort(values, kind="stable")
  of_pair = np.empty(len(values), np.int64)
  of_pair[order] = group
  return order, begins, of_pair


def _resampled_ranks(counts, order, begins, of_pair):
  """Returns the rank of each pair among those drawn, ties at their mean rank, minus the mean: float64 [size, n].

  With c draws of a group of ties and b draws below it, the group's ranks b + 1 ... b + c have the mean b + (c + 1) / 2;
  the mean of all n is (n + 1) / 2. No resample has to be sorted.

  Args:
    counts: [size, n], number of draws of each pair.
    order: see `_tie_groups`, also for the others.
    begins: [groups].
    of_pair: [n].
  """
  drawn = np.add.reduceat(counts[:, order], begins, axis=1)
  rank = np.cumsum(drawn, axis=1) - drawn / 2 - counts.shape[1] / 2
  return rank[:, of_pair]


def _weighted_pearson(counts, x, y):
  """Returns Pearson's correlation [size] of centered x and y [size, n], weighted by counts [size, n]."""
  xy, xx, yy = (np.einsum("ij,ij,ij->i", counts, a, b) for a, b in ((x, y), (x, x), (y, y)))
  with np.errstate(invalid="ignore", divide="ignore"):
    return np.where((xx > 0) & (yy > 0), xy / np.sqrt(xx * yy), np.nan)


def _weighted_auc(counts, ranks, labels):
  """Returns the AUC [size] (see `metrics.auc`) of centered ranks [size, n] for labels [n], weighted by counts."""
  positive = counts * labels
  p = positive.sum(axis=1)
  q = counts.shape[1] - p
  rank_sum = np.einsum("ij,ij->i", positive, ranks) + p * (counts.shape[1] + 1) / 2
  with np.errstate(invalid="ignore", divide="ignore"):
    return np.where((p > 0) & (q > 0), (rank_sum - p * (p + 1) / 2) / (p * q), np.nan)
