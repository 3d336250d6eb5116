"""Scores of a task made of subsets, such as STS12 to STS16."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation.metrics import Correlation, correlation


@dataclasses.dataclass(frozen=True)
class SubsetCorrelations:
  """Correlations of each subset, and their three usual means, which differ by several points.

  Attributes:
    subsets: {subset: Correlation}, in order of first appearance.
    all: correlation of all pairs as one set, as SBERT and SimCSE report it.
    mean: mean over the subsets, as SentEval prints it too.
    wmean: mean weighted by the number of scored pairs, as in the paper.
  """

  subsets: dict[str, Correlation]
  all: Correlation
  mean: Correlation
  wmean: Correlation


def subset_correlations(similarities: np.ndarray, gold: np.ndarray, subsets: Sequence[str]) -> SubsetCorrelations:
  """Returns Spearman and Pearson x 100 by subset, of similarities [n], gold scores [n] and names of subsets [n].

  Pairs whose gold score is NaN are left out, also in the weights. If a subset's correlation is not defined, mean and
  wmean are not, and the reason has the subset's name.

  Raises:
    DataError: no pairs, the lengths differ, or see `correlation`.
  """
  similarities, gold = np.asarray(similarities, np.float64), np.asarray(gold, np.float64)
  whole = correlation(similarities, gold)
  rows = rows_of_subsets(subsets, len(gold))
  parts = {name: correlation(similarities[chosen], gold[chosen]) for name, chosen in rows.items()}
  weights = [part.pairs for part in parts.values()]
  return SubsetCorrelations(parts, whole, _mean(parts, [1] * len(parts)), _mean(parts, weights))


def rows_of_subsets(subsets: Sequence[str], n: int) -> dict[str, np.ndarray]:
  """Returns {subset: indices [m] of its pairs}, in order of first appearance.

  Args:
    subsets: [n] names.
    n: number of pairs.

  Raises:
    DataError: no pairs, or not one name for each pair.
  """
  if isinstance(subsets, str) or len(subsets) != n or not n:
    count = "one name" if isinstance(subsets, str) else f"{len(subsets)} names"
    raise DataError(f"{count} of subsets for {n} pairs, expected a name for each of at least one pair")
  rows = {}
  for row, name in enumerate(subsets):
    rows.setdefault(str(name), []).append(row)
  return {name: np.array(indices) for name, indices in rows.items()}


def _mean(parts, weights):
  """Returns the weighted mean of {subset: Correlation}."""
  pairs = sum(part.pairs for part in parts.values())
  reasons = [f"subset {name}: {part.reason}" for name, part in parts.items() if part.reason]
  if reasons:
    return Correlation(math.nan, math.nan, pairs, "; ".join(reasons))
  spearman, pearson = (
    float(np.average([getattr(part, score) for part in parts.values()], weights=weights))
    for score in ("spearman", "pearson")
  )
  return Correlation(spearman, pearson, pairs)
