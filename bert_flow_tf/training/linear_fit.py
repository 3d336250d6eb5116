"""Fit of a calibration that needs no training steps, on embeddings."""

import numpy as np
from absl import logging

from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.calibration.names import CalibrationSpec, make_calibration
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.io.checks import check_rows
from bert_flow_tf.progress import counted
from bert_flow_tf.training.fit_rows import Dev

# A row that is so many times as long as the median row decides mean and covariance alone.
_OUTLIER = 1e3
# Sentences per direction below which whitening makes a search worse than no calibration (all-MiniLM-L6-v2 on questions:
# 59.8 with 1.3, 74.6 with 5.2, 74.0 without); powers of soft whitening that are nearly whitening's.
_FEW_ROWS, _NEAR_WHITENING = 4, 0.4


def fit_linear(spec: CalibrationSpec, rows: np.ndarray | list[np.ndarray], dev: Dev | None = None) -> LinearCalibration:
  """Fits a `LinearCalibration` on rows [n, dim], whole or in parts, and chooses an open k on dev."""
  fitted = make_calibration(spec)
  try:
    if isinstance(rows, list):
      for part in rows:
        fitted.partial_fit(part)
      if not spec.k_on_dev:
        fitted.affine()  # an error if the rows are too few or all alike
    else:
      fitted.fit(rows)
  except CalibrationError as error:
    if error.argument != "k":
      raise
    # It was given as the end of the calibration's name.
    message = str(error).replace(f"k={spec.k}", f"calibration={spec.name}", 1)
    raise CalibrationError(message, "calibration") from error
  _warn_of_outliers(rows)
  _warn_of_few(fitted)
  if spec.k_on_dev and dev is not None:
    scores = fitted.choose_k(*dev)
    logging.info("%s: k=%d chosen on dev, Spearman %.2f", spec.name, fitted.k, scores[fitted.k])
  return fitted


def _warn_of_few(fitted):
  """Logs a warning if whitening has too few rows for its directions, so that it enlarges noise."""
  directions = fitted.dim
  if fitted.method == "whitening":
    directions = fitted.k or fitted.dim
  elif fitted.method != "soft-whitening" or (fitted.k or 0) < _NEAR_WHITENING:
    return
  if fitted.count < _FEW_ROWS * directions:
    message = "%s: %s are few for %d dimensions, and scores may get worse than without a calibration; give %s or more, "
    message += "or take tempered-whitening, the calibration of recipe=search, which is made for few"
    needed = f"{_FEW_ROWS * directions:,}"
    logging.warning(message, fitted.name, counted(fitted.count, "sentence", ","), directions, needed)


def _warn_of_outliers(rows):
  """Logs a warning if a row is so long that it alone decides the fit; the fit itself checks the values of rows."""
  parts = rows if isinstance(rows, list) else [check_rows(rows)]
  longest = [np.maximum(np.max(part, axis=1), -np.min(part, axis=1)) for part in parts if np.size(part)]
  sizes = np.concatenate(longest or [[0.0]])
  row, median = int(np.argmax(sizes)), float(np.median(sizes))
  if sizes[row] > _OUTLIER * median > 0:
    times = sizes[row] / median
    logging.warning(
      "row %d (from 0) is %.0e times as long as the median row, so it alone counts in the fit", row, times
    )
