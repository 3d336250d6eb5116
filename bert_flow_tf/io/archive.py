"""One file for each saved thing: JSON settings and NumPy arrays in a zip; nothing in it is executed.

A calibration is in FOLDER/calibration.npz, a classifier in FOLDER/classifier.npz, and so on: `kind` is in
the name and in the settings. zip keeps a CRC-32 of each member, so a damaged file is an error when it is read.
"""

import contextlib
import io
import json
import os
import pathlib
import zipfile
from collections.abc import Iterator, Mapping

import numpy as np

from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.io.files import Json, check_path, parse_json, write_bytes

FORMAT_VERSION = 1
# A folder holds a saved model with a calibration or without: one of these kinds.
_MODELS = ("calibration", "model")
_SETTINGS = "settings.json"
_ARRAY = ".npy"


class UnreadableError(BertFlowError):
  """A file is whole, but this program cannot read it: it is of another release, or has a step of the user's."""


def path_of(folder: str | os.PathLike, kind: str) -> pathlib.Path:
  """Returns the path of the file of a kind in a folder; a ConfigError if no folder can have this name."""
  return check_path(folder, "folder") / f"{kind}.npz"


def is_in(folder: str | os.PathLike, kind: str) -> bool:
  """Returns whether a folder has a file of a kind."""
  return path_of(folder, kind).is_file()


def encoder_in(folder: str | os.PathLike) -> Json:
  """Returns what a folder's saved model holds of its encoder; {} if that is unknown, or cannot be read."""
  for kind in _MODELS:
    with contextlib.suppress(Exception), zipfile.ZipFile(path_of(folder, kind)) as members:
      return dict(parse_json(members.read(_SETTINGS))["encoder"])
  return {}


def write(
  folder: str | os.PathLike, kind: str, settings: Mapping[str, object], arrays: Mapping[str, np.ndarray]
) -> pathlib.Path:
  """Writes JSON settings and {name: array} atomically, in place of an older file or model; returns its path."""
  path = path_of(folder, kind)
  if not os.fspath(folder):
    raise BertFlowError("folder is empty; expected a path", argument="folder")
  header = {"kind": kind, "format_version": FORMAT_VERSION, **settings}
  content = io.BytesIO()
  with zipfile.ZipFile(content, "w") as members:
    # `ZipInfo` has a constant date: equal content gives equal bytes.
    members.writestr(zipfile.ZipInfo(_SETTINGS), json.dumps(header, indent=2))
    for name, array in arrays.items():
      member = io.BytesIO()
      np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
      members.writestr(zipfile.ZipInfo(name + _ARRAY), member.getvalue())
  created: list[pathlib.Path] = []
  try:
    created += [parent for parent in path.parents if not parent.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content.getvalue())
    for other in _MODELS:
      if kind in _MODELS and other != kind:
        path_of(folder, other).unlink(missing_ok=True)
  except OSError as error:
    for parent in created:
      with contextlib.suppress(OSError):  # not made, or not empty
        parent.rmdir()
    raise BertFlowError(f"{path}: cannot be written ({error})") from error
  return path


@contextlib.contextmanager
def opened(
  folder: str | os.PathLike, kind: str, error: type[BertFlowError]
) -> Iterator[tuple[Json, dict[str, np.ndarray]]]:
  """Yields settings and {name: array} of the file of a kind; any failure, of the block too, becomes an `error`."""
  path = path_of(folder, kind)
  try:
    yield _read(path, kind)
  except FileNotFoundError as missing:
    raise error(f"{path}: no such file; expected the folder of a saved {kind}") from missing
  except NotADirectoryError as reason:
    raise error(f"{folder}: no folder; expected the folder of a saved {kind}, as {path.parent.parent}") from reason
  except UnreadableError as reason:
    raise error(f"{path}: {reason}") from reason
  # Damaged bytes and wrong settings raise more kinds of errors than zipfile and NumPy document.
  except Exception as reason:
    described = str(reason) if isinstance(reason, BertFlowError) else f"{type(reason).__name__}: {reason}"
    description = " ".join(described.split())[:400]  # NumPy's may show a whole file
    raise error(f"{path}: damaged, or not a saved {kind} ({description})") from reason


def _read(path: pathlib.Path, kind: str) -> tuple[Json, dict[str, np.ndarray]]:
  arrays = {}
  with zipfile.ZipFile(path) as members:
    # `write` does not compress; a few compressed bytes could expand to any size.
    if any(member.compress_type != zipfile.ZIP_STORED for member in members.infolist()):
      raise ValueError("compressed members")
    settings = parse_json(members.read(_SETTINGS))
    for name in members.namelist():
      if name != _SETTINGS:
        content = io.BytesIO(members.read(name))
        arrays[name.removesuffix(_ARRAY)] = np.lib.format.read_array(content, allow_pickle=False)
  settings_kind, version = settings.pop("kind"), settings.pop("format_version")
  if settings_kind != kind:
    raise ValueError(f"kind is {settings_kind!r}, expected {kind!r}")
  if version != FORMAT_VERSION:
    raise UnreadableError(f"format_version {version}, expected {FORMAT_VERSION}; a later bert-flow-tf may read it")
  return settings, arrays
