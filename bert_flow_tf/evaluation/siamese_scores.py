"""Scores, predictions and embeddings of a siamese encoder, by split."""

import io
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation import report
from bert_flow_tf.evaluation.task_scores import (
  WITH_FLOW,
  WITHOUT_FLOW,
  Embeddings,
  by_split,
  evaluate,
  original_agreement,
  pair_cosines,
)
from bert_flow_tf.io import files

FULL = "full"


def transforms(flow: Any) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
  """Returns {method: function of embeddings [n, dim]}, the last one being that of the predictions.

  Args:
    flow: fitted `FlowCalibration`, or None.
  """
  return {WITHOUT_FLOW: lambda u: u} | ({WITH_FLOW: flow.transform} if flow else {})


def evaluate_splits(
  task: TaskData, embeddings: Embeddings, flow: Any, classifier: Any, splits: Sequence[str]
) -> tuple[dict[str, dict], dict[str, Any]]:
  """Evaluates splits that have gold.

  Args:
    task: the task.
    embeddings: embeddings of the splits.
    flow: fitted `FlowCalibration`, or None.
    classifier: `SoftmaxObjective` of a task with labels.
    splits: names of the splits.

  Returns:
    {split: {"accuracy", "majority", "loss", "pairs", "counts"}} and {split: probabilities [n, labels]} for labels, else
    {split: {method: scores}} and {method: {split: cosines [n]}}.
  """
  if not task.labels:
    evaluations = {name: evaluate(task, embeddings, f, splits) for name, f in transforms(flow).items()}
    return by_split(evaluations), {method: cosines for method, (_, cosines) in evaluations.items()}
  probabilities = {split: _probabilities(embeddings, flow, classifier, task.splits[split]) for split in splits}
  return {split: _classification(task, task.splits[split], probabilities[split]) for split in splits}, probabilities


def dev_score(task: TaskData, embeddings: Embeddings, flow: Any, classifier: Any) -> float:
  """Returns dev's score for early stopping, x 100: accuracy, or the task's metric, with the flow if there is one."""
  results, _ = evaluate_splits(task, embeddings, flow, classifier, ["dev"])
  if task.labels:
    return results["dev"]["accuracy"]
  return results["dev"][list(transforms(flow))[-1]]["auc" if task.spec.metric == "auc" else "spearman"]


def eval_results(
  task: TaskData,
  embeddings: Embeddings,
  flow: Any,
  results: Mapping[str, Any],
  predictions: Mapping[str, Any],
  facts: Mapping[str, Any],
) -> dict[str, float]:
  """Returns the content of eval_results.txt, with the original's keys; correlations from -1 to 1, accuracy 0 to 1.

  Args:
    task: the task.
    embeddings: embeddings of the evaluated splits.
    flow: fitted `FlowCalibration`, or None.
    results: of `evaluate_splits`.
    predictions: of `evaluate_splits`.
    facts: content of training.json.
  """
  evaluated = list(predictions if task.labels else predictions[WITHOUT_FLOW])
  split = task.spec.eval_split if task.spec.eval_split in evaluated else evaluated[0]
  values = {"global_step": facts["steps"]} if "steps" in facts else {}
  if task.labels:
    scores = results[split]
    return values | {"eval_accuracy": scores["accuracy"] / 100, "eval_loss": scores["loss"], "loss": scores["loss"]}
  pairs, cosines = task.splits[split], predictions[WITH_FLOW if flow else WITHOUT_FLOW][split]
  loss = float(np.nanmean((cosines - task.targets(pairs)) ** 2))
  values |= {"eval_loss": loss, "loss": loss}
  values |= original_agreement(task.spec.metric, cosines, pairs.scores)
  if flow:
    sides = (embeddings.of(side) for side in (pairs.sentences_a, pairs.sentences_b))
    flow_loss = float(sum(flow.flow.bits_per_dim(side).numpy().mean() for side in sides))
    total = flow_loss + (loss if facts.get("labelled") else 0.0)  # without labels, only the flow's loss is minimized
    values |= {"eval_loss_flow": flow_loss, "eval_loss_total": total, "loss": total}
  return values


