"""Calibrations side by side, and the scale of a flow's input."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from bert_flow_tf.calibration.moments import Moments
from bert_flow_tf.calibration.step import Calibration, Contents, Features, Step, check_features, unit_rows
from bert_flow_tf.encoder.array_functions import functions_for
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.io.files import Json

if TYPE_CHECKING:
  import tensorflow as tf

  from bert_flow_tf.calibration.step import Array

SIDE_BY_SIDE = "side by side"  # the method in the settings of several calibrations


@dataclasses.dataclass(frozen=True, eq=False)
class Scale:
  """x = (u - mean) / rms, rms = sqrt(mean |u - mean|^2) on the rows of the fit: for embeddings too small for Adam."""

  mean: np.ndarray  # float64 [dim]
  rms: float

  @classmethod
  def of(cls, moments: Moments) -> Scale:
    """Returns the scale for the moments of u, whole or diagonal."""
    return cls(moments.mean, float(np.sqrt(moments.variance.sum())))

  def __call__(self, embeddings: tf.Tensor, lite: bool = False) -> tf.Tensor:
    """u [n, dim] -> x float32 [n, dim]; for `lite` see `Features`."""
    import tensorflow as tf

    exact = tf.cast(embeddings, tf.float32 if lite else tf.float64)
    return tf.cast((exact - self.mean) / self.rms, tf.float32)


class SideBySide(Calibration, methods=(SIDE_BY_SIDE,)):
  """z = [z_1 / |z_1|, z_2 / |z_2|, ...] of parts that were fitted on the same embeddings; a part of zeros stays.

  The cosine of two z is the mean of the parts' cosines.
  """

  def __init__(self, parts: Sequence[Calibration]) -> None:
    self.parts = tuple(parts)

  @property
  def name(self) -> str:
    """Names of the parts: "flow+soft-whitening"."""
    return "+".join(part.name for part in self.parts)

  @property
  def dim(self) -> int:
    """See the base class."""
    return self.parts[0].dim

  @property
  def output_dim(self) -> int:
    """See the base class."""
    return sum(part.output_dim for part in self.parts)

  @property
  def variables(self) -> Sequence[tf.Variable]:
    """See the base class."""
    return [variable for part in self.parts for variable in part.variables]

  def check_fitted(self) -> None:
    """See the base class."""
    for part in self.parts:
      part.check_fitted()

  def __call__(self, features: Features) -> Array:
    """u [n, dim] -> z float32 [n, output_dim]."""
    check_features(features)
    parts = [unit_rows(part(features)) for part in self.parts]
    return functions_for(*parts).concat(parts, axis=1)

  def contents(self) -> Contents:
    """Returns the settings and arrays of the parts."""
    return joined_contents(SIDE_BY_SIDE, [part.contents() for part in self.parts])

  @classmethod
  def restore(cls, settings: Json, arrays: Mapping[str, np.ndarray]) -> SideBySide:
    """Returns the calibration of `contents`."""
    parts = cast("list[Calibration]", [Step.of_contents(*contents) for contents in split_contents(settings, arrays)])
    if len({part.dim for part in parts}) != 1:
      raise CalibrationError("expected parts of the same dimensions")
    return cls(parts)


def joined_contents(method: str, parts: Sequence[Contents]) -> Contents:
  """Returns the settings and arrays of all parts together; the names of a part's arrays begin with its number."""
  settings, arrays = [], {}
  for number, (settings_of_part, arrays_of_part) in enumerate(parts):
    settings.append(settings_of_part)
    for name, array in arrays_of_part.items():
      arrays[f"{number}/{name}"] = array
  return {"method": method, "parts": settings}, arrays


def split_contents(settings: Json, arrays: Mapping[str, np.ndarray]) -> list[Contents]:
  """Returns the settings and arrays of the parts of `joined_contents`."""
  parts = []
  for number, settings_of_part in enumerate(settings["parts"]):
    prefix = f"{number}/"
    arrays_of_part = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    parts.append((settings_of_part, arrays_of_part))
  return parts


def side_by_side(parts: Sequence[Calibration]) -> Calibration:
  """Returns the calibrations as a `SideBySide`; a single calibration as it is."""
  if len(parts) == 1:
    return parts[0]
  return SideBySide(parts)
