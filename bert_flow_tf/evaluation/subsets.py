"""Figures of a task made of subsets, as STS12 to STS16 are."""

import dataclasses
import math

import numpy as np

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation.metrics import Correlation, correlation


@dataclasses.dataclass(frozen=True)
class SubsetCorrelations:
  """Correlations of each subset, and the three ways to make one figure of them; they differ by several points.

  Attributes:
    subsets: {subset: Correlation}, in order of first appearance.
    all: of all pairs as one set, as SBERT and SimCSE report it.
    mean: plain mean over the subsets, as SentEval prints it too.
    wmean: mean weighted by the subsets' scored pairs, the paper's figure.
  """

  subsets: dict[str, Correlation]
  all: Correlation
  mean: Correlation
  wmean: Correlation


def subset_correlations(similarities, gold, subsets):
  """Spearman and Pearson x 100 by subset, of similarities [n], gold scores [n] and subset names [n].

  Pairs whose gold score is NaN take no part, nor in the weights. A subset whose correlation is not defined leaves mean
  and wmean undefined, with its name in the reason.

  Raises:
    DataError: no pairs, the lengths differ, or what `correlation` refuses, with the subset's name.
  """
  similarities, gold = np.asarray(similarities, np.float64), np.asarray(gold, np.float64)
  whole = correlation(similarities, gold)
  found = {}
  for name, rows in rows_of_subsets(subsets, len(gold)).items():
    found[name] = correlation(similarities[rows], gold[rows])
  weights = [part.pairs for part in found.values()]
  return SubsetCorrelations(found, whole, _mean(found, [1] * len(found)), _mean(found, weights))


def rows_of_subsets(subsets, n):
  """{subset: indices [m] of its pairs}, in order of first appearance.

  Args:
    subsets: [n] names.
    n: number of pairs.

  Raises:
    DataError: there are no pairs, or not one name a pair.
  """
  if isinstance(subsets, str) or len(subsets) != n or not n:
    count = "one name" if isinstance(subsets, str) else f"{len(subsets)} names"
    raise DataError(f"{count} of subsets for {n} pairs, expected a name for each of at least one pair")
  rows = {}
  for row, name in enumerate(subsets):
    rows.setdefault(str(name), []).append(row)
  return {name: np.array(found) for name, found in rows.items()}


def _mean(found, weights):
  pairs = sum(part.pairs for part in found.values())
  reasons = [f"subset {name}: {part.reason}" for name, part in found.items() if part.reason]
  if reasons:
    return Correlation(math.nan, math.nan, pairs, "; ".join(reasons))
  spearman, pearson = (
    float(np.average([getattr(part, figure) for part in found.values()], weights=weights))
    for figure in ("spearman", "pearson")
  )
  return Correlation(spearman, pearson, pairs)
