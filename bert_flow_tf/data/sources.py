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

# Addresses of the organizers of STS and STS-B, and of SICK.
STS_WIKI = "https://ixa2.si.ehu.eus/stswiki/images"
SICK_UPLOADS = "https://alt.qcri.org/semeval2014/task1/data/uploads"
_SHOWN = 12


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
  return ""


def first_with(data_dir: str, folders: Iterable[str], *names: str) -> Any:
  """Returns the first folder that has one of some files; None if no folder has any.

  Args:
    data_dir: root of the folders.
    folders: "STS/STS12-en-test", or a folder in a zip archive: "STS2012-en-test.zip!test-gold"; "" for data_dir itself.
    names: the files.

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
    if any((place / name).exists() for name in names):
      return place
  return None


def unlike_published(pairs: SentencePairs, name: str, size: int, digest: str) -> str:
  """Returns how pairs differ from those that others evaluate on; "" if they do not.

  Args:
    pairs: the pairs.
    name: name of the data set.
    size: the official number of pairs.
    digest: `SentencePairs.digest` of the published data; organizers publish none, so these are of the files that we
      have.
  """
  if len(pairs) != size:
    return f"{counted(len(pairs), 'pair')}, expected the {size} of {name}"
  found = pairs.digest()
  if found != digest:
    return f"other sentences or gold than {name} has (digest {found[:_SHOWN]}, expected {digest[:_SHOWN]})"
  return ""


def check_download(place: str, difference: str) -> None:
  """Raises a DataError for downloaded pairs that `unlike_published` tells from the published ones.

  Raises:
    DataError: there is a difference.
  """
  if difference:
    raise DataError(f"{place}: {difference}; to use it nevertheless, unpack it into a folder and set data_dir to it")


def note_of(place: str, difference: str) -> str:
  """Logs a difference that `unlike_published` found in a user's file; returns it as a note for the results."""
  if difference:
    logging.warning("%s: %s; its scores cannot be compared with those of others", place, difference)
  return f" ({difference})" if difference else ""
