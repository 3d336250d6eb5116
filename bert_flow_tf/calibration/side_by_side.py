"""Calibrations side by side, as one calibration."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_flow_tf.calibration import storage
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.evaluation.similarity import normalized


class SideBySide(Calibration):
  """z = [z_1 / |z_1|, z_2 / |z_2|, ...] of parts that were fitted on the same embeddings.

  The cosine of two z is the mean of the parts' cosines.

  Args:
    parts: fitted calibrations of embeddings of the same dimensions.
  """

  def __init__(self, parts: Sequence[Calibration]) -> None:
    self.parts: Any = tuple(parts)

  @property
  def name(self) -> str:
    """Names of the parts: "flow+soft-whitening"."""
    return "+".join(part.name for part in self.parts)

  @property
  def dim(self) -> int:
    """Dimensions of the embeddings."""
    return self.parts[0].dim

  @property
  def output_dim(self) -> int:
    """Dimensions of calibrated embeddings: the sum of the parts'."""
    return sum(part.output_dim for part in self.parts)

  @property
  def encoder(self):
    """Identity of the embeddings, JSON values or None; kept in the parts."""
    return self.parts[0].encoder

  @encoder.setter
  def encoder(self, identity):
    for part in self.parts:
      part.encoder = identity

  def fit(self, embeddings: np.ndarray) -> "SideBySide":
    """Raises an error: the parts are fitted first.

    Raises:
      CalibrationError: always.
    """
    raise CalibrationError(f"{self.name}: cannot be fitted further; fit a new one with fit_calibration")

  def transform(self, embeddings: np.ndarray) -> np.ndarray:
    """u [n, dim] -> z [n, output_dim], float32; a part of zeros stays."""
    return np.concatenate([normalized(part.transform(embeddings)) for part in self.parts], axis=1)

  def save(self, folder: str | os.PathLike) -> None:
    """Writes the folder (`calibration.json`, `arrays.npz`) in one step; replaces an older calibration."""
    storage.write(folder, *self.contents())

  def contents(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the settings, JSON values, and arrays that `save` writes; the names of a part's arrays begin with N/."""
    settings, arrays = zip(*(part.contents() for part in self.parts), strict=True)
    parts = [{name: value for name, value in of.items() if name != "encoder"} for of in settings]
    encoder = {"encoder": self.encoder} if self.encoder else {}
    named = {f"{number}/{name}": array for number, of in enumerate(arrays) for name, array in of.items()}
    return {"parts": parts, **encoder}, named

  @classmethod
  def load(cls, folder: str | os.PathLike) -> "SideBySide":
    """Raises an error: `load_calibration` loads parts of any kind.

    Raises:
      CalibrationError: always.
    """
    raise CalibrationError(f"calibration folder {folder}: load it with load_calibration")


def side_by_side(parts: Sequence[Calibration]) -> Calibration:
  """Returns the calibrations as one; a single one as it is."""
  return parts[0] if len(parts) == 1 else SideBySide(parts)
