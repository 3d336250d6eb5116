"""Scores of a task: its sentences embedded once, and the agreement of their similarities with gold."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from absl import logging

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.evaluation.isotropy import sample, spread
from bert_flow_tf.evaluation.metrics import auc, correlation, cosine_similarity, mean_random_cosine, score_pairs
from bert_flow_tf.progress import counted

# Names of two methods in results.json and tables; other calibrations are named as they are.
WITHOUT_FLOW, WITH_FLOW = "without_flow", "with_flow"
# Keys of the scores that the paper reports: tasks with subsets, tasks without subsets, tasks of labels.
HEADLINE = ("spearman_wmean", "spearman", "auc")
# The encoder that a training started from.
BEFORE_TRAINING = "before_training"

# A function of sentences: their calibrated embeddings, [n, dim].
Encode = Callable[[Sequence[str]], np.ndarray]
# {split: scores} and {split: cosines, float64 [n]}.
Evaluation = tuple[dict[str, dict], dict[str, np.ndarray]]


class Encoder(Protocol):
  """Encoder of sentences, as `TextEncoder`."""

  def encode(
    self,
    sentences: list[str],
    *,
    sentence_embedding_type: str | None,
    max_seq_length: int | None,
    batch_size: int,
    show_progress: bool | None,
    cache: str | os.PathLike | None,
  ) -> np.ndarray:
    """Returns the embeddings of n sentences, float32 [n, dim]."""

  def fingerprint(self, sentences: list[str], sentence_embedding_type: str | None, max_seq_length: int | None) -> str:
    """Returns a hash of everything that decides the embeddings of sentences."""


class Calibrated(Protocol):
  """Model of embeddings, as `SentenceModel`."""

  def transform(self, embeddings: np.ndarray, sentences: Sequence[str]) -> np.ndarray:
    """Returns calibrated embeddings [n, output_dim] of embeddings [n, dim] of sentences."""


class Embeddings:
  """Embeddings of sentences: `values` of the distinct sentences, float32 [n, dim]."""

  def __init__(
    self,
    encoder: Encoder,
    sets: Iterable[SentencePairs],
    batch_size: int = 64,
    cache: str | os.PathLike | None = None,
    show_progress: bool | None = None,
    sentence_embedding_type: str | None = None,
    max_seq_length: int | None = None,
  ) -> None:
    self._rows: dict[str, int] = {}
    for pairs in sets:
      for sentence in _both_sides(pairs):
        self._rows.setdefault(sentence, len(self._rows))
    self.values = encoder.encode(
      list(self._rows),
      sentence_embedding_type=sentence_embedding_type,
      max_seq_length=max_seq_length,
      batch_size=batch_size,
      show_progress=show_progress,
      cache=cache,
    )
    self._embedding_type, self._max_seq_length = sentence_embedding_type, max_seq_length
    self._encoder = encoder

  def have(self, pairs: SentencePairs) -> bool:
    """Returns whether the embeddings of all sentences of the pairs are known."""
    return self._rows.keys() >= set(_both_sides(pairs))

  def of(self, sentences: Sequence[str]) -> np.ndarray:
    """Returns the embeddings of sentences, float32 [n, dim], in their order."""
    return self.values[list(map(self._rows.__getitem__, sentences))]

  def rows(self, pairs: SentencePairs) -> np.ndarray:
    """Returns the rows that a `Calibration` is fitted on, float32 [2 n, dim]: first sentences, then second ones."""
    return self.of(_both_sides(pairs))

  def calibrated_by(self, model: Calibrated) -> Encode:
    """Returns the function from sentences to calibrated embeddings of a `SentenceModel`, float32 [n, output_dim]."""
    return lambda sentences: model.transform(self.of(sentences), sentences)

  def fingerprint(self, pairs: SentencePairs) -> str:
    """Returns a hash of everything that decides the embeddings of the pairs."""
    return self._encoder.fingerprint(
      _both_sides(pairs), sentence_embedding_type=self._embedding_type, max_seq_length=self._max_seq_length
    )


def _both_sides(pairs):
  return list(pairs.sentences_a) + list(pairs.sentences_b)


def method_names(calibrations: Iterable[str]) -> list[str]:
  """Returns unique names of methods for the names of calibrations; names that repeat get numbers: sn_1, sn_2."""
  names = [{"flow": WITH_FLOW}.get(name, name) for name in calibrations]
  methods = []
  for index, name in enumerate(names):
    number = names[: index + 1].count(name)
    methods.append(name if names.count(name) == 1 else f"{name}_{number}")
  return methods


def evaluate(task: TaskData, encode: Encode, splits: Sequence[str] | None = None) -> Evaluation:
  """Returns {split: scores} and {split: cosines, float64 [n]} of the embeddings that `encode` gives."""
  scores, cosines = {}, {}
  for split in splits or task.splits:
    pairs = task.splits[split]
    a, b = encode(pairs.sentences_a), encode(pairs.sentences_b)
    cosines[split] = pair_cosines(a, b, split)
    # A union has the scores of its tasks too, each with the sentences of the task.
    agreement = scores_of_split(split, pairs, cosines[split], task.spec.metric)
    for name, rows, _ in parts(split, pairs):
      if name in agreement:
        sentences = set(pairs.sentences_a[rows]).union(pairs.sentences_b[rows])
        random_cosine = 100.0 * mean_random_cosine(a[rows], b[rows])
        scores[name] = agreement[name] | {"sentences": len(sentences), "cosine_of_random_pairs": random_cosine}
    if task.spec.eval_split is None:
      distinct = list(dict.fromkeys(_both_sides(pairs)))
      measures = spread(encode(sample(distinct)))
      scores[split] = {"pairs": len(pairs), "sentences": len(distinct), **measures}
  return scores, cosines


def scores_of_split(split: str, pairs: SentencePairs, similarities: np.ndarray, metric: str) -> dict[str, dict]:
  """Returns {name of a part: scores} of a split's similarities [n]; parts without gold are left out."""
  scores = {}
  for name, rows, subsets in parts(split, pairs):
    gold = pairs.scores[rows]
    if not np.isnan(gold).all():
      scores[name] = score_pairs(similarities[rows], gold, subsets, metric)
  return scores


