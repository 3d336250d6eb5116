"""Calibrations side by side, and the scale of a flow's input; no TensorFlow here."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_flow_tf.calibration.interface import Calibration, Contents
from bert_flow_tf.calibration.moments import Moments
from bert_flow_tf.evaluation.metrics import normalized
from bert_flow_tf.io.checks import check_rows

SIDE_BY_SIDE = "side by side"  # the method in the settings of several calibrations


@dataclasses.dataclass(frozen=True, eq=False)
class Scale:
  """x = (u - mean) / rms, rms = sqrt(mean |u - mean|^2) on the rows of the fit: for embeddings too small for Adam."""

  mean: np.ndarray  # float64 [dim]
  rms: float

  @classmethod
  def of(cls, moments: Moments) -> "Scale":
    """Returns the scale for the moments of u, whole or diagonal."""
    return cls(moments.mean, float(np.sqrt(moments.variance.sum())))

  def __call__(self, embeddings: Any) -> Any:
    """u float64 [n, dim] -> x float64 [n, dim]; arrays, or tensors of TensorFlow."""
    return (embeddings - self.mean) / self.rms


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
