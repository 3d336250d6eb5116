"""Isotropy of embeddings: IsoScore, singular values, and a warning where no cone is left to remove."""

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from absl import logging

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation.metrics import normalized
from bert_flow_tf.io.checks import as_array

# Most rows of `sample`.
_ROWS = 4096
# Embeddings without a cone have a small mean cosine and a large participation ratio. On STS-B, masked language models
# have a ratio of 0.02 to 0.06; all-MiniLM-L6-v2, which was trained for similarity, has 0.27, and 0.15 on SICK-R.
_COSINE_WITHOUT_CONE, _RATIO_WITHOUT_CONE = 50.0, 10.0
_NO_CONE = (
  "the encoder was trained for similarity, and its embeddings lie in no narrow cone: a calibration is likely to make "
  "them worse; do without one, or compare the scores with and without it (docs/calibrations.md)"
)

# Embeddings or sentences.
Rows = TypeVar("Rows", np.ndarray, Sequence[str])


def isoscore(points: np.ndarray) -> float:
  """Returns the IsoScore of points [n, dim]: 0 if all variance is in one direction, 1 for equal variances.

  NaN for fewer than 2 points, points that are all equal, or dim below 2.
  """
  # Algorithm 1 of Rudman, Gillman, Rayne and Eickhoff 2022, without its principal axes, as rotations do not change it:
  # (k - 1) / (dim - 1) with k = (sum of variances)^2 / (sum of squared variances) = trace(C)^2 / |C|^2, for the
  # covariance matrix C with its Frobenius norm. Scores of different n are comparable only if n is much larger than dim.
  points = as_array(points, "points", DataError, np.float64)
  n, dim = points.shape
  if n < 2 or dim < 2:
    return math.nan
  # The first point is subtracted before the mean, so that equal points become 0.
  moved = points - points[0]
  centered = moved - moved.mean(axis=0)
  covariance = centered.T @ centered
  trace = np.trace(covariance)
  if trace == 0:
    return math.nan
  covariance /= trace
  return float(np.clip((1 / np.sum(covariance**2) - 1) / (dim - 1), 0.0, 1.0))


def singular_spectrum(points: np.ndarray) -> np.ndarray:
  """Returns the singular values of points [n, dim] by the largest, falling, [min(n, dim)]; NaN if all points are 0."""
  values = np.linalg.svd(as_array(points, "points", DataError, np.float64), compute_uv=False)
  if not values.size or values[0] > 0:
    return values / values[:1]
  return np.full_like(values, np.nan)


def spread(embeddings: np.ndarray) -> dict[str, float]:
  """Returns mean cosine of two rows, and k / dim as in `isoscore`, of a `sample` of embeddings [n, dim]; x 100."""
  rows = as_array(sample(embeddings), error=DataError, dtype=np.float64)
  n, dim = rows.shape
  cosine = math.nan
  if n > 1:
    # |sum of the unit vectors|^2 has the cosines of all pairs, and 1 for each row with itself.
    cosine = float((np.sum(np.sum(normalized(rows), axis=0) ** 2) - n) / (n * (n - 1)))
  ratio = (isoscore(rows) * (dim - 1) + 1) / dim
  return {"cosine_of_random_pairs": 100.0 * cosine, "participation_ratio": 100.0 * ratio}


def sample(embeddings: Rows) -> Rows:
  """Returns at most 4096 rows, evenly spaced, of embeddings [n, dim] or of a list."""
  return embeddings[:: max(1, math.ceil(len(embeddings) / _ROWS))]


def has_cone(embeddings: np.ndarray) -> bool:
  """Returns whether embeddings [n, dim] lie in a narrow cone or in few directions, or are too few to tell."""
  rows = as_array(sample(embeddings), error=DataError, dtype=np.float64)
  n, dim = rows.shape
  measures = spread(rows)
  is_narrow = measures["cosine_of_random_pairs"] >= _COSINE_WITHOUT_CONE
  has_few_directions = measures["participation_ratio"] <= _RATIO_WITHOUT_CONE
  return is_narrow or has_few_directions or n <= 2 * dim


def log_cone(embeddings: np.ndarray, for_similarity: bool = False) -> dict[str, float | str]:
  """Logs and returns the `spread` of embeddings [n, dim], with a warning if a calibration may find no cone to remove.

  `for_similarity`: whether the encoder was trained for similarity. A small BERT that a user trained, and means of word
  embeddings, have no cone even where a calibration helps: they get no warning.
  """
  rows = as_array(sample(embeddings), error=DataError, dtype=np.float64)
  values = spread(rows)
  measures: dict[str, float | str] = {**values}
  cosine, ratio = values["cosine_of_random_pairs"] / 100, values["participation_ratio"] / 100
  logging.info("embeddings: mean cosine of random pairs %.2f, participation ratio %.3f", cosine, ratio)
  if for_similarity and not has_cone(embeddings):
    measures["warning"] = _NO_CONE
    logging.warning("%s", _NO_CONE)
  return measures
