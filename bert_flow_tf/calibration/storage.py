"""A calibration's folder on disk."""

import operator
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.io.folders import CALIBRATION_FILES, OLDER_FLOW_FILES, FolderFormat

SETTINGS_FILE, ARRAYS_FILE = CALIBRATION_FILES
FORMAT = FolderFormat("calibration", *CALIBRATION_FILES, CalibrationError, "Calibration.save", OLDER_FLOW_FILES)
write = FORMAT.write


def read(folder: str | os.PathLike) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
  """Reads settings and arrays, {name: array}, of a folder that `write` made.

  Raises:
    CalibrationError: a file is missing, damaged or of another format, or the folder is a flow's.
  """
  settings, arrays = FORMAT.read(folder)
  if "config" in settings:
    raise CalibrationError(f"calibration folder {folder}: it has a flow; load it with Glow.load")
  return settings, arrays


def check_arrays(where: str, arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple]) -> None:
  """Checks names, dtype float64, shapes and finite values of arrays.

  Args:
    where: place of the arrays, for messages.
    arrays: {name: array}.
    shapes: {name: shape}; a range in a shape allows several sizes.

  Raises:
    CalibrationError: something differs.
  """
  if arrays.keys() != shapes.keys():
    raise CalibrationError(f"{where}: arrays {sorted(arrays)} in {ARRAYS_FILE}, expected {sorted(shapes)}")
  for name, shape in shapes.items():
    array = arrays[name]
    if array.dtype != np.float64:
      raise CalibrationError(f"{where}: array {name} is {array.dtype}, expected float64")
    allowed = [size if isinstance(size, range) else [size] for size in shape]
    if len(array.shape) != len(shape) or not all(map(operator.contains, allowed, array.shape)):
      raise CalibrationError(f"{where}: array {name} has shape {list(array.shape)}, which does not fit the settings")
    if not np.isfinite(array).all():
      raise CalibrationError(f"{where}: array {name} has NaN or infinity")
