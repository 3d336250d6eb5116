"""A flow's folder on disk: `flow.json` and `weights.npz`, nothing that executes when it is read."""

import json
import os
import pathlib
import shutil
import zipfile

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
  folder = pathlib.Path(folder)
  if folder.exists() and not (folder / SETTINGS_FILE).is_file() and (folder.is_file() or any(folder.iterdir())):
    raise FlowError(f"flow folder {folder}: it holds something that is not a flow; choose another folder")
  beside = folder.with_name(f"{folder.name}.writing-{os.getpid()}")
  older = folder.with_name(f"{folder.name}.older-{os.getpid()}")
  try:
    beside.mkdir(parents=True)
    np.savez(beside / WEIGHTS_FILE, **arrays)
    text = json.dumps({"format_version": FORMAT_VERSION, **settings}, indent=2)
    (beside / SETTINGS_FILE).write_text(text + "\n", encoding="utf-8")
    if folder.exists():
      folder.rename(older)
    beside.rename(folder)
  except OSError as error:
    raise FlowError(f"flow folder {folder}: cannot be written ({error})") from error
  finally:
    shutil.rmtree(beside, ignore_errors=True)
    shutil.rmtree(older, ignore_errors=True)


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
    version = settings.pop("format_version")
    settings["state"], settings["config"]
    with np.load(folder / WEIGHTS_FILE, allow_pickle=False) as archive:
      arrays = {name: archive[name] for name in archive.files}
  except (OSError, ValueError, KeyError, AttributeError, EOFError, zipfile.BadZipFile) as error:
    raise FlowError(f"flow folder {folder}: damaged, cannot be read ({error!r})") from error
  if version != FORMAT_VERSION:
    raise FlowError(f"flow folder {folder}: format {version!r}, this version reads {FORMAT_VERSION}")
  return settings, arrays


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
