"""Scores, predictions and embeddings of a siamese encoder, by split, and the published files of them."""

import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation import report
from bert_flow_tf.evaluation.metrics import correlation
from bert_flow_tf.evaluation.result import TaskResult, task_result
from bert_flow_tf.evaluation.task_scores import (
  BEFORE_TRAINING,
  WITHOUT_FLOW,
  Embeddings,
  evaluate,
  pair_cosines,
)
from bert_flow_tf.io import files

FULL = "full"
# The order of the splits in the published file of all pairs.
_FULL_ORDER = ("test", "dev", "train")

# {method: function of embeddings [n, dim]}; the last one is that of the loss and the predictions.
Transforms = Mapping[str, Callable[[np.ndarray], np.ndarray]]


def evaluate_splits(
  task: TaskData,
  embeddings: Embeddings,
  transforms: Transforms,
  classifier: Any,
  splits: Sequence[str],
  untrained: Embeddings | None = None,
) -> TaskResult:
  """Evaluates splits that have gold.

  Args:
    task: the task.
    embeddings: embeddings of the splits.
    transforms: the methods.
    classifier: `Classifier` of a task with labels.
    splits: names of the splits.
    untrained: embeddings before the training, for a task without labels.

  Returns:
    The result; its scores are {split: {"accuracy", "majority", "loss", "pairs", "counts"}} for labels.
  """
  if not task.labels:
    evaluations = {name: evaluate(task, embeddings, f, splits) for name, f in transforms.items()}
    if untrained is not None:
      evaluations = {BEFORE_TRAINING: evaluate(task, untrained, transforms[WITHOUT_FLOW], splits), **evaluations}
    return task_result(task, evaluations, drawn=False)
  results = {}
  for split in splits:
    pairs = task.splits[split]
    results[split] = _classification(task, pairs, classifier.probabilities(*final(embeddings, transforms, pairs)))
  return TaskResult(task.name, results, classification_rows(results))


def dev_score(
  task: TaskData, embeddings: Embeddings, transforms: Transforms, classifier: Any, as_published: bool = False
) -> float:
  """Returns dev's score for early stopping, x 100, with the flow if there is one.

  It is the accuracy, or the task's metric: AUC or Spearman's correlation; with `as_published` Pearson's.
  """
  if as_published and not task.labels:
    pairs = task.splits["dev"]
    a, b = final(embeddings, transforms, pairs)
    return correlation(pair_cosines(a, b, "dev"), task.targets(pairs)).pearson
  results = evaluate_splits(task, embeddings, transforms, classifier, ["dev"]).scores
  if task.labels:
    return results["dev"]["accuracy"]
  return results["dev"][list(transforms)[-1]]["auc" if task.spec.metric == "auc" else "spearman"]


def final(embeddings: Embeddings, transforms: Transforms, pairs: SentencePairs) -> list[np.ndarray]:
  """Returns the embeddings of both sides of pairs that loss and predictions compare, float32 [n, dim]."""
  transform = list(transforms.values())[-1]
  return [transform(embeddings.of(side)) for side in (pairs.sentences_a, pairs.sentences_b)]


def eval_results(
  targets: np.ndarray,
  sides: Sequence[np.ndarray],
  classifier: Any = None,
  bits: np.ndarray | None = None,
  uses_labels: bool = True,
  l2_penalty: float = -1.0,
  batch_size: int = 8,
) -> dict[str, np.float32]:
  """Returns the values of the published eval_results.txt, without global_step.

  Args:
    targets: [n] scaled labels, or indices of classes with a classifier; NaN for a pair without a label.
    sides: embeddings of both sides, [n, dim], after flow and low_dim.
    classifier: `Classifier`, or None.
    bits: bits per dimension of both sides added up, [n]; None without a flow.
    uses_labels: False for num_examples=0, where the label loss is 0.
    l2_penalty: factor of the embeddings' norms in the loss; active above 0.
    batch_size: pairs of an evaluation step. `loss` is the mean of the steps' mean losses.

  Returns:
    loss, eval_loss (mean over the pairs), and eval_accuracy or eval_pearsonr; with `bits` eval_loss_flow and
    eval_loss_total. Correlations are from -1 to 1, accuracy from 0 to 1.
  """
  labeled = np.isfinite(targets)
  if classifier is None:
    cosines = pair_cosines(sides[0], sides[1], "dev")
    losses = np.where(labeled, (cosines - targets) ** 2, 0.0)
    values = {"eval_pearsonr": correlation(cosines, targets).pearson / 100.0}
  else:
    probabilities = classifier.probabilities(*sides)
    losses = np.where(labeled, -np.log(_likelihood(probabilities, np.where(labeled, targets, 0))), 0.0)
    values = {"eval_accuracy": float((probabilities.argmax(axis=1) == targets).mean())}
  losses *= uses_labels
  if l2_penalty > 0:
    losses += l2_penalty * sum(np.linalg.norm(side.astype(np.float64), axis=1) for side in sides)
  batches = [losses[start : start + batch_size].mean() for start in range(0, len(losses), batch_size)]
  values |= {"eval_loss": losses.mean(), "loss": np.mean(batches)}
  if bits is not None:
    flow = np.mean(bits, dtype=np.float64)
    values |= {"eval_loss_flow": flow, "eval_loss_total": losses.mean() + flow}
  return {name: np.float32(value) for name, value in values.items()}


