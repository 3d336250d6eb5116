"""Sentence pairs with gold scores, and the splits of a task: plain data, without TensorFlow."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from bert_flow_tf.errors import DataError

SPLITS = ("train", "dev", "test")


class Subset(NamedTuple):
  """Pairs `start` to `stop` - 1 of a set, under a name: `MSRpar`, or `STS-12/MSRpar` in a union of tasks."""

  name: str
  start: int
  stop: int


@dataclasses.dataclass(frozen=True, eq=False)
class SentencePairs:
  """Pairs of sentences and how alike people find them, in the order of their file.

  Attributes:
    sentences_a: tuple of n strings, the first sentences. A sentence may be empty.
    sentences_b: tuple of n strings, the second sentences.
    scores: read-only float64 array of shape [n]; NaN where a pair has no gold score.
    subsets: tuple of Subset, parts that are evaluated on their own, one after the other from 0 to n; empty
      where the pairs are one set.

  Raises:
    DataError: the three differ in length, a sentence is not a string, scores is not a vector of numbers that
      are finite or NaN, or the subsets are not parts of the whole.
  """

  sentences_a: tuple[str, ...]
  sentences_b: tuple[str, ...]
  scores: np.ndarray
  subsets: tuple[Subset, ...] = ()

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
    object.__setattr__(self, "subsets", _checked_subsets(self.subsets, len(self)))

  def __len__(self):
    return len(self.sentences_a)

  @classmethod
  def concatenate(cls, parts: Iterable["SentencePairs"]) -> "SentencePairs":
    """Returns the pairs of all parts, one part after the other, as one set without subsets."""
    parts = tuple(parts)
    return cls(
      sentences_a=tuple(sentence for part in parts for sentence in part.sentences_a),
      sentences_b=tuple(sentence for part in parts for sentence in part.sentences_b),
      scores=np.concatenate([np.zeros(0), *(part.scores for part in parts)]),
    )

  @classmethod
  def join(cls, parts: Mapping[str, "SentencePairs"]) -> "SentencePairs":
    """Returns the pairs of all parts, each a subset of its name, or as many as it has itself: `name/subset`."""
    subsets, start = [], 0
    for name, part in parts.items():
      inner = [Subset(f"{name}/{subset.name}", *subset[1:]) for subset in part.subsets]
      for subset in inner or [Subset(name, 0, len(part))]:
        subsets.append(Subset(subset.name, start + subset.start, start + subset.stop))
      start += len(part)
    return dataclasses.replace(cls.concatenate(parts.values()), subsets=tuple(subsets))

  def groups(self) -> dict[str, tuple[Subset, ...]]:
    """Returns the subsets of each task of a union: {"STS-12": (Subset("STS-12/MSRpar", 0, 750), ...)}.

    Empty for the pairs of one task, whose subsets' names have no slash.
    """
    groups = {}
    for subset in self.subsets:
      if "/" in subset.name:
        groups.setdefault(subset.name.split("/")[0], []).append(subset)
    return {name: tuple(subsets) for name, subsets in groups.items()}

  def subset_names(self) -> list[str]:
    """Returns the name of each pair's subset; empty where the pairs are one set."""
    return [subset.name for subset in self.subsets for _ in range(subset.start, subset.stop)]

  def with_gold(self) -> "SentencePairs":
    """Returns the pairs that have a gold score, without subsets."""
    return self.take(np.flatnonzero(~np.isnan(self.scores)))

  def take(self, rows) -> "SentencePairs":
    """Returns the pairs of these rows, int [m], in their order and without subsets."""
    return SentencePairs(
      tuple(self.sentences_a[i] for i in rows), tuple(self.sentences_b[i] for i in rows), self.scores[rows]
    )


@dataclasses.dataclass(frozen=True, eq=False)
class TaskData:
  """What a task gives to fit the flow on and to evaluate with.

  Attributes:
    spec: the task's row of `bert_flow_tf.data.tasks.TASKS`, with what the data decided (`custom`). Where its
      eval_split is None, there is no gold: the pairs are for fitting alone.
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
    if not self.splits:
      raise DataError(f"{self.spec.name} has no split: {self.source} is empty")
    if self.spec.eval_split is not None and self.spec.eval_split not in self.splits:
      raise DataError(
        f"{self.spec.name} is evaluated on its split {self.spec.eval_split!r}, which {self.source} "
        f"does not have; it has {', '.join(self.splits)}"
      )
    ordered = {name: self.splits[name] for name in SPLITS if name in self.splits}
    object.__setattr__(self, "splits", ordered)

  def all_pairs(self) -> SentencePairs:
    """Returns the pairs of all splits, each once, in the order train, dev, test: the paper's "target"."""
    return SentencePairs.concatenate(self.splits.values())

  def fitting_pairs(self, use_full: bool) -> SentencePairs:
    """Returns the pairs that the published code fits the flow on, by its `use_full_for_training`.

    Args:
      use_full: True for all splits that exist, in the order train, dev, test; False for the train split alone. Of
        STS-12 to STS-16, whose only file the published code reads as train, dev and test alike, True gives every pair
        three times and False once.

    Raises:
      DataError: use_full is False and the task has no train split.
    """
    if self.spec.one_file_for_all_splits:
      (pairs,) = self.splits.values()
      return SentencePairs.concatenate([pairs] * (len(SPLITS) if use_full else 1))
    if use_full:
      return self.all_pairs()
    if "train" not in self.splits:
      raise DataError(
        f"{self.spec.name} has no train split, only {', '.join(self.splits)}: fit the flow on all of it "
        "with --use_full_for_training=1 (or --flow_corpus=target)"
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


def _checked_subsets(subsets, length: int) -> tuple[Subset, ...]:
  """Returns the subsets as a tuple of Subset; raises DataError unless they make up the whole, in order."""
  subsets = tuple(Subset(*subset) for subset in subsets)
  starts = [0, *(subset.stop for subset in subsets)]
  fitting = [subset.start == start < subset.stop for subset, start in zip(subsets, starts, strict=False)]
  if subsets and (not all(fitting) or starts[-1] != length or len({s.name for s in subsets}) < len(subsets)):
    found = ", ".join(f"{subset.name} {subset.start}:{subset.stop}" for subset in subsets)
    raise DataError(
      f"the subsets are {found}; expected parts of 0:{length}, one after the other, each of a name of its own"
    )
  return subsets
