"""Sentence pairs with gold scores, and the splits of a task: plain data, without TensorFlow."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bert_flow_tf.errors import DataError

SPLITS = ("train", "dev", "test")


@dataclasses.dataclass(frozen=True, eq=False)
class SentencePairs:
  """Pairs of sentences and how alike people find them, in the order of their file.

  Attributes:
    sentences_a: tuple of n strings, the first sentences. A sentence may be empty.
    sentences_b: tuple of n strings, the second sentences.
    scores: read-only float64 array of shape [n]; NaN where a pair has no gold score.

  Raises:
    DataError: the three differ in length, a sentence is not a string, or scores is not a vector of
      numbers that are finite or NaN.
  """

  sentences_a: tuple[str, ...]
  sentences_b: tuple[str, ...]
  scores: np.ndarray

  def __post_init__(self):
    for name in ("sentences_a", "sentences_b"):
      # A lone string is iterable too, and would become one sentence per letter.
      if isinstance(getattr(self, name), str):
        raise DataError(f"{name} is one string; expected a sequence of strings")
      sentences = tuple(getattr(self, name))
      for index, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
          raise DataError(f"{name}[{index}] is of type {type(sentence).__name__}; expected a string")
      object.__setattr__(self, name, sentences)
    object.__setattr__(self, "scores", _checked_scores(self.scores))
    lengths = (len(self.sentences_a), len(self.sentences_b), len(self.scores))
    if len(set(lengths)) > 1:
      raise DataError(
        f"a set of pairs has {lengths[0]} first sentences, {lengths[1]} second sentences and "
        f"{lengths[2]} scores; expected as many of each (NaN where a pair has no gold score)"
      )

  def __len__(self):
    return len(self.sentences_a)

  @classmethod
  def concatenate(cls, parts: Iterable["SentencePairs"]) -> "SentencePairs":
    """Returns the pairs of all parts, one part after the other."""
    parts = tuple(parts)
    return cls(
      sentences_a=tuple(sentence for part in parts for sentence in part.sentences_a),
      sentences_b=tuple(sentence for part in parts for sentence in part.sentences_b),
      scores=np.concatenate([np.zeros(0), *(part.scores for part in parts)]),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class TaskData:
  """What a task gives to fit the flow on and to evaluate with.

  Attributes:
    spec: the task's row of `bert_flow_tf.data.tasks.TASKS`.
    splits: name -> SentencePairs, in the order train, dev, test, as far as they exist.
    source: where the pairs came from, for people to read (log, results.json).

  Raises:
    DataError: there is no split, one of an unknown name, or not the one that the task evaluates on.
  """

  spec: Any
  splits: Mapping[str, SentencePairs]
  source: str

  def __post_init__(self):
    unknown = [name for name in self.splits if name not in SPLITS]
    if unknown:
      raise DataError(f"{self.spec.name} has a split {unknown[0]!r}; allowed are {', '.join(SPLITS)}")
    if self.spec.eval_split not in self.splits:
      raise DataError(
        f"{self.spec.name} is evaluated on its split {self.spec.eval_split!r}, which {self.source} "
        f"does not have; it has {', '.join(self.splits) or 'none'}"
      )
    ordered = {name: self.splits[name] for name in SPLITS if name in self.splits}
    object.__setattr__(self, "splits", ordered)

  def fitting_pairs(self, use_full: bool) -> SentencePairs:
    """Returns the pairs that the flow is fitted on.

    Args:
      use_full: True for all splits that exist, in the order train, dev, test (the paper's "target");
        False for the train split alone.

    Raises:
      DataError: use_full is False and the task has no train split.
    """
    if use_full:
      return SentencePairs.concatenate(self.splits.values())
    if "train" not in self.splits:
      raise DataError(
        f"{self.spec.name} has no train split, only {', '.join(self.splits)}: fit the flow on all of it "
        "with --use_full_for_training=1"
      )
    return self.splits["train"]


def _checked_scores(scores) -> np.ndarray:
  """Returns a read-only float64 copy of scores, shape [n], or raises DataError."""
  try:
    checked = np.array(scores, dtype=np.float64)
  except (TypeError, ValueError) as error:
    raise DataError(f"scores are not numbers: {error}") from error
  if checked.ndim != 1:
    raise DataError(f"scores have the shape {list(checked.shape)}; expected [n], one a pair")
  if np.isinf(checked).any():
    index = int(np.flatnonzero(np.isinf(checked))[0])
    raise DataError(f"scores[{index}] is infinite; expected a number, or NaN for a pair with no gold score")
  checked.setflags(write=False)
  return checked
