"""Scores of one set of pairs by the task's metric, as results.json and the tables have them."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_flow_tf.evaluation.metrics import auc, correlation
from bert_flow_tf.evaluation.subsets import subset_correlations


def score_pairs(
  similarities: np.ndarray, gold: np.ndarray, subsets: Sequence[str] = (), metric: str = "correlation"
) -> dict[str, Any]:
  """Returns the scores of similarities against gold scores or labels.

  Args:
    similarities: [n] cosines.
    gold: [n], NaN for a pair without gold, which is left out.
    subsets: [n] names of the pairs' subsets; empty without subsets.
    metric: "correlation" or "auc".

  Returns:
    dict with "pairs", "reason" (why a score is NaN, else ""), and: "auc"; or "spearman" and "pearson"; or with subsets
    each of the two as wmean, mean and all, and the dict "subsets" of each subset's scores.

  Raises:
    DataError: see `correlation`, `auc` and `subset_correlations`.
  """
  if metric == "auc":
    return dataclasses.asdict(auc(similarities, gold))
  if not len(subsets):
    return dataclasses.asdict(correlation(similarities, gold))
  result = subset_correlations(similarities, gold, subsets)
  means = {
    f"{score}_{way}": getattr(getattr(result, way), score)
    for score in ("spearman", "pearson")
    for way in ("wmean", "mean", "all")
  }
  parts = {name: dataclasses.asdict(part) for name, part in result.subsets.items()}
  return {**means, "pairs": result.wmean.pairs, "reason": result.wmean.reason, "subsets": parts}
