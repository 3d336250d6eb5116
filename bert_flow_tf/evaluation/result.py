"""Numbers of a run on a task. `report/sentences.py` has the words."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_flow_tf.data.beir import RetrievalTask
from bert_flow_tf.data.task import TaskData, TaskSpec
from bert_flow_tf.evaluation.bootstrap import bootstrap_gain, bootstrap_mean_gain
from bert_flow_tf.evaluation.controls import BM25, CHARACTERS, WITH_BM25
from bert_flow_tf.evaluation.retrieval import NDCG, RetrievalScores
from bert_flow_tf.evaluation.task_scores import BEFORE_TRAINING, WITHOUT_FLOW, Evaluation, parts, scores_of_split

# Encoders without a calibration.
BASELINES = (WITHOUT_FLOW, BEFORE_TRAINING)
# Pairs whose order is compared.
_ORDERED = 2000

# {split: {method: value}}, in which a union has a split per task: "test STS-12" of STS-12-16.
BySplit = Mapping[str, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class TaskResult:
  """Numbers of a run on a task.

  Attributes:
    spec: the task's row of the registry.
    source: description of the data's origin.
    scores: {split: {method: scores}}; of a classifier {split: scores}.
    gains: {split: {method: fields of `Gain`, and the method that it is "over"}} of the evaluated split.
    gains_over_match: gains over the string match `CHARACTERS`, or of a search over `BM25`.
    controls: {split: {name of a string match: scores}} of the evaluated split.
  """

  spec: TaskSpec
  source: str
  scores: BySplit
  gains: BySplit = dataclasses.field(default_factory=dict)
  gains_over_match: BySplit = dataclasses.field(default_factory=dict)
  controls: BySplit = dataclasses.field(default_factory=dict)

  @property
  def name(self) -> str:
    """The task's name."""
    return self.spec.name

  @property
  def has_gold(self) -> bool:
    """True if the task has gold scores."""
    return self.spec.eval_split is not None


def task_result(
  task: TaskData, evaluations: Mapping[str, Evaluation], matches: Mapping[str, np.ndarray] | None = None
) -> TaskResult:
  """Returns the result of a task.

  Args:
    task: the task.
    evaluations: {method: the result of `task_scores.evaluate`}.
    matches: {name of a string match: its cosines [n] on the evaluated split}, see `controls.task_controls`.
  """
  # By split first, as results.json has them.
  scores: dict[str, dict[str, dict]] = {}
  cosines = {}
  for method, (by_split, similarities) in evaluations.items():
    cosines[method] = similarities
    for split, values in by_split.items():
      scores.setdefault(split, {})[method] = values
  matches = matches or {}
  return TaskResult(
    spec=task.spec,
    source=task.source,
    scores=scores,
    gains=_gains_over_baselines(task, cosines),
    gains_over_match=_gains_over_match(task, cosines, matches.get(CHARACTERS)),
    controls=_control_scores(task, matches),
  )


def retrieval_result(task: RetrievalTask, scored: Mapping[str, RetrievalScores]) -> TaskResult:
  """Returns the result of a search: {method: its scores}, the encoder alone first, and perhaps `BM25`.

  The gain of a method with `WITH_BM25` is over the encoder with it, whose own gain is over the encoder alone.
  """
  split = str(task.spec.eval_split)
  about = {"queries": len(task.qrels), "documents": len(task.documents), "reason": ""}
  numbers = {method: {**scores.mean, **about} for method, scores in scored.items()}
  controls = {BM25: numbers.pop(BM25)} if BM25 in numbers else {}
  values = {method: scores.values[NDCG] for method, scores in scored.items()}
  # Queries of the same text are drawn together, as pairs of the same sentences are.
  rows: dict[str, int] = {}
  repeats = [rows.setdefault(task.queries[query], row) for row, query in enumerate(task.qrels)]
  first = next(iter(numbers))
  baselines = {}
  for method in numbers:
    is_both = method.endswith(WITH_BM25) and method != f"{first}{WITH_BM25}"
    baselines[method] = f"{first}{WITH_BM25}" if is_both else first
  gains = {}
  for method, baseline in baselines.items():
    if method != first:
      gains[method] = _mean_gain(values, baseline, method, repeats)
  over_match = {method: _mean_gain(values, BM25, method, repeats) for method in numbers if controls}
  by_split = [{split: of_split} if of_split else {} for of_split in (gains, over_match, controls)]
  return TaskResult(task.spec, task.source, {split: numbers}, *by_split)


