"""Mixes of views of a sentence, and calibrations side by side; no TensorFlow here."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_flow_tf.calibration.interface import Calibration, Contents
from bert_flow_tf.calibration.moments import FLOAT32_EPSILON, Moments
from bert_flow_tf.errors import CalibrationError, ConfigError
from bert_flow_tf.evaluation.metrics import normalized
from bert_flow_tf.io.checks import check_rows

SIDE_BY_SIDE = "side by side"  # the method in the settings of several calibrations


@dataclasses.dataclass(frozen=True, eq=False)
class Mix:
  """x = sum_i share_i (u_i - mean_i) / rms_i  of the v views u_i [n, dim / v] that u [n, dim] concatenates.

  rms_i = sqrt(mean |u_i - mean_i|^2) on the rows of the fit, so the shares alone decide how much each view weighs. A
  view that does not vary contributes 0.
  """

  shares: tuple[float, ...]  # v positive numbers with sum 1
  mean: np.ndarray  # float64 [dim], of u
  rms: np.ndarray  # float64 [v], 0 for a view that does not vary

  @classmethod
  def of(cls, moments: Moments, shares: Sequence[float]) -> "Mix":
    """Returns the mix for the moments of u, whole or diagonal."""
    shares = parse_shares(shares)
    view_dim(moments.dim, shares)
    square = moments.variance.reshape(len(shares), -1).sum(axis=1)
    rounding = moments.mean_square.reshape(len(shares), -1).sum(axis=1)
    # A view varies if it does so by more than the rounding errors of float32.
    varying = square > FLOAT32_EPSILON**2 * rounding
    return cls(shares, moments.mean, np.sqrt(np.where(varying, square, 0.0)))

  @property
  def dim(self) -> int:
    """Dimensions of u."""
    return len(self.mean)

  @property
  def output_dim(self) -> int:
    """Dimensions of x."""
    return self.dim // len(self.shares)

  @property
  def scale(self) -> np.ndarray:
    """share_i / rms_i, float64 [v]; 0 for a view that does not vary."""
    return np.divide(self.shares, self.rms, out=np.zeros(len(self.shares)), where=self.rms > 0)

  def __call__(self, embeddings: Any) -> Any:
    """u float64 [n, dim] -> x float64 [n, dim / v]; arrays, or tensors of TensorFlow."""
    d = self.output_dim
    mixed: Any = 0
    for index, scale in enumerate(self.scale):
      view = slice(index * d, (index + 1) * d)
      mixed = mixed + (embeddings[:, view] - self.mean[view]) * float(scale)
    return mixed

  def moments(self, moments: Moments) -> Moments:
    """Returns the moments of x, whose mean is 0, for the moments of u with the whole scatter."""
    # cov(x) = sum_ij scale_i scale_j cov(u_i, u_j)
    v, d, scale = len(self.shares), self.output_dim, self.scale
    scatter = np.einsum("i,iajb,j->ab", scale, moments.scatter.reshape(v, d, v, d), scale)
    rounding = scale**2 @ moments.mean_square.reshape(v, d)
    return Moments(moments.count, np.zeros(d), scatter, rounding)

  def affine(self, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns shift [dim] and matrix [dim, k] of u that give z = x matrix, [dim / v, k]."""
    return self.mean, np.concatenate([scale * matrix for scale in self.scale])


def parse_shares(shares: Sequence[float]) -> tuple[float, ...]:
  """Parses the shares of views, positive numbers with sum 1; () for embeddings without views."""
  try:
    checked = tuple(map(float, shares))
  except (TypeError, ValueError):
    checked = (math.nan,)
  # NaN compares as False.
  if checked and not (min(checked) > 0 and math.isclose(sum(checked), 1, abs_tol=1e-6)):
    raise ConfigError(f"shares={_shown(shares)}: expected a positive number per view, with sum 1", "shares")
  return checked


def view_dim(dim: int, shares: Sequence[float]) -> int:
  """Returns the dimensions of a view of embeddings of `dim` dimensions; `dim` itself without shares."""
  v = len(shares) or 1
  if dim % v:
    views = f"embeddings of {dim} dimensions are not {v} views of equal size"
    raise CalibrationError(f"shares={_shown(shares)}: {views}", "shares")
  return dim // v


def _shown(shares):
  """Returns shares as a user writes them: 0.6,0.4."""
  if isinstance(shares, list | tuple):
    return ",".join(map(str, shares))
  return shares


class SideBySide(Calibration):
  """z = [z_1 / |z_1|, z_2 / |z_2|, ...] of parts that were fitted on the same embeddings.

  The cosine of two z is the mean of the parts' cosines.
  """

  def __init__(self, parts: Sequence[Calibration]) -> None:
    self.parts: Any = tuple(parts)
    self.dim = self.parts[0].dim
    self.output_dim = sum(part.output_dim for part in self.parts)

  @property
  def name(self) -> str:
    """Names of the parts: "flow+soft-whitening"."""
    return "+".join(part.name for part in self.parts)

  def transform(self, embeddings: np.ndarray) -> np.ndarray:
    """u [n, dim] -> z [n, output_dim], float32; a part of zeros stays."""
    rows = check_rows(embeddings, self.dim)
    return np.concatenate([normalized(part.transform(rows)) for part in self.parts], axis=1)

  def contents(self) -> Contents:
    """Returns the settings and arrays of the parts."""
    return joined_contents([part.contents() for part in self.parts])


def joined_contents(parts: Sequence[Contents]) -> Contents:
  """Returns the settings and arrays of all parts together; the names of a part's arrays begin with its number."""
  settings, arrays = [], {}
  for number, (settings_of_part, arrays_of_part) in enumerate(parts):
    settings.append(settings_of_part)
    for name, array in arrays_of_part.items():
      arrays[f"{number}/{name}"] = array
  return {"method": SIDE_BY_SIDE, "parts": settings}, arrays


def side_by_side(parts: Sequence[Calibration]) -> Calibration:
  """Returns the calibrations as a `SideBySide`; a single calibration as it is."""
  if len(parts) == 1:
    return parts[0]
  return SideBySide(parts)
