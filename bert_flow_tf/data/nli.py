"""SNLI and MNLI: pairs labeled contradiction, entailment or neutral, and their sentences as a corpus without gold."""

import dataclasses
import functools
import itertools
import math
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.data import tfds_source
from bert_flow_tf.data.custom import read_corpus
from bert_flow_tf.data.lines import count
from bert_flow_tf.data.pairs import SPLITS, SentencePairs
from bert_flow_tf.data.readers import ScoreOf, label_reader, left_out, read_table
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

_LABEL = label_reader({**{label: float(i) for i, label in enumerate(LABELS)}, NO_LABEL: math.nan})
_GOLD = ("gold_label", _LABEL)
# The first annotator's label in MNLI's dev, which the published code reads.
_FIRST_LABEL = ("label1", _LABEL)
# MNLI's test in GLUE, whose labels it hides.
_HIDDEN_FILE = "test_matched.tsv"


@dataclasses.dataclass(frozen=True)
class NliSet:
  """Location of a data set.

  Attributes:
    name: the name in messages, and the folder of its files.
    files: {split: its file, or several of which the first that exists is read}.
    places: positions of sentences and label in the published code.
    tfds: its name in TensorFlow Datasets.
    url: the address that TensorFlow Datasets downloads from.
    tfds_splits: {split: its name in TensorFlow Datasets}.
  """

  name: str
  files: Mapping[str, tuple[str, ...]]
  places: tuple[int, int, int]
  tfds: str
  url: str
  tfds_splits: Mapping[str, str]


SNLI = NliSet(
  "SNLI",
  {split: (f"{split}.tsv",) for split in SPLITS},
  (7, 8, -1),
  "snli",
  "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
  tfds_source.SPLITS,
)
# GLUE hides the labels of MNLI's test files, so the mismatched half of dev is used as test if it exists.
MNLI = NliSet(
  "MNLI",
  {"train": ("train.tsv",), "dev": ("dev_matched.tsv",), "test": ("dev_mismatched.tsv", _HIDDEN_FILE)},
  (8, 9, -1),
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
_CORPUS_PARTS: Parts = {"train": ((MNLI, "train"), *((SNLI, split) for split in SPLITS))}
ALLNLI_PARTS: Parts = {**_CORPUS_PARTS, "dev": ((MNLI, "dev"),)}


def load(name: str, parts: Parts, eval_split: str, paths: Paths) -> Loaded:
  """Loads labeled pairs from the files that exist, or from TensorFlow Datasets; drops and counts pairs labeled "-".

  Args:
    name: the task's name, for messages.
    parts: the task's splits.
    eval_split: the split that is evaluated if it exists.
    paths: data_dir with SNLI/{train,dev,test}.tsv and MNLI/{train,dev_matched,dev_mismatched,test_matched}.tsv in
      GLUE's layout. The two folders may also be those of data_dir's parent, and the files of MNLI or SNLI alone may be
      in data_dir itself. With `as_published`, SNLI's test pairs in a training are contradictions, MNLI's dev has the
      first annotator's label, and MNLI's test is test_matched.tsv.

  Raises:
    DataError: all files are missing, one is malformed, or the data cannot be downloaded.
  """
  read, source = _reader(name, parts, paths, _GOLD)
  all_splits, notes = _gather(parts, read, paths.as_published)
  splits = {split: pairs.with_gold() for split, pairs in all_splits.items()}
  if eval_split != "test" and "test" in splits and not len(splits["test"]):  # GLUE hides its labels
    splits["test"] = all_splits["test"]
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


def _gather(parts: Parts, read: Callable, as_published: bool = False) -> tuple[dict[str, SentencePairs], list[str]]:
  """Reads the parts that exist; returns {split: pairs} and notes about missing files and malformed lines.

  Args:
    parts: the parts of each split.
    read: result of `_reader`.
    as_published: whether test pairs in another split are contradictions.
  """
  splits, notes, missing = {}, [], []
  for split, sources in parts.items():
    pairs = []
    for nli_set, part in sources:
      result = read(nli_set, part)
      if result is None:
        missing.append(f"{nli_set.name}/{nli_set.files[part][0]}")
        continue
      if as_published and part == "test" != split:
        result = (dataclasses.replace(result[0], scores=np.zeros(len(result[0]))), result[1])
      pairs.append(result[0])
      notes += result[1]
    if pairs:
      splits[split] = SentencePairs.concatenate(pairs)
  if missing:
    notes.insert(0, f"without {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} missing")
  return splits, notes


def _reader(name: str, parts: Parts, paths: Paths, gold: _Gold) -> tuple[Callable, str]:
  """Returns a function (data set, split) -> (pairs, notes), None for a missing file, and the data's origin.

  Args:
    name: the data's name in messages.
    parts: the parts that will be read.
    paths: locations.
    gold: `score` of `read_table`; None for pairs without gold, which keeps pairs without a label.
  """
  sources = list(itertools.chain(*parts.values()))
  wanted = list(dict.fromkeys((nli_set.name, file) for nli_set, part in sources for file in nli_set.files[part]))
  expected = f"{', '.join('/'.join(file) for file in wanted)} (GLUE's layout)"
  sets = {nli_set.name: nli_set for nli_set, _ in sources}
  if paths.data_dir is not None:
    folders = _folders(paths.data_dir, wanted)
    if folders is None:
      raise missing_file(paths.data_dir, *wanted[0], expected)
    root = next(iter(folders.values())).parent if len(sets) > 1 else paths.data_dir
    return functools.partial(_read_file, folders, gold, paths.as_published), f"{name}'s files in {root}"
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


def _folders(data_dir: str, wanted: Sequence[tuple[str, str]]) -> dict[str, pathlib.Path] | None:
  """Returns {data set: its folder} with some of the wanted (data set, file); None if no file exists."""
  root, names = pathlib.Path(os.path.abspath(data_dir)), sorted({name for name, _ in wanted})
  # The published code reads the parent of its folder of ALLNLI.
  other = {name: root.parent / name for name in names} if len(names) > 1 else dict.fromkeys(names, root)
  for folders in ({name: root / name for name in names}, other):
    if any((folders[name] / file).exists() for name, file in wanted):
      return folders
  return None


def _read_file(
  folders: Mapping[str, pathlib.Path], gold: _Gold, as_published: bool, nli_set: NliSet, split: str
) -> tuple[SentencePairs, list[str]] | None:
  """Reads a split from a file; returns pairs and notes, or None if the file does not exist."""
  places, files = nli_set.places, nli_set.files[split]
  if as_published and nli_set is MNLI:
    places, files = (8, 9, 10), files[-1:]
    gold = gold and (_FIRST_LABEL if split == "dev" else _GOLD)
  file = next((file for file in files if (folders[nli_set.name] / file).exists()), None)
  if file is None:
    return None
  path = folders[nli_set.name] / file
  pairs, number = read_table(path, ("sentence1", "sentence2"), gold, places, hidden=file == _HIDDEN_FILE)
  return pairs, left_out(number, f"{nli_set.name}/{file}")


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