def _mean_gain(values, baseline, method, numbers):
  gain = bootstrap_mean_gain(values[baseline], values[method], NDCG, numbers=numbers)
  return {**dataclasses.asdict(gain), "over": baseline}


def right_order(gold: np.ndarray, cosines: Mapping[str, np.ndarray]) -> dict[str, float]:
  """Returns how many of 100 couples of pairs with different gold [n] each of the cosines {method: [n]} order as gold.

  A couple with equal cosines counts half. Of many pairs a sample is taken; {} if no gold differs.
  """
  scored = np.flatnonzero(~np.isnan(gold))
  scored = scored[:: max(math.ceil(len(scored) / _ORDERED), 1)]
  higher = gold[scored][:, None] > gold[scored]
  if not higher.any():
    return {}
  shares = {}
  for method, values in cosines.items():
    differences = np.subtract.outer(values[scored], values[scored])[higher]
    shares[method] = 100 * float(np.mean(differences > 0) + np.mean(differences == 0) / 2)
  return shares


def _control_scores(task, matches):
  """Returns {split: {name of a string match: scores}}."""
  scores: dict[str, dict[str, dict]] = {}
  for name, similarities in matches.items():
    split = task.spec.eval_split
    for part, values in scores_of_split(split, task.splits[split], similarities, task.spec.metric).items():
      scores.setdefault(part, {})[name] = values
  return scores


def _gains_over_baselines(task, cosines):
  """Returns {split: {method: gain}} over the encoder alone: `WITHOUT_FLOW`, or else the first method."""
  # The gain of the encoder alone is over the encoder before its training, if that is known.
  split = task.spec.eval_split
  first = next(iter(cosines))
  if WITHOUT_FLOW in cosines:
    first = WITHOUT_FLOW
  if split not in cosines[first]:
    return {}
  baselines = {}
  if BEFORE_TRAINING in cosines:
    baselines[first] = BEFORE_TRAINING
  for method in cosines:
    if method not in BASELINES and method != first:
      baselines[method] = first
  compared = {}
  for method, baseline in baselines.items():
    compared[method] = (baseline, cosines[baseline][split], cosines[method][split])
  return _gains(task, compared)


def _gains_over_match(task, cosines, match):
  """Returns {split: {method: gain}} over the string match of calibrations, or of an encoder that has none."""
  if match is None:
    return {}
  # Characters alone are the string match.
  calibrated = [method for method in cosines if method not in BASELINES and not method.startswith(CHARACTERS)]
  compared = {}
  for method in calibrated or [method for method in cosines if method in BASELINES]:
    compared[method] = (CHARACTERS, match, cosines[method][task.spec.eval_split])
  return _gains(task, compared)


def _gains(task, compared):
  """Returns {split: {method: gain}} of {method: (name of the baseline, its cosines [n], the method's cosines [n])}."""
  split = task.spec.eval_split
  pairs = task.splits[split]
  metric = "auc" if task.spec.metric == "auc" else "spearman"
  numbers = pairs.distinct_numbers()
  gains = {}
  for name, rows, subsets in parts(split, pairs):
    of_part = {}
    for method, (baseline, before, after) in compared.items():
      gold, repeats = pairs.scores[rows], numbers[rows]
      gain = bootstrap_gain(before[rows], after[rows], gold, subsets, metric=metric, numbers=repeats)
      of_part[method] = {**dataclasses.asdict(gain), "over": baseline}
    if of_part:
      gains[name] = of_part
  return gains
