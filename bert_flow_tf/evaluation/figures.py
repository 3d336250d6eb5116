"""The figures of one set of pairs, by the task's metric, as `results.json` and the table hold them."""

import dataclasses

from bert_flow_tf.evaluation.metrics import auc, correlation
from bert_flow_tf.evaluation.subsets import subset_correlations


def figures(similarities, gold, subsets=(), metric="correlation"):
  """{figure: number} of similarities [n] and gold scores or labels [n].

  Args:
    similarities: [n] cosines.
    gold: [n], NaN for a pair that takes no part.
    subsets: [n] names where the pairs are made of subsets, else empty.
    metric: "correlation" or "auc".

  Returns:
    dict with "pairs" and "reason" (why a figure is NaN, else ""), and: "auc"; or "spearman" and "pearson"; or for
    subsets each of the two as wmean, mean and all, and the dict "subsets" of every subset's own figures.

  Raises:
    DataError: what `correlation`, `auc` and `subset_correlations` refuse.
  """
  if metric == "auc":
    return dataclasses.asdict(auc(similarities, gold))
  if not len(subsets):
    return dataclasses.asdict(correlation(similarities, gold))
  found = subset_correlations(similarities, gold, subsets)
  named = {
    f"{figure}_{way}": getattr(getattr(found, way), figure)
    for figure in ("spearman", "pearson")
    for way in ("wmean", "mean", "all")
  }
  parts = {name: dataclasses.asdict(part) for name, part in found.subsets.items()}
  return {**named, "pairs": found.wmean.pairs, "reason": found.wmean.reason, "subsets": parts}
