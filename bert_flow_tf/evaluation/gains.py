"""Gains of calibrations over the encoder alone, and what a run prints of them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.data.task import TaskData
from bert_flow_tf.evaluation import report
from bert_flow_tf.evaluation.bootstrap import bootstrap_gain
from bert_flow_tf.evaluation.task_scores import BEFORE_TRAINING, WITH_FLOW, WITHOUT_FLOW, parts

_BASELINES = (WITHOUT_FLOW, BEFORE_TRAINING)
_SPOKEN = {WITH_FLOW: "the flow", WITHOUT_FLOW: "the training"}


def gains(task: TaskData, cosines: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, dict[str, dict]]:
  """Returns the gains of the methods, with intervals of a paired bootstrap.

  Args:
    task: the task.
    cosines: {method: {split: [n]}}. The gain is over `WITHOUT_FLOW`, or over the first method if that is missing; the
      gain of `WITHOUT_FLOW` itself is over `BEFORE_TRAINING`.

  Returns:
    {split: {method: gain}}; the gain is in AUC if that is the task's metric, else in Spearman.
  """
  split = task.spec.eval_split
  if split is None:
    return {}
  first = WITHOUT_FLOW if WITHOUT_FLOW in cosines else next(iter(cosines))
  over = {method: first for method in cosines if method not in (first, BEFORE_TRAINING)}
  if BEFORE_TRAINING in cosines:
    over = {first: BEFORE_TRAINING, **over}
  pairs = task.splits[split]
  auc_alone = {"metric": "auc"} if task.spec.metric == "auc" else {}

  def gain(method, rows, subsets):
    subsets = None if auc_alone else subsets or None
    before, after = (cosines[name][split][rows] for name in (over[method], method))
    result = bootstrap_gain(before, after, pairs.scores[rows], subsets, **auc_alone)
    return {**dataclasses.asdict(result), "over": over[method]}

  return {name: {method: gain(method, rows, subsets) for method in over} for name, rows, subsets in parts(split, pairs)}


def say(
  results: Mapping[str, dict], intervals: Mapping[str, dict], seconds: Mapping[str, float], page: Any = None
) -> None:
  """Prints the table, the gains' intervals and the path of the page, and logs why a score is NaN.

  Args:
    results: {split: {method: scores}}.
    intervals: {split: {method: gain}}, see `gains`.
    seconds: {kind of work: seconds}.
    page: path of the run's page; None for none.
  """
  print("\n".join([report.table(results, seconds), *gain_lines(intervals)]))
  for sentences in harm(intervals).values():
    for sentence in sentences:
      logging.warning("%s", sentence)
  for split, methods in results.items():
    if not any("reason" in scores for scores in methods.values()):
      logging.info(
        "%s has no gold scores: the table says how far the sentences spread, not which method is better", split
      )
    for method, scores in methods.items():
      if scores.get("reason"):
        logging.warning("no score on %s %s: %s", split, report.method_name(method), scores["reason"])
  if page is not None:
    print(f"page: {page}")


def gain_lines(intervals: Mapping[str, dict]) -> list[str]:
  """Returns a line for each gain of `gains`, with its interval."""
  lines = []
  for split, methods in intervals.items():
    for method, gain in methods.items():
      by = "" if list(methods) == [WITH_FLOW] else f" by {_spoken(method)}"
      by += f" over {_spoken(gain['over'])}" if gain["over"] not in _BASELINES else ""
      lines.append(f"gain in {_metric(gain)} on {split}{by}: {_interval(gain)}")
  return lines


def harm(intervals: Mapping[str, dict]) -> dict[str, list[str]]:
  """Returns {method: a sentence for each split on which its whole interval is below 0}, for gains over the encoder.

  Args:
    intervals: {split: {method: gain}}, see `gains`.
  """
  found: dict[str, list[str]] = {}
  for split, methods in intervals.items():
    for method, gain in methods.items():
      if gain["high"] < 0 and gain["over"] in _BASELINES:
        sentence = f"{_spoken(method)} makes {_metric(gain)} worse on {split}: {_interval(gain)}; do without it"
        found.setdefault(method, []).append(sentence)
  return found


def _spoken(method):
  return _SPOKEN.get(method) or report.method_name(method)


def _metric(gain):
  return "AUC" if gain["metric"] == "auc" else "Spearman"


def _interval(gain):
  interval = f"{100 * gain['level']:.0f}% interval {gain['low']:+.2f} to {gain['high']:+.2f}"
  return f"{gain['gain']:+.2f}, " + (f"no interval: {gain['reason']}" if gain["reason"] else interval)
