"""SNLI and MNLI: pairs labeled contradiction, entailment or neutral, and their sentences as a corpus without gold."""

import dataclasses
import functools
import math
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bert_flow_tf.data import tfds_source
from bert_flow_tf.data.custom import read_corpus
from bert_flow_tf.data.lines import count
from bert_flow_tf.data.pairs import SPLITS, SentencePairs
from bert_flow_tf.data.readers import ScoreOf, label_reader, read_table
from bert_flow_tf.data.sources import missing_file
from bert_flow_tf.data.task import Loaded, Paths
from bert_flow_tf.errors import DataError

# In the order of BERT's own runner for these tasks; gold is the index.
LABELS = ("contradiction", "entailment", "neutral")
# SNLI's label of a pair whose annotators did not agree.
NO_LABEL = "-"
# The paper's settings of a flow that is fitted on these sentences.
LEARNING_RATE = 2e-5
NUM_TRAIN_EPOCHS = 0.15

_GOLD = ("gold_label", label_reader({**{label: float(i) for i, label in enumerate(LABELS)}, NO_LABEL: math.nan}))
# Some lines of the published files are incomplete.
_INCOMPLETE_LINES_ALLOWED = 0.001


@dataclasses.dataclass(frozen=True)
class NliSet:
  """Location of a data set.

  Attributes:
    name: the name in messages.
    files: {split: file in data_dir}.
    tfds: its name in TensorFlow Datasets.
    url: the address that TensorFlow Datasets downloads from.
    tfds_splits: {split: its name in TensorFlow Datasets}.
  """

  name: str
  files: Mapping[str, str]
  tfds: str
  url: str
  tfds_splits: Mapping[str, str]


SNLI = NliSet(
  "SNLI",
  {split: f"SNLI/{split}.tsv" for split in SPLITS},
  "snli",
  "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
  tfds_source.SPLITS,
)
# GLUE hides the labels of MNLI's test files, so the mismatched half of dev is used as test.
MNLI = NliSet(
  "MNLI",
  {"train": "MNLI/train.tsv", "dev": "MNLI/dev_matched.tsv", "test": "MNLI/dev_mismatched.tsv"},
  "multi_nli",
  "https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip",
  {"train": "train", "dev": "validation_matched", "test": "validation_mismatched"},
)

_Gold = tuple[str, ScoreOf] | None
# {split of a task: its parts (data set, split of the data set)}
Parts = Mapping[str, tuple[tuple[NliSet, str], ...]]
SNLI_PARTS: Parts = {split: ((SNLI, split),) for split in SPLITS}
MNLI_PARTS: Parts = {split: ((MNLI, split),) for split in SPLITS}
# The published code trains on all of SNLI.
ALLNLI_PARTS: Parts = {"train": (*((SNLI, split) for split in SPLITS), (MNLI, "train")), "dev": ((MNLI, "dev"),)}
_CORPUS_PARTS: Parts = {"train": ((MNLI, "train"), *((SNLI, split) for split in SPLITS))}


def load(name: str, parts: Parts, eval_split: str, paths: Paths) -> Loaded:
  """Loads labeled pairs from the files that exist, or from TensorFlow Datasets; drops and counts pairs labeled "-".

  Args:
    name: the task's name, for messages.
    parts: the task's splits.
    eval_split: the split that is evaluated if it exists.
    paths: data_dir with SNLI/{train,dev,test}.tsv and MNLI/{train,dev_matched,dev_mismatched}.tsv in GLUE's layout.

  Raises:
    DataError: all files are missing, one is malformed, or the data cannot be downloaded.
  """
  read, source = _reader(name, parts, paths, _GOLD)
  all_splits, notes = _gather(parts, read)
  splits = {split: pairs.with_gold() for split, pairs in all_splits.items()}
  dropped = {split: len(all_splits[split]) - len(pairs) for split, pairs in splits.items()}
  for split, pairs in splits.items():
    if not len(pairs):
      raise DataError(f"{name}: none of the {dropped[split]} pairs of its {split} split has a label")
  if any(dropped.values()):
    counts = ", ".join(f"{number} in {split}" for split, number in dropped.items() if number)
    notes.append(f"pairs without an agreed label left out: {counts}")
  changes = {} if eval_split in splits else {"eval_split": None}
  return Loaded(splits, ", ".join([source, *notes]), changes, dropped)


