"""Files of calibrations and of the steps of models: FOLDER/calibration.npz."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert_flow_tf.calibration.characters import CHARACTERS
from bert_flow_tf.calibration.combined import SIDE_BY_SIDE, joined_contents, split_contents
from bert_flow_tf.calibration.linear import METHODS
from bert_flow_tf.calibration.step import KIND, Calibration, Contents, Step, display_name
from bert_flow_tf.encoder.identity import RECIPE
from bert_flow_tf.errors import CalibrationError, ConfigError
from bert_flow_tf.flow.config import INITIALIZED
from bert_flow_tf.io import archive
from bert_flow_tf.io.files import Json

if TYPE_CHECKING:
  from bert_flow_tf.calibration.flow import FlowCalibration

_STEPS = "steps"  # the method in the settings of several steps
_LINEAR_SETTINGS = {"method", "k", "count", "encoder"}


def load_calibration(folder: str | os.PathLike) -> Calibration:
  """Loads the flow or other `Calibration` that was saved in a folder.

  Raises:
    CalibrationError: the file is missing or damaged.
    ConfigError: the folder has no calibration, but folders of calibrations; or its model has further steps.
  """
  steps, *_ = load_steps(folder)
  if len(steps) == 1 and isinstance(steps[0], Calibration):
    return steps[0]
  names = " and ".join(display_name(step) for step in steps if not isinstance(step, Calibration))
  reason = f"has the step {names}, which is no calibration of vectors"
  raise ConfigError(f"{folder}: {reason}; use it with its encoder, as SentenceModel.load does")


def load_flow(folder: str | os.PathLike) -> FlowCalibration:
  """Loads a flow, as `load_calibration`; a CalibrationError for another calibration."""
  calibration = load_calibration(folder)
  from bert_flow_tf.calibration.flow import FlowCalibration

  if not isinstance(calibration, FlowCalibration):
    raise CalibrationError(f"{folder}: expected a flow, got {calibration.name}")
  return calibration


def load_steps(folder: str | os.PathLike) -> tuple[list[Step], Json | None, object]:
  """Returns the steps of a saved model or calibration, the identity of its encoder, None if it is unknown, and the
  value of `RECIPE`, None without one.

  Raises:
    CalibrationError, ConfigError: see `load_calibration`.
  """
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
    recipe = encoder.pop(RECIPE, None) if encoder else None
    steps = [Step.of_contents(*contents) for contents in _contents_of_steps(settings, arrays)]
    # The others were fitted on what the steps before them give.
    for first in steps[:1]:
      if isinstance(first, Calibration):
        first.encoder = encoder
    return steps, encoder, recipe


def save_steps(folder: str | os.PathLike, steps: Sequence[Step], encoder: Json) -> None:
  """Writes the steps of a model, at least one, for `load_steps`; `encoder`: its identity, and perhaps `RECIPE`."""
  settings, arrays = _contents_of_file(steps)
  archive.write(folder, KIND, {**settings, "encoder": encoder}, arrays)


def _contents_of_file(steps):
  """Returns the contents of steps, at least one, as a file holds them."""
  parts = [step.checked_contents() for step in steps]
  if len(parts) == 1:
    return parts[0]
  return joined_contents(_STEPS, parts)


def _contents_of_steps(settings: Json, arrays: Mapping[str, np.ndarray]) -> list[Contents]:
  """Returns the contents of each step of a file."""
  method = settings["method"]
  # Release 0.1.0 has a calibration and characters after it as parts side by side.
  if method == _STEPS or (method == SIDE_BY_SIDE and settings["parts"][-1]["method"] == CHARACTERS):
    return split_contents(settings, arrays)
  return [(dict(settings), dict(arrays))]


def saved_calibrations(folder: str | os.PathLike) -> list[str]:
  """Returns the sorted names of the folders of calibrations in a folder, which may not exist."""
  return sorted(path.parent.name for path in pathlib.Path(folder).glob(f"*/{KIND}.npz"))


def calibration_sha256(folder: str | os.PathLike) -> str:
  """Returns the hexadecimal SHA-256 of a saved calibration's numbers and settings, without its encoder's identity.

  It is that of the loaded steps, whichever release saved them.
  """
  with archive.opened(folder, KIND, CalibrationError) as (settings, arrays):
    # The contents of a linear calibration are those of its file: it need not be solved.
    if settings["method"] in METHODS and set(settings) == _LINEAR_SETTINGS:
      return _sha256({**settings, "encoder": None}, arrays)
  steps, *_ = load_steps(folder)
  return _sha256_of(steps)


def file_sha256(folder: str | os.PathLike) -> str:
  """Returns `calibration_sha256` as releases before 0.3 had it, of the form of the file, which releases change."""
  with archive.opened(folder, KIND, CalibrationError) as (settings, arrays):
    return _sha256({**settings, "encoder": None}, arrays)


def steps_sha256(steps: Sequence[Step]) -> str | None:
  """Returns the `calibration_sha256` that a folder with these steps would have; None for no steps."""
  if not steps:
    return None
  return _sha256_of(steps)


def _sha256_of(steps):
  settings, arrays = _contents_of_file(steps)
  return _sha256({**_deciding(settings), "encoder": None}, arrays)


def _deciding(settings):
  """Returns settings without what decides no embedding: whether a flow was fitted, or loaded from the original's."""
  values = dict(settings)
  if values.get("state"):
    values["state"] = INITIALIZED
  if "parts" in values:
    values["parts"] = list(map(_deciding, values["parts"]))
  return values


def _sha256(settings, arrays):
  """Returns the hexadecimal SHA-256 of the contents of a file."""
  # Settings first, then every array with its name, type and shape, in the order of the names.
  total = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
  for name in sorted(arrays):
    array = np.ascontiguousarray(arrays[name])
    total.update(f"{name} {array.dtype.str} {array.shape}".encode())
    total.update(array.tobytes())
  return total.hexdigest()
