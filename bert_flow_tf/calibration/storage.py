"""A calibration's folder on disk."""

import pathlib

from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.io.folders import FolderFormat

SETTINGS_FILE = "calibration.json"
ARRAYS_FILE = "arrays.npz"
FORMAT = FolderFormat("calibration", SETTINGS_FILE, ARRAYS_FILE, CalibrationError, "Calibration.save")
write = FORMAT.write


def read(folder):
  """Settings and arrays of a folder that `write` made: (dict, {name: array}).

  Raises:
    CalibrationError: a file is absent, damaged or of another format, or it is a flow's folder.
  """
  if (pathlib.Path(folder) / "flow.json").is_file():
    raise CalibrationError(f"calibration folder {folder}: it holds a flow; load it with Glow.load")
  return FORMAT.read(folder)
