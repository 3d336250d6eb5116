"""Isotropy of embeddings: IsoScore, singular values, and whether there is a cone that a calibration could remove.

`metrics.mean_random_cosine` is another measure; unlike IsoScore and singular values it depends on the mean.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation.metrics import normalized

# Most rows of `sample`.
_ROWS = 4096
# Embeddings without a cone have a small mean cosine and a large participation ratio. On STS-B, masked language models
# have a ratio of 0.02 to 0.06; all-MiniLM-L6-v2, which was trained for similarity, has 0.27, and 0.15 on SICK-R.
_COSINE_WITHOUT_CONE, _RATIO_WITHOUT_CONE = 50.0, 10.0
_NO_CONE = (
  "these embeddings lie in no narrow cone: a calibration is likely to make them worse; do without one, or compare the "
  "scores with and without it (docs/calibrations.md)"
)


def isoscore(points: np.ndarray) -> float:
  """Returns the IsoScore: the share of dimensions that have the variance, 0 for one direction, 1 for equal variances.

      k = (sum of variances)^2 / (sum of squared variances) = trace(C)^2 / |C|^2,  score = (k - 1) / (dim - 1)

  for the covariance matrix C with its Frobenius norm; k equal variances of dim, the others 0, score (k - 1) / (dim -
  1). This is algorithm 1 of Rudman, Gillman, Rayne and Eickhoff 2022 without its principal axes. Mean, scale and
  rotations do not change it. n points [n, dim] have at most n - 1 directions: scores of different n are comparable only
  if n is much larger than dim. NaN for fewer than 2 points, points that are all equal, or dim below 2.
  """
  points = _finite(points)
  n, dim = points.shape
  if n < 2 or dim < 2:
    return math.nan
  centered = _centered(points)
  covariance = centered.T @ centered
  trace = np.trace(covariance)
  if trace == 0:
    return math.nan
  covariance /= trace
  return float(np.clip((1 / np.sum(covariance**2) - 1) / (dim - 1), 0.0, 1.0))


def singular_spectrum(points: np.ndarray, centered: bool = False) -> np.ndarray:
  """Returns the singular values of points [n, dim] divided by the largest, falling, float64 [min(n, dim)].

  Flat is isotropic (the paper's section 3.1). With `centered` the mean is subtracted first; otherwise BERT's mean is
  most of the first value. NaN if all points are 0, or equal to the mean.
  """
  points = _finite(points)
  if centered:
    points = _centered(points)
  values = np.linalg.svd(points, compute_uv=False)
  if not values.size or values[0] > 0:
    return values / values[:1]
  return np.full_like(values, np.nan)


def spread(embeddings: np.ndarray) -> dict[str, float]:
  """Returns how far a `sample` of embeddings [n, dim] spreads, without labels, x 100.

  cosine_of_random_pairs is the mean cosine of two different rows; participation_ratio is k / dim with the k of
  `isoscore`. NaN for fewer than 2 rows, or rows that are all equal.
  """
  rows = _finite(sample(embeddings))
  n, dim = rows.shape
  cosine = math.nan
  if n > 1:
    # |sum of the unit vectors|^2 has the cosines of all pairs, and 1 for each row with itself.
    cosine = float((np.sum(np.sum(normalized(rows), axis=0) ** 2) - n) / (n * (n - 1)))
  ratio = (isoscore(rows) * (dim - 1) + 1) / dim
  return {"cosine_of_random_pairs": 100.0 * cosine, "participation_ratio": 100.0 * ratio}


def sample(embeddings: Any) -> Any:
  """Returns at most 4096 rows, evenly spaced, of embeddings [n, dim] or of a list."""
  return embeddings[:: max(1, math.ceil(len(embeddings) / _ROWS))]


def log_cone(embeddings: np.ndarray, shares: Sequence[float] = (), of_words: bool = False) -> dict[str, Any]:
  """Logs how narrow the cone of embeddings [n, dim] is, and a warning if a calibration may find none to remove.

  Returns the result of `spread`, and the `warning` if one is logged. Of concatenated views with their shares, the
  measures are those of their weighted sum, and the warning goes by the last view, which is the encoder's. Means of word
  embeddings have no cone even where a calibration helps: `of_words` leaves the warning out.
  """
  rows = _finite(sample(embeddings))
  judged = whole = rows
  if shares:
    views = np.split(rows, len(shares), axis=1)
    judged, whole = views[-1], _weighted_sum(views, shares)
  of_judged = spread(judged)
  measures: dict[str, Any] = dict(spread(whole))
  cosine, ratio = measures["cosine_of_random_pairs"] / 100, measures["participation_ratio"] / 100
  logging.info("embeddings: mean cosine of random pairs %.2f, participation ratio %.3f", cosine, ratio)
  n, dim = judged.shape
  narrow = of_judged["cosine_of_random_pairs"] >= _COSINE_WITHOUT_CONE
  few_directions = of_judged["participation_ratio"] <= _RATIO_WITHOUT_CONE
  if not (narrow or few_directions or of_words) and n > 2 * dim:
    measures["warning"] = _NO_CONE
    logging.warning("%s", _NO_CONE)
  return measures


def _weighted_sum(views, shares):
  """Returns the sum of views [n, dim], each divided by its deviation from its mean, by their shares."""
  total = np.zeros_like(views[0])
  for view, share in zip(views, shares, strict=True):
    deviation = np.sqrt(np.mean(np.sum((view - view.mean(axis=0)) ** 2, axis=1)))
    total += share * view / (deviation or 1.0)
  return total


def _centered(points):
  """Returns points [n, dim] minus their mean; the first one is subtracted before, so that equal points become 0."""
  if not len(points):
    return points
  moved = points - points[0]
  return moved - moved.mean(axis=0)


def _finite(points):
  """Returns points [n, dim] in float64; raises a DataError if one is not finite."""
  points = np.asarray(points, np.float64)
  bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
  if bad.size:
    raise DataError(
      f"point {bad[0]} (counted from 0) is not finite ({bad.size} of {len(points)} are not), expected numbers"
    )
  return points
