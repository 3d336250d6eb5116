"""Checks of the sentences and pairs that a caller passes; without TensorFlow."""

from collections.abc import Iterable
from typing import Any

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import DataError

# Both sides of the pairs in `sentences`.
_SIDES = ("sentences", "sentences")


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
