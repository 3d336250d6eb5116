"""Files in `data_dir`, unpacked or in a zip archive, and their check: missing, or other pairs than the published."""

import os
import pathlib
import zipfile
from collections.abc import Iterable
from typing import Any

from absl import logging

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import counted

# Characters of a digest in messages.
_SHOWN = 12


def missing_file(data_dir: str, folder: str, name: str, expected: str) -> DataError:
  """Returns the error of the missing file data_dir/folder/name, with a hint at its probable location."""
  path = pathlib.Path(data_dir) / folder / name
  hint = _hint(data_dir, folder, name)
  return DataError(
    f"data_dir={data_dir}: {path} does not exist; expected {expected} in data_dir{hint}", argument="data_dir"
  )


def _hint(data_dir: str, folder: str, name: str) -> str:
  """Returns the end of a message: the correct data_dir, if it is one or two levels away."""
  if not os.path.exists(data_dir):
    return f"; {data_dir} is missing"
  if not os.path.isdir(data_dir):
    return f"; {data_dir} is a file"
  root = pathlib.Path(data_dir).resolve()
  for candidate in list(root.parents)[:2] + sorted(root.glob("*/")):
    if (candidate / folder / name).exists():
      return f"; did you mean data_dir={candidate}?"
  return ""


def first_with(data_dir: Any, folders: Iterable[str], names: Iterable[str]) -> Any:
  """Returns the first folder that has one of some files, a path or a folder in an archive; None if no folder has any.

  Folders are below data_dir: "STS/STS12-en-test", in a zip archive "STS2012-en-test.zip!test-gold", "" for data_dir.
  """
  names = tuple(names)
  for folder in folders:
    path, packed, inside = folder.partition("!")
    place: Any = pathlib.Path(data_dir) / path
    if packed:
      if not place.exists():
        continue
      place = _opened(place, inside)
    for name in names:
      if (place / name).exists():
        return place
  return None


def _opened(archive: pathlib.Path, inside: str) -> zipfile.Path:
  """Returns a folder of an archive."""
  below = ""
  if inside:
    below = f"{inside}/"
  try:
    return zipfile.Path(archive, below)
  except (zipfile.BadZipFile, OSError) as error:
    raise DataError(f"{archive} is not a readable zip archive ({error}); copy it again") from error


def unlike_published(pairs: SentencePairs, name: str, size: int, digest: str) -> str:
  """Returns how pairs differ from those that others evaluate on; "" if they do not.

  Organizers publish no digests, so `digest` (of `SentencePairs.digest`) is that of the files that we have.
  """
  if len(pairs) != size:
    return f"{counted(len(pairs), 'pair')}, expected the {size} of {name}"
  computed = pairs.digest()
  if computed != digest:
    return f"other sentences or gold than {name} has (digest {computed[:_SHOWN]}, expected {digest[:_SHOWN]})"
  return ""


def check_download(place: str, difference: str) -> None:
  """Raises a DataError for downloaded pairs that `unlike_published` tells from the published ones."""
  if difference:
    raise DataError(f"{place}: {difference}; to use it nevertheless, unpack it into a folder and set data_dir to it")


def note_of(place: str, difference: str) -> str:
  """Logs how a user's file differs from the published one; returns it as a note for the results."""
  if not difference:
    return ""
  logging.warning("%s: %s; its scores cannot be compared with those of others", place, difference)
  return f" ({difference})"
