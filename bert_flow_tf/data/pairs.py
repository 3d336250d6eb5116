"""Sentence pairs with gold scores, and checks of the sentences that a caller passes: plain data, without TensorFlow."""

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_flow_tf.errors import DataError

SPLITS = ("train", "dev", "test")
# Sentences as the public functions take them: see `check_sentences`.
Texts = Iterable[object]
# The elements of a str are str, too: each letter would be a sentence. Sets have no order.
_NO_LISTS = (str, bytes, set, frozenset, Mapping, np.ndarray)


class Subset(NamedTuple):
  """Rows `start` to `stop` - 1 of a set of pairs, with a name: `MSRpar`, or `STS-12/MSRpar` in a union of tasks."""

  name: str
  start: int
  stop: int


@dataclasses.dataclass(frozen=True, eq=False)
class SentencePairs:
  """Sentence pairs with gold scores, in the order of their file."""

  sentences_a: Sequence[str]  # the first sentences, n of them, any of which may be empty
  sentences_b: Sequence[str]
  scores: np.ndarray  # read-only float64 [n]: similarities, 0 and 1, or class indices; NaN for a pair without gold
  subsets: tuple[Subset, ...] = ()  # parts that are evaluated separately, consecutive from 0 to n; empty without parts

  def __post_init__(self) -> None:
    a = check_sentences(self.sentences_a, "sentences_a")
    b = check_sentences(self.sentences_b, "sentences_b")
    try:
      scores = np.array(self.scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
      raise DataError(f"scores: expected numbers, but {error}", argument="scores") from error
    if scores.shape != (len(a),) or len(a) != len(b):
      message = f"scores have shape {list(scores.shape)} for {len(a)} first and {len(b)} second sentences"
      raise DataError(f"{message}; expected one score per pair (NaN for a pair without gold)", argument="scores")
    scores.setflags(write=False)
    # The fields of a frozen dataclass can be set in no other way.
    object.__setattr__(self, "sentences_a", tuple(a))
    object.__setattr__(self, "sentences_b", tuple(b))
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
    a: list[str] = []
    b: list[str] = []
    scores = [np.zeros(0)]
    for part in parts:
      a += part.sentences_a
      b += part.sentences_b
      scores.append(part.scores)
    return cls(a, b, np.concatenate(scores))

  @classmethod
  def join(cls, parts: Mapping[str, "SentencePairs"]) -> "SentencePairs":
    """Returns the pairs of all parts, each part a subset; a part with subsets gives the subsets `part/subset`."""
    subsets, start = [], 0
    for name, part in parts.items():
      for subset in part.subsets:
        subsets.append(Subset(f"{name}/{subset.name}", start + subset.start, start + subset.stop))
      if not part.subsets:
        subsets.append(Subset(name, start, start + len(part)))
      start += len(part)
    return dataclasses.replace(cls.concatenate(parts.values()), subsets=tuple(subsets))

  def groups(self) -> dict[str, tuple[Subset, ...]]:
    """Returns the subsets of each task of a union, {"STS-12": (Subset("STS-12/MSRpar", 0, 750), ...)}; else {}."""
    groups: dict[str, tuple[Subset, ...]] = {}
    for subset in self.subsets:
      task, slash, _ = subset.name.partition("/")
      if slash:
        groups[task] = (*groups.get(task, ()), subset)
    return groups

  def subset_names(self) -> list[str]:
    """Returns the name of each pair's subset, length n; empty if the pairs are one set."""
    names: list[str] = []
    for subset in self.subsets:
      names += [subset.name] * (subset.stop - subset.start)
    return names

  def distinct_numbers(self) -> np.ndarray:
    """Returns a number for each pair, int64 [n]: equal for pairs of the same two sentences, in either order."""
    first: dict[tuple[str, ...], int] = {}
    numbers = np.arange(len(self))
    for row, pair in enumerate(zip(self.sentences_a, self.sentences_b, strict=True)):
      if any(pair):  # scores of another program have no sentences
        numbers[row] = first.setdefault(tuple(sorted(pair)), row)
    return numbers

  def with_gold(self) -> "SentencePairs":
    """Returns the pairs that have a gold score, without subsets."""
    return self.take(np.flatnonzero(~np.isnan(self.scores)))

  def digest(self) -> str:
    """Returns the hexadecimal SHA-256 of sentences and gold, to 3 decimals, in order."""
    # Only ASCII letters and digits count, in lower case: copies of a data set differ in tokenization and encoding.
    digest = hashlib.sha256()
    for a, b, score in zip(self.sentences_a, self.sentences_b, self.scores, strict=True):
      plain = [re.sub("[^0-9A-Za-z]", "", sentence).lower() for sentence in (a, b)]
      digest.update(f"{plain[0]}\t{plain[1]}\t{score:.3f}\n".encode())
    return digest.hexdigest()

  def take(self, rows: np.ndarray) -> "SentencePairs":
    """Returns the pairs of these rows, int [m], in this order and without subsets."""
    a = tuple(map(self.sentences_a.__getitem__, rows))
    b = tuple(map(self.sentences_b.__getitem__, rows))
    return SentencePairs(a, b, self.scores[rows])


def check_sentences(sentences: Texts, argument: str = "sentences") -> list[str]:
  """Returns sentences as a list of str; raises DataError, which names the argument, if an element is not text.

  `sentences` may be any ordered collection of str or bytes in UTF-8, a generator of unknown size, an array or string
  tensor [n], a tf.data.Dataset of sentences or batches of them, an Arrow column, or a table of one column, as a
  DataFrame of pandas or polars.
  """
  elements = _elements(sentences, argument)
  # Lists of many str are the rule, and a type for each of them is looked up faster than it is tested.
  if set(map(type, elements)) == {str}:
    return elements
  return [_text(element, f"{argument}[{position}]", argument) for position, element in enumerate(elements)]


def check_pairs(
  texts_a: Texts, texts_b: Texts, arguments: tuple[str, str] = ("texts_a", "texts_b")
) -> tuple[list[str], list[str]]:
  """Returns the two sides of pairs as lists; raises DataError if an element is not text, or if the lengths differ."""
  a, b = check_sentences(texts_a, arguments[0]), check_sentences(texts_b, arguments[1])
  if len(a) != len(b):
    message = f"{arguments[1]}: pairs of {len(a)} first and {len(b)} second sentences; expected as many of both"
    raise DataError(message, argument=arguments[1])
  return a, b


def sentences_or_pairs(sentences: Any) -> list[str] | tuple[list[str], list[str]]:
  """Returns sentences, or the two sides of pairs.

  Pairs are a `SentencePairs`, a tuple of two collections, or a collection of pairs.
  """
  if isinstance(sentences, SentencePairs):
    return list(sentences.sentences_a), list(sentences.sentences_b)
  sides = ("sentences", "sentences")
  if isinstance(sentences, tuple) and len(sentences) == 2 and not isinstance(sentences[0], str | bytes):
    return check_pairs(sentences[0], sentences[1], sides)
  elements = _elements(sentences, "sentences")
  if elements and all(isinstance(element, list | tuple) and len(element) == 2 for element in elements):
    a, b = zip(*elements, strict=True)
    return check_pairs(a, b, sides)
  return check_sentences(elements)


def _elements(sentences, argument):
  """Returns the elements of a collection as a list: strings or bytes, or pairs of them."""
  elements = None
  if is_table(sentences):
    sentences = _only_column(sentences, argument)
  if hasattr(sentences, "as_numpy_iterator"):  # a tf.data.Dataset
    if int(sentences.cardinality()) == -1:
      raise DataError(f"{argument}: the tf.data.Dataset has no end; expected a finite one, as take(n) makes", argument)
    return _elements_of_dataset(sentences)
  if hasattr(sentences, "numpy"):  # a tensor
    sentences = sentences.numpy()
  if hasattr(sentences, "to_pylist"):  # a column of Arrow
    elements = sentences.to_pylist()
  elif isinstance(sentences, np.ndarray) and sentences.ndim == 2 and sentences.shape[1] == 1:
    elements = sentences[:, 0].tolist()  # as ColumnTransformer gives a column
  elif isinstance(sentences, np.ndarray) and sentences.ndim:
    elements = sentences.tolist()
  elif isinstance(sentences, Iterable) and not isinstance(sentences, _NO_LISTS):
    elements = list(sentences)
  if elements is None:
    message = f"{argument}: the type is {type(sentences).__name__}, expected a list of str, such as [sentence]"
    raise DataError(message, argument=argument)
  return elements


def is_table(values):
  """Returns whether a value is a table: a DataFrame of pandas or polars, an Arrow table, a data set of `datasets`."""
  return any(hasattr(values, name) for name in ("columns", "column_names")) and hasattr(values, "shape")


def _only_column(table, argument):
  """Returns the column of a table that has no other."""
  names = getattr(table, "column_names", None)
  if names is None:
    names = list(table.columns)
  if len(names) == 1 and hasattr(table, "iloc"):  # pandas, where a name can be a number or a tuple
    return table.iloc[:, 0]
  if len(names) == 1 and hasattr(table, "__getitem__"):
    return table[names[0]]
  found = ", ".join(map(str, names))[:80]
  raise DataError(f"{argument}: a table with the columns {found}; expected one column, such as table['text']", argument)


def _elements_of_dataset(dataset):
  """Returns the elements of a tf.data.Dataset, whose batches are taken apart."""
  elements = []
  for element in dataset.as_numpy_iterator():
    parts = element if isinstance(element, tuple) else (element,)
    columns = [part.tolist() if isinstance(part, np.ndarray) else [part] for part in parts]
    if len(columns) == 1:
      elements += columns[0]
    else:
      elements += zip(*columns, strict=True)
  return elements


def _text(element, name, argument):
  """Returns a sentence as str; raises DataError, which calls it `name`, if it is not text."""
  # A scalar of TensorFlow or Arrow.
  if hasattr(element, "numpy"):
    element = element.numpy()
  elif hasattr(element, "as_py"):
    element = element.as_py()
  if isinstance(element, bytes):
    try:
      return element.decode("utf-8")
    except UnicodeDecodeError as error:
      raise DataError(f"{name} is {repr(element)[:40]}, which is not UTF-8", argument=argument) from error
  if not isinstance(element, str):
    raise DataError(f"{name} is {repr(element)[:40]}, of type {type(element).__name__}; expected str", argument)
  return str(element)
