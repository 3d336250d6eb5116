"""Loaders of a task's splits: of a `Table`, and of STS-12 to STS-16; from files or from TensorFlow Datasets."""

import itertools
from typing import Any

import numpy as np

from bert_flow_tf.data import tfds_source
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.semeval import Year, read_full, read_year
from bert_flow_tf.data.sources import missing_file, note_of, without
from bert_flow_tf.data.table import Table
from bert_flow_tf.data.task import Loaded, Paths
from bert_flow_tf.errors import DataError


def load_table(table: Table, eval_split: str, paths: Paths) -> Loaded:
  """Returns the splits of a table that exist; if GLUE hides the gold of the evaluated split, dev is evaluated.

  Raises:
    DataError: a file is missing or malformed, or the data cannot be downloaded.
  """
  if paths.data_dir is not None:
    splits, source = load_files(table, paths.data_dir)
  else:
    splits, source = load_tfds(table, paths.tfds_data_dir)
  if np.isnan(splits[eval_split].scores).all() and "dev" in splits:
    return Loaded(splits, f"{source}, evaluated on dev, because {eval_split} has no gold", {"eval_split": "dev"})
  return Loaded(splits, source)


def load_files(table: Table, data_dir: str) -> tuple[dict[str, SentencePairs], str]:
  """Returns the splits of a table whose files exist, and a description of their origin."""
  splits, notes, missing, folders = {}, [], [], []
  for split, names in table.files.items():
    path = table.find(data_dir, split)
    if path is None:
      if split in table.required:
        raise missing_file(data_dir, table.name, names[0], table.expected)
      missing.append(names[0])
      continue
    splits[split], malformed = table.read(path)
    notes += malformed
    folders.append(path.parent)
    difference = note_of(f"{path.name} in {data_dir}", table.difference(splits[split], split))
    if difference:
      notes.append(split + difference)
  source = f"{table.name}'s files in {folders[0]}"
  return splits, ", ".join([source, *without(missing), *notes])


def load_tfds(table: Table, tfds_data_dir: str | None) -> tuple[dict[str, SentencePairs], str]:
  """Returns the splits of a table from TensorFlow Datasets, NaN where GLUE hides the gold of test, and their origin."""
  builder = builder_of(table, tfds_data_dir)
  splits = {}
  for split, stored in table.tfds_splits.items():
    splits[split] = read_tfds(builder, table, split)
    hidden = np.flatnonzero(np.isnan(splits[split].scores))
    if hidden.size and split != "test":
      raise DataError(
        f"{table.tfds}, {stored} split, row {hidden[0] + 1}: the label is hidden (-1 in GLUE); expected a label in "
        "each row"
      )
  return splits, tfds_source.source_of(builder)


def builder_of(table: Table, tfds_data_dir: str | None) -> Any:
  """Returns the TFDS builder of a table, with its data on disk."""
  if not table.tfds:
    raise DataError(
      f"data_dir: missing; {table.name} is not in TensorFlow Datasets with the column {table.gold.column} and needs a "
      f"folder with {table.expected}",
      argument="data_dir",
    )
  return tfds_source.prepared(table.name, table.tfds, tfds_data_dir, table.expected, table.tfds_urls)


def read_tfds(builder: Any, table: Table, split: str) -> SentencePairs:
  """Returns the pairs of a split in TensorFlow Datasets, NaN for a hidden or missing gold."""
  first, second, gold_column = table.tfds_columns
  (a, b), column = tfds_source.read_split(builder, table.tfds_splits[split], (first, second), gold_column)
  labels = table.tfds_labels or table.gold.labels
  if not labels:
    scores = tfds_source.scores_of(column)
    low, high = table.gold.scale
    scores[(scores < low) | (scores > high)] = np.nan
    return SentencePairs(a, b, scores)
  scores = np.full(len(column), np.nan)
  for label, gold in labels.items():
    if not np.isnan(gold):
      scores[column == builder.info.features[gold_column].str2int(label)] = gold
  return SentencePairs(a, b, scores)


def load_years(years: tuple[Year, ...], paths: Paths) -> Loaded:
  """Returns the test split of a task of STS-12 to STS-16, with subsets such as MSRpar, or STS-12/MSRpar in their union.

  A file full.txt in data_dir itself is read first, as in the published code; a full.txt has no subsets, and without
  scores it is for fitting alone.

  Raises:
    DataError: a file is missing or malformed, or cannot be downloaded.
  """
  full = None
  if paths.data_dir is not None:
    folders = [""]
    if len(years) > 1:
      folders += ["STS-12-16", "STS/STS-12-16"]
    full = read_full(paths.data_dir, folders)
  if full is not None:
    pairs, source = full
  else:
    parts, sources = {}, []
    for year in years:
      parts[year.name], source = _load_year(year, paths)
      sources.append(source)
    pairs, source = parts[years[0].name], "; ".join(sources)
    if len(years) > 1:
      pairs = SentencePairs.join(parts)
  if np.isnan(pairs.scores).all():
    return Loaded({"test": pairs}, source, {"eval_split": None})
  return Loaded({"test": pairs}, source)


def _load_year(year: Year, paths: Paths) -> tuple[SentencePairs, str]:
  """Returns the pairs of a year and their origin."""
  if paths.data_dir is None:
    return _load_year_from_tfds(year, paths.tfds_data_dir)
  result = read_year(paths.data_dir, year)
  if result is not None:
    pairs, source = result
    return pairs, source + note_of(source, year.difference(pairs))
  result = read_full(paths.data_dir, year.full_places)
  if result is None:
    raise missing_file(paths.data_dir, year.folder, f"STS.input.{year.subsets[0]}.txt", year.expected)
  return result


def _load_year_from_tfds(year: Year, tfds_data_dir: str | None) -> tuple[SentencePairs, str]:
  builder = tfds_source.prepared(year.name, f"semeval_sts/{year.config}", tfds_data_dir, year.expected)
  (names, a, b), column = tfds_source.read_split(builder, "test", ("subset", "sentence1", "sentence2"), "score")
  pairs = SentencePairs(a, b, tfds_source.scores_of(column))
  parts = {}
  # The rows of a subset are neighbors.
  for name, rows in itertools.groupby(range(len(names)), key=lambda row: names[row]):
    parts[name] = pairs.take(np.array(list(rows)))
  return SentencePairs.join(parts), tfds_source.source_of(builder)
