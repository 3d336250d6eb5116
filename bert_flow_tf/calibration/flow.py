"""The flow as a calibration; loading and checksum of any calibration."""

import hashlib
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.calibration.characters import CHARACTERS
from bert_flow_tf.calibration.combined import SIDE_BY_SIDE, Scale, side_by_side
from bert_flow_tf.calibration.interface import KIND, Calibration, check_no_views
from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.calibration.names import FLOW
from bert_flow_tf.errors import CalibrationError, ConfigError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io import archive
from bert_flow_tf.io.checks import check_rows
from bert_flow_tf.io.forks import check_not_forked

# Rows that go through the flow at once: bounds memory, and costs nothing above some hundred.
_ROWS_AT_ONCE = 8192
# Names of the scale's arrays next to the flow's arrays, the same as in release 0.1.0.
_MEAN, _RMS = "mix/mean", "mix/rms"


class FlowCalibration(Calibration):
  """u -> z = f(u), or f(x) for scaled embeddings x; `training.fitter.fit_flow` fits it."""

  name = FLOW

  def __init__(self, flow: Glow, scale: Scale | None = None) -> None:
    self.flow, self.scale = flow, scale
    self.dim = self.output_dim = flow.dim

  def transform(self, embeddings: np.ndarray) -> np.ndarray:
    """Returns the latents of embeddings [n, dim], float32 [n, output_dim]."""
    rows = check_rows(embeddings, self.dim)
    check_not_forked(CalibrationError)
    if self.flow.needs_initialization:
      raise CalibrationError("flow is not fitted: fit one with fit_calibration or SentenceModel.fit")
    # In parts, which bounds the memory of the flow's hidden layers.
    latents = np.empty([len(rows), self.output_dim], np.float32)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
      part = slice(start, start + _ROWS_AT_ONCE)
      latents[part] = self.flow.transform(self.scaled(rows[part])).numpy()
    bad = np.flatnonzero(~np.isfinite(latents).all(axis=1))
    if bad.size:
      raise CalibrationError(f"flow: the latent of row {bad[0]} (counted from 0) is not finite")
    return latents

  def scaled(self, embeddings: np.ndarray) -> np.ndarray:
    """Returns the flow's input: u [n, dim] itself, or scaled."""
    if self.scale is None:
      return embeddings
    return self.scale(np.asarray(embeddings, np.float64)).astype(np.float32)

  def bits_per_dim(self, embeddings: np.ndarray) -> tf.Tensor:
    """Returns the flow's loss for u [n, dim]: [n] in bits per dimension."""
    return self.flow.bits_per_dim(self.scaled(embeddings))

  def contents(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the settings and arrays of `Glow.contents`, and the scale."""
    settings, arrays = self.flow.contents()
    if self.scale is None:
      return settings, arrays
    return {**settings, "shares": [1.0]}, {**arrays, _MEAN: self.scale.mean, _RMS: np.array([self.scale.rms])}

  @classmethod
  def restore(cls, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> "FlowCalibration":
    """Returns the calibration of `contents`."""
    # Without the scale, the rest describes the flow.
    flow_settings, weights = dict(settings), dict(arrays)
    scale = None
    if flow_settings.pop("shares", None) is not None:
      check_no_views(settings)
      scale = Scale(weights.pop(_MEAN), float(weights.pop(_RMS).item()))
    flow = Glow.restore(flow_settings, weights)
    if scale and scale.mean.shape != (flow.dim,):
      raise CalibrationError(f"the shape of {_MEAN} does not fit the flow")
    return cls(flow, scale)


def as_calibration(calibration: Calibration | Glow) -> Calibration:
  """Returns a calibration as it is, a flow as `FlowCalibration`."""
  if isinstance(calibration, Glow):
    return FlowCalibration(calibration)
  if not isinstance(calibration, Calibration):
    kind = type(calibration).__name__
    raise ConfigError(f"calibration={kind}: expected a Calibration, a Glow or None", argument="calibration")
  return calibration


def load_calibration(folder: str | os.PathLike) -> Any:
  """Loads the flow or other `Calibration` that was saved in a folder.

  Raises:
    CalibrationError: the file is missing or damaged.
    ConfigError: the folder has no calibration, but folders of calibrations; or its model has characters.
  """
  calibration, characters, _ = read_calibration(folder)
  if characters is not None:
    reason = "takes characters of sentences, which vectors do not have"
    raise ConfigError(f"{folder}: {reason}; use it with its encoder, as SentenceModel.load does")
  return calibration


def read_calibration(folder: str | os.PathLike) -> tuple[Any, Any, Any]:
  """Returns the `Calibration`, the settings of `Characters` and the encoder's identity; None for what is absent."""
  if not archive.is_in(folder, KIND):
    inside = [str(pathlib.Path(folder, name)) for name in saved_calibrations(folder)]
    if inside:
      raise ConfigError(f"folder={folder}: contains {', '.join(inside)}; name one of these folders", argument="folder")
    parent = pathlib.Path(folder).parent
    beside = [str(parent / name) for name in saved_calibrations(parent)]
    if beside and not pathlib.Path(folder).exists():
      raise CalibrationError(f"{folder}: no such folder; expected one of {', '.join(beside[:5])}")
  with archive.opened(folder, KIND, CalibrationError) as (settings, arrays):
    encoder = settings.pop("encoder")
    if not isinstance(encoder, dict | None):
      raise CalibrationError(f"encoder is {encoder!r}, expected an object")
    # Characters are the last part, or alone.
    parts = settings["parts"] if settings["method"] == SIDE_BY_SIDE else [settings]
    characters = calibration = None
    if parts[-1]["method"] == CHARACTERS:
      characters = parts.pop()
    if parts:
      calibration = _restored(settings, arrays)
      calibration.encoder = encoder
    return calibration, characters, encoder


def _restored(settings: dict[str, Any], arrays: dict[str, np.ndarray]) -> Calibration:
  """Returns the calibration of `contents`, of any class."""
  if settings["method"] == FLOW:
    return FlowCalibration.restore(settings, arrays)
  if settings["method"] != SIDE_BY_SIDE:
    return LinearCalibration.restore(settings, arrays)
  parts: list[Any] = []
  # The names of a part's arrays begin with its number.
  for number, settings_of_part in enumerate(settings["parts"]):
    prefix = f"{number}/"
    arrays_of_part = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    parts.append(_restored(settings_of_part, arrays_of_part))
  if len({part.dim for part in parts}) != 1:
    raise CalibrationError("expected parts of the same dimensions")
  return side_by_side(parts)


def saved_calibrations(folder: str | os.PathLike) -> list[str]:
  """Returns the sorted names of the folders of calibrations in a folder, which may not exist."""
  return sorted(path.parent.name for path in pathlib.Path(folder).glob(f"*/{KIND}.npz"))


def calibration_sha256(folder: str | os.PathLike) -> str:
  """Returns the hexadecimal SHA-256 of a saved calibration's numbers and settings, without its encoder's identity."""
  with archive.opened(folder, KIND, CalibrationError) as (settings, arrays):
    # Settings first, then every array with its name, type and shape, in the order of the names.
    total = hashlib.sha256(json.dumps({**settings, "encoder": None}, sort_keys=True).encode())
    for name in sorted(arrays):
      array = np.ascontiguousarray(arrays[name])
      total.update(f"{name} {array.dtype.str} {array.shape}".encode())
      total.update(array.tobytes())
    return total.hexdigest()
