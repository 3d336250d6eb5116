"""Result of a run on one task: scores, gains and warnings, computed once for results.json, page and terminal."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.semeval import SCALE
from bert_flow_tf.data.task import BINARY, CLASSES, TaskData
from bert_flow_tf.evaluation import report
from bert_flow_tf.evaluation.bootstrap import bootstrap_gain
from bert_flow_tf.evaluation.isotropy import sample
from bert_flow_tf.evaluation.task_scores import (
  BEFORE_TRAINING,
  HEADLINE,
  WITH_FLOW,
  WITHOUT_FLOW,
  Embeddings,
  parts,
  scores_of_split,
)

_BASELINES = (WITHOUT_FLOW, BEFORE_TRAINING)
_PROSE_NAMES = {WITH_FLOW: "the flow", WITHOUT_FLOW: "the training"}
_METRIC_NAMES = {"auc": "AUC", "spearman": "Spearman"}


@dataclasses.dataclass(frozen=True)
class TaskResult:
  """Result of a run on a task, with the rows of its table of scores, the first of which is the header."""

  name: str
  # {split: {method: scores}} and {split: {method: gain}}
  scores: Mapping[str, Any]
  rows: Sequence[Sequence[str]]
  gains: Mapping[str, Mapping[str, Mapping[str, Any]]] = dataclasses.field(default_factory=dict)
  gain_lines: Sequence[str] = ()
  # {method: a sentence for each split on which it makes the score worse}
  harm: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
  # Sentences that say why a score is NaN.
  missing: Sequence[str] = ()
  has_gold: bool = True
  # The n pairs of the evaluated split, and {method: their cosines [n]}; None for no drawings.
  pairs: SentencePairs | None = None
  cosines: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
  # {method: (first sentences' [m, dim], second sentences' [m, dim])} of some pairs; empty if not known.
  embeddings: Mapping[str, tuple[np.ndarray, np.ndarray]] = dataclasses.field(default_factory=dict)
  source: str = ""
  # {split: {name of a string match: scores}}, which need no encoder.
  controls: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  # Sentences for a reader who does not know the task: what was asked, and what the ends of gold's scale mean.
  question: str = ""


def task_result(
  task: TaskData,
  evaluations: Mapping[str, tuple[dict, dict]],
  embeddings: Mapping[str, Embeddings] | None = None,
  transforms: Mapping[str, Callable[[np.ndarray], np.ndarray]] | None = None,
  drawn: bool = True,
  prefix: str = "",
  controls: Mapping[str, np.ndarray] | None = None,
) -> TaskResult:
  """Returns the result of a task, whose `evaluations` are {method: the result of `task_scores.evaluate`}.

  Drawings of the page need {method: embeddings} and transforms {method: function of embeddings [n, dim]}. `prefix`
  stands before the names of splits, such as "STS-B " where a run has several tasks. `controls` are {name of a string
  match: its cosines [n] on the evaluated split}.
  """
  # By split first, as results.json has them.
  scores: dict[str, dict[str, dict]] = {}
  cosines = {}
  for method, (by_split, similarities) in evaluations.items():
    cosines[method] = similarities
    for split, values in by_split.items():
      scores.setdefault(split, {})[method] = values
  gains = bootstrap_gains(task, cosines)
  lines, harm = _in_words({prefix + split: methods for split, methods in gains.items()})
  # Why a score is NaN.
  named_scores = {prefix + split: methods for split, methods in scores.items()}
  missing = []
  for split, methods in named_scores.items():
    for method, values in methods.items():
      if values.get("reason"):
        missing.append(f"no score on {split} {report.method_name(method)}: {values['reason']}")
  # What no encoder is needed for.
  of_controls: dict[str, dict[str, dict]] = {}
  for name, similarities in (controls or {}).items():
    split = str(task.spec.eval_split)
    for part, values in scores_of_split(split, task.splits[split], similarities, task.spec.metric).items():
      of_controls.setdefault(part, {})[name] = values
  lines += _control_lines(of_controls, prefix)
  result = TaskResult(
    name=task.spec.name,
    scores=scores,
    rows=report.rows(named_scores),
    gains=gains,
    gain_lines=lines,
    harm=harm,
    missing=missing,
    has_gold=task.spec.eval_split is not None,
    source=task.source,
    question=_question(task.spec),
    controls=of_controls,
  )
  if not drawn:
    return result
  # What the page draws: the evaluated split, and a sample of its embeddings.
  split = task.spec.eval_split or next(iter(task.splits))
  pairs = task.splits[split]
  sides = {}
  if embeddings is not None:
    for method, transform in transforms.items():
      rows = embeddings[method]
      a, b = rows.of(sample(pairs.sentences_a)), rows.of(sample(pairs.sentences_b))
      sides[method] = (transform(a), transform(b))
  of_split = {method: similarities[split] for method, similarities in cosines.items()}
  return dataclasses.replace(result, pairs=pairs, cosines=of_split, embeddings=sides)


def _control_lines(controls, prefix):
  """Returns a line for each split with the scores of string matches."""
  lines = []
  for split, by_name in controls.items():
    texts = []
    for name, values in by_name.items():
      (score,) = [values[key] for key in HEADLINE if key in values]
      texts.append(f"{name} not defined ({values['reason']})" if values["reason"] else f"{name} {score:.2f}")
    lines.append(f"control on {prefix}{split}, a string match without an encoder: {', '.join(texts)}")
  return lines


def _question(spec):
  """Returns what gold says about a pair, and what the encoder does."""
  if spec.eval_split is None or spec.kind == CLASSES:
    return ""
  low, high = spec.scale
  grade = f"a grade, its gold, from {low:g}, the least similar, to {high:g}, the most similar"
  if spec.kind == BINARY:
    grade = f"a label, its gold: 1 ({spec.positive or 'similar'}) or 0 (not)"
  elif (low, high) == SCALE:
    grade = "a grade, its gold, up to 5, the same meaning"  # the lowest of SICK-R is 1
  return (
    f"How similar in meaning are two sentences? Each pair of {spec.name} has {grade}. The encoder's own grade is the "
    "cosine of the embeddings of the two. Spearman, Pearson and AUC say how well both agree: 100 is the best."
  )


def bootstrap_gains(
  task: TaskData, cosines: Mapping[str, Mapping[str, np.ndarray]]
) -> dict[str, dict[str, dict[str, Any]]]:
  """Returns {split: {method: gain}} of {method: {split: cosines [n]}}, in AUC if that is the metric, else Spearman."""
  # It is over `WITHOUT_FLOW` or the first method; that of `WITHOUT_FLOW` itself is over `BEFORE_TRAINING`.
  split = task.spec.eval_split
  first = next(iter(cosines))
  if WITHOUT_FLOW in cosines:
    first = WITHOUT_FLOW
  if split not in cosines[first]:
    return {}
  # {method: the method that its gain is over}
  over = {}
  if BEFORE_TRAINING in cosines:
    over[first] = BEFORE_TRAINING
  for method in cosines:
    if method not in _BASELINES and method != first:
      over[method] = first
  metric = "auc" if task.spec.metric == "auc" else "spearman"
  pairs = task.splits[split]
  gains = {}
  for name, rows, subsets in parts(split, pairs):
    of_part = {}
    for method, baseline in over.items():
      before, after = cosines[baseline][split][rows], cosines[method][split][rows]
      gain = bootstrap_gain(before, after, pairs.scores[rows], subsets, metric=metric)
      of_part[method] = {**dataclasses.asdict(gain), "over": baseline}
    gains[name] = of_part
  return gains


def _in_words(gains):
  """Returns a line for each gain; and {method: sentences} of those over the encoder whose interval is below 0."""
  lines = []
  harm: dict[str, list[str]] = {}
  for split, methods in gains.items():
    for method, gain in methods.items():
      metric, interval = _METRIC_NAMES[gain["metric"]], _interval(gain)
      by = "" if list(methods) == [WITH_FLOW] else f" by {_prose_name(method)}"
      if gain["over"] not in _BASELINES:
        by += f" over {_prose_name(gain['over'])}"
      elif gain["high"] < 0:
        sentence = f"{_prose_name(method)} makes {metric} worse on {split}: {interval}; do without it"
        harm.setdefault(method, []).append(sentence)
      lines.append(f"gain in {metric} on {split}{by}: {interval}")
  return lines, harm


def _prose_name(method):
  return _PROSE_NAMES.get(method) or report.method_name(method)


def _interval(gain):
  if gain["reason"]:
    return f"{gain['gain']:+.2f}, no interval: {gain['reason']}"
  return f"{gain['gain']:+.2f}, {100 * gain['level']:.0f}% interval {gain['low']:+.2f} to {gain['high']:+.2f}"
