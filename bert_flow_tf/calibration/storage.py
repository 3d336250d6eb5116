"""A calibration's folder on disk."""

import os
import pathlib
from typing import Any

import numpy as np

from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.io.folders import FolderFormat

SETTINGS_FILE = "calibration.json"
ARRAYS_FILE = "arrays.npz"
FORMAT = FolderFormat("calibration", SETTINGS_FILE, ARRAYS_FILE, CalibrationError, "Calibration.save")
write = FORMAT.write


def read(folder: str | os.PathLike) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
  """Reads settings and arrays, {name: array}, of a folder that `write` made.

  Raises:
    CalibrationError: a file is missing, damaged or of another format, or the folder is a flow's.
  """
  if (pathlib.Path(folder) / "flow.json").is_file():
    raise CalibrationError(f"calibration folder {folder}: it has a flow; load it with Glow.load")
  return FORMAT.read(folder)
