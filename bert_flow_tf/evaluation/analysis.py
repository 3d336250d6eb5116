"""Analyses of the paper: word embeddings by word frequency (Table 1), edit distance (Table 6 and Figure 2)."""

import dataclasses
import math
import re
from collections.abc import Sequence

import numpy as np

from bert_flow_tf.data.pairs import check_pairs
from bert_flow_tf.errors import ConfigError, DataError, install_command
from bert_flow_tf.evaluation.metrics import Correlation, correlation
from bert_flow_tf.progress import Progress

# Table 1's ranges of ranks, from 0, without the end. The paper prints "[5K, 1K)" for the last, a misprint.
RANK_GROUPS = ((0, 100), (100, 500), (500, 5000), (5000, 10000))
NEIGHBORS = (3, 5, 7)
# Numbers of a block of the distance matrix: 2^22 of float64 are 32 MiB.
_PIECE = 1 << 22

# Largest distance of the pairs that Figure 2 marks.
CLOSE = 4
# Words, and runs of other characters, as `tokenizers.pre_tokenizers.Whitespace` and NLTK's wordpunct_tokenize split.
_TOKEN = re.compile(r"\w+|[^\w\s]+")
TOKENS, CHARACTERS = "tokens", "characters"
UNITS = (TOKENS, CHARACTERS)


@dataclasses.dataclass(frozen=True)
class FrequencyGroup:
  """A column of Table 1: ranks from `first` to `end`, number of words with such a rank, and means over these words.

  {k: mean} of the l2-distances to the k nearest others, and of the k largest dot products; NaN if there are fewer.
  """

  first: int
  end: int
  words: int
  mean_norm: float
  mean_distance: dict[int, float]
  mean_dot_product: dict[int, float]


def frequency_groups(
  embeddings: np.ndarray,
  order: Sequence[int] | np.ndarray,
  groups: Sequence[tuple[int, int]] = RANK_GROUPS,
  neighbors: Sequence[int] = NEIGHBORS,
  show_progress: bool | None = None,
) -> list[FrequencyGroup]:
  """Returns norms and neighbors of word embeddings [vocab, dim] by rank of frequency: Table 1 of Li et al. 2020.

  `order` has the rows by falling frequency, int [ranked]. The caption says that neighbors are "among all the word
  embeddings", and the ranks those of a Wikipedia dump. We take all rows of the matrix, also those without a rank
  ([CLS], [unused0]), but not the word itself. The neighbors of the distances are the k nearest by l2-distance, those of
  the dot products the k with the largest dot products: with the nearest by l2, the paper's norms, distances and dot
  products contradict each other. A word's value is the mean over its k neighbors, a group's the mean over its words.
  """
  embeddings, order = np.asarray(embeddings, np.float64), np.asarray(order)
  bad = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
  if bad.size:
    raise DataError(f"the word embedding of row {bad[0]} (counted from 0) is not finite, expected numbers")
  # The neighbors of all words at once; then each group has its rows of them.
  ranked = [order[first:end] for first, end in groups]
  words = np.unique(np.concatenate(ranked))
  most = min(max(neighbors), len(embeddings) - 1)
  distances, products = _neighbors(embeddings, words, most, show_progress is not False)
  columns = []
  for (first, end), rows in zip(groups, ranked, strict=True):
    at = np.searchsorted(words, rows)
    mean_distance, mean_product = {}, {}
    for k in neighbors:
      mean_distance[k] = mean_product[k] = math.nan
      if k <= most:
        mean_distance[k] = _mean(distances[at, :k])
        mean_product[k] = _mean(products[at, :k])
    norm = _mean(np.linalg.norm(embeddings[rows], axis=1))
    columns.append(FrequencyGroup(first, end, len(rows), norm, mean_distance, mean_product))
  return columns


def _neighbors(embeddings, rows, most, show):
  """Returns the smallest l2-distances, rising, and the largest dot products, falling, of some rows with all others.

  A matrix product of the centered rows finds the nearest ones; their distances are computed from the rows, so that
  rounding can only exchange neighbors at the same distance. Both are float64 [rows, most].
  """
  distances, products = np.empty([2, len(rows), most])
  if not most or not len(rows):
    return distances, products
  centered = embeddings - embeddings.mean(axis=0)
  squares = np.sum(centered**2, axis=1)
  piece = max(1, _PIECE // len(embeddings))
  with Progress(len(rows), show, "finding neighbors", "word") as progress:
    for start in range(0, len(rows), piece):
      chosen = rows[start : start + piece]
      itself = np.arange(len(chosen)), chosen  # a word is not its own neighbor, an equal one is
      # |a - b|^2 less |a|^2, which is the same for all b.
      squared = squares - 2 * (centered[chosen] @ centered.T)
      squared[itself] = np.inf
      nearest = np.argpartition(squared, most - 1, axis=1)[:, :most]
      for number, (row, others) in enumerate(zip(chosen, nearest, strict=True), start):
        distances[number] = np.sort(np.linalg.norm(embeddings[others] - embeddings[row], axis=1))
      negative = -(embeddings[chosen] @ embeddings.T)
      negative[itself] = np.inf
      largest = np.partition(negative, most - 1, axis=1)[:, :most]
      products[start : start + len(chosen)] = -np.sort(largest, axis=1)
      progress.update(len(chosen))
  return distances, products


def _mean(values):
  """Returns the mean of all values, NaN without any."""
  return float(np.mean(values)) if values.size else math.nan


@dataclasses.dataclass(frozen=True)
class LexicalCorrelations:
  """A row of Table 6: a similarity's correlation with the edit distance and with gold, over the same pairs."""

  edit_distance: Correlation
  gold: Correlation


def edit_distances(sentences_a: Sequence[str], sentences_b: Sequence[str], unit: str = TOKENS) -> np.ndarray:
  """Returns the Levenshtein distance of each pair of n sentences, int64 [n], in tokens or characters.

  Tokens are words and runs of punctuation of the lower-cased sentence, characters Unicode code points of the sentence
  as it is. The paper says only "edit distance". Its gold row in Table 6 is -24.61: tokens give -24.16, characters
  -20.21.
  """
  try:
    from rapidfuzz.distance import Levenshtein
  except ImportError as error:
    raise ConfigError(
      f"edit distances need the package rapidfuzz, which cannot be imported ({error}): {install_command('tables')}"
    ) from error
  a, b = check_pairs(sentences_a, sentences_b, ("sentences_a", "sentences_b"))
  if unit == TOKENS:
    a, b = ([_TOKEN.findall(sentence.lower()) for sentence in side] for side in (a, b))
  return np.array([Levenshtein.distance(x, y) for x, y in zip(a, b, strict=True)], np.int64)


def lexical_correlations(similarities: np.ndarray, gold: np.ndarray, distances: np.ndarray) -> LexicalCorrelations:
  """Returns the correlations of similarities [n] with edit distances [n] and gold [n], which is NaN for no gold."""
  with_gold = correlation(similarities, gold)
  with_distance = correlation(similarities, np.where(np.isnan(gold), np.nan, distances))
  reason = with_distance.reason.replace("gold score", "edit distance")
  return LexicalCorrelations(dataclasses.replace(with_distance, reason=reason), with_gold)


def close_pairs(distances: np.ndarray) -> np.ndarray:
  """Returns whether each distance [n] is small, as for the green pairs of Figure 2: bool [n]."""
  return np.asarray(distances) <= CLOSE
