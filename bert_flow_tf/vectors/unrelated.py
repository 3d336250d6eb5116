"""Cosines of unrelated rows: pairs of a random sample. A threshold that they reach tells nothing about similarity."""

import dataclasses
import math

import numpy as np
import scipy.sparse
from absl import logging

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.checks import shown
from bert_flow_tf.progress import counted
from bert_flow_tf.vectors.unit_rows import UnitRows, cosines_of

# Rows of a sample, all pairs of which are measured.
_SAMPLE = 400
# Pairs that decide; fewer pairs are a hint, if texts tell which of them are related, and are not measured otherwise.
_MIN_PAIRS, _MIN_PAIRS_OF_TEXTS = 1000, 10
# Texts that share so many of their words are not unrelated.
_MAX_SHARED = 0.5
# Deviations below the median angle that unrelated rows do not reach. Seen: `mini` with 2.2 to 3.3 at the cosine 0.9
# drops a fifth of different people and sentences; `static:mini` with 3.8 and more drops one of 2,000.
_DEVIATIONS = 3.5
# Share of all pairs that are no duplicates any more, of many pairs and of few: texts of one template.
_MAX_DUPLICATES, _MAX_DUPLICATES_OF_FEW, _FEW_PAIRS = 0.05, 0.2, 100
# Embeddings that have no cone; vectors are embedded again by another command.
_OTHERS_OF_TEXTS = ": calibration=soft-whitening, or model=static:mini"
_OTHERS_OF_VECTORS = ", as of the calibration soft-whitening or of the model static:mini"
# Quartiles of a normal distribution lie so many deviations from its median.
_QUARTILE = 0.6745


@dataclasses.dataclass(frozen=True)
class UnrelatedPairs:
  """Cosines of pairs of rows that are likely to be unrelated.

  Attributes:
    cosines: float32 [pairs], sorted.
    bound: cosine that unrelated pairs hardly reach: the median angle minus 3.5 deviations, by the quartiles. A part of
      near-duplicates among many pairs does not move it: the deviation is of the side with fewer of them.
  """

  cosines: np.ndarray
  bound: float

  @classmethod
  def of(cls, cosines: np.ndarray) -> "UnrelatedPairs":
    """Returns the pairs of some cosines [pairs]."""
    lower, median, upper = np.quantile(np.arccos(np.clip(cosines, -1, 1)), [0.25, 0.5, 0.75])
    deviation = (upper - lower) / (2 * _QUARTILE)
    if len(cosines) >= _MIN_PAIRS:
      deviation = min(upper - median, median - lower) / _QUARTILE
    return cls(np.sort(cosines), math.cos(max(median - _DEVIATIONS * deviation, 0.0)))

  def problem(self, threshold: float) -> str:
    """Returns why a threshold tells nothing about similarity; "" if it does."""
    if threshold >= self.bound or threshold >= 1:
      return ""
    below = np.searchsorted(self.cosines, threshold) / len(self.cosines)
    found = (
      f"unrelated texts reach it: {100 * below:.4g} % of {counted(len(self.cosines), 'random pair', ',')} are below "
    )
    found += f"(median {np.median(self.cosines):.2f}); expected {math.ceil(100 * self.bound) / 100:.2f} or more"
    return f"{found}, or other embeddings"


def unrelated_pairs(rows: UnitRows, positions: np.ndarray, texts: list[str] | None = None) -> UnrelatedPairs | None:
  """Returns pairs of a random sample of the rows at `positions`, always the same; None if they are too few.

  With the texts of all rows, pairs that share half of their words are left out.
  """
  sample = np.sort(np.random.default_rng(0).permutation(positions)[:_SAMPLE])
  units = rows.take(sample)
  is_pair = np.triu(np.ones([len(sample), len(sample)], bool), 1)
  if texts is not None:
    is_pair &= _shared_words([texts[row] for row in sample]) < _MAX_SHARED
  cosines = cosines_of(units, units)[is_pair]
  if len(cosines) < (_MIN_PAIRS if texts is None else _MIN_PAIRS_OF_TEXTS):
    return None
  return UnrelatedPairs.of(cosines)


def check_threshold(threshold: float) -> float:
  """Returns a smallest cosine; raises a ConfigError for anything but a number from -1 to 1."""
  is_number = isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool)
  if not is_number or not -1 <= threshold <= 1:
    raise ConfigError(f"threshold={shown(threshold)}: expected a cosine, a number from -1 to 1", argument="threshold")
  return float(threshold)


def check_threshold_of(
  rows: UnitRows,
  positions: np.ndarray,
  threshold: float,
  texts: list[str] | None = None,
  allow_unrelated: bool = True,
  keys: np.ndarray | None = None,
  calibrated: bool = False,
) -> None:
  """Logs a warning if unrelated rows reach a threshold; if that is not allowed, many pairs raise a ConfigError.

  Rows with other `keys` [n] are no duplicates, whatever their cosine. `calibrated`: whether the rows are calibrated
  already, so that no calibration mends them.
  """
  pairs = unrelated_pairs(rows, positions, texts)
  problem = pairs.problem(threshold) if pairs is not None else ""
  if problem and not calibrated:
    problem += _OTHERS_OF_TEXTS if texts is not None else _OTHERS_OF_VECTORS
  has_many = pairs is not None and len(pairs.cosines) >= _MIN_PAIRS
  if not problem and threshold < 1:
    problem, has_many = _problem_of_template(rows, positions, threshold, keys)
  if problem and not allow_unrelated and has_many:
    raise ConfigError(f"threshold={threshold}: {problem}; allow_unrelated=True compares all the same", "threshold")
  if problem:
    logging.warning("threshold=%s: %s", threshold, problem)


def is_calibrated(model: object) -> bool:
  """Returns whether a model has steps after its encoder or a table with a calibration, if it is a `SentenceModel`."""
  declared = getattr(getattr(model, "encoder", None), "declared", None)
  return getattr(model, "steps_checksum", None) is not None or bool(getattr(declared, "calibration", ""))


def _problem_of_template(rows, positions, threshold, keys):
  """Returns why so many random pairs reach a threshold that most are no duplicates, or ""; whether pairs are many."""
  sample = np.sort(np.random.default_rng(0).permutation(positions)[:_SAMPLE])
  units = rows.take(sample)
  is_found = cosines_of(units, units) >= threshold
  if keys is not None:
    is_found &= keys[sample, np.newaxis] == keys[sample]
  pairs = len(sample) * (len(sample) - 1) // 2
  share = np.count_nonzero(np.triu(is_found, 1)) / max(pairs, 1)
  has_many = pairs >= _MIN_PAIRS
  if pairs < _FEW_PAIRS or share <= (_MAX_DUPLICATES if has_many else _MAX_DUPLICATES_OF_FEW):
    return "", has_many
  found = f"{100 * share:.3g} % of {counted(pairs, 'random pair', ',')} of different texts reach it, as texts of one "
  return f"{found}template do, which are no duplicates; expected a higher threshold", has_many


def _shared_words(texts: list[str]) -> np.ndarray:
  """Returns the share of the words of two texts that both have, float [n, n]."""
  numbers: dict[str, int] = {}
  columns, ends = [], [0]
  for text in texts:
    columns += [numbers.setdefault(word, len(numbers)) for word in dict.fromkeys(text.lower().split())]
    ends.append(len(columns))
  has = scipy.sparse.csr_array((np.ones(len(columns)), columns, ends), (len(texts), max(len(numbers), 1)))
  both = (has @ has.T).toarray()
  counts = np.diff(ends)
  return both / np.maximum(counts[:, np.newaxis] + counts - both, 1)
