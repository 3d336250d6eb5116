"""Lexical similarity: how many characters two sentences are apart (the paper's section 4.4, Table 6 and Figure 2)."""

import dataclasses

import numpy as np

from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.evaluation.metrics import Correlation, correlation

# Figure 2 marks the pairs that are this close.
CLOSE = 4


@dataclasses.dataclass(frozen=True)
class LexicalCorrelations:
  """A row of Table 6: what a similarity goes along with, Spearman x 100 over the same pairs.

  Attributes:
    edit_distance: with the edit distance; negative where sentences of alike letters count as alike.
    gold: with the gold scores.
  """

  edit_distance: Correlation
  gold: Correlation


def edit_distances(sentences_a, sentences_b):
  """Levenshtein distance of each pair: the fewest insertions, deletions and substitutions of one character.

  The text is taken as it is: case, accents, punctuation and white space count. A character is a Unicode code point. The
  paper says only "edit distance"; characters fit its "<= 4" and its example of "like" and "dislike".

  Args:
    sentences_a: n str.
    sentences_b: n str.

  Returns:
    int64 [n].

  Raises:
    ConfigError: the package rapidfuzz is missing.
    DataError: the lengths differ, or an element is no str.
  """
  try:
    from rapidfuzz.distance import Levenshtein
  except ImportError as error:
    raise ConfigError(
      f"edit distances need the package rapidfuzz, which cannot be imported ({error}): "
      "pip install 'bert-flow-tf[tables]'"
    ) from error
  sentences_a, sentences_b = _sentences(sentences_a, "first"), _sentences(sentences_b, "second")
  if len(sentences_a) != len(sentences_b):
    raise DataError(f"{len(sentences_a)} first and {len(sentences_b)} second sentences, expected as many of each")
  pairs = zip(sentences_a, sentences_b, strict=True)
  return np.array([Levenshtein.distance(a, b) for a, b in pairs], np.int64)


def lexical_correlations(similarities, gold, distances):
  """Correlations of a similarity with edit distance and gold scores; for Table 6's first row pass gold as both.

  Args:
    similarities: [n].
    gold: [n] scores; pairs with NaN take no part in either figure.
    distances: [n] of `edit_distances`.

  Raises:
    DataError: the lengths differ, or what `correlation` refuses.
  """
  gold, distances = np.asarray(gold, np.float64), np.asarray(distances, np.float64)
  if gold.shape != distances.shape:
    raise DataError(f"{gold.shape} gold scores and {distances.shape} edit distances, expected [n] of each")
  with_gold = correlation(similarities, gold)
  with_distance = correlation(similarities, np.where(np.isnan(gold), np.nan, distances))
  reason = with_distance.reason.replace("gold score", "edit distance")
  return LexicalCorrelations(dataclasses.replace(with_distance, reason=reason), with_gold)


def close_pairs(distances, at_most=CLOSE):
  """Which pairs [n] are at most so far apart, the green ones of Figure 2: bool [n]."""
  return np.asarray(distances) <= at_most


def _sentences(sentences, which):
  """The sentences as a list, each a str."""
  if isinstance(sentences, str | bytes):
    raise DataError(f"the {which} sentences are a single {type(sentences).__name__}, expected a list of str")
  sentences = list(sentences)
  for row, sentence in enumerate(sentences):
    if not isinstance(sentence, str):
      raise DataError(f"the {which} sentence of pair {row} (counted from 0) is {repr(sentence)[:40]}, expected a str")
  return sentences
