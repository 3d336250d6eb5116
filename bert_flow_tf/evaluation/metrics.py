"""Metrics: correlation and ROC AUC of similarities with gold."""

import dataclasses
import math

import numpy as np

from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import counted

# Similarities that differ by less than this, relatively, are equal up to the rounding of float64.
_ROUNDING = 1e-14


@dataclasses.dataclass(frozen=True)
class Correlation:
  """Agreement of n similarities with n gold scores.

  Attributes:
    spearman: Spearman's rank correlation x 100, ties at their mean rank; NaN if not defined.
    pearson: Pearson's correlation x 100; NaN if not defined.
    pairs: n.
    reason: why they are NaN, else "".
  """

  spearman: float
  pearson: float
  pairs: int
  reason: str = ""


def correlation(similarities: np.ndarray, gold: np.ndarray) -> Correlation:
  """Returns Spearman and Pearson x 100 of similarities [n] and gold scores [n].

  Pairs whose gold score is NaN were not annotated; they are left out.

  Raises:
    DataError: the lengths differ, a gold score is infinite, or a similarity of a scored pair is NaN or infinite.
  """
  similarities, gold = scored_pairs(similarities, gold)
  reason = _undefined(similarities, gold)
  if reason:
    return Correlation(math.nan, math.nan, len(gold), reason)
  spearman = np.corrcoef(np.column_stack([ranks(similarities), ranks(gold)]), rowvar=False)[1, 0]
  pearson = np.clip(np.vecdot(_direction(similarities), _direction(gold)), -1.0, 1.0)
  pearson = np.round(pearson) if len(gold) == 2 else pearson
  return Correlation(100.0 * float(spearman), 100.0 * float(pearson), len(gold))


@dataclasses.dataclass(frozen=True)
class Auc:
  """ROC AUC of similarities for binary labels.

  Attributes:
    auc: area under the ROC curve x 100; NaN if not defined.
    pairs: number of labeled pairs.
    positives: number of pairs with label 1.
    reason: why it is NaN, else "".
  """

  auc: float
  pairs: int
  positives: int
  reason: str = ""


def auc(similarities: np.ndarray, labels: np.ndarray) -> Auc:
  """Returns the ROC AUC x 100 of similarities [n] for labels [n], 1 for pairs that should be similar.

      auc = P(s+ > s-) + P(s+ = s-) / 2 = (sum of the ranks of s+  -  p (p + 1) / 2) / (p q)

  for the similarities s+ of the p pairs of label 1 and s- of the q of label 0, ties at their mean rank (Mann-Whitney's
  U; Hanley and McNeil 1982). The paper's table 4: entailment is 1. Pairs whose label is NaN are left out.

  Raises:
    DataError: the lengths differ, a label is neither 0 nor 1, or a similarity of a labeled pair is NaN or infinite.
  """
  similarities, labels = scored_pairs(similarities, labels, "label")
  other = np.flatnonzero((labels != 0) & (labels != 1))
  if other.size:
    raise DataError(f"label {labels[other[0]]:g} ({other.size} of {len(labels)} labels), expected 0 or 1")
  positives = int(np.sum(labels))
  negatives = len(labels) - positives
  reason = ""
  if not positives or not negatives:
    reason = f"{counted(positives, 'pair')} of label 1 and {negatives} of label 0, an AUC needs both"
  elif _constant(similarities):
    reason = f"all {len(labels)} similarities are {similarities[0]:g}, an AUC needs similarities that differ"
  if reason:
    return Auc(math.nan, len(labels), positives, reason)
  rank_sum = ranks(similarities)[labels == 1].sum()
  area = (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)
  return Auc(100.0 * float(area), len(labels), positives)


def scored_pairs(similarities: np.ndarray, gold: np.ndarray, what: str = "gold score") -> tuple[np.ndarray, np.ndarray]:
  """Returns similarities and gold scores of the pairs that have a gold score, float64 [scored] each.

  Args:
    similarities: [n].
    gold: [n], NaN for a pair that was not annotated.
    what: name of an element of `gold` in messages.

  Raises:
    DataError: the lengths differ, a gold score is infinite, or a similarity of a scored pair is NaN or infinite.
  """
  similarities, gold = np.asarray(similarities, np.float64), np.asarray(gold, np.float64)
  if similarities.shape != gold.shape or gold.ndim != 1:
    raise DataError(f"{similarities.shape} similarities and {gold.shape} {what}s, expected [n] of each")
  infinite = np.flatnonzero(np.isinf(gold))
  if infinite.size:
    raise DataError(f"the {what} of pair {infinite[0]} (counted from 0) is infinite, expected a number or NaN")
  annotated = np.flatnonzero(~np.isnan(gold))
  similarities, gold = similarities[annotated], gold[annotated]
  bad = np.flatnonzero(~np.isfinite(similarities))
  if bad.size:
    raise DataError(
      f"pair {annotated[bad[0]]} (counted from 0) has the similarity {similarities[bad[0]]}, expected a finite number "
      f"({bad.size} of {len(gold)} pairs have none): an embedding is zero or not finite"
    )
  return similarities, gold


def _undefined(similarities, gold):
  if len(gold) < 2:
    return f"{len(gold)} scored pair{'' if len(gold) == 1 else 's'}, a correlation needs at least 2"
  if np.ptp(gold) == 0:
    return f"all {len(gold)} gold scores are {gold[0]:g}, a correlation needs scores that differ"
  if _constant(similarities):
    return f"all {len(gold)} similarities are {similarities[0]:g}, a correlation needs similarities that differ"
  return ""


def _constant(similarities):
  return np.ptp(similarities) <= _ROUNDING * np.abs(similarities).max()


# Ranks and Pearson's correlation to the last bit as SciPy computes them, whose `stats` takes half a second to import.
def ranks(values: np.ndarray) -> np.ndarray:
  """Returns the ranks of values [n] without NaN, float64 [n]: from 1 on, ties at their mean rank."""
  _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
  return (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]


def _direction(values):
  """Returns the centered values with norm 1; scaled before their squares, which must not overflow."""
  centered = values - np.mean(values, keepdims=True)
  largest = np.max(np.abs(centered), keepdims=True)
  return centered / (largest * np.linalg.vector_norm(centered / largest, axis=-1, keepdims=True))
