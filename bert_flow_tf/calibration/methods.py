"""None, mean removal, SN, whitening and soft whitening; NATSV is in `natsv.py`."""

import numpy as np
from absl import logging

from bert_flow_tf.calibration import spectrum
from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.calibration.moments import Moments
from bert_flow_tf.errors import CalibrationError, ConfigError
from bert_flow_tf.progress import counted


class NoCalibration(LinearCalibration):
  """z = u; fitted like the others, so that comparisons can include it."""

  METHOD = "none"

  def _affine(self, arrays):
    return np.zeros(self._width), np.eye(self._width)

  def _solve(self, moments):
    return {}

  def _shapes(self, width):
    return {}

  def _apply(self, arrays, rows):
    return rows


class MeanRemoval(LinearCalibration):
  """z = u - mean."""

  METHOD = "mean"

  def _affine(self, arrays):
    return self._mean, np.eye(self._width)

  def _solve(self, moments):
    check_varying(self.name, moments, spectrum.inverse_deviations(moments))
    return {}

  def _shapes(self, width):
    return {}

  def _apply(self, arrays, rows):
    return rows - self._mean


class StandardNormalization(LinearCalibration):
  """z = (u - mean) / std of each dimension: SN of the paper's table 5.

  std divides by n, which does not change cosines. A dimension without variance becomes 0, as its scale is unknown.
  """

  METHOD = "sn"

  def _affine(self, arrays):
    return self._mean, np.diag(arrays["scale"])

  def _solve(self, moments):
    return {"scale": checked_scale(self.name, moments)}

  def _shapes(self, width):
    return {"scale": (width,)}

  def _apply(self, arrays, rows):
    return (rows - self._mean) * arrays["scale"]


class Whitening(LinearCalibration):
  """z = (u - mean) W,  W = V diag(1 / sqrt(lambda)), its first k columns.

  V and lambda are the eigenvectors and descending eigenvalues of the covariance (divided by n - 1), so that the rows of
  the fit get covariance I. Su et al. 2021, "Whitening Sentence Representations for Better Semantics and Faster
  Retrieval", algorithm 1.

  Directions without variance, as with n <= dim, are dropped: the number of dimensions of z is the covariance's rank.

  Args:
    k: dimensions of z; None for all with variance.
  """

  METHOD = "whitening"
  CROSS = True
  TAKES_K = True

  def _affine(self, arrays):
    return self._mean, arrays["kernel"]

  @property
  def output_dim(self) -> int:
    """Dimensions of calibrated embeddings: k, or the rank of the covariance."""
    return self._solved()["kernel"].shape[1]

  def _solve(self, moments):
    covariance = moments.scatter / (moments.count - 1)
    values, vectors = spectrum.directions(covariance, moments.mean_square)
    rank = len(values)
    check_varying(self.name, moments, values)
    description = f"the covariance of {counted(moments.count, 'sentence')} in {moments.dim} dimensions has rank {rank}"
    if self._kept(rank) > rank:
      raise CalibrationError(f"k={self.k}: {description}; expected at most that, or more and other sentences", "k")
    if rank < moments.dim:
      dropped = f"dropped: {counted(moments.dim - rank, 'direction')} without variance"
      if self.name == Whitening.METHOD and rank == moments.count - 1:
        dropped += "; with so few sentences, all become equally different"
      logging.warning("%s: %s; %s", self.name, description, dropped)
    return {"kernel": self._scaled(values, vectors)}

  def _kept(self, rank):
    """Returns the number of dimensions of z."""
    return self.k or rank

  def _scaled(self, values, vectors):
    return (vectors / np.sqrt(values))[:, : self.k]

  def _shapes(self, width):
    return {"kernel": (width, range(1, width + 1) if self.k is None else self.k)}

  def _apply(self, arrays, rows):
    return (rows - self._mean) @ arrays["kernel"]


class SoftWhitening(Whitening):
  """z = (u - mean) V diag(s), which evens the variances of the directions V out, but not wholly.

      soft-whitening:    s = 1 / sqrt(lambda + mean(lambda) / 2)
      soft-whitening-K:  s = 1 / lambda^K,  0 < K < 1

  lambda and V are as in `Whitening`, whose K would be 0.5. Whitening makes directions of little variance, which are
  mostly noise, as important as the others. The first form whitens with a covariance that is shrunk toward a multiple of
  the identity (as in Ledoit and Wolf 2004, "A well-conditioned estimator for large-dimensional covariance matrices",
  with a fixed weight): large directions become even, small ones stay small. With token-weighted embeddings of two
  encoders, its constant, 1/2, is within 0.2 of the best one on STS-B's dev split.

  Args:
    k: the exponent K; None for the first form.
  """

  METHOD = "soft-whitening"
  _SHRINKAGE = 0.5

  def _checked_k(self, k):
    if isinstance(k, bool) or not isinstance(k, float | int) or not 0.0 < k < 1.0:
      raise ConfigError(f"k={k!r}: calibration {self.METHOD} expects an exponent between 0 and 1", argument="k")
    return float(k)

  def _kept(self, rank):
    return rank

  def _scaled(self, values, vectors):
    if self.k is not None:
      return vectors / values**self.k
    return vectors / np.sqrt(values + self._SHRINKAGE * np.mean(values))

  def _shapes(self, width):
    return {"kernel": (width, range(1, width + 1))}


def check_varying(name: str, moments: Moments, varying: np.ndarray) -> None:
  """Checks that the rows of some moments differ: that an array which is 0 for each constant dimension is not all 0.

  Raises:
    CalibrationError: all rows are equal.
  """
  if not np.any(varying):
    raise CalibrationError(
      f"embeddings: {name} needs rows that differ, got {moments.count} that are equal up to float32 rounding",
      argument="embeddings",
    )


def checked_scale(name: str, moments: Moments) -> np.ndarray:
  """Returns 1 / std of each dimension, float64 [dim]; 0 for dimensions without variance, which are logged.

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