def _sides(embeddings, flow, pairs):
  """Returns the embeddings of both sides, float32 [n, dim], through the flow if there is one."""
  transform = list(transforms(flow).values())[-1]
  return [transform(embeddings.of(side)) for side in (pairs.sentences_a, pairs.sentences_b)]


def _probabilities(embeddings, flow, classifier, pairs):
  return classifier.probabilities(*_sides(embeddings, flow, pairs))


def _classification(task, pairs, probabilities):
  """Returns accuracy and share of the majority class x 100, mean cross entropy in nats, numbers of pairs and labels."""
  gold = pairs.scores.astype(int)
  counts = np.bincount(gold, minlength=len(task.labels))
  right = probabilities.argmax(axis=1) == gold
  likelihood = probabilities[np.arange(len(gold)), gold].astype(np.float64)
  return {
    "accuracy": 100.0 * right.mean(),
    "majority": 100.0 * counts.max() / len(gold),
    "loss": float(-np.log(np.maximum(likelihood, np.finfo(np.float32).tiny)).mean()),
    "pairs": len(gold),
    "counts": {label: int(count) for label, count in zip(task.labels, counts, strict=True)},
  }


def classification_table(results: Mapping[str, Mapping[str, Any]], seconds: Mapping[str, float]) -> str:
  """Returns the terminal's table of a task with labels."""
  rows = [["split", "pairs", "accuracy x 100", "majority class x 100", "cross entropy"]]
  for split, scores in results.items():
    numbers = (f"{scores[key]:.2f}" for key in ("accuracy", "majority"))
    rows.append([split, str(scores["pairs"]), *numbers, f"{scores['loss']:.4f}"])
  return "\n".join([*report.aligned(rows), f"seconds: {report.spent(seconds)}"])


def predicted_pairs(task: TaskData, name: str) -> SentencePairs:
  """Returns the pairs of a split, or of all splits for "full".

  Raises:
    ConfigError: the task has no such split.
  """
  if name == FULL:
    return SentencePairs.concatenate(task.splits.values())
  if name not in task.splits:
    argument = "do_predict_on_dev" if name == "dev" else "do_predict"
    raise ConfigError(
      f"{argument}: {task.name} has no {name} split, only {', '.join(task.splits)} ({task.source})", argument=argument
    )
  return task.splits[name]


def write_predictions(
  folder: str | os.PathLike,
  name: str,
  task: TaskData,
  embeddings: Embeddings,
  flow: Any,
  classifier: Any,
  pool: bool,
) -> None:
  """Writes `NAME_results.tsv`, one row for each pair, and with `pool` the embeddings in `NAME_embeddings.npz`.

  Columns for labels: index, gold, predicted, a probability for each label, the sentences. For regression: index, gold,
  the cosine of each method, the sentences.

  Args:
    folder: the experiment's folder.
    name: "test", "dev" or "full".
    task: the task.
    embeddings: embeddings of the predicted pairs.
    flow: fitted `FlowCalibration`, or None.
    classifier: `SoftmaxObjective` of a task with labels.
    pool: whether to write arrays a and b, float32 [n, dim], through the flow if there is one.
  """
  pairs = predicted_pairs(task, name)
  columns: dict[str, Any]
  if task.labels:
    probabilities = _probabilities(embeddings, flow, classifier, pairs)
    columns = {
      "gold": [task.labels[int(score)] for score in pairs.scores],
      "predicted": [task.labels[i] for i in probabilities.argmax(axis=1)],
      **{f"p_{label}": column for label, column in zip(task.labels, probabilities.T, strict=True)},
    }
  else:
    columns = {"gold": pairs.scores}
    for method, transform in transforms(flow).items():
      a, b = (transform(embeddings.of(side)) for side in (pairs.sentences_a, pairs.sentences_b))
      columns[method] = pair_cosines(a, b, name)
  report.write_pairs(folder, f"{name}_results.tsv", pairs, columns)
  if pool:
    a, b = _sides(embeddings, flow, pairs)
    buffer = io.BytesIO()
    np.savez(buffer, a=a, b=b)
    files.write_bytes(pathlib.Path(folder) / f"{name}_embeddings.npz", buffer.getvalue())
