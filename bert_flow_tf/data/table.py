"""Tables of sentence pairs: a `TaskTable` says where the files of a data set are, and reads them; nothing is quoted."""

import dataclasses
import math
import os
import pathlib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.data.files.delimited import tab_separated
from bert_flow_tf.data.files.formats import read_number
from bert_flow_tf.data.files.source import FilePath, line_error
from bert_flow_tf.data.pairs import SPLITS, SentencePairs
from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import counted

Path = pathlib.Path | zipfile.Path  # the latter inside an archive
GLUE_FILES = {split: (f"{split}.tsv",) for split in SPLITS}
TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
# Some lines of GLUE's files are malformed.
_MALFORMED_LINES_ALLOWED = 0.001


@dataclasses.dataclass(frozen=True)
class Gold:
  """Gold of a data set: labels or, without them, a score."""

  column: str  # its name in the files
  labels: Mapping[str, float] = dataclasses.field(default_factory=dict)  # {label: its number}, NaN for a pair without
  scale: tuple[float, float] = (0.0, 5.0)  # the lowest and the highest score

  def read(self, field: str, path: FilePath, number: int) -> float:
    """Returns the gold in a field of line `number`; raises DataError if it has none."""
    if not self.labels:
      return read_number(field, path, number, self.scale)
    if field not in self.labels:
      raise line_error(path, number, f"the label is {field[:40]!r}, expected {' or '.join(self.labels)}")
    return self.labels[field]

  def accepts(self, field: str) -> bool:
    """Returns whether a field has gold."""
    try:
      self.read(field, "", 0)
    except DataError:
      return False
    return True


