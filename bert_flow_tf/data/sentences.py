"""Checks of sentences and pairs that a caller gives; without TensorFlow."""

from collections.abc import Iterable
from typing import Any

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import DataError


def check_sentences(sentences: Any) -> list[str]:
  """Returns sentences as a list.

  Raises:
    DataError: a single str or bytes in place of a list, or an element that is no str; the message has its position.
  """
  if isinstance(sentences, str | bytes):
    raise DataError(f"found a single {type(sentences).__name__}, expected a list of sentences: write [sentence].")
  try:
    sentences = list(sentences)
  except TypeError as error:
    raise DataError(f"found {type(sentences).__name__}, expected a list of sentences.") from error
  for position, sentence in enumerate(sentences):
    if not isinstance(sentence, str):
      raise DataError(
        f"sentence {position} (counted from 0): found {type(sentence).__name__} {repr(sentence)[:40]}, "
        "expected str: drop the row or replace it by text."
      )
  return sentences


def check_pairs(texts_a: Any, texts_b: Any) -> tuple[list[str], list[str]]:
  """Returns the two sides of pairs as lists.

  Raises:
    DataError: not sentences, or lists of different lengths.
  """
  a, b = check_sentences(texts_a), check_sentences(texts_b)
  if len(a) != len(b):
    raise DataError(f"pairs of {len(a)} and {len(b)} sentences; expected two lists of the same length")
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
    return check_pairs(*sentences)
  if isinstance(sentences, Iterable) and not isinstance(sentences, str | bytes):
    sentences = list(sentences)
    if sentences and all(_is_pair(item) for item in sentences):
      return check_pairs([pair[0] for pair in sentences], [pair[1] for pair in sentences])
  return check_sentences(sentences)


def _is_pair(item):
  return isinstance(item, list | tuple) and len(item) == 2