def pair_cosines(a: np.ndarray, b: np.ndarray, split: str) -> np.ndarray:
  """Returns the cosine of each pair, float64 [n], of two [n, dim]."""
  # As in SentEval, a pair has cosine 0 if an embedding is zero, because no word of the sentence is known.
  zero = ~(np.any(a, axis=1) & np.any(b, axis=1))
  if zero.any():
    logging.warning("%s: %s with a zero embedding; their similarity is 0", split, counted(zero.sum(), "pair"))
  return np.where(zero, 0.0, cosine_similarity(a, b))


def parts(split: str, pairs: SentencePairs) -> Iterator[tuple[str, slice, Sequence[str]]]:
  """Yields (name, rows, names of subsets) of a split, after the rows of each task of a union (STS-12-16)."""
  names = pairs.subset_names()
  for group, subsets in pairs.groups().items():
    rows = slice(subsets[0].start, subsets[-1].stop)
    yield f"{split} {group}", rows, names[rows]
  yield split, slice(None), names


def original_eval_results(
  task: TaskData, embeddings: Embeddings, flow: Any, cosines: np.ndarray, steps: int
) -> dict[str, float]:
  """Returns the scores with the flow, whose cosines are [n], under the original's keys, correlations from -1 to 1."""
  # The original has eval_pearsonr alone; eval_spearmanr and eval_auc are ours.
  pairs = task.splits[str(task.spec.eval_split)]
  low, high = task.spec.scale
  squared_errors = (cosines - (pairs.scores - low) / (high - low)) ** 2
  flow_loss = 0.0
  for side in (pairs.sentences_a, pairs.sentences_b):
    flow_loss += float(flow.bits_per_dim(embeddings.of(side)).numpy().mean())
  values = {
    "eval_loss": float(np.nanmean(squared_errors)),
    "eval_loss_flow": flow_loss,
    "eval_loss_total": flow_loss,  # the fit uses no label
    "loss": flow_loss,
    "global_step": steps,
  }
  if task.spec.metric == "auc":
    values["eval_auc"] = auc(cosines, pairs.scores).auc / 100.0
  else:
    agreement = correlation(cosines, pairs.scores)
    values["eval_pearsonr"] = agreement.pearson / 100.0
    values["eval_spearmanr"] = agreement.spearman / 100.0
  return values
