"""A flow's folder on disk: `flow.json` and `weights.npz`, nothing that executes when it is read."""

import json
import pathlib
import shutil

import numpy as np

from bert_flow_tf.errors import FlowError

FORMAT_VERSION = 1
SETTINGS_FILE = "flow.json"
WEIGHTS_FILE = "weights.npz"


def write(folder, settings, arrays):
  """Writes both files beside and renames, so that the folder is whole or absent.

  Raises:
    FlowError: the place cannot be written, or is taken by something that is not a flow.
  """
  folder = pathlib.Path(folder).resolve()
  foreign = _foreign(folder)
  if foreign:
    raise FlowError(f"flow folder {folder}: it holds something that is not a flow ({foreign}); choose another folder")
  # Names without a process number: what a killed process left is cleared away here.
  beside, older = (folder.with_name(f".{folder.name}.{what}") for what in ("writing", "older"))
  try:
    shutil.rmtree(beside, ignore_errors=True)
    if folder.exists():
      shutil.rmtree(older, ignore_errors=True)
    beside.mkdir(parents=True)
    np.savez(beside / WEIGHTS_FILE, **arrays)
    text = json.dumps({"format_version": FORMAT_VERSION, **settings}, indent=2)
    (beside / SETTINGS_FILE).write_text(text + "\n", encoding="utf-8")
    if folder.exists():
      folder.rename(older)
    beside.rename(folder)
  except OSError as error:
    if older.exists() and not folder.exists():
      older.rename(folder)
    raise FlowError(f"flow folder {folder}: cannot be written ({error})") from error
  finally:
    shutil.rmtree(beside, ignore_errors=True)
    if folder.exists():
      shutil.rmtree(older, ignore_errors=True)


def _foreign(folder):
  """Name of something in the place of a flow's folder that `write` did not put there, or None."""
  if not folder.exists():
    return None
  if not folder.is_dir():
    return folder.name
  names = sorted(path.name for path in folder.iterdir())
  others = [name for name in names if name not in (SETTINGS_FILE, WEIGHTS_FILE) or not (folder / name).is_file()]
  return next(iter(others), None) or (None if SETTINGS_FILE in names else next(iter(names), None))


def read(folder):
  """Settings and arrays of a folder that `write` made: (dict, {name: array}).

  Raises:
    FlowError: a file is absent, damaged, or of a newer format.
  """
  folder = pathlib.Path(folder)
  for name in (SETTINGS_FILE, WEIGHTS_FILE):
    if not (folder / name).is_file():
      raise FlowError(f"flow folder {folder}: no {name} in it; expected a folder that Glow.save wrote")
  try:
    settings = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
    version = dict(settings).pop("format_version")
  except (OSError, ValueError, TypeError, KeyError) as error:
    raise FlowError(f"flow folder {folder}: damaged, {SETTINGS_FILE} cannot be read ({error!r})") from error
  if version != FORMAT_VERSION:
    raise FlowError(f"flow folder {folder}: format {version!r}, this version reads {FORMAT_VERSION}")
  missing = [key for key in ("state", "config") if key not in settings]
  if missing:
    raise FlowError(f"flow folder {folder}: damaged, no {missing[0]} in {SETTINGS_FILE}")
  return {key: settings[key] for key in settings if key != "format_version"}, _read_weights(folder)


def _read_weights(folder):
  # Opened as a zip whatever it holds: np.load would take a bare array or try a pickle.
  try:
    with open(folder / WEIGHTS_FILE, "rb") as file, np.lib.npyio.NpzFile(file, allow_pickle=False) as archive:
      return {name: archive[name] for name in archive.files}
  except Exception as error:  # damaged bytes end in more kinds of error than NumPy or zipfile document
    raise FlowError(f"flow folder {folder}: damaged, {WEIGHTS_FILE} cannot be read ({error!r})") from error


def check_names(given, expected, what):
  """Refuses a set of names that is not the expected one.

  Raises:
    FlowError: names are missing or unknown; the message lists them.
  """
  missing = sorted(set(expected) - set(given))
  unknown = sorted(set(given) - set(expected))
  if missing or unknown:
    found = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"unknown: {', '.join(unknown)}"] * bool(unknown)
    raise FlowError(f"{what} do not fit this flow's configuration; {'; '.join(found)}")
