"""Confidence intervals of gains, by the paired bootstrap."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np

from bert_flow_tf.evaluation.metrics import rows_of_subsets, score_pairs

# Numbers of an array of resamples: 2^20 of float64 are 8 MiB, and several arrays of this size exist at once.
_PIECE = 1 << 20


@dataclasses.dataclass(frozen=True)
class Gain:
  """Difference of two scores x 100, its interval, and the reason if a number is NaN.

  Attributes:
    gain: the difference.
    low: lower end of the interval.
    high: upper end.
    level: share of intervals that have the true difference.
    pairs: number of pairs, or of queries.
    reason: "" unless a number is NaN.
    metric: "spearman", "auc", or a measure of a search.
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
  subsets: Sequence[str] = (),
  n_boot: int = 1000,
  seed: int = 0,
  level: float = 0.95,
  metric: str = "spearman",
  numbers: Sequence[int] | np.ndarray = (),
) -> Gain:
  """Returns the gain of similarities [n] or [seeds, n] over others, with the percentile interval of a paired bootstrap.

  With names of subsets [n] it is the gain of "wmean", the mean weighted by size. Pairs whose gold is NaN are left out.
  Pairs that repeat are drawn together: those with the same of `numbers` [n], as `SentencePairs.distinct_numbers` gives
  them; without numbers all pairs are distinct.
  """
  # A resample draws m of the m distinct pairs with replacement, the same ones for both methods, so that the difficulty
  # of a pair cancels (Efron and Tibshirani 1993, chapter 13.3; Berg-Kirkpatrick et al. 2012).
  gold = np.asarray(gold, np.float64)
  before = np.atleast_2d(np.asarray(before, np.float64))
  after = np.atleast_2d(np.asarray(after, np.float64))
  # The score of each method is the mean over its seeds.
  key = f"{metric}_wmean" if len(subsets) else metric
  means, reasons = [], []
  for method in (before, after):
    of_seeds = []
    for values in method:
      scores = score_pairs(values, gold, subsets, metric)
      of_seeds.append(scores[key])
      reasons.append(scores["reason"])
    means.append(math.fsum(of_seeds) / len(of_seeds))
  scored = np.flatnonzero(~np.isnan(gold))
  pairs = len(scored)
  reason = "; ".join(dict.fromkeys(filter(None, reasons)))
  if reason:
    return Gain(math.nan, math.nan, math.nan, level, pairs, reason, metric)

  gain = means[1] - means[0]
  if not len(numbers):
    numbers = np.arange(len(gold))
  numbers = np.asarray(numbers)
  names = [""] * pairs
  if len(subsets):
    names = np.asarray(subsets)[scored].tolist()
  # Each subset is resampled by itself, and counts by its size.
  rng = np.random.default_rng(seed)
  gains = np.zeros(n_boot)
  for rows in rows_of_subsets(names).values():
    drawn = scored[rows]
    resamples = _resamples(numbers[drawn], n_boot, rng)
    resampled = _resampled_gains(before[:, drawn], after[:, drawn], gold[drawn], resamples, metric)
    gains += 100.0 * len(rows) / pairs * resampled
  undefined = int(np.isnan(gains).sum())
  if undefined:
    reason = f"{undefined} of {n_boot} resamples of {pairs} pairs have scores that do not differ"
    return Gain(gain, math.nan, math.nan, level, pairs, reason, metric)
  low, high = np.quantile(gains, [(1 - level) / 2, (1 + level) / 2])
  return Gain(gain, float(low), float(high), level, pairs, metric=metric)


def bootstrap_mean_gain(
  before: np.ndarray,
  after: np.ndarray,
  metric: str,
  n_boot: int = 1000,
  seed: int = 0,
  level: float = 0.95,
  numbers: Sequence[int] | np.ndarray = (),
) -> Gain:
  """Returns the gain of the mean of a measure [n] of queries over another's, with its interval as `bootstrap_gain`.

  Queries with the same of `numbers` [n] are drawn together; without numbers all queries are distinct.
  """
  differences = np.asarray(after, np.float64) - np.asarray(before, np.float64)
  if not len(numbers):
    numbers = np.arange(len(differences))
  places, sizes = np.unique(numbers, return_inverse=True, return_counts=True)[1:]
  sums = np.bincount(places, differences)
  rng = np.random.default_rng(seed)
  parts = []
  for draws in _resamples(np.arange(len(sums)), n_boot, rng):
    parts.append(sums[draws].sum(axis=1) / sizes[draws].sum(axis=1))
  low, high = np.quantile(np.concatenate(parts), [(1 - level) / 2, (1 + level) / 2])
  return Gain(float(differences.mean()), float(low), float(high), level, len(differences), metric=metric)


def _resamples(numbers: np.ndarray, n_boot: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
  """Yields the rows of resamples of pairs with numbers [n], int64 [resamples, rows]; equal numbers go together."""
  sizes = np.unique(numbers, return_counts=True)[1]
  rows_of = np.split(np.argsort(numbers, kind="stable"), np.cumsum(sizes)[:-1])
  distinct = len(sizes)
  piece = max(1, _PIECE // len(numbers))
  for start in range(0, n_boot, piece):
    draws = rng.integers(distinct, size=[min(piece, n_boot - start), distinct])
    if distinct == len(numbers):
      yield draws
    else:  # resamples have different numbers of rows
      yield from (np.concatenate([rows_of[pair] for pair in draw])[np.newaxis] for draw in draws)


def _resampled_gains(before, after, gold, resamples, metric):
  """Returns the gain of each resample of two methods [seeds, n], from -1 to 1, float64 [n_boot]; NaN if undefined."""
  gains = []
  for draws in resamples:
    target = gold[draws]
    if metric == "spearman":
      target = _centered_ranks(target)
    of_before = _mean_agreement(before, draws, target, metric)
    gains.append(_mean_agreement(after, draws, target, metric) - of_before)
  return np.concatenate(gains)


def _mean_agreement(method, draws, target, metric):
  """Returns the mean over the seeds of a method [seeds, n] of its agreement with each resample, [resamples]."""
  agreement = _auc if metric == "auc" else _correlation
  total = np.zeros(len(draws))
  for values in method:
    total += agreement(_centered_ranks(values[draws]), target)
  return total / len(method)


def _centered_ranks(values):
  """Returns the ranks within each row of [resamples, n], ties at their mean rank, minus their mean."""
  from scipy import stats  # here, as its import takes half a second

  return stats.rankdata(values, axis=1) - (values.shape[1] + 1) / 2


def _correlation(x, y):
  """Returns the correlation [resamples] of the rows of centered x and y [resamples, n]."""
  with np.errstate(invalid="ignore"):
    return np.vecdot(x, y) / np.sqrt(np.vecdot(x, x) * np.vecdot(y, y))


def _auc(ranks, labels):
  """Returns the AUC [resamples], see `metrics.auc`, of centered ranks [resamples, n] for labels [resamples, n]."""
  p = labels.sum(axis=1)
  q = labels.shape[1] - p
  # Centered, the sum of the ranks of label 1 is p q / 2 too small where all are in order.
  with np.errstate(invalid="ignore", divide="ignore"):
    return np.vecdot(ranks, labels) / (p * q) + 0.5
