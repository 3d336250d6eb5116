"""Lexical similarity of sentences: edit distance (the paper's section 4.4, Table 6 and Figure 2)."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from bert_flow_tf.data.pairs import check_pairs
from bert_flow_tf.errors import ConfigError, DataError, install_command
from bert_flow_tf.evaluation.metrics import Correlation, correlation

# Largest distance of the pairs that Figure 2 marks.
CLOSE = 4

# Words, and runs of other characters, as `tokenizers.pre_tokenizers.Whitespace` and NLTK's wordpunct_tokenize split.
_TOKEN = re.compile(r"\w+|[^\w\s]+")
TOKENS, CHARACTERS = "tokens", "characters"
UNITS = (TOKENS, CHARACTERS)


@dataclasses.dataclass(frozen=True)
class LexicalCorrelations:
  """A row of Table 6: Spearman x 100 of a similarity with two quantities, over the same pairs.

  Attributes:
    edit_distance: correlation with the edit distance; negative if sentences with the same words are similar.
    gold: correlation with the gold scores.
  """

  edit_distance: Correlation
  gold: Correlation


def edit_distances(sentences_a: Sequence[str], sentences_b: Sequence[str], unit: str = TOKENS) -> np.ndarray:
  """Returns the Levenshtein distance of each pair: the fewest insertions, deletions and substitutions of one unit.

  The paper says only "edit distance". Its gold row in Table 6 is -24.61: tokens give -24.16, characters -20.21.

  Args:
    sentences_a: n str.
    sentences_b: n str.
    unit: "tokens" for words and runs of punctuation of the lower-cased sentence; "characters" for Unicode code points
      of the sentence as it is, white space included.

  Returns:
    int64 [n].

  Raises:
    ConfigError: the package rapidfuzz is missing, or unit is not allowed.
    DataError: the lengths differ, or an element is not a str.
  """
  try:
    from rapidfuzz.distance import Levenshtein
  except ImportError as error:
    raise ConfigError(
      f"edit distances need the package rapidfuzz, which cannot be imported ({error}): {install_command('tables')}"
    ) from error
  if unit not in UNITS:
    raise ConfigError(f"unit={unit!r}: expected {' or '.join(UNITS)}", argument="unit")
  sides = check_pairs(sentences_a, sentences_b, ("sentences_a", "sentences_b"))
  if unit == TOKENS:
    sides = tuple([_TOKEN.findall(sentence.lower()) for sentence in side] for side in sides)
  return np.array([Levenshtein.distance(a, b) for a, b in zip(*sides, strict=True)], np.int64)


def lexical_correlations(similarities: np.ndarray, gold: np.ndarray, distances: np.ndarray) -> LexicalCorrelations:
  """Returns the correlations of a similarity with edit distance and gold; Table 6's first row has gold as both.

  Args:
    similarities: [n].
    gold: [n] scores; pairs with NaN are left out of both.
    distances: [n] of `edit_distances`.

  Raises:
    DataError: the lengths differ, or see `correlation`.
  """
  gold, distances = np.asarray(gold, np.float64), np.asarray(distances, np.float64)
  if gold.shape != distances.shape:
    raise DataError(f"{gold.shape} gold scores and {distances.shape} edit distances, expected [n] of each")
  with_gold = correlation(similarities, gold)
  with_distance = correlation(similarities, np.where(np.isnan(gold), np.nan, distances))
  reason = with_distance.reason.replace("gold score", "edit distance")
  return LexicalCorrelations(dataclasses.replace(with_distance, reason=reason), with_gold)


def close_pairs(distances: np.ndarray, at_most: int = CLOSE) -> np.ndarray:
  """Returns whether each distance [n] is at most `at_most`, as for the green pairs of Figure 2: bool [n]."""
  return np.asarray(distances) <= at_most
