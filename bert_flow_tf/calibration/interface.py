"""Interface of all calibrations."""

import abc
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_flow_tf.io import archive

KIND = "calibration"  # of the archive in a calibration's folder
Contents = tuple[dict[str, Any], dict[str, np.ndarray]]  # JSON settings and arrays of a saved calibration


class Calibration(abc.ABC):
  """Map of embeddings u [n, dim] to calibrated embeddings z [n, output_dim], fitted without labels.

      calibration = make_calibration("whitening").fit(embeddings)
      similarities = cosine_similarity(calibration.transform(a), calibration.transform(b))

  Rows are occurrences: a sentence in three pairs counts three times, as in the paper's "target" setting. The rows of n
  pairs are all first sentences, then all second ones, [2 n, dim]; only the flow uses the order.

  The flow's class is `bert_flow_tf.calibration.flow.FlowCalibration`.

  Attributes:
    encoder: identity of the encoder, or None if unknown; saved and loaded with the rest.
  """

  encoder: dict[str, Any] | None = None

  @property
  @abc.abstractmethod
  def name(self) -> str:
    """Name as `parse_calibration` reads it: "sn+natsv-6"."""

  def __repr__(self) -> str:
    return f"<{type(self).__name__} {self.name!r}>"

  @abc.abstractmethod
  def transform(self, embeddings: np.ndarray) -> np.ndarray:
    """u [n, dim] -> z [n, output_dim], float32."""

  @abc.abstractmethod
  def contents(self) -> Contents:
    """Returns JSON settings, of which `method` names the class, and arrays: all that `load_calibration` needs."""

  def save(self, folder: str | os.PathLike) -> pathlib.Path:
    """Writes FOLDER/calibration.npz, which `load_calibration` reads; replaces an older one. Returns its path."""
    settings, arrays = self.contents()
    return archive.write(folder, KIND, {**settings, "encoder": self.encoder}, arrays)


def check_no_views(settings: Mapping[str, Any]) -> None:
  """Raises an OtherReleaseError for a calibration of concatenated embeddings, which only release 0.1.0 had."""
  if len(settings.get("shares") or ()) > 1:
    raise archive.OtherReleaseError("fitted by release 0.1.0 on its mix, which is another embedding now; fit it again")
