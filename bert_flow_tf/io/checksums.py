"""SHA-256 checksums in the JSON file of a folder, so that a damaged file is noticed when the folder is loaded.

The key `sha256` holds the digest of the other values, as `values`, and one of each other file by its name. A file
without the key, as older versions and other programs write it, has no checksums.
"""

import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

KEY = "sha256"
_VALUES = "values"
# What a user does who has changed a file on purpose.
KEEP_CHANGES = f"copy or make it again, or remove the key {KEY} if the files were changed on purpose"


class HashingWriter:
  """Binary file that hashes what is written to another.

  Args:
    file: the other file.

  Attributes:
    digest: the hashlib object.
  """

  def __init__(self, file: BinaryIO) -> None:
    self._file, self.digest = file, hashlib.sha256()

  def write(self, data: bytes) -> int:
    """Writes bytes and returns their number."""
    self.digest.update(data)
    return self._file.write(data)


def sealed(values: Mapping[str, Any], folder: str | os.PathLike = ".", names: Iterable[str] = ()) -> dict[str, Any]:
  """Returns the values of a JSON file with checksums of them and of other files.

  Args:
    values: JSON values.
    folder: folder of the files.
    names: their paths within it.

  Raises:
    OSError: a file cannot be read.
  """
  others = {name: value for name, value in values.items() if name != KEY}
  sums = {_VALUES: _of_values(others), **{name: of_file(pathlib.Path(folder, name)) for name in names}}
  return {**others, KEY: sums}


def opened(values: Any, folder: str | os.PathLike | None = None) -> dict[str, Any]:
  """Returns the values of a JSON file without their checksums, which are checked.

  Args:
    values: JSON values.
    folder: folder of the files that have a checksum; None to check the values alone.

  Raises:
    ValueError: not a dict, or a checksum is not the one of the values or of a file.
    OSError: a file cannot be read.
  """
  if not isinstance(values, dict):
    raise ValueError(f"expected an object, got {type(values).__name__}")
  others = {name: value for name, value in values.items() if name != KEY}
  sums = values.get(KEY, {})
  if not isinstance(sums, dict):
    raise ValueError(f"expected an object as {KEY}, got {sums!r}")
  for name, digest in sums.items():
    if name == _VALUES:
      if digest != _of_values(others):
        raise ValueError("its values do not have their checksum")
    elif pathlib.PurePath(name).is_absolute() or ".." in pathlib.PurePath(name).parts:
      raise ValueError(f"{KEY} names {name!r}, which is not in the folder")
    elif folder is not None and digest != of_file(pathlib.Path(folder, name)):
      raise ValueError(f"{name} does not have its checksum")
  return others


def of_file(path: str | os.PathLike, algorithm: str = KEY) -> str:
  """Returns the hexadecimal digest of a file's bytes.

  Raises:
    OSError: it cannot be read.
  """
  with open(path, "rb") as file:
    return hashlib.file_digest(file, algorithm).hexdigest()


def _of_values(values):
  return hashlib.sha256(json.dumps(json.loads(json.dumps(values)), sort_keys=True).encode()).hexdigest()
