"""Sentence pairs with gold scores: plain data, without TensorFlow."""

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_flow_tf.errors import DataError

SPLITS = ("train", "dev", "test")
# Both sides of the pairs in `sentences`.
_SIDES = ("sentences", "sentences")


class Subset(NamedTuple):
  """Rows `start` to `stop` - 1 of a set of pairs, with a name: `MSRpar`, or `STS-12/MSRpar` in a union of tasks."""

  name: str
  start: int
  stop: int


@dataclasses.dataclass(frozen=True, eq=False)
class SentencePairs:
  """Sentence pairs with gold scores, in the order of their file.

  Attributes:
    sentences_a: tuple of n strings, the first sentences. A sentence may be empty.
    sentences_b: tuple of n strings, the second sentences.
    scores: read-only float64 [n]: similarities, 0 and 1, or class indices; NaN for a pair without gold.
    subsets: tuple of Subset, the parts that are evaluated separately, consecutive from 0 to n; empty if the pairs are
      one set.

  Raises:
    DataError: the arguments differ in length, a sentence is not a string, or a score is not a number.
  """

  sentences_a: Sequence[str]
  sentences_b: Sequence[str]
  scores: np.ndarray
  subsets: tuple[Subset, ...] = ()

  def __post_init__(self) -> None:
    for name in ("sentences_a", "sentences_b"):
      # A string is iterable too; each letter would become a sentence.
      if isinstance(getattr(self, name), str):
        raise DataError(f"{name} is a single string; expected a sequence of strings", argument=name)
      sentences = tuple(getattr(self, name))
      for index, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
          raise DataError(f"{name}[{index}] is of type {type(sentence).__name__}; expected a string", argument=name)
      object.__setattr__(self, name, sentences)
    try:
      scores = np.array(self.scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
      raise DataError(f"scores: expected numbers, but {error}", argument="scores") from error
    if scores.shape != (len(self),) or len(self.sentences_b) != len(self):
      raise DataError(
        f"scores have shape {list(scores.shape)} for {len(self)} first and {len(self.sentences_b)} second sentences; "
        "expected one score per pair (NaN for a pair without gold)",
        argument="scores",
      )
    scores.setflags(write=False)
    object.__setattr__(self, "scores", scores)

  def __len__(self) -> int:
    return len(self.sentences_a)

  @classmethod
  def without_gold(cls, sentences_a: Iterable[str], sentences_b: Iterable[str]) -> "SentencePairs":
    """Returns pairs whose scores are all NaN."""
    sentences_a = tuple(sentences_a)
    return cls(sentences_a, tuple(sentences_b), np.full(len(sentences_a), np.nan))

  @classmethod
  def concatenate(cls, parts: Iterable["SentencePairs"]) -> "SentencePairs":
    """Returns the pairs of all parts in order, as one set without subsets."""
    parts = tuple(parts)
    return cls(
      sentences_a=tuple(sentence for part in parts for sentence in part.sentences_a),
      sentences_b=tuple(sentence for part in parts for sentence in part.sentences_b),
      scores=np.concatenate([np.zeros(0), *(part.scores for part in parts)]),
    )

  @classmethod
  def join(cls, parts: Mapping[str, "SentencePairs"]) -> "SentencePairs":
    """Returns the pairs of all parts, each part a subset; a part with subsets gives the subsets `part/subset`."""
    subsets, start = [], 0
    for name, part in parts.items():
      inner = [Subset(f"{name}/{subset.name}", *subset[1:]) for subset in part.subsets]
      for subset in inner or [Subset(name, 0, len(part))]:
        subsets.append(Subset(subset.name, start + subset.start, start + subset.stop))
      start += len(part)
    return dataclasses.replace(cls.concatenate(parts.values()), subsets=tuple(subsets))

  def groups(self) -> dict[str, tuple[Subset, ...]]:
    """Returns the subsets of each task of a union: {"STS-12": (Subset("STS-12/MSRpar", 0, 750), ...)}.

    The subsets of a single task have no slash in their names; then the result is empty.
    """
    groups = {}
    for subset in self.subsets:
      if "/" in subset.name:
        groups.setdefault(subset.name.split("/")[0], []).append(subset)
    return {name: tuple(subsets) for name, subsets in groups.items()}

  def subset_names(self) -> list[str]:
    """Returns the name of each pair's subset, length n; empty if the pairs are one set."""
    return [subset.name for subset in self.subsets for _ in range(subset.start, subset.stop)]

  def with_gold(self) -> "SentencePairs":
    """Returns the pairs that have a gold score, without subsets."""
    return self.take(np.flatnonzero(~np.isnan(self.scores)))

  def digest(self) -> str:
    """Returns the hexadecimal SHA-256 of sentences and gold, in order.

    Of a sentence, only ASCII letters and digits count, in lower case, because copies of a data set differ in
    tokenization, quotation marks and encoding; gold counts to 3 decimals.
    """
    rows = zip(self.sentences_a, self.sentences_b, self.scores, strict=True)
    text = "".join(f"{_plain(a)}\t{_plain(b)}\t{score:.3f}\n" for a, b, score in rows)
    return hashlib.sha256(text.encode()).hexdigest()

  def take(self, rows: np.ndarray) -> "SentencePairs":
    """Returns the pairs of these rows, int [m], in this order and without subsets."""
    return SentencePairs(
      tuple(self.sentences_a[i] for i in rows), tuple(self.sentences_b[i] for i in rows), self.scores[rows]
    )


def _plain(sentence: str) -> str:
  """Returns the ASCII letters and digits of a sentence, in lower case."""
  return re.sub("[^0-9A-Za-z]", "", sentence).lower()


def check_sentences(sentences: Any, argument: str = "sentences") -> list[str]:
  """Returns sentences as a list.

  Args:
    sentences: the value to check.
    argument: its name in errors.

  Raises:
    DataError: sentences is a single str or bytes, or has an element that is not a str.
  """
  try:
    elements = None if isinstance(sentences, str | bytes) else list(sentences)
  except TypeError:
    elements = None
  if elements is None:
    raise DataError(
      f"{argument}: the type is {type(sentences).__name__}, expected a list of str, such as [sentence]",
      argument=argument,
    )
  # Lists of many str are the rule, and a type for each of them is looked up faster than it is tested.
  for position, sentence in enumerate(elements) if set(map(type, elements)) - {str} else ():
    if not isinstance(sentence, str):
      raise DataError(
        f"{argument}[{position}] is {repr(sentence)[:40]}, of type {type(sentence).__name__}; expected str",
        argument=argument,
      )
  return elements


def check_pairs(
  texts_a: Any, texts_b: Any, arguments: tuple[str, str] = ("texts_a", "texts_b")
) -> tuple[list[str], list[str]]:
  """Returns the two sides of pairs as lists.

  Args:
    texts_a: the first sentences.
    texts_b: the second sentences.
    arguments: names of the sides in errors.

  Raises:
    DataError: a side is not a list of str, or the lengths differ.
  """
  a, b = check_sentences(texts_a, arguments[0]), check_sentences(texts_b, arguments[1])
  if len(a) != len(b):
    raise DataError(
      f"{arguments[1]}: pairs of {len(a)} first and {len(b)} second sentences; expected as many of both",
      argument=arguments[1],
    )
  return a, b


def sentences_or_pairs(sentences: Any) -> list[str] | tuple[list[str], list[str]]:
  """Returns a list of sentences, or the two sides of pairs.

  Args:
    sentences: list of str; or pairs: a `SentencePairs`, a tuple of two lists, or a list of pairs of str.

  Raises:
    DataError: see `check_pairs`.
  """
  if isinstance(sentences, SentencePairs):
    return list(sentences.sentences_a), list(sentences.sentences_b)
  if isinstance(sentences, tuple) and len(sentences) == 2 and not isinstance(sentences[0], str):
    a, b = sentences
    return check_pairs(a, b, arguments=_SIDES)
  if isinstance(sentences, Iterable) and not isinstance(sentences, str | bytes):
    sentences = list(sentences)
    if sentences and all(_is_pair(item) for item in sentences):
      a, b = zip(*sentences, strict=True)
      return check_pairs(a, b, arguments=_SIDES)
  return check_sentences(sentences)


def _is_pair(item: Any) -> bool:
  return isinstance(item, list | tuple) and len(item) == 2
