"""SNLI and MNLI: pairs labeled contradiction, entailment or neutral, and their sentences as a corpus without gold."""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping

import numpy as np

from bert_flow_tf.data import tfds_source
from bert_flow_tf.data.loading import builder_of, read_tfds
from bert_flow_tf.data.pairs import SPLITS, SentencePairs
from bert_flow_tf.data.semeval import LABELS
from bert_flow_tf.data.sources import missing_file, without
from bert_flow_tf.data.table import Gold, Table
from bert_flow_tf.data.task import Loaded, Paths
from bert_flow_tf.errors import DataError

# The paper's settings of a flow that is fitted on these sentences.
LEARNING_RATE = 2e-5
NUM_TRAIN_EPOCHS = 0.15

# The label of a pair whose annotators did not agree is "-".
_LABELS = {label: float(index) for index, label in enumerate(LABELS)} | {"-": math.nan}
_TFDS_COLUMNS = ("premise", "hypothesis", "label")

SNLI = Table(
  name="SNLI",
  gold=Gold("gold_label", _LABELS),
  places=(7, 8, -1),
  tfds="snli",
  tfds_columns=_TFDS_COLUMNS,
  tfds_urls=("https://nlp.stanford.edu/projects/snli/snli_1.0.zip",),
)
# GLUE hides the labels of MNLI's test files, so the mismatched half of dev is used as test if it exists.
MNLI = Table(
  name="MNLI",
  gold=Gold("gold_label", _LABELS),
  places=(8, 9, -1),
  files={"train": ("train.tsv",), "dev": ("dev_matched.tsv",), "test": ("dev_mismatched.tsv", "test_matched.tsv")},
  hidden={"test_matched.tsv": (8, 9)},
  tfds="multi_nli",
  tfds_columns=_TFDS_COLUMNS,
  tfds_splits={"train": "train", "dev": "validation_matched", "test": "validation_mismatched"},
  tfds_urls=("https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip",),
)

# {split of a task: its parts (data set, split of the data set)}
Parts = Mapping[str, tuple[tuple[Table, str], ...]]
SNLI_PARTS: Parts = {split: ((SNLI, split),) for split in SPLITS}
MNLI_PARTS: Parts = {split: ((MNLI, split),) for split in SPLITS}
# The published code trains on all of SNLI.
_CORPUS_PARTS: Parts = {"train": ((MNLI, "train"), (SNLI, "train"), (SNLI, "dev"), (SNLI, "test"))}
ALLNLI_PARTS: Parts = {"train": _CORPUS_PARTS["train"], "dev": ((MNLI, "dev"),)}

# (data set, split) -> pairs and notes; None for a missing file.
_Reader = Callable[[Table, str], tuple[SentencePairs, list[str]] | None]


def load(name: str, parts: Parts, eval_split: str, paths: Paths) -> Loaded:
  """Returns labeled pairs of the files that exist, or of TensorFlow Datasets; drops and counts pairs labeled "-".

  The two folders may also be those of data_dir's parent, and the files of MNLI or SNLI alone may be in data_dir itself.
  With `as_published`, SNLI's test pairs in a training are contradictions, MNLI's dev has the first annotator's label,
  and MNLI's test is test_matched.tsv.

  Raises:
    DataError: all files are missing, one is malformed, or the data cannot be downloaded.
  """
  all_splits, source = _load_parts(name, parts, paths, with_gold=True)
  splits = {split: pairs.with_gold() for split, pairs in all_splits.items()}
  if eval_split != "test" and "test" in splits and not len(splits["test"]):  # GLUE hides its labels
    splits["test"] = all_splits["test"]
  dropped = {split: len(all_splits[split]) - len(pairs) for split, pairs in splits.items()}
  for split, pairs in splits.items():
    if not len(pairs):
      raise DataError(f"{name}: none of the {dropped[split]} pairs of its {split} split has a label")
  if any(dropped.values()):
    counts = ", ".join(f"{number} in {split}" for split, number in dropped.items() if number)
    source += f", pairs without an agreed label left out: {counts}"
  if eval_split not in splits:
    return Loaded(splits, source, {"eval_split": None}, dropped)
  return Loaded(splits, source, {}, dropped)