def _likelihood(probabilities, classes):
  """Returns the probability of each pair's class, float64 [n], above 0."""
  rows = probabilities[np.arange(len(classes)), classes.astype(int)]
  return np.maximum(rows.astype(np.float64), np.finfo(np.float32).tiny)


def _classification(task, pairs, probabilities):
  """Returns accuracy and share of the majority class x 100, mean cross entropy in nats, numbers of pairs and labels."""
  gold = pairs.scores.astype(int)
  counts = np.bincount(gold, minlength=len(task.labels))
  return {
    "accuracy": 100.0 * (probabilities.argmax(axis=1) == gold).mean(),
    "majority": 100.0 * counts.max() / len(gold),
    "loss": float(-np.log(_likelihood(probabilities, gold)).mean()),
    "pairs": len(gold),
    "counts": {label: int(count) for label, count in zip(task.labels, counts, strict=True)},
  }


def classification_rows(results: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
  """Returns the rows of the table of a task with labels, with its header."""
  rows = [["split", "pairs", "accuracy x 100", "majority class x 100", "cross entropy"]]
  for split, scores in results.items():
    numbers = (f"{scores[key]:.2f}" for key in ("accuracy", "majority"))
    rows.append([split, str(scores["pairs"]), *numbers, f"{scores['loss']:.4f}"])
  return rows


def predicted_pairs(task: TaskData, name: str) -> SentencePairs:
  """Returns the pairs of a split, or those of test, dev and train for "full".

  The one file of each of STS-12 to STS-16 is every split, as in the published code.

  Raises:
    ConfigError: the task has no such split.
  """
  names = _FULL_ORDER if name == FULL else (name,)
  available = [split for split in names if split in task.splits or task.spec.one_file_for_all_splits]
  if not available:
    argument = "do_predict_on_dev" if name == "dev" else "do_predict"
    raise ConfigError(
      f"{argument}: {task.name} has no {name} split, only {', '.join(task.splits)} ({task.source})", argument=argument
    )
  return SentencePairs.concatenate([task.split(split) for split in available])


def write_cosines(path: str | os.PathLike, sides: Sequence[np.ndarray]) -> None:
  """Writes the published `NAME_results.tsv`: the cosine of each pair of embeddings [n, dim], one float32 a line."""
  cosines = pair_cosines(sides[0], sides[1], pathlib.Path(path).name).astype(np.float32)
  files.write_text(path, "".join(f"{cosine!s}\n" for cosine in cosines))


def write_pooled(path: str | os.PathLike, sides: Sequence[np.ndarray]) -> None:
  """Writes the published `NAME_pooled.tsv`: a JSON object for each pair, with embedding_a and embedding_b [dim].

  Numbers are rounded to 6 decimals.
  """
  lines = []
  for a, b in zip(*sides, strict=True):
    lines.append(json.dumps({"embedding_a": _rounded(a), "embedding_b": _rounded(b)}) + "\n")
  files.write_text(path, "".join(lines))


def _rounded(embedding):
  return [round(float(value), 6) for value in embedding]


def write_labels(path: str | os.PathLike, task: TaskData, pairs: SentencePairs, probabilities: np.ndarray) -> None:
  """Writes the predictions of a task with labels, for which the published code has no file.

  Columns: index, gold, predicted, a probability for each label, the sentences.

  Args:
    path: the file.
    task: the task.
    pairs: n pairs.
    probabilities: [n, labels].
  """
  columns: dict[str, Any] = {
    "gold": [task.labels[int(score)] if np.isfinite(score) else "" for score in pairs.scores],
    "predicted": [task.labels[i] for i in probabilities.argmax(axis=1)],
    **{f"p_{label}": column for label, column in zip(task.labels, probabilities.T, strict=True)},
  }
  path = pathlib.Path(path)
  report.write_pairs(path.parent, path.name, pairs, columns)
