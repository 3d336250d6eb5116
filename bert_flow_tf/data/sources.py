"""Files in `data_dir`, unpacked or in a zip archive, and the error of a missing file."""

import os
import pathlib
import zipfile
from collections.abc import Iterable
from typing import Any

from bert_flow_tf.errors import DataError


def required_folder(data_dir: str, folder: str, names: Iterable[str], expected: str) -> pathlib.Path:
  """Returns data_dir/folder, which must have the files `names`.

  Args:
    data_dir: the root of the data.
    folder: relative to data_dir: "STS/STSBenchmark".
    names: the required files.
    expected: description of all files, for the error: "STS/STSBenchmark/sts-{train,dev,test}.csv".

  Raises:
    DataError: a file is missing.
  """
  path = pathlib.Path(data_dir) / folder
  for name in names:
    if not (path / name).exists():
      raise missing_file(data_dir, folder, name, expected)
  return path


def missing_file(data_dir: str, folder: str, name: str, expected: str) -> DataError:
  """Returns the error of the missing file data_dir/folder/name, with a hint at its probable location."""
  return DataError(
    f"data_dir={data_dir}: {pathlib.Path(data_dir) / folder / name} does not exist; expected {expected} in data_dir"
    + _hint(data_dir, folder, name),
    argument="data_dir",
  )


def _hint(data_dir: str, folder: str, name: str) -> str:
  """Returns the end of a message: the correct data_dir, if it is one or two levels away."""
  if not os.path.isdir(data_dir):
    return f"; {data_dir} is {'a file' if os.path.exists(data_dir) else 'missing'}"
  root = pathlib.Path(data_dir).resolve()
  for candidate in (*list(root.parents)[:2], *sorted(root.glob("*/"))):
    if (candidate / folder / name).exists():
      return f"; did you mean data_dir={candidate}?"
  if (root / name).exists():
    return f"; the files are in data_dir itself; move them to {pathlib.Path(data_dir) / folder}"
  return ""


def first_with(data_dir: str, folders: Iterable[str], name: str) -> Any:
  """Returns the first folder that has a file; None if no folder has it.

  Args:
    data_dir: root of the folders.
    folders: "STS/STS12-en-test", or a folder in a zip archive: "STS2012-en-test.zip!test-gold".
    name: the file.

  Raises:
    DataError: an archive is damaged.
  """
  for folder in folders:
    path, is_packed, inside = folder.partition("!")
    place = pathlib.Path(data_dir) / path
    if is_packed:
      if not place.exists():
        continue
      try:
        place = zipfile.Path(place, f"{inside}/" if inside else "")
      except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{place} is not a readable zip archive ({error}); copy it again") from error
    if (place / name).exists():
      return place
  return None
