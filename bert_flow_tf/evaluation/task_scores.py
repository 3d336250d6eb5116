"""Scores of a task: the agreement of the similarities of its pairs with gold."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from absl import logging

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.evaluation.isotropy import sample, spread
from bert_flow_tf.evaluation.metrics import auc, correlation, cosine_similarity, mean_random_cosine, score_pairs
from bert_flow_tf.progress import counted

# Names of two methods in results.json and tables; other calibrations are named as they are.
WITHOUT_FLOW, WITH_FLOW = "without_flow", "with_flow"
# Keys of the scores that the paper reports: tasks with subsets, tasks without subsets, tasks of labels; of a search.
HEADLINE = ("spearman_wmean", "spearman", "auc", "ndcg@10")
# The encoder that a training started from.
BEFORE_TRAINING = "before_training"

# A function of sentences: their calibrated embeddings, [n, dim].
Encode = Callable[[Sequence[str]], np.ndarray]
# {split: scores} and {split: cosines, float64 [n]}.
Evaluation = tuple[dict[str, dict], dict[str, np.ndarray]]


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
      distinct = list(dict.fromkeys([*pairs.sentences_a, *pairs.sentences_b]))
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


def original_eval_results(task: TaskData, cosines: np.ndarray, flow_loss: float, steps: int) -> dict[str, float]:
  """Returns the scores of cosines [n] with a flow, under the original's keys, correlations from -1 to 1.

  `flow_loss`: mean bits per dimension of first sentences, and of second ones, added up.
  """
  # The original has eval_pearsonr alone; eval_spearmanr and eval_auc are ours.
  pairs = task.splits[str(task.spec.eval_split)]
  low, high = task.spec.scale
  squared_errors = (cosines - (pairs.scores - low) / (high - low)) ** 2
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