@dataclasses.dataclass(frozen=True)
class TaskTable:
  """Files, columns and labels of a data set, and its place in TensorFlow Datasets (TFDS)."""

  name: str  # in messages, and the folder of the files below data_dir, which may be data_dir itself
  gold: Gold
  # Names of the two columns of sentences, and positions of both and of gold in the published code, for files whose
  # header has none of the names; -1 is the last column.
  columns: tuple[str, str] = ("sentence1", "sentence2")
  places: tuple[int, int, int] = (1, 2, -1)
  # {split: its file, or several of which the first that exists is read}
  files: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=lambda: GLUE_FILES)
  # {file whose gold GLUE hides: positions of its sentences}
  hidden: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
  required: tuple[str, ...] = ()  # splits that must exist
  other_folders: tuple[str, ...] = ()
  # {split: address of the organizers' archive}; archives in data_dir are read without unpacking.
  archives: Mapping[str, str] = dataclasses.field(default_factory=dict)
  # {split: (number of pairs, `SentencePairs.digest`)} of the published split; only for data that papers evaluate on.
  published: Mapping[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
  tfds: str = ""  # its name in TFDS, which may not have it
  tfds_columns: tuple[str, str, str] = ("sentence1", "sentence2", "label")
  tfds_labels: Mapping[str, float] = dataclasses.field(default_factory=dict)  # if they are others than in the files
  tfds_splits: Mapping[str, str] = dataclasses.field(default_factory=lambda: TFDS_SPLITS)
  tfds_urls: tuple[str, ...] = ()  # that TFDS downloads from; empty for its configuration's

  @property
  def expected(self) -> str:
    """Description of the files below data_dir, for errors."""
    names = [names[0] for names in self.files.values()]
    return f"{self.name}/{{{','.join(names)}}}"

  def find(self, root: str | os.PathLike, split: str) -> Any:
    """Returns the path of a split's file below a folder, unpacked or in its archive; None if it does not exist."""
    every_name = sum(self.files.values(), ())
    # Unpacked, in the folder that has any of the files; or packed, in the archive of this split.
    folders = [first_with(root, (self.name, *self.other_folders, ""), every_name)]
    if split in self.archives:
      archive = self.archives[split].rsplit("/", 1)[1]
      folders.append(first_with(root, (f"{archive}!", f"{self.name}/{archive}!"), self.files[split]))
    for folder in folders:
      for name in self.files[split]:
        if folder is not None and (folder / name).exists():
          return folder / name
    return None

  def pairs_in(self, folder: str, split: str) -> SentencePairs | None:
    """Returns the pairs of a split in a folder; None if its file does not exist."""
    path = self.find(folder, split)
    return path and self.read(path)[0]

  def read(self, path: Path) -> tuple[SentencePairs, int]:
    """Returns a file's pairs as the published code reads it, and the number of short or malformed lines left out."""
    names: list[str] | None = None
    gold: Gold | None = self.gold
    rows, short = [], 0
    broken: list[DataError] = []
    for number, fields in tab_separated(path, "skip", broken):
      if names is None:
        names = fields
        if path.name in self.hidden and self.gold.column not in names:
          gold = None
        places = self._positions(names, gold, path, number)
        continue
      if len(fields) <= max(places):
        short += 1
        continue
      score = math.nan
      try:
        if gold is not None:
          score = gold.read(fields[places[2]], path, number)
      except DataError as error:
        broken.append(error)
        continue
      rows.append((score, fields[places[0]], fields[places[1]]))
    if len(broken) > _MALFORMED_LINES_ALLOWED * (len(rows) + len(broken)):
      raise broken[0]
    if short and not rows:
      message = f"{path}: all {counted(short, 'line')} after the header have too few columns"
      raise DataError(f"{message}; expected at least {max(places) + 1}, separated by tabs")
    return pairs_of(rows, path), short + len(broken)

  def _positions(self, names: list[str], gold: Gold | None, path: Path, number: int) -> Sequence[int]:
    """Returns the positions of the columns in a header: by name, or the published ones if it has no name of them."""
    places: Sequence[int] = self.hidden.get(path.name, self.places)
    wanted = list(self.columns)
    if gold is not None:
      wanted.append(gold.column)
    if set(wanted).isdisjoint(names):
      # A first line with gold where it is expected is no header.
      if gold is not None and len(names) > max(places) and gold.accepts(names[places[2]]):
        raise line_error(path, number, f"the line is a pair; expected a header, such as {', '.join(wanted)}")
      return places[: len(wanted)]
    for name in wanted:
      if names.count(name) != 1:
        times = "twice" if name in names else "not"
        raise line_error(path, number, f"the column {name!r} is {times} among {', '.join(names)[:200]!r}")
    return [names.index(name) for name in wanted]


def pairs_of(rows: list[tuple[float, str, str]], path: FilePath) -> SentencePairs:
  """Returns the pairs of rows (gold, first sentence, second sentence) of a file, which must have some."""
  if not rows:
    raise DataError(f"{path} is empty; expected sentence pairs")
  scores, sentences_a, sentences_b = zip(*rows, strict=True)
  return SentencePairs(sentences_a, sentences_b, np.array(scores, np.float64))


def missing_file(data_dir: str, folder: str, name: str, expected: str) -> DataError:
  """Returns the error of the missing file data_dir/folder/name."""
  path = pathlib.Path(data_dir, folder, name)
  message = f"data_dir={data_dir}: {path} does not exist; expected {expected} in data_dir"
  return DataError(message, argument="data_dir")


def first_with(data_dir: str | os.PathLike, folders: Iterable[str], names: Sequence[str]) -> Path | None:
  """Returns the first folder that has any of the named files, a path or a folder in an archive; None without.

  Folders are below data_dir: "STS/STS12-en-test", in a zip archive "STS2012-en-test.zip!test-gold/", "" for data_dir.
  """
  for folder in folders:
    path, packed, inside = folder.partition("!")
    archive = pathlib.Path(data_dir) / path
    place: Path = archive
    if packed:
      if not archive.exists():
        continue
      try:
        place = zipfile.Path(archive, inside)
      except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{archive} is not a readable zip archive ({error}); copy it again") from error
    if any((place / name).exists() for name in names):
      return place
  return None


def difference(name: str, published: Mapping[str, tuple[int, str]], pairs: SentencePairs, split: str) -> str:
  """Returns how a split differs from those that others evaluate on; "" if it does not, or if nothing is published."""
  if split not in published:
    return ""
  size, digest = published[split]
  if len(pairs) != size:
    return f"{counted(len(pairs), 'pair')}, expected the {size} of {name}'s {split} split"
  computed = pairs.digest()
  if computed != digest:
    return f"other sentences or gold than {name}'s {split} split has (digest {computed[:12]}, expected {digest[:12]})"
  return ""


def note_of(place: str, difference: str) -> str:
  """Logs how a user's file differs from the published file; returns the difference as a note for the results."""
  if not difference:
    return ""
  logging.warning("%s: %s; its scores cannot be compared with published ones", place, difference)
  return f" ({difference})"
