"""What a siamese encoder says of a task's pairs: figures by split, predictions and embeddings as files."""

import io
import pathlib

import numpy as np

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation import report
from bert_flow_tf.evaluation.task_scores import WITH_FLOW, WITHOUT_FLOW, Embeddings, by_split, evaluate, pair_cosines
from bert_flow_tf.io import files

FULL = "full"


class Model:
  """Encoder, and flow and classifier where there are, after training or as loaded.

  Args:
    encoder: a `SentenceEncoder`.
    arguments: sentence_embedding_type, max_seq_length and low_dim.
    flow: fitted `FlowCalibration`, or None.
    classifier: `SoftmaxObjective`, or None.
    batch_size: sentences embedded at once.
    cache: folder where embeddings are kept, or None.
  """

  def __init__(self, encoder, arguments, flow=None, classifier=None, batch_size=64, cache=None):
    self.encoder, self.arguments = encoder, arguments
    self.flow, self.classifier = flow, classifier
    self._batch_size, self._cache = batch_size, cache

  def embeddings(self, sets):
    """`Embeddings` of the sentences of `SentencePairs`, without the flow."""
    return Embeddings(self.encoder, sets, self._batch_size, self._cache, **self.arguments)

  def transforms(self):
    """{method: what is done to embeddings before they are compared}."""
    return {WITHOUT_FLOW: lambda u: u} | ({WITH_FLOW: self.flow.transform} if self.flow else {})

  def transform(self, rows):
    """Embeddings as they are compared: through the flow where there is one."""
    return self.flow.transform(rows) if self.flow else rows


def evaluate_splits(task, model, splits):
  """Figures of the splits, and {split: predictions}.

  Args:
    task: `TaskData`.
    model: `Model`.
    splits: names of splits that have gold.

  Returns:
    For labels {split: {"accuracy", "majority", "loss", "pairs", "counts"}}; for regression {split: {method: figures}}
    as in run_flow's results.json. Then {split: probabilities [n, labels]} or {method: {split: cosines [n]}}. And the
    `Embeddings` of the splits.
  """
  embeddings = model.embeddings([task.splits[split] for split in splits])
  if not task.labels:
    found = {name: evaluate(task, embeddings, f, splits) for name, f in model.transforms().items()}
    return by_split(found), {method: cosines for method, (_, cosines) in found.items()}, embeddings
  results, probabilities = {}, {}
  for split in splits:
    pairs = task.splits[split]
    probabilities[split] = classify(model, embeddings, pairs)
    results[split] = _classification(task, pairs, probabilities[split])
  return results, probabilities, embeddings


def dev_figure(task, model, split="dev"):
  """A split's figure for early stopping, x 100: accuracy, or the regression's metric, with the flow if there is one."""
  pairs = task.splits[split]
  embeddings = model.embeddings([pairs])
  if task.labels:
    return _classification(task, pairs, classify(model, embeddings, pairs))["accuracy"]
  found, _ = evaluate(task, embeddings, model.transform, [split])
  return found[split]["auc" if task.spec.metric == "auc" else "spearman"]


def classify(model, embeddings, pairs):
  """Probabilities of the labels, float32 [n, labels], by the classifier over (transformed) embeddings."""
  sides = (model.transform(embeddings.of(side)) for side in (pairs.sentences_a, pairs.sentences_b))
  return model.classifier.probabilities(*sides)


def _classification(task, pairs, probabilities):
  """Accuracy and the majority's share x 100, mean cross entropy in nats, pairs and their labels counted."""
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


def classification_table(results, seconds):
  """The terminal's table for labels."""
  rows = [["split", "pairs", "accuracy x 100", "majority class x 100", "cross entropy"]]
  for split, found in results.items():
    numbers = (f"{found[key]:.2f}" for key in ("accuracy", "majority"))
    rows.append([split, str(found["pairs"]), *numbers, f"{found['loss']:.4f}"])
  return "\n".join([*report.aligned(rows), f"seconds: {report.spent(seconds)}"])


def predicted_pairs(task, name):
  """`SentencePairs` of a split, or with "full" of all of them.

  Raises:
    ConfigError: there is no such split.
  """
  if name == FULL:
    return SentencePairs.concatenate(task.splits.values())
  if name not in task.splits:
    raise ConfigError(
      f"--do_predict{'_on_dev' if name == 'dev' else ''}: {task.name} has no {name} split, only "
      f"{', '.join(task.splits)} ({task.source})"
    )
  return task.splits[name]


def write_predictions(folder, name, task, model, pool):
  """Writes `NAME_results.tsv`, a row a pair, and with `pool` `NAME_embeddings.npz` with both sides' embeddings.

  Labels: index, gold, predicted, a probability for each label, the sentences. Regression: index, gold, the cosine of
  every method, the sentences.

  Args:
    folder: where to.
    name: "test", "dev" or "full".
    task: `TaskData`.
    model: `Model`.
    pool: whether to write embeddings: arrays a and b, float32 [n, dim], through the flow where there is one.
  """
  pairs = predicted_pairs(task, name)
  embeddings = model.embeddings([pairs])
  if task.labels:
    found = classify(model, embeddings, pairs)
    header = ["gold", "predicted", *(f"p_{label}" for label in task.labels)]
    named = [task.labels[int(score)] for score in pairs.scores]
    columns = [named, [task.labels[i] for i in found.argmax(axis=1)], *found.T]
  else:
    header, columns = ["gold"], [pairs.scores]
    for method, transform in model.transforms().items():
      sides = (transform(embeddings.of(side)) for side in (pairs.sentences_a, pairs.sentences_b))
      columns.append(pair_cosines(*sides, name))
      header.append(method)
  report.write_pairs(folder, f"{name}_results.tsv", pairs, dict(zip(header, columns, strict=True)))
  if pool:
    buffer = io.BytesIO()
    a, b = (model.transform(embeddings.of(side)) for side in (pairs.sentences_a, pairs.sentences_b))
    np.savez(buffer, a=a, b=b)
    files.write_bytes(pathlib.Path(folder) / f"{name}_embeddings.npz", buffer.getvalue())
