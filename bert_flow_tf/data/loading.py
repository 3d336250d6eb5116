"""Loaders of a task's splits, from files or from TensorFlow Datasets: of tables, and of STS-12 to STS-16."""

import dataclasses
import itertools
import os

import numpy as np

from bert_flow_tf.data import tfds_source
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.semeval import Year, read_full, read_year
from bert_flow_tf.data.table import TaskTable, difference, missing_file, note_of
from bert_flow_tf.data.task import Paths, TaskData, TaskSpec
from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import counted

# {split of a task: its parts (table, split of the table)}
Parts = dict[str, tuple[tuple[TaskTable, str], ...]]


def table_parts(table: TaskTable) -> Parts:
  """Returns the splits of a table as a task's splits."""
  return {split: ((table, split),) for split in table.files}


def load_tables(parts: Parts, published: Parts, spec: TaskSpec, paths: Paths) -> TaskData:
  """Returns the splits of a task that exist; `published` are those with the labels that the published code reads."""
  selected = parts
  if paths.as_published:
    selected = published
  splits, source = load_table_parts(spec.name, selected, paths)
  # A split of train or dev needs labels; pairs whose annotators did not agree are left out.
  dropped = {}
  for split, pairs in splits.items():
    with_gold = pairs.with_gold()
    if not len(with_gold) and split != "test":
      raise DataError(f"{spec.name}: none of the {len(pairs)} pairs of its {split} split has a label ({source})")
    if 0 < len(with_gold) < len(pairs):
      splits[split], dropped[split] = with_gold, len(pairs) - len(with_gold)
  if dropped:
    counts = ", ".join(f"{number} in {split}" for split, number in dropped.items())
    source += f", pairs without an agreed label left out: {counts}"
  evaluated = spec.eval_split
  if evaluated not in splits:
    evaluated = None
  elif "dev" in splits and np.isnan(splits[evaluated].scores).all():
    source += f", evaluated on dev, because {evaluated} has no gold"
    evaluated = "dev"
  return TaskData(dataclasses.replace(spec, eval_split=evaluated), splits, source, dropped)


def load_table_parts(name: str, parts: Parts, paths: Paths) -> tuple[dict[str, SentencePairs], str]:
  """Returns {split: the pairs of its parts that exist}, NaN for a missing gold, and a description of their origin."""
  tables = {}
  for table, _ in itertools.chain.from_iterable(parts.values()):
    tables[table.name] = table
  if paths.data_dir is None:
    reader: _Files | _Tfds = _Tfds(tables, paths.tfds_data_dir)
  else:
    reader = _Files(tables, paths.data_dir)
  splits = {}
  for split, tables_and_splits in parts.items():
    pairs = []
    for table, part in tables_and_splits:
      part_pairs = reader.read(table, part)
      if part_pairs is not None:
        pairs.append(part_pairs)
    if pairs:
      splits[split] = SentencePairs.concatenate(pairs)
  return splits, reader.source(name)


class _Files:
  """Reader of the files of tables in data_dir."""

  def __init__(self, tables: dict[str, TaskTable], data_dir: str) -> None:
    self._tables, self._data_dir = tables, data_dir
    self._folders = dict.fromkeys(tables, data_dir)
    if len(tables) > 1:
      # Each in its folder, in data_dir or next to it: the published code reads the parent of its folder of ALLNLI.
      root = os.path.abspath(data_dir)
      if not any(os.path.isdir(os.path.join(root, name)) for name in tables):
        root = os.path.dirname(root)
      self._folders = {name: os.path.join(root, name) for name in tables}
    # The folders and the files that were read or are missing, and notes about their lines.
    self._read: dict[str, None] = {}
    self._missing: list[tuple[str, str]] = []
    self._notes: list[str] = []

  def read(self, table: TaskTable, split: str) -> SentencePairs | None:
    """Returns the pairs of a split; None if its file is missing."""
    path = table.find(self._folders[table.name], split)
    if path is None:
      self._missing.append((table.name, table.files[split][0]))
      if split in table.required:
        raise self._error(table.name, table.files[split][0])
      return None
    self._read[str(path.parent)] = None
    pairs, left_out = table.read(path)
    if left_out:
      self._notes.append(f"{counted(left_out, 'malformed line')} of {table.name}/{path.name} left out")
    note = note_of(f"{path.name} in {self._data_dir}", difference(table.name, table.published, pairs, split))
    if note:
      self._notes.append(split + note)
    return pairs

  def source(self, name: str) -> str:
    """Returns a description of the data's origin; raises DataError if no file exists."""
    if not self._read:
      raise self._error(*self._missing[0])
    source = f"{name}'s files in {' and '.join(self._read)}"
    if self._missing:
      names = ", ".join(map("/".join, self._missing))
      verb = "is" if len(self._missing) == 1 else "are"
      source += f", without {names}, which {verb} missing"
    return ", ".join([source, *self._notes])

  def _error(self, folder: str, file: str) -> DataError:
    """Returns the error of a missing file."""
    expected = " and ".join(table.expected for table in self._tables.values())
    return missing_file(self._data_dir, folder, file, expected)


