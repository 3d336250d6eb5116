"""The calibrations: none, mean removal, SN and whitening; NATSV is in `natsv.py`."""

import numpy as np
from absl import logging

from bert_flow_tf.calibration import spectrum
from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.errors import CalibrationError


class NoCalibration(LinearCalibration):
  """z = u; fitted all the same, so that it stands in a comparison like the others."""

  METHOD = "none"

  def affine(self):
    """No shift, and the identity."""
    return np.zeros(self.dim), np.eye(self.dim)

  def _solve(self, moments):
    return {}

  def _shapes(self, dim):
    return {}

  def _apply(self, arrays, rows):
    return rows


class MeanRemoval(LinearCalibration):
  """z = u - mean."""

  METHOD = "mean"

  def affine(self):
    """The mean, and the identity."""
    self._solved()
    return self._moments.mean, np.eye(self.dim)

  def _solve(self, moments):
    check_varying(self.name, moments, spectrum.inverse_deviations(moments))
    return {}

  def _shapes(self, dim):
    return {}

  def _apply(self, arrays, rows):
    return rows - self._moments.mean


class StandardNormalization(LinearCalibration):
  """SN of the paper's table 5: z = (u - mean) / std, each dimension by itself.

  std divides by n, which no cosine sees. A dimension without variance becomes 0: no sentence of the fit says how to
  scale it.
  """

  METHOD = "sn"

  def affine(self):
    """The mean, and a diagonal matrix."""
    matrix = np.diag(self._solved()["scale"])
    return self._moments.mean, matrix

  def _solve(self, moments):
    return {"scale": checked_scale(self.name, moments)}

  def _shapes(self, dim):
    return {"scale": (dim,)}

  def _apply(self, arrays, rows):
    return (rows - self._moments.mean) * arrays["scale"]


class Whitening(LinearCalibration):
  """z = (u - mean) W,  W = V diag(1 / sqrt(lambda)), its first k columns.

  V and lambda are the eigenvectors and falling eigenvalues of the covariance (divided by n - 1), so that the rows of
  the fit get the covariance I. Su et al. 2021, "Whitening Sentence Representations for Better Semantics and Faster
  Retrieval", algorithm 1.

  Directions without variance, of a singular covariance or where n <= dim, are dropped: z has as many dimensions as the
  covariance has rank.

  Args:
    k: dimensions of z; None for all that have variance.
  """

  METHOD = "whitening"
  CROSS = True
  TAKES_K = True

  def affine(self):
    """The mean, and W."""
    matrix = self._solved()["kernel"]
    return self._moments.mean, matrix

  @property
  def output_dim(self):
    """Dimensions of what `transform` gives: k, or the rank of the covariance."""
    return self._solved()["kernel"].shape[1]

  def _solve(self, moments):
    covariance = moments.scatter / (moments.count - 1)
    values, vectors = spectrum.directions(covariance, moments.mean_square)
    rank = len(values)
    check_varying(self.name, moments, values)
    found = f"the covariance of {moments.count} sentences in {moments.dim} dimensions has rank {rank}"
    if self.k is not None and self.k > rank:
      raise CalibrationError(f"{self.name}: {found}; expected k of at most that, or more sentences of other kinds")
    if rank < moments.dim:
      few = f"; with {moments.dim} sentences or fewer all of them become equally unlike" * (
        moments.count <= moments.dim
      )
      dropped = f"the {moments.dim - rank} directions without variance are dropped"
      logging.warning("%s: %s; %s%s", self.name, found, dropped, few)
    return {"kernel": (vectors / np.sqrt(values))[:, : self.k]}

  def _shapes(self, dim):
    return {"kernel": (dim, range(1, dim + 1) if self.k is None else self.k)}

  def _apply(self, arrays, rows):
    return (rows - self._moments.mean) @ arrays["kernel"]


def check_varying(name, moments, varying):
  """Refuses rows that are all alike.

  Args:
    name: of the calibration.
    moments: of the rows.
    varying: array, all 0 where nothing varies.

  Raises:
    CalibrationError: nothing varies.
  """
  if not np.any(varying):
    raise CalibrationError(
      f"{name} is fitted on embeddings that differ, found {moments.count} rows that are alike to float32's rounding"
    )


def checked_scale(name, moments):
  """1 / std of each dimension, float64 [dim], 0 for those without variance, which are logged.

  Raises:
    CalibrationError: no dimension varies.
  """
  scale = spectrum.inverse_deviations(moments)
  check_varying(name, moments, scale)
  constant = np.flatnonzero(scale == 0)
  if constant.size:
    shown = ", ".join(map(str, constant[:10])) + ", ..." * (constant.size > 10)
    logging.warning(
      "%s: %d of %d dimensions have no variance and become 0: %s", name, constant.size, moments.dim, shown
    )
  return scale
