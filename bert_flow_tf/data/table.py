"""Tables of sentence pairs: a `Table` says where the files of a data set are and how they are read.

Fields are separated by tabs, without quoting: a quotation mark is part of the sentence.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.data.lines import FilePath, line_error, lines, read_number
from bert_flow_tf.data.pairs import SPLITS, SentencePairs
from bert_flow_tf.data.sources import first_with, unlike_published
from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import counted

GLUE_FILES = {split: (f"{split}.tsv",) for split in SPLITS}
TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
# Some lines of GLUE's files are malformed.
_MALFORMED_LINES_ALLOWED = 0.001


@dataclasses.dataclass(frozen=True)
class Gold:
  """The gold of a data set.

  Attributes:
    column: name of its column in the files.
    labels: {label: its number}, NaN for a pair without gold; empty if gold is a score.
    scale: the lowest and the highest score.
  """

  column: str
  labels: Mapping[str, float] = dataclasses.field(default_factory=dict)
  scale: tuple[float, float] = (0.0, 5.0)

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
class Table:
  """Files, columns and labels of a data set, and its place in TensorFlow Datasets.

  Attributes:
    name: the name in messages, and the folder of the files below data_dir, which may be data_dir itself.
    gold: the gold.
    columns: names of the two columns of sentences.
    places: positions of both and of gold in the published code, for files whose header has none of the names; -1 is the
      last column.
    files: {split: its file, or several of which the first that exists is read}.
    hidden: {file whose gold GLUE hides: positions of its sentences}.
    required: splits that must exist.
    other_folders: other names of the folder.
    archives: {split: address of the organizers' archive}; archives in data_dir are read without unpacking.
    published: {split: (number of pairs, `SentencePairs.digest`)} of the published data, if others evaluate on it.
    tfds: name in TensorFlow Datasets (TFDS); empty if TFDS does not have the data set.
    tfds_columns: names of sentences and gold in TFDS.
    tfds_labels: {label in TFDS: its number} if the labels differ from those of the files.
    tfds_splits: {split: its name in TFDS}.
    tfds_urls: addresses that TensorFlow Datasets downloads from; empty for that of its configuration.
  """

  name: str
  gold: Gold
  columns: tuple[str, str] = ("sentence1", "sentence2")
  places: tuple[int, int, int] = (1, 2, -1)
  files: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=lambda: GLUE_FILES)
  hidden: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
  required: tuple[str, ...] = ()
  other_folders: tuple[str, ...] = ()
  archives: Mapping[str, str] = dataclasses.field(default_factory=dict)
  published: Mapping[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
  tfds: str = ""
  tfds_columns: tuple[str, str, str] = ("sentence1", "sentence2", "label")
  tfds_labels: Mapping[str, float] = dataclasses.field(default_factory=dict)
  tfds_splits: Mapping[str, str] = dataclasses.field(default_factory=lambda: TFDS_SPLITS)
  tfds_urls: tuple[str, ...] = ()

  @property
  def expected(self) -> str:
    """Description of the files below data_dir, for errors."""
    names = [names[0] for names in self.files.values()]
    return f"{self.name}/{{{','.join(names)}}}"

  def find(self, root: Any, split: str) -> Any:
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

  def read(self, path: Any, with_gold: bool = True) -> tuple[SentencePairs, int]:
    """Returns the pairs of one of the files, and the number of malformed lines that were left out."""
    gold = self.gold if with_gold else None
    places: Sequence[int] = self.hidden.get(path.name, self.places)
    return read_as_published(path, self.columns, places, gold, hidden=path.name in self.hidden)

  def difference(self, pairs: SentencePairs, split: str) -> str:
    """Returns how a split differs from the published data; "" if it does not, or if nothing is published."""
    if split not in self.published:
      return ""
    size, digest = self.published[split]
    return unlike_published(pairs, f"{self.name}'s {split} split", size, digest)


def read_as_published(
  path: FilePath, columns: tuple[str, str], places: Sequence[int], gold: Gold | None = None, hidden: bool = False
) -> tuple[SentencePairs, int]:
  """Returns the pairs of a table as the published code reads it, and the number of lines left out.

  Columns have the header's names, or are at `places` if it has none of them; further ones are ignored. Lines that are
  too short are left out, and so is up to a thousandth of lines that are malformed in another way. The column of gold
  may be missing if it is `hidden`.
  """
  names: list[str] | None = None
  rows, short = [], 0
  broken: list[DataError] = []
  for number, line in lines(path, "skip", broken):
    fields = line.split("\t")
    if names is None:
      names = fields
      if hidden and gold is not None and gold.column not in names:
        gold = None
      places = _positions(names, columns, gold, places, path, number)
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
    raise DataError(
      f"{path}: all {counted(short, 'line')} after the header have too few columns; expected at least "
      f"{max(places) + 1}, separated by tabs"
    )
  return pairs_of(rows, path), short + len(broken)


def pairs_of(rows: list[tuple[float, str, str]], path: FilePath) -> SentencePairs:
  """Returns the pairs of rows (gold, first sentence, second sentence) of a file, which must have some."""
  if not rows:
    raise DataError(f"{path} is empty; expected sentence pairs")
  scores, sentences_a, sentences_b = zip(*rows, strict=True)
  return SentencePairs(sentences_a, sentences_b, np.array(scores, np.float64))


def _positions(
  names: list[str], columns: tuple[str, str], gold: Gold | None, places: Sequence[int], path: FilePath, number: int
) -> Sequence[int]:
  """Returns the positions of the columns in a header: by their names, or the published ones if it has none of them."""
  wanted = list(columns)
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