def load_corpus(
  name: str | os.PathLike,
  data_dir: str | os.PathLike | None = None,
  tfds_data_dir: str | os.PathLike | None = None,
) -> tuple[SentencePairs, str]:
  """Loads a corpus to fit a flow on.

  Args:
    name: "nli" for the sentences of SNLI and of MNLI's train split ("flow (NLI)" in the paper), labeled or not; or a
      file, in a format of `bert_flow_tf.data.custom.read_corpus`.
    data_dir: for "nli", folder with SNLI/{train,dev,test}.tsv and MNLI/train.tsv, of which some may be missing; None
      for TensorFlow Datasets.
    tfds_data_dir: folder of TensorFlow Datasets; None for its default.

  Returns:
    The pairs, without gold, and a description of their origin.

  Raises:
    ConfigError: a folder is empty.
    DataError: the data is missing, malformed or cannot be downloaded.
  """
  paths = Paths(data_dir, tfds_data_dir)
  if str(name).lower() != "nli":
    pairs = read_corpus(os.path.expanduser(name))
    return pairs, f"{count(len(pairs), 'pair')} of {name}"
  read, source = _reader("SNLI and MNLI", _CORPUS_PARTS, paths, None)
  splits, notes = _gather(_CORPUS_PARTS, read)
  return splits["train"], ", ".join([source, *notes])


def _gather(parts: Parts, read: Callable) -> tuple[dict[str, SentencePairs], list[str]]:
  """Reads the parts that exist; returns {split: pairs} and notes about missing files and malformed lines."""
  splits, notes, missing = {}, [], []
  for split, sources in parts.items():
    pairs = []
    for nli_set, part in sources:
      result = read(nli_set, part)
      if result is None:
        missing.append(nli_set.files[part])
        continue
      pairs.append(result[0])
      notes += result[1]
    if pairs:
      splits[split] = SentencePairs.concatenate(pairs)
  if missing:
    notes.insert(0, f"without {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not there")
  return splits, notes


def _reader(name: str, parts: Parts, paths: Paths, gold: _Gold) -> tuple[Callable, str]:
  """Returns a function (data set, split) -> (pairs, notes), None for a missing file, and the data's origin.

  Args:
    name: the data's name in messages.
    parts: the parts that will be read.
    paths: locations.
    gold: `score` of `read_table`; None for pairs without gold, which keeps pairs without a label.
  """
  files = [nli_set.files[part] for sources in parts.values() for nli_set, part in sources]
  expected = f"{', '.join(files)} (GLUE's layout)"
  if paths.data_dir is not None:
    if not any((pathlib.Path(paths.data_dir) / file).exists() for file in files):
      raise missing_file(paths.data_dir, *os.path.split(files[0]), expected)
    return functools.partial(_read_file, paths.data_dir, gold), f"{name}'s files in {paths.data_dir}"
  sets = {nli_set.name: nli_set for sources in parts.values() for nli_set, _ in sources}
  builders = {
    name: tfds_source.prepared(
      name,
      sets[name].tfds,
      paths.tfds_data_dir,
      expected,
      lambda _, n=name: [sets[n].url],  # type: ignore[misc]
    )
    for name in sorted(sets)
  }
  origins = [tfds_source.source_of(builder) for builder in builders.values()]
  return functools.partial(_read_tfds, builders, gold), " and ".join(origins)


def _read_file(data_dir: str, gold: _Gold, nli_set: NliSet, split: str) -> tuple[SentencePairs, list[str]] | None:
  """Reads a split from a file; returns pairs and notes, or None if the file does not exist."""
  file = nli_set.files[split]
  path = pathlib.Path(data_dir) / file
  if not path.exists():
    return None
  pairs, broken = read_table(path, ("sentence1", "sentence2"), gold, _INCOMPLETE_LINES_ALLOWED)
  return pairs, [f"{count(broken, 'malformed line')} of {file} left out"] * bool(broken)


def _read_tfds(
  builders: Mapping[str, Any], gold: _Gold, nli_set: NliSet, split: str
) -> tuple[SentencePairs, list[str]]:
  """Reads a split from TensorFlow Datasets; returns pairs and notes."""
  builder, stored = builders[nli_set.name], nli_set.tfds_splits[split]
  a, b, labels = tfds_source.read_split(builder, stored, ("premise", "hypothesis"), "label")
  scores = np.full(len(labels), np.nan)  # TFDS has -1 for "-".
  for index, label in enumerate(LABELS if gold else ()):
    scores[labels == builder.info.features["label"].str2int(label)] = index
  return SentencePairs(a, b, scores), []
