"""Where a task's data is: what a loader is given and gives back, and files below --data_dir."""

import dataclasses
import os
import pathlib
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

from bert_flow_tf.data.lines import FilePath
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import DataError


@dataclasses.dataclass(frozen=True)
class Paths:
  """What `load_task` was told of where to look.

  Attributes:
    data_dir: folder of downloaded files, or for `custom` a file; None for TensorFlow Datasets.
    tfds_data_dir: TensorFlow Datasets' folder; None for its default.
    stsb_gold: path of the STS benchmark's sts-test.csv; of concern to STS-B alone.
  """

  data_dir: str | None = None
  tfds_data_dir: str | None = None
  stsb_gold: str | None = None


@dataclasses.dataclass(frozen=True)
class Loaded:
  """What a task's loader gives.

  Attributes:
    splits: the pairs by name of split.
    source: where they came from, for people to read.
    spec_changes: fields of the task's TaskSpec that the data decides: {"eval_split": "dev"}.
  """

  splits: dict[str, SentencePairs]
  source: str
  spec_changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def required_folder(data_dir: str, folder: str, names: Iterable[str], pattern: str) -> pathlib.Path:
  """Returns data_dir/folder, which holds the files of these names.

  Args:
    data_dir: what --data_dir says.
    folder: relative to data_dir: "STS/STSBenchmark".
    names: the files that have to be there.
    pattern: what people read of all files: "sts-{train,dev,test}.csv".

  Raises:
    DataError: a file is missing; the message says where it probably is.
  """
  found = pathlib.Path(data_dir) / folder
  missing = [found / name for name in names if not exists(found / name, data_dir)]
  if missing:
    raise DataError(
      f"{missing[0]} does not exist; --data_dir={data_dir} must hold {folder}/{pattern}"
      + likely_data_dir(data_dir, folder, missing[0].name)
    )
  return found


def exists(path: FilePath, data_dir: str) -> bool:
  """Whether a file or folder below data_dir is there.

  Raises:
    DataError: that cannot be told.
  """
  try:
    return path.exists()
  except OSError as error:
    raise DataError(f"--data_dir={data_dir}: {error.filename} cannot be read: {error.strerror}") from error


def likely_data_dir(data_dir: str, folder: str, name: str) -> str:
  """Says what is wrong with a --data_dir a level or two off, as the end of a message."""
  if not os.path.exists(data_dir):
    return f"; there is no folder {data_dir}"
  if not os.path.isdir(data_dir):
    return f"; {data_dir} is a file"
  data_dir = pathlib.Path(data_dir)
  here = data_dir.resolve()
  for candidate in (*list(here.parents)[:2], *sorted(here.glob("*/"))):
    if os.path.exists(candidate / folder / name):
      return f"; did you mean --data_dir={candidate}?"
  if os.path.exists(data_dir / name):
    return f"; the files lie in that folder itself: put them into {data_dir / folder}"
  return ""


def first_with(data_dir: str, folders: Iterable[str], name: str) -> FilePath | None:
  """Returns the first of some folders that holds a file; None where none does.

  Args:
    data_dir: what the folders are relative to.
    folders: "STS/STS12-en-test", or a folder in a zip archive: "STS2012-en-test.zip!test-gold".
    name: the file.

  Raises:
    DataError: an archive on the way is damaged, or a folder cannot be read.
  """
  for folder in folders:
    path, is_packed, inside = folder.partition("!")
    found = pathlib.Path(data_dir) / path
    if is_packed:
      if not exists(found, data_dir):
        continue
      try:
        found = zipfile.Path(found, f"{inside}/" if inside else "")
      except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{found} is not a readable zip archive ({error}): it was not copied whole") from error
    if exists(found / name, data_dir):
      return found
  return None
