"""Cosines of embeddings, and their agreement with gold: Spearman, Pearson, ROC AUC, of all pairs or by subsets."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_flow_tf.errors import DataError
from bert_flow_tf.io.checks import as_array
from bert_flow_tf.progress import counted

# Less than float32's rounding around 1; only a vector of zeros is shorter.
_SHORTEST = 1e-30
# Similarities that differ by less than this, relatively, are equal up to the rounding of float64.
_ROUNDING = 1e-14
# A sentence's embeddings from two batches differ by float32's rounding, and their cosine from 1 by up to 1e-13.
SAME = 1e-11


def cosine_similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  """Returns the cosine of each pair of rows of two [n, dim], float64 [n]; NaN if a row is zero or not finite.

  Pairs whose rows are equal but for rounding have the cosine 1, so that identical sentences tie in every ranking.
  """
  a, b = as_array(a, error=DataError, dtype=np.float64), as_array(b, error=DataError, dtype=np.float64)
  with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
    cosines = np.sum(a * b, axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
  return tied_at_1(cosines)


def tied_at_1(cosines: np.ndarray) -> np.ndarray:
  """Returns cosines [n], those that are 1 but for rounding as 1."""
  return np.where(cosines > 1 - SAME, 1.0, cosines)


def normalized(embeddings: np.ndarray) -> np.ndarray:
  """Returns rows [n, dim] divided by their length; rows of zeros stay."""
  return embeddings / np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), _SHORTEST)


def random_pair_cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  """Returns the cosines of first sentences [n, dim] and the second sentences half the list further on, float64 [n]."""
  # Neighbors in a list are often alike, rows half the list apart are not.
  return cosine_similarity(a, np.roll(np.asarray(b), len(b) // 2, axis=0))


def mean_random_cosine(a: np.ndarray, b: np.ndarray) -> float:
  """Returns the mean of `random_pair_cosines`: near 1 in a narrow cone (the paper's section 2); NaN for no pairs."""
  if len(a) < 2:
    return math.nan
  return float(np.mean(random_pair_cosines(a, b)))


@dataclasses.dataclass(frozen=True)
class Correlation:
  """Spearman and Pearson x 100 of similarities and gold scores; `reason` says why both are NaN, else it is ""."""

  spearman: float
  pearson: float
  pairs: int
  reason: str = ""


def correlation(similarities: np.ndarray, gold: np.ndarray) -> Correlation:
  """Returns Spearman and Pearson x 100 of similarities [n] and gold scores [n]; pairs with NaN as gold are left out."""
  from scipy import stats  # here, as its import takes half a second

  similarities, gold = _scored_pairs(similarities, gold)
  n = len(gold)
  reason = ""
  if n < 2:
    reason = f"{counted(n, 'scored pair')}, a correlation needs at least 2"
  elif np.ptp(gold) == 0:
    reason = f"all {n} gold scores are {gold[0]:g}, a correlation needs scores that differ"
  elif _constant(similarities):
    reason = f"all {n} similarities are {similarities[0]:g}, a correlation needs similarities that differ"
  if reason:
    return Correlation(math.nan, math.nan, n, reason)
  spearman = stats.spearmanr(similarities, gold).statistic
  pearson = stats.pearsonr(similarities, gold).statistic
  return Correlation(100.0 * float(spearman), 100.0 * float(pearson), n)


@dataclasses.dataclass(frozen=True)
class Auc:
  """ROC AUC x 100 of similarities for binary labels; `reason` says why it is NaN, else it is ""."""

  auc: float
  pairs: int
  positives: int
  reason: str = ""


def auc(similarities: np.ndarray, labels: np.ndarray) -> Auc:
  """Returns the ROC AUC x 100 of similarities [n] for labels [n], 0, 1 or NaN for pairs that are left out."""
  from scipy import stats

  # P(s+ > s-) + P(s+ = s-) / 2 = (sum of the ranks of s+  -  p (p + 1) / 2) / (p q)  for the similarities s+ of the p
  # pairs of label 1 and s- of the q of label 0, ties at their mean rank (Mann-Whitney; Hanley and McNeil 1982).
  similarities, labels = _scored_pairs(similarities, labels)
  positives = int(np.sum(labels))
  negatives = len(labels) - positives
  reason = ""
  if not positives or not negatives:
    reason = f"{counted(positives, 'pair')} of label 1 and {negatives} of label 0, an AUC needs both"
  elif _constant(similarities):
    reason = f"all {len(labels)} similarities are {similarities[0]:g}, an AUC needs similarities that differ"
  if reason:
    return Auc(math.nan, len(labels), positives, reason)
  rank_sum = stats.rankdata(similarities)[labels == 1].sum()
  area = (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)
  return Auc(100.0 * float(area), len(labels), positives)


def score_pairs(
  similarities: np.ndarray, gold: np.ndarray, subsets: Sequence[str] = (), metric: str = "correlation"
) -> dict[str, Any]:
  """Returns the scores of similarities [n] against gold [n], as results.json and the tables have them.

  With names of subsets [n], spearman and pearson are wmean (weighted by size, as in the paper), mean (SentEval) and all
  (all pairs as one set, as SBERT and SimCSE report it). If a subset's correlation is undefined, so are the means.
  """
  if metric == "auc":
    return dataclasses.asdict(auc(similarities, gold))
  whole = dataclasses.asdict(correlation(similarities, gold))
  if not len(subsets):
    return whole
  similarities, gold = np.asarray(similarities), np.asarray(gold)
  # Each subset by itself, then the two means over them.
  parts = {}
  for name, rows in rows_of_subsets(subsets).items():
    parts[name] = dataclasses.asdict(correlation(similarities[rows], gold[rows]))
  reasons = [f"subset {name}: {part['reason']}" for name, part in parts.items() if part["reason"]]
  sizes = [part["pairs"] for part in parts.values()]
  scores: dict[str, float] = {}
  for score in ("spearman", "pearson"):
    wmean = mean = math.nan
    if not reasons:
      values = [part[score] for part in parts.values()]
      wmean, mean = np.average(values, weights=sizes), np.mean(values)
    scores[f"{score}_wmean"], scores[f"{score}_mean"] = float(wmean), float(mean)
    scores[f"{score}_all"] = whole[score]
  return {**scores, "pairs": whole["pairs"], "reason": "; ".join(reasons), "subsets": parts}


def rows_of_subsets(subsets: Sequence[str]) -> dict[str, np.ndarray]:
  """Returns {subset: indices [m] of its pairs} for names [n], in order of first appearance."""
  rows: dict[str, list[int]] = {}
  for row, name in enumerate(subsets):
    rows.setdefault(str(name), []).append(row)
  return {name: np.array(indices) for name, indices in rows.items()}


def _scored_pairs(similarities, gold):
  """Returns similarities and gold of the pairs that have gold, float64 [scored] each."""
  similarities, gold = np.asarray(similarities, np.float64), np.asarray(gold, np.float64)
  # Pairs without gold take no part, whatever their similarity.
  annotated = np.flatnonzero(~np.isnan(gold))
  similarities, gold = similarities[annotated], gold[annotated]
  bad = np.flatnonzero(~np.isfinite(similarities))
  if bad.size:
    raise DataError(f"pair {annotated[bad[0]]} (from 0): similarity {similarities[bad[0]]}, expected a finite number")
  return similarities, gold


def _constant(similarities):
  return np.ptp(similarities) <= _ROUNDING * np.abs(similarities).max()
