"""A calibration's folder on disk: `calibration.json` and `arrays.npz`, nothing that executes when it is read."""

import json
import pathlib
import shutil

import numpy as np

from bert_flow_tf.errors import CalibrationError

FORMAT_VERSION = 1
SETTINGS_FILE = "calibration.json"
ARRAYS_FILE = "arrays.npz"


def write(folder, settings, arrays):
  """Writes both files beside and renames, so that the folder is whole or absent.

  Args:
    folder: the folder; an older calibration there is replaced.
    settings: dict of json values.
    arrays: {name: array}.

  Raises:
    CalibrationError: the place cannot be written, or is taken by something that is not a calibration.
  """
  folder = pathlib.Path(folder).resolve()
  # Names without a process number: what a killed process left is cleared away here.
  beside, older = (folder.with_name(f".{folder.name}.{what}") for what in ("writing", "older"))
  try:
    foreign = _foreign(folder)
    if foreign:
      raise CalibrationError(
        f"calibration folder {folder}: it holds something that is not a calibration ({foreign}); choose another folder"
      )
    shutil.rmtree(beside, ignore_errors=True)
    if folder.exists():
      shutil.rmtree(older, ignore_errors=True)
    beside.mkdir(parents=True)
    np.savez(beside / ARRAYS_FILE, **arrays)
    text = json.dumps({"format_version": FORMAT_VERSION, **settings}, indent=2)
    (beside / SETTINGS_FILE).write_text(text + "\n", encoding="utf-8")
    if folder.exists():
      folder.rename(older)
    beside.rename(folder)
  except OSError as error:
    if older.exists() and not folder.exists():
      older.rename(folder)
    raise CalibrationError(f"calibration folder {folder}: cannot be written ({error})") from error
  finally:
    shutil.rmtree(beside, ignore_errors=True)
    if folder.exists():
      shutil.rmtree(older, ignore_errors=True)


def _foreign(folder):
  """Name of something in the place of the folder that `write` did not put there, or None."""
  if not folder.exists():
    return None
  if not folder.is_dir():
    return folder.name
  names = sorted(path.name for path in folder.iterdir())
  others = [name for name in names if name not in (SETTINGS_FILE, ARRAYS_FILE) or not (folder / name).is_file()]
  return next(iter(others), None) or (None if SETTINGS_FILE in names else next(iter(names), None))


def read(folder):
  """Settings and arrays of a folder that `write` made: (dict, {name: array}).

  Raises:
    CalibrationError: a file is absent, damaged, or of a newer format.
  """
  folder = pathlib.Path(folder)
  try:
    if (folder / "flow.json").is_file():
      raise CalibrationError(f"calibration folder {folder}: it holds a flow; load it with Glow.load")
    missing = [name for name in (SETTINGS_FILE, ARRAYS_FILE) if not (folder / name).is_file()]
    if missing:
      raise CalibrationError(
        f"calibration folder {folder}: no {missing[0]} in it; expected what Calibration.save wrote"
      )
    settings = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
    version = dict(settings).pop("format_version")
  except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
    message = f"calibration folder {folder}: damaged, {SETTINGS_FILE} cannot be read ({error!r})"
    raise CalibrationError(message) from error
  if type(version) is not int or version != FORMAT_VERSION:
    raise CalibrationError(f"calibration folder {folder}: format {version!r}, this version reads {FORMAT_VERSION}")
  return {key: value for key, value in settings.items() if key != "format_version"}, _read_arrays(folder)


def _read_arrays(folder):
  # Opened as a zip whatever it holds: np.load would take a bare array or try a pickle.
  try:
    with open(folder / ARRAYS_FILE, "rb") as file, np.lib.npyio.NpzFile(file, allow_pickle=False) as archive:
      return {name: archive[name] for name in archive.files}
  except Exception as error:  # damaged bytes end in more kinds of error than NumPy or zipfile document
    message = f"calibration folder {folder}: damaged, {ARRAYS_FILE} cannot be read ({error!r})"
    raise CalibrationError(message) from error