class _Tfds:
  """Reader of tables in TensorFlow Datasets."""

  def __init__(self, tables: dict[str, TaskTable], tfds_data_dir: str | None) -> None:
    self._builders = {}
    for name, table in sorted(tables.items()):
      if not table.tfds:
        message = f"data_dir: missing; {name} is not in TensorFlow Datasets and needs a folder with {table.expected}"
        raise DataError(message, argument="data_dir")
      self._builders[name] = tfds_source.prepared(name, table.tfds, tfds_data_dir, table.expected, table.tfds_urls)

  def read(self, table: TaskTable, split: str) -> SentencePairs:
    """Returns the pairs of a split, NaN for a hidden or missing gold."""
    first, second, gold_column = table.tfds_columns
    builder = self._builders[table.name]
    (a, b), column = tfds_source.read_split(builder, table.tfds_splits[split], (first, second), gold_column)
    # Scores are numbers, labels are indices of the feature's names, -1 without a label.
    labels = table.tfds_labels or table.gold.labels
    if not labels:
      low, high = table.gold.scale
      column[(column < low) | (column > high)] = np.nan  # GLUE hides a score as -1
      return SentencePairs(a, b, column)
    scores = np.full(len(column), np.nan)
    feature = builder.info.features[gold_column]
    for label, gold in labels.items():
      if label in feature.names:
        scores[column == feature.str2int(label)] = gold
    return SentencePairs(a, b, scores)

  def source(self, name: str) -> str:
    """Returns a description of the data's origin."""
    del name
    return " and ".join(tfds_source.source_of(builder) for builder in self._builders.values())


def load_years(years: tuple[Year, ...], spec: TaskSpec, paths: Paths) -> TaskData:
  """Returns the test split of STS-12 to STS-16, with subsets such as MSRpar, or STS-12/MSRpar in their union."""
  # The published code looks first for full.txt in data_dir itself. A full.txt without scores serves fits alone.
  is_union, result = len(years) > 1, None
  if paths.data_dir is not None:
    result = read_full(paths.data_dir, ("", "STS-12-16", "STS/STS-12-16") if is_union else ("",))
  if result is None and not is_union:
    result = _load_year(years[0], paths)
  if result is None:
    parts, sources = {}, []
    for year in years:
      parts[year.name], source = _load_year(year, paths)
      sources.append(source)
    result = SentencePairs.join(parts), "; ".join(sources)
  pairs, source = result
  if np.isnan(pairs.scores).all():
    spec = dataclasses.replace(spec, eval_split=None)
  return TaskData(spec, {"test": pairs}, source)


def _load_year(year: Year, paths: Paths) -> tuple[SentencePairs, str]:
  """Returns the pairs of a year and their origin."""
  if paths.data_dir is None:
    return _load_year_from_tfds(year, paths.tfds_data_dir)
  result = read_year(paths.data_dir, year)
  if result is not None:
    pairs, source = result
    return pairs, source + note_of(source, difference(year.name, year.published, pairs, "test"))
  result = read_full(paths.data_dir, year.full_places)
  if result is None:
    raise missing_file(paths.data_dir, year.folder, f"STS.input.{year.subsets[0]}.txt", year.expected)
  return result


def _load_year_from_tfds(year: Year, tfds_data_dir: str | None) -> tuple[SentencePairs, str]:
  builder = tfds_source.prepared(year.name, f"semeval_sts/{year.config}", tfds_data_dir, year.expected)
  (names, a, b), column = tfds_source.read_split(builder, "test", ("subset", "sentence1", "sentence2"), "score")
  pairs = SentencePairs(a, b, column)
  parts = {}
  # The rows of a subset are neighbors.
  for name, rows in itertools.groupby(range(len(names)), key=lambda row: names[row]):
    parts[name] = pairs.take(np.array(list(rows)))
  return SentencePairs.join(parts), tfds_source.source_of(builder)
