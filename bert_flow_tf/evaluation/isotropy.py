"""Isotropy of embeddings: IsoScore, singular values, and whether there is a cone that a calibration could remove.

`similarity.mean_random_cosine` is another measure; unlike IsoScore and singular values it depends on the mean.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation.metrics import normalized

# Rows that are converted to float64 at a time: 4096 of 1024 dimensions are 32 MiB.
_ROWS = 4096
# Embeddings without a cone have a small mean cosine and a large participation ratio. On STS-B, masked language models
# have a ratio of 0.02 to 0.06; all-MiniLM-L6-v2, which was trained for similarity, has 0.27, and 0.15 on SICK-R.
_COSINE_WITHOUT_CONE, _RATIO_WITHOUT_CONE = 50.0, 10.0


def isoscore(points: np.ndarray) -> float:
  """Returns the IsoScore: the share of dimensions that have the variance, 0 for one direction, 1 for equal variances.

      v  = sqrt(dim) * variances along the principal axes / their l2-norm
      d  = |v - 1| / sqrt(2 (dim - sqrt(dim)))                      the isotropy defect
      k  = (dim - d^2 (dim - sqrt(dim)))^2 / dim                    dimensions in isotropic use
      score = (k - 1) / (dim - 1)

  (Rudman, Gillman, Rayne and Eickhoff 2022, algorithm 1.) As |v|^2 = dim, the first three lines give

      k = (sum of variances)^2 / (sum of squared variances) = trace(C)^2 / |C|^2

  for the covariance matrix C with its Frobenius norm, which needs no principal axes. k equal variances
  of dim, the others 0, score (k - 1) / (dim - 1). Mean, scale and rotations do not change the score.

  The covariance of n points has at most n - 1 directions, so the score is at most (n - 2) / (dim - 1): scores of
  different n are comparable only if n is much larger than dim.

  Args:
    points: [n, dim], any real dtype; computed in float64.

  Returns:
    float in [0, 1]; NaN for fewer than 2 points, points that are all equal, or dim below 2.

  Raises:
    DataError: points is not [n, dim], or has NaN or infinity.
  """
  points = _checked(points)
  n, dim = points.shape
  if n < 2 or dim < 2:
    return math.nan
  moment = np.zeros([dim, dim])
  for piece in _pieces(points, *_center(points)):
    moment += piece.T @ piece
  trace = np.trace(moment)
  if trace == 0:
    return math.nan
  moment /= trace
  return float(np.clip((1 / np.sum(moment**2) - 1) / (dim - 1), 0.0, 1.0))


def singular_spectrum(points: np.ndarray, centered: bool = False) -> np.ndarray:
  """Returns the singular values of the points divided by the largest; flat is isotropic (the paper's section 3.1).

  They are those of the R of the QR decomposition, which is made of blocks of rows; a covariance matrix would lose the
  small ones to rounding.

  Args:
    points: [n, dim], any real dtype; computed in float64.
    centered: whether the mean is subtracted first; otherwise BERT's mean is most of the first value.

  Returns:
    float64 [min(n, dim)], sorted, the first is 1; NaN if all points are 0, or equal to the mean.

  Raises:
    DataError: points is not [n, dim], or has NaN or infinity.
  """
  import tensorflow as tf  # here, as the runners check their flags before this long import

  points = _checked(points)
  n, dim = points.shape
  if not min(n, dim):
    return np.zeros([0])
  reduced = np.zeros([0, dim])
  for piece in _pieces(points, *(_center(points) if centered else _scale(points))):
    # Not by NumPy, whose threads wait for each other at every column: seconds where other programs use the cores.
    reduced = tf.linalg.qr(np.concatenate([reduced, piece]))[1].numpy()
  values = tf.linalg.svd(reduced, compute_uv=False).numpy()
  return values / values[0] if values[0] > 0 else np.full_like(values, np.nan)


def spread(embeddings: np.ndarray) -> dict[str, float]:
  """Returns how far embeddings spread, without labels.

  Args:
    embeddings: [n, dim]; the rows of `sample` are used.

  Returns:
    cosine_of_random_pairs, the mean cosine of two different rows; and participation_ratio, k / dim with the k of
    `isoscore`; both x 100. NaN for fewer than 2 rows, or rows that are all equal.
  """
  rows = sample(_checked(embeddings)).astype(np.float64)
  n, dim = rows.shape
  cosine = math.nan
  if n > 1:
    cosine = float((np.sum(np.sum(normalized(rows), axis=0) ** 2) - n) / (n * (n - 1)))
  return {
    "cosine_of_random_pairs": 100.0 * cosine,
    "participation_ratio": 100.0 * (isoscore(rows) * (dim - 1) + 1) / dim,
  }


def sample(embeddings: Any) -> Any:
  """Returns at most 4096 rows, evenly spaced, of embeddings [n, dim] or of a list."""
  return embeddings[:: max(1, math.ceil(len(embeddings) / _ROWS))]


def log_cone(embeddings: np.ndarray, shares: Sequence[float] = (), of_words: bool = False) -> dict[str, Any]:
  """Logs how narrow the cone of embeddings [n, dim] is, and a warning if a calibration may find none to remove.

  Args:
    embeddings: [n, dim]; the rows of `sample` are used.
    shares: share of each view if embeddings are concatenated views. Then the measures are those of their weighted sum,
      each view divided by its root mean square around its mean, which stays. The warning goes by the last view, which
      is the encoder's.
    of_words: whether they are means of word embeddings: these have no cone even where a calibration helps, so that no
      warning is logged.

  Returns:
    The result of `spread`, and the `warning` if one is logged.
  """
  rows = judged = sample(embeddings)
  if shares:
    views = np.split(_checked(rows).astype(np.float64), len(shares), axis=1)
    deviations = [np.sqrt(np.mean(np.sum((view - view.mean(axis=0)) ** 2, axis=1))) for view in views]
    rows = np.sum([s * view / (rms or 1.0) for s, view, rms in zip(shares, views, deviations, strict=True)], axis=0)
    judged = views[-1]
  measures: dict[str, Any] = spread(rows)
  shown = (value / 100 for value in measures.values())
  logging.info("embeddings: mean cosine of random pairs %.2f, participation ratio %.3f", *shown)
  cosine, ratio = (measures if judged is rows else spread(judged)).values()
  n, dim = judged.shape
  if not of_words and n > 2 * dim and cosine < _COSINE_WITHOUT_CONE and ratio > _RATIO_WITHOUT_CONE:
    measures["warning"] = (
      "these embeddings lie in no narrow cone: a calibration is likely to make them worse; on STS-B the flow takes "
      "all-MiniLM-L6-v2 from 82.03 to 80.04 and whitening to 80.27, on SICK-R from 77.15 to 66.58 and 67.94; do "
      "without a calibration, or compare the scores with and without it"
    )
    logging.warning("%s", measures["warning"])
  return measures


def _checked(points):
  """Returns the points as an array [n, dim] of finite numbers."""
  try:
    points = np.asarray(points)
    points = points if points.dtype.kind in "fc" else points.astype(np.float64)
  except (TypeError, ValueError) as error:
    raise DataError(f"points that are not numbers ({error}), expected an array [n, dim]") from error
  if points.ndim != 2 or points.dtype.kind == "c":
    raise DataError(f"points of shape {points.shape} and {points.dtype}, expected real numbers [n, dim]")
  bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
  if bad.size:
    raise DataError(
      f"point {bad[0]} (counted from 0) is not finite ({bad.size} of {len(points)} are not), expected numbers"
    )
  return points


def _scale(points):
  """Returns arguments of `_pieces`: no shifts, and the largest number as scale, so that squares stay in range."""
  largest = float(np.abs(points).max())
  return largest or 1.0, np.zeros(points.shape[1]), 1.0, np.zeros(points.shape[1])


def _center(points):
  """Returns arguments of `_pieces` that center the points: scale, first point, scale around it, mean around it.

  The first point is subtracted first: so the part that all points share is gone before anything is rounded, and points
  that are all equal become exactly 0.
  """
  scale = _scale(points)[0]
  first = points[0].astype(np.float64) / scale
  spread = max(np.abs(piece).max() for piece in _pieces(points, scale, first, 1.0, 0.0)) or 1.0
  mean = sum(piece.sum(axis=0) for piece in _pieces(points, scale, first, spread, 0.0)) / len(points)
  return scale, first, spread, mean


def _pieces(points, scale, first, spread, mean):
  """Yields ((points / scale - first) / spread - mean) in float64, in blocks of rows."""
  for start in range(0, len(points), _ROWS):
    yield (points[start : start + _ROWS].astype(np.float64) / scale - first) / spread - mean
