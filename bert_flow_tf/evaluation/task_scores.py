"""Scores of a task: its sentences embedded once, and the agreement of their similarities with gold."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.evaluation.isotropy import sample, spread
from bert_flow_tf.evaluation.metrics import auc, correlation, cosine_similarity, mean_random_cosine, score_pairs
from bert_flow_tf.progress import counted

# Names of two methods in results.json and tables; other calibrations have their own names.
WITHOUT_FLOW, WITH_FLOW = "without_flow", "with_flow"
# The encoder that a training started from.
BEFORE_TRAINING = "before_training"


class Embeddings:
  """Embeddings of sentences, each distinct sentence once.

  Args:
    encoder: a `SentenceEncoder`, or `WordVectors`.
    sets: pairs whose sentences are embedded.
    batch_size: largest number of sentences embedded at once.
    cache: folder where embeddings are kept, or None.
    show_progress: see `SentenceEncoder.encode`.
    **arguments: sentence_embedding_type and max_seq_length, as `SentenceEncoder.encode` takes them.
  """

  def __init__(
    self,
    encoder: Any,
    sets: Iterable[SentencePairs],
    batch_size: int = 64,
    cache: Any = None,
    show_progress: bool | None = None,
    **arguments: Any,
  ) -> None:
    sentences = (s for pairs in sets for s in (*pairs.sentences_a, *pairs.sentences_b))
    self._rows = {sentence: row for row, sentence in enumerate(dict.fromkeys(sentences))}
    self._values = encoder.encode(
      list(self._rows), batch_size=batch_size, cache=cache, show_progress=show_progress, **arguments
    )
    self._arguments = arguments
    self._encoder = encoder

  @property
  def values(self) -> np.ndarray:
    """Embeddings of the distinct sentences, float32 [n, dim]."""
    return self._values

  def have(self, pairs: SentencePairs) -> bool:
    """Returns whether all sentences of the pairs are among them."""
    return all(s in self._rows for s in (*pairs.sentences_a, *pairs.sentences_b))

  def of(self, sentences: Sequence[str]) -> np.ndarray:
    """Returns the embeddings of sentences, float32 [n, dim], in their order."""
    return self._values[[self._rows[sentence] for sentence in sentences]]

  def rows(self, pairs: SentencePairs) -> np.ndarray:
    """Returns the rows that a `Calibration` is fitted on, float32 [2 n, dim]: first sentences, then second ones."""
    return self.of([*pairs.sentences_a, *pairs.sentences_b])

  def fingerprint(self, pairs: SentencePairs) -> str:
    """Returns a hash of everything that decides the embeddings of the pairs."""
    return self._encoder.fingerprint([*pairs.sentences_a, *pairs.sentences_b], **self._arguments)


def method_names(calibrations: Iterable[str]) -> list[str]:
  """Returns unique names of methods for the names of calibrations; names that repeat get numbers: sn_1, sn_2."""
  names = [WITH_FLOW if name == "flow" else name for name in calibrations]
  return [f"{name}_{names[: i + 1].count(name)}" if names.count(name) > 1 else name for i, name in enumerate(names)]


def evaluate(
  task: TaskData,
  embeddings: Embeddings,
  transform: Callable[[np.ndarray], np.ndarray],
  splits: Sequence[str] | None = None,
) -> tuple[dict[str, dict], dict[str, np.ndarray]]:
  """Evaluates every split that has gold; a task without gold by the figures that need none, see `isotropy.spread`.

  Args:
    task: the task.
    embeddings: embeddings of its sentences.
    transform: calibration of embeddings [n, dim] before their cosine.
    splits: names of splits; None for all.

  Returns:
    {split: scores} and {split: cosines, float64 [n]}; a split without gold has cosines alone if another one has gold.
  """
  scores, cosines = {}, {}
  for split in splits or task.splits:
    pairs = task.splits[split]
    a, b = transform(embeddings.of(pairs.sentences_a)), transform(embeddings.of(pairs.sentences_b))
    cosines[split] = pair_cosines(a, b, split)
    agreement = scores_of_split(split, pairs, cosines[split], task.spec.metric)
    for name, rows, _ in parts(split, pairs):
      if name in agreement:
        scores[name] = {
          **agreement[name],
          "sentences": len({*pairs.sentences_a[rows], *pairs.sentences_b[rows]}),
          "cosine_of_random_pairs": 100.0 * mean_random_cosine(a[rows], b[rows]),
        }
    if task.spec.eval_split is None:
      distinct = list(dict.fromkeys([*pairs.sentences_a, *pairs.sentences_b]))
      figures = spread(transform(embeddings.of(sample(distinct))))
      scores[split] = {"pairs": len(pairs), "sentences": len(distinct), **figures}
  return scores, cosines


def scores_of_split(split: str, pairs: SentencePairs, similarities: np.ndarray, metric: str) -> dict[str, dict]:
  """Returns {name of a part: scores} of a split's similarities [n]; parts without gold are left out."""
  return {
    name: score_pairs(similarities[rows], pairs.scores[rows], subsets, metric)
    for name, rows, subsets in parts(split, pairs)
    if not np.isnan(pairs.scores[rows]).all()
  }


