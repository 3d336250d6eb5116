"""SHA-256 checksums in the JSON file of a folder, so that a damaged file is noticed when the folder is loaded.

The key `sha256` holds the digest of the other values, as `values`, and a digest per other file, by its name. A file
without the key, as other programs write it, has no checksums. (Files of `archive` have the checksums of zip.)
"""

import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

KEY = "sha256"
_VALUES = "values"
# Advice for a user who has changed a file on purpose.
KEEP_CHANGES = f"copy or make it again, or remove the key {KEY} if the files were changed on purpose"


def sealed(
  values: Mapping[str, object], folder: str | os.PathLike = ".", names: Iterable[str] = ()
) -> dict[str, object]:
  """Returns the values of a JSON file with checksums of them and of other files, named by their paths in the folder."""
  others = {name: value for name, value in values.items() if name != KEY}
  sums = {_VALUES: of_values(others)}
  for name in names:
    sums[name] = of_file(pathlib.Path(folder, name))
  return {**others, KEY: sums}


def verified(
  values: object,
  folder: str | os.PathLike | None = None,
  digest: Callable[[pathlib.Path], str] | None = None,
) -> dict[str, Any]:
  """Returns the values of a JSON file without checksums; ValueError if a checksum differs, also of a folder's file.

  `digest`: function in place of `of_file`, for files whose content is known.
  """
  digest = digest or of_file
  if not isinstance(values, dict):
    raise ValueError(f"expected an object, got {json.dumps(values)[:40]}")
  others = {name: value for name, value in values.items() if name != KEY}
  sums = values.get(KEY, {})
  if not isinstance(sums, dict) or not all(isinstance(checksum, str) for checksum in sums.values()):
    raise ValueError(f"expected checksums by the names of files as {KEY}, got {str(sums)[:60]}")
  if _VALUES in sums and sums[_VALUES] != of_values(others):
    raise ValueError("its values do not have their checksum")
  for name in sums.keys() - {_VALUES}:
    if not is_inside(name):
      raise ValueError(f"{KEY} names {name!r}, which is not in the folder")
    if folder is None:
      continue
    if not pathlib.Path(folder, name).is_file():
      raise ValueError(f"{name} is missing")
    if sums[name] != digest(pathlib.Path(folder, name)):
      raise ValueError(f"{name} does not have its checksum")
  return others


def is_inside(name: str) -> bool:
  """Returns whether the path of a file in a folder stays in the folder."""
  path = pathlib.PurePath(name)
  return not path.is_absolute() and ".." not in path.parts


def of_file(path: str | os.PathLike) -> str:
  """Returns the hexadecimal SHA-256 of a file's bytes."""
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()


def of_values(values: object) -> str:
  """Returns the hexadecimal SHA-256 of JSON values, in any order of their keys."""
  return hashlib.sha256(json.dumps(json.loads(json.dumps(values)), sort_keys=True).encode()).hexdigest()
