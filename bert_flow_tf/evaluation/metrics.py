"""Agreement of similarities with gold scores."""

import dataclasses
import math

import numpy as np
from scipy import stats

from bert_flow_tf.errors import DataError

# Similarities that are equal but for the last digits of float64 rank by rounding alone.
_ROUNDING = 1e-14


@dataclasses.dataclass(frozen=True)
class Correlation:
  """Agreement of n similarities with n gold scores.

  Attributes:
    spearman: Spearman's rank correlation x 100, ties at their mean rank; NaN where it is not defined.
    pearson: Pearson's correlation x 100; NaN where it is not defined.
    pairs: n.
    reason: why the two are NaN, else "".
  """

  spearman: float
  pearson: float
  pairs: int
  reason: str = ""


def correlation(similarities, gold):
  """Spearman and Pearson x 100 of similarities [n] and gold scores [n].

  Pairs whose gold score is NaN take no part (they were not annotated).

  Raises:
    DataError: the lengths differ, a gold score is infinite, or a similarity of a scored pair is NaN or infinite.
  """
  similarities, gold = np.asarray(similarities, np.float64), np.asarray(gold, np.float64)
  if similarities.shape != gold.shape or gold.ndim != 1:
    raise DataError(f"{similarities.shape} similarities and {gold.shape} gold scores, expected [n] of each")
  infinite = np.flatnonzero(np.isinf(gold))
  if infinite.size:
    raise DataError(f"the gold score of pair {infinite[0]} (counted from 0) is infinite, expected a number or NaN")
  annotated = np.flatnonzero(~np.isnan(gold))
  similarities, gold = similarities[annotated], gold[annotated]
  bad = np.flatnonzero(~np.isfinite(similarities))
  if bad.size:
    raise DataError(
      f"pair {annotated[bad[0]]} (counted from 0) has the similarity {similarities[bad[0]]}, expected a finite number "
      f"({bad.size} of {len(gold)} pairs have none): an embedding is zero or not finite"
    )
  reason = _undefined(similarities, gold)
  if reason:
    return Correlation(math.nan, math.nan, len(gold), reason)
  spearman = stats.spearmanr(similarities, gold).statistic
  pearson = stats.pearsonr(similarities, gold).statistic
  return Correlation(100.0 * float(spearman), 100.0 * float(pearson), len(gold))


def _undefined(similarities, gold):
  if len(gold) < 2:
    return f"{len(gold)} scored pair{'' if len(gold) == 1 else 's'}, a correlation needs at least 2"
  if np.ptp(gold) == 0:
    return f"all {len(gold)} gold scores are {gold[0]:g}, a correlation needs scores that differ"
  if np.ptp(similarities) <= _ROUNDING * np.abs(similarities).max():
    return f"all {len(gold)} similarities are {similarities[0]:g}, a correlation needs similarities that differ"
  return ""