def pair_cosines(a: np.ndarray, b: np.ndarray, split: str) -> np.ndarray:
  """Returns the cosine of each pair, float64 [n], of two [n, dim].

  As in SentEval, a pair has cosine 0 if an embedding is zero, because no word of the sentence is known.
  """
  zero = ~(np.any(a, axis=1) & np.any(b, axis=1))
  if zero.any():
    logging.warning("%s: %s with a zero embedding; their similarity is 0", split, counted(zero.sum(), "pair"))
  return np.where(zero, 0.0, cosine_similarity(a, b))


def parts(split: str, pairs: SentencePairs) -> Iterator[tuple[str, slice, Sequence[str]]]:
  """Yields (name, rows, names of subsets) of a split, preceded by those of each task of a union such as STS-12-16."""
  names = pairs.subset_names()
  for group, subsets in pairs.groups().items():
    rows = slice(subsets[0].start, subsets[-1].stop)
    yield f"{split} {group}", rows, names[rows]
  yield split, slice(None), names


def by_split(evaluations: Mapping[str, tuple[dict, dict]]) -> dict[str, dict[str, dict]]:
  """Returns {split: {method: scores}} for {method: (scores by split, cosines)}."""
  splits = next(iter(evaluations.values()))[0]
  return {split: {method: scores[split] for method, (scores, _) in evaluations.items()} for split in splits}


def original_agreement(metric: str, similarities: np.ndarray, gold: np.ndarray) -> dict[str, float]:
  """Returns the agreement of all pairs of a split under the original's keys, from -1 to 1.

  The original has eval_pearsonr alone; eval_spearmanr and eval_auc are ours.

  Args:
    metric: metric of the task.
    similarities: [n].
    gold: [n].
  """
  if metric == "auc":
    return {"eval_auc": auc(similarities, gold).auc / 100.0}
  agreement = correlation(similarities, gold)
  return {"eval_pearsonr": agreement.pearson / 100.0, "eval_spearmanr": agreement.spearman / 100.0}


def original_eval_results(
  task: TaskData, embeddings: Embeddings, flow: Any, cosines: np.ndarray, steps: int
) -> dict[str, float]:
  """Returns the scores with the flow under the original's keys; see `original_agreement`.

  Args:
    task: the task.
    embeddings: embeddings of its sentences.
    flow: the fitted `Glow` or `FlowCalibration`.
    cosines: [n] with the flow, of the evaluated split.
    steps: steps of the fit.
  """
  pairs = task.splits[str(task.spec.eval_split)]
  low, high = task.spec.scale
  squared_errors = (cosines - (pairs.scores - low) / (high - low)) ** 2
  sides = (embeddings.of(pairs.sentences_a), embeddings.of(pairs.sentences_b))
  flow_loss = float(sum(flow.bits_per_dim(side).numpy().mean() for side in sides))
  return {
    "eval_loss": float(np.nanmean(squared_errors)),
    "eval_loss_flow": flow_loss,
    "eval_loss_total": flow_loss,  # the fit uses no label
    "loss": flow_loss,
    **original_agreement(task.spec.metric, cosines, pairs.scores),
    "global_step": steps,
  }
