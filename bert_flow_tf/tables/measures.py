"""Analyses of the paper: word embeddings by word frequency (Table 1), edit distance (Table 6 and Figure 2)."""

import dataclasses
import math
import re
from collections.abc import Sequence

import numpy as np

from bert_flow_tf.data.pairs import check_pairs
from bert_flow_tf.errors import ConfigError, install_command
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
  """A column of Table 1: the number of words, and means over them; NaN for no words, or fewer than k others."""

  words: int
  mean_norm: float
  # {k: mean} of the l2-distances to the k nearest others, and of the k largest dot products.
  mean_distance: dict[int, float]
  mean_dot_product: dict[int, float]


def frequency_groups(
  embeddings: np.ndarray,
  order: Sequence[int] | np.ndarray,
  groups: Sequence[tuple[int, int]] = RANK_GROUPS,
  neighbors: Sequence[int] = NEIGHBORS,
) -> list[FrequencyGroup]:
  """Returns norms and neighbors of word embeddings [vocab, dim] by rank of frequency: Table 1 of Li et al. 2020.

  `order` has the rows by falling frequency, int [ranked]. Neighbors are among all rows, also those without a rank.
  """
  # With the nearest by l2-distance for the dot products, too, the paper's norms, distances and dot products would
  # contradict each other. A word's value is the mean over its k neighbors, a group's the mean over its words.
  embeddings, order = np.asarray(embeddings, np.float64), np.asarray(order)
  ranked = [order[first:end] for first, end in groups]
  words = np.unique(np.concatenate(ranked))
  most = min(max(neighbors), len(embeddings) - 1)
  distances, products = _neighbors(embeddings, words, most)
  columns = []
  for rows in ranked:
    at = np.searchsorted(words, rows)
    mean_distance, mean_product = {}, {}
    for k in neighbors:
      mean_distance[k] = mean_product[k] = math.nan
      if k <= most:
        mean_distance[k] = _mean(distances[at, :k])
        mean_product[k] = _mean(products[at, :k])
    norm = _mean(np.linalg.norm(embeddings[rows], axis=1))
    columns.append(FrequencyGroup(len(rows), norm, mean_distance, mean_product))
  return columns


def _neighbors(embeddings, rows, most):
  """Returns the smallest l2-distances and the largest dot products of rows with all others, float64 [rows, most]."""
  # A matrix product of the centered rows finds the nearest ones; their distances are computed from the rows, so that
  # rounding can only exchange neighbors at the same distance.
  distances, products = np.empty([2, len(rows), most])
  if not most or not len(rows):
    return distances, products
  centered = embeddings - embeddings.mean(axis=0)
  squares = np.sum(centered**2, axis=1)
  piece = max(1, _PIECE // len(embeddings))
  with Progress(len(rows), work="finding neighbors", unit="word") as progress:
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


def edit_distances(sentences_a: Sequence[str], sentences_b: Sequence[str], unit: str = TOKENS) -> np.ndarray:
  """Returns the Levenshtein distance of each pair of n sentences, int64 [n], in tokens or characters.

  Tokens are words and runs of punctuation of the lower-cased sentence, characters the code points of the sentence.
  """
  # The paper says only "edit distance". Its gold row in Table 6 is -24.61: tokens give -24.16, characters -20.21.
  try:
    from rapidfuzz.distance import Levenshtein
  except ImportError as error:
    raise ConfigError(
      f"edit distances need the package rapidfuzz, which cannot be imported ({error}): {install_command('tables')}"
    ) from error
  a, b = check_pairs(sentences_a, sentences_b, ("sentences_a", "sentences_b"))
  if unit == TOKENS:
    a, b = _tokens(a), _tokens(b)
  return np.array(list(map(Levenshtein.distance, a, b)), np.int64)


def _tokens(sentences):
  return [_TOKEN.findall(sentence.lower()) for sentence in sentences]


def edit_correlation(similarities: np.ndarray, gold: np.ndarray, distances: np.ndarray) -> Correlation:
  """Returns the correlation of similarities [n] with edit distances [n], of the pairs whose gold [n] is not NaN."""
  result = correlation(similarities, np.where(np.isnan(gold), np.nan, distances))
  return dataclasses.replace(result, reason=result.reason.replace("gold score", "edit distance"))