def load_corpus(data_dir: str | None = None, tfds_data_dir: str | None = None) -> tuple[SentencePairs, str]:
  """Returns the sentences of SNLI and of MNLI's train split ("flow (NLI)" in the paper), and their origin.

  Pairs have no gold, and those without a label are kept. Some of the files may be missing.

  Raises:
    ConfigError: a folder is empty.
    DataError: the data is missing, malformed or cannot be downloaded.
  """
  splits, source = _load_parts("SNLI and MNLI", _CORPUS_PARTS, Paths(data_dir, tfds_data_dir), with_gold=False)
  return splits["train"], source


def _load_parts(name: str, parts: Parts, paths: Paths, with_gold: bool) -> tuple[dict[str, SentencePairs], str]:
  """Returns {split: its pairs of all parts that exist} and a description of their origin."""
  tables: dict[str, Table] = {}
  for part in sum(parts.values(), ()):
    tables[part[0].name] = part[0]
  if paths.data_dir is not None:
    read, source = _reader_of_files(name, tables, paths.data_dir, with_gold, paths.as_published)
  else:
    read, source = _reader_of_tfds(tables, paths.tfds_data_dir, with_gold)
  splits, notes, missing = {}, [], []
  for split, tables_and_splits in parts.items():
    pairs = []
    for table, part_split in tables_and_splits:
      result = read(table, part_split)
      if result is None:
        missing.append(f"{table.name}/{table.files[part_split][0]}")
        continue
      part_pairs, part_notes = result
      if paths.as_published and part_split == "test" != split:
        part_pairs = dataclasses.replace(part_pairs, scores=np.zeros(len(part_pairs)))
      pairs.append(part_pairs)
      notes += part_notes
    if pairs:
      splits[split] = SentencePairs.concatenate(pairs)
  if not splits:
    raise _missing(paths.data_dir or "", parts)
  return splits, ", ".join([source, *without(missing), *notes])


def _missing(data_dir: str, parts: Parts) -> DataError:
  """Returns the error of a folder that has no file of the parts."""
  names = []
  for table, split in sum(parts.values(), ()):
    names.append(f"{table.name}/{table.files[split][0]}")
  folder, name = names[0].split("/")
  return missing_file(data_dir, folder, name, f"{', '.join(dict.fromkeys(names))} (GLUE's layout)")


def _reader_of_files(
  name: str, tables: Mapping[str, Table], data_dir: str, with_gold: bool, as_published: bool
) -> tuple[_Reader, str]:
  """Returns the reader of files, and their origin."""
  root = os.path.abspath(data_dir)
  folders = dict.fromkeys(tables, root)
  # Two data sets are in two folders, in data_dir or next to it: the published code reads the parent of its ALLNLI.
  if len(tables) > 1:
    if not any(os.path.isdir(os.path.join(root, folder)) for folder in tables):
      root = os.path.dirname(root)
    folders = {folder: os.path.join(root, folder) for folder in tables}

  def read(table: Table, split: str) -> tuple[SentencePairs, list[str]] | None:
    if as_published and table is MNLI:
      table = _mnli_as_published(split)
    path = table.find(folders[table.name], split)
    if path is None:
      return None
    pairs, notes = table.read(path, with_gold)
    return pairs, [note.replace(path.name, f"{table.name}/{path.name}") for note in notes]

  return read, f"{name}'s files in {root}"


def _mnli_as_published(split: str) -> Table:
  """Returns MNLI with the label and the test file that the published code reads."""
  gold = MNLI.gold
  if split == "dev":  # the first annotator's label
    gold = Gold("label1", _LABELS)
  files = {"train": ("train.tsv",), "dev": ("dev_matched.tsv",), "test": ("test_matched.tsv",)}
  return dataclasses.replace(MNLI, gold=gold, places=(8, 9, 10), files=files)


def _reader_of_tfds(tables: Mapping[str, Table], tfds_data_dir: str | None, with_gold: bool) -> tuple[_Reader, str]:
  """Returns the reader of TensorFlow Datasets, and the data's origin."""
  builders = {name: builder_of(tables[name], tfds_data_dir) for name in sorted(tables)}

  def read(table: Table, split: str) -> tuple[SentencePairs, list[str]]:
    pairs = read_tfds(builders[table.name], table, split)
    if not with_gold:
      pairs = SentencePairs.without_gold(pairs.sentences_a, pairs.sentences_b)
    return pairs, []

  return read, " and ".join(tfds_source.source_of(builder) for builder in builders.values())
