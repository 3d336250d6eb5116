"""The flow as a calibration; loading and checksum of any calibration."""

import hashlib
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.calibration import names, storage
from bert_flow_tf.calibration.combined import Mix, SideBySide, checked_shares
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.errors import CalibrationError, ConfigError, FlowError
from bert_flow_tf.flow import storage as flow_storage
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.flow.storage import FLOW_FOLDER
from bert_flow_tf.io.checks import check_rows, is_integer

# Rows that go through the flow at once: bounds memory, and costs nothing above some hundred.
_ROWS_AT_ONCE = 8192
# Names of the mix's arrays in a flow's folder.
_MIX_MEAN, _MIX_RMS = "mix/mean", "mix/rms"


class FlowCalibration(Calibration):
  """u -> z = f(u), or f(x) for the mix x of concatenated views u; `training.calibrate.FlowFitter` fits one.

  Args:
    flow: the flow.
    mix: the fitted mix before it; None if embeddings are not concatenated views.
  """

  def __init__(self, flow: Glow, mix: Mix | None = None) -> None:
    self.flow, self.mix = flow, mix

  @property
  def name(self) -> str:
    """Name of the calibration: "flow"."""
    return names.FLOW

  @property
  def dim(self) -> int:
    """Dimensions of the embeddings, all views together."""
    return self.mix.dim if self.mix else self.flow.dim

  @property
  def output_dim(self) -> int:
    """Dimensions of the latents."""
    return self.flow.dim

  @property
  def encoder(self):
    """Identity of the embeddings, JSON values or None; kept in the flow."""
    return self.flow.encoder

  @encoder.setter
  def encoder(self, identity):
    self.flow.encoder = identity

  def fit(self, embeddings: np.ndarray) -> "FlowCalibration":
    """Raises an error: a flow is fitted by `fit_calibration`, or by a `FlowFitter`.

    Raises:
      CalibrationError: always.
    """
    raise CalibrationError("flow: cannot be fitted further; fit a new one with fit_calibration(vectors, 'flow')")

  def transform(self, embeddings: np.ndarray) -> np.ndarray:
    """Returns the latents of embeddings [n, dim], float32 [n, dim].

    Raises:
      CalibrationError: not fitted, not [n, dim] finite numbers, or a latent is not finite.
    """
    rows = check_rows(embeddings, self.dim)
    if self.flow.needs_initialization:
      raise CalibrationError("flow is not fitted: call fit with embeddings, or load")
    starts = range(0, max(len(rows), 1), _ROWS_AT_ONCE)
    parts = [self.flow.transform(self.mixed(rows[start : start + _ROWS_AT_ONCE])).numpy() for start in starts]
    latents = np.concatenate(parts).astype(np.float32, copy=False)
    bad = np.flatnonzero(~np.isfinite(latents).all(axis=1))
    if bad.size:
      raise CalibrationError(f"flow: the latent of row {bad[0]} (counted from 0) is not finite")
    return latents

  def mixed(self, embeddings: np.ndarray) -> np.ndarray:
    """Returns what the flow takes: the mix of the views u [n, dim], float32 [n, output_dim]; or u itself."""
    return embeddings if self.mix is None else self.mix(np.asarray(embeddings, np.float64)).astype(np.float32)

  def bits_per_dim(self, embeddings: np.ndarray) -> tf.Tensor:
    """Returns the flow's loss for u [n, dim], [n] in bits per dimension; with views, that of their mix."""
    return self.flow.bits_per_dim(self.mixed(embeddings))

  def save(self, folder: str | os.PathLike) -> None:
    """Writes the flow's folder, and the mix in it; see `Glow.save`."""
    FLOW_FOLDER.write(folder, *self.contents())

  def contents(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the settings, JSON values, and arrays that `save` writes."""
    settings, arrays = flow_storage.contents(self.flow)
    if self.mix is not None:
      settings |= {"shares": list(self.mix.shares)}
      arrays |= {_MIX_MEAN: self.mix.mean, _MIX_RMS: self.mix.rms}
    return settings, arrays

  @classmethod
  def load(cls, folder: str | os.PathLike) -> "FlowCalibration":
    """Loads the flow that `save` or `Glow.save` wrote."""
    return cls.restore(folder, *FLOW_FOLDER.read(folder))

  @classmethod
  def restore(
    cls, folder: str | os.PathLike, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
  ) -> "FlowCalibration":
    """Returns the calibration of the settings and arrays that were read in `folder`."""
    settings, arrays = dict(settings), dict(arrays)
    shares, mix = settings.pop("shares", ()), None
    if shares:
      parts = {name: arrays.pop(name) for name in (_MIX_MEAN, _MIX_RMS) if name in arrays}
      where, dim = f"flow folder {folder}", settings.get("dim")
      try:
        shares = checked_shares(shares)
      except ConfigError as error:
        raise FlowError(f"{where}: {error}") from error
      v = len(shares)
      storage.check_arrays(where, parts, {_MIX_MEAN: (v * dim if is_integer(dim) else dim,), _MIX_RMS: (v,)})
      mix = Mix(shares, parts[_MIX_MEAN], parts[_MIX_RMS])
    return cls(flow_storage.restore(Glow, folder, settings, arrays), mix)


def as_calibration(calibration: Calibration | Glow) -> Calibration:
  """Returns a calibration as it is, a flow as `FlowCalibration`.

  Raises:
    ConfigError: neither of them.
  """
  if isinstance(calibration, Glow):
    return FlowCalibration(calibration)
  if not isinstance(calibration, Calibration):
    kind = type(calibration).__name__
    raise ConfigError(f"calibration={kind}: expected a Calibration, a Glow or None", argument="calibration")
  return calibration


def load_calibration(folder: str | os.PathLike) -> Calibration:
  """Loads the flow or other calibration that was saved in a folder.

  Raises:
    FlowError, CalibrationError: the folder is missing, incomplete or damaged.
    ConfigError: the folder is none of a calibration, but contains some.
  """
  if not storage.FORMAT.is_in(folder):
    inside = [str(pathlib.Path(folder, name)) for name in saved_calibrations(folder)]
    if inside:
      raise ConfigError(f"folder={folder}: contains {', '.join(inside)}; expected one of these", argument="folder")
  return _restore(folder, *storage.FORMAT.read(folder))


def _restore(folder, settings, arrays):
  """Returns the calibration of settings and arrays that were read in `folder`, of any kind."""
  parts = settings.get("parts")
  if isinstance(parts, list) and len(parts) > 1 and all(isinstance(part, dict) for part in parts):
    of = [{k.partition("/")[2]: v for k, v in arrays.items() if k.startswith(f"{n}/")} for n in range(len(parts))]
    calibration = SideBySide([_restore(folder, part, own) for part, own in zip(parts, of, strict=True)])
    calibration.encoder = settings.get("encoder")
    return calibration
  if "config" in settings:
    return FlowCalibration.restore(folder, settings, arrays)
  return names.restore_linear_calibration(folder, settings, arrays)


def saved_calibrations(folder: str | os.PathLike) -> list[str]:
  """Returns the sorted names of the folders of calibrations in a folder, which may not exist."""
  path = pathlib.Path(folder)
  items = sorted(path.iterdir()) if path.is_dir() else []
  return [item.name for item in items if storage.FORMAT.is_in(item)]


def calibration_sha256(folder: str | os.PathLike) -> str:
  """Returns the hexadecimal SHA-256 of a saved calibration's numbers and settings, without its encoder's identity.

  Raises:
    FlowError, CalibrationError: the folder is missing, incomplete or damaged.
  """
  settings, arrays = storage.FORMAT.read(folder)
  total = hashlib.sha256(json.dumps({**settings, "encoder": None}, sort_keys=True).encode())
  for name in sorted(arrays):
    array = np.ascontiguousarray(arrays[name])
    total.update(f"{name} {array.dtype.str} {array.shape}".encode())
    total.update(array.tobytes())
  return total.hexdigest()
