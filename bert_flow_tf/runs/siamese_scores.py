"""Scores and predictions of a siamese encoder, by split, and the published files of them."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.encoder.embeddings import Embeddings
from bert_flow_tf.evaluation.metrics import correlation
from bert_flow_tf.evaluation.result import TaskResult, task_result
from bert_flow_tf.evaluation.task_scores import BEFORE_TRAINING, WITHOUT_FLOW, evaluate, pair_cosines
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.report import result_files
from bert_flow_tf.training.siamese.objectives import Classifier


def final(model: SentenceModel, embeddings: Embeddings, pairs: SentencePairs) -> tuple[np.ndarray, np.ndarray]:
  """Returns the embeddings of both sides of pairs that loss and predictions compare, float32 [n, dim]."""
  encode = embeddings.calibrated_by(model.transform)
  return encode(pairs.sentences_a), encode(pairs.sentences_b)


def agreement(
  task: TaskData,
  models: Mapping[str, SentenceModel],
  embeddings: Embeddings,
  splits: Sequence[str],
  untrained: Embeddings | None = None,
) -> TaskResult:
  """Returns the result of {method: model} on splits with gold; `untrained` are embeddings before the training."""
  evaluations = {}
  if untrained is not None:
    encode = untrained.calibrated_by(models[WITHOUT_FLOW].transform)
    evaluations[BEFORE_TRAINING] = evaluate(task, encode, splits)
  for method, model in models.items():
    evaluations[method] = evaluate(task, embeddings.calibrated_by(model.transform), splits)
  return task_result(task, evaluations)


def classification(
  task: TaskData, model: SentenceModel, embeddings: Embeddings, classifier: Classifier, splits: Sequence[str]
) -> TaskResult:
  """Returns the result of a classifier: by split accuracy and share of the majority class x 100, and cross entropy."""
  scores = {}
  for split in splits:
    pairs = task.splits[split]
    first, second = final(model, embeddings, pairs)
    probabilities = classifier.probabilities(first, second)
    # The share of the largest class is what a constant answer reaches.
    gold = pairs.scores.astype(int)
    counts = np.bincount(gold, minlength=len(task.labels))
    accuracy = 100.0 * (probabilities.argmax(axis=1) == gold).mean()
    majority = 100.0 * counts.max() / len(gold)
    loss = float(-np.log(_likelihoods(probabilities, gold)).mean())  # in nats
    scores[split] = {
      "accuracy": accuracy,
      "majority": majority,
      "loss": loss,
      "pairs": len(gold),
      "counts": dict(zip(task.labels, counts.tolist(), strict=True)),
    }
  return TaskResult(task.spec, task.source, scores)


def dev_score(
  task: TaskData,
  model: SentenceModel,
  embeddings: Embeddings,
  classifier: Classifier | None,
  as_published: bool = False,
) -> float:
  """Returns dev's score for early stopping x 100: accuracy, AUC or Spearman's correlation; as published, Pearson's."""
  if classifier is not None:
    return classification(task, model, embeddings, classifier, ["dev"]).scores["dev"]["accuracy"]
  if as_published:
    pairs = task.splits["dev"]
    first, second = final(model, embeddings, pairs)
    cosines = pair_cosines(first, second, "dev")
    return correlation(cosines, task.targets(pairs)).pearson
  scores, _ = evaluate(task, embeddings.calibrated_by(model.transform), ["dev"])
  return scores["dev"]["auc" if task.spec.metric == "auc" else "spearman"]


def eval_results(
  targets: np.ndarray,
  sides: Sequence[np.ndarray],
  classifier: Classifier | None,
  bits: np.ndarray | None,
  uses_labels: bool,
  l2_penalty: float,
  batch_size: int,
) -> dict[str, np.float32]:
  """Returns the values of the published eval_results.txt, without global_step."""
  # `targets` [n] are scaled labels, or indices of classes with a classifier, NaN without a label; `sides` [n, dim] come
  # after the steps; `bits` [n] are the bits per dimension of both sides added up. Without `uses_labels`
  # (num_examples=0) the label loss is 0.
  labeled = np.isfinite(targets)
  # The label loss of each pair, 0 without a label.
  if classifier is None:
    cosines = pair_cosines(sides[0], sides[1], "dev")
    losses = np.where(labeled, (cosines - targets) ** 2, 0.0)
    values = {"eval_pearsonr": correlation(cosines, targets).pearson / 100.0}
  else:
    probabilities = classifier.probabilities(sides[0], sides[1])
    likelihoods = _likelihoods(probabilities, np.where(labeled, targets, 0))
    losses = np.where(labeled, -np.log(likelihoods), 0.0)
    values = {"eval_accuracy": float((probabilities.argmax(axis=1) == targets).mean())}
  losses *= uses_labels
  # The penalty counts for every pair, as in the published code, whatever its label.
  if l2_penalty > 0:
    for side in sides:
      losses += l2_penalty * np.linalg.norm(side.astype(np.float64), axis=1)
  # The last batch is smaller: the mean of means is another number than the mean.
  starts = range(0, len(losses), batch_size)
  values["loss"] = np.mean([losses[start : start + batch_size].mean() for start in starts])
  values["eval_loss"] = losses.mean()
  if bits is not None:
    values["eval_loss_flow"] = np.mean(bits, dtype=np.float64)
    values["eval_loss_total"] = values["eval_loss"] + values["eval_loss_flow"]
  return {name: np.float32(value) for name, value in values.items()}


def _likelihoods(probabilities, classes):
  """Returns the probability of each pair's class, float64 [n], above 0."""
  rows = probabilities[np.arange(len(classes)), classes.astype(int)]
  return np.maximum(rows.astype(np.float64), np.finfo(np.float32).tiny)


def write_cosines(path: pathlib.Path, sides: Sequence[np.ndarray]) -> np.ndarray:
  """Writes the published `NAME_results.tsv`, the cosine of each pair of embeddings [n, dim], and returns them, [n]."""
  # str of a float32 has the fewest digits that give it back, as in the published code.
  cosines = pair_cosines(sides[0], sides[1], path.name).astype(np.float32)
  result_files.write_result_text(path.parent, path.name, "".join(f"{cosine!s}\n" for cosine in cosines))
  return cosines


def write_pooled(path: pathlib.Path, sides: Sequence[np.ndarray]) -> None:
  """Writes the published `NAME_pooled.tsv`: a JSON object for each pair, with embedding_a and embedding_b [dim]."""
  lines = []
  for a, b in zip(sides[0], sides[1], strict=True):
    lines.append(json.dumps({"embedding_a": _rounded(a), "embedding_b": _rounded(b)}) + "\n")
  result_files.write_result_text(path.parent, path.name, "".join(lines))


def _rounded(embedding):
  return [round(float(value), 6) for value in embedding]


def write_labels(path: pathlib.Path, task: TaskData, pairs: SentencePairs, probabilities: np.ndarray) -> None:
  """Writes the predictions [n, labels] of a task with labels, for which the published code has no file."""
  names = dict(enumerate(task.labels))
  columns: dict[str, Any] = {
    "gold": [names.get(score, "") for score in pairs.scores],
    "predicted": [names[number] for number in probabilities.argmax(axis=1)],
  }
  for label, of_label in zip(task.labels, probabilities.T, strict=True):
    columns[f"p_{label}"] = of_label
  result_files.write_pairs(path.parent, path.name, pairs, columns)
