"""SNLI, MNLI and SICK-E: pairs labelled contradiction, entailment or neutral, what a siamese encoder is tuned on."""

import dataclasses
import functools
import math
import os
import pathlib
from collections.abc import Mapping

import numpy as np

from bert_flow_tf.data import sick_files, tfds_source
from bert_flow_tf.data.lines import count
from bert_flow_tf.data.nli_sets import INCOMPLETE_LINES_ALLOWED, MNLI, SNLI
from bert_flow_tf.data.pairs import SPLITS, SentencePairs
from bert_flow_tf.data.readers import label_reader, read_table
from bert_flow_tf.data.sources import exists, likely_data_dir
from bert_flow_tf.errors import ConfigError, DataError

# In the order of BERT's own runner for these tasks; a pair's score is its label's place here.
LABELS = ("contradiction", "entailment", "neutral")
# SNLI's mark of a pair on which its annotators did not agree.
NO_LABEL = "-"

_FROM_FILE = {**{label: float(i) for i, label in enumerate(LABELS)}, NO_LABEL: math.nan}
_FROM_SICK = {label.upper(): float(i) for i, label in enumerate(LABELS)}
_SICK = "SICK"
_FILES = {
  **{nli_set.name: nli_set.files for nli_set in (SNLI, MNLI)},
  _SICK: {split: f"{sick_files.FOLDER}/{file}" for split, file in sick_files.FILES.items()},
}
_TFDS = {nli_set.name: nli_set for nli_set in (SNLI, MNLI)}


@dataclasses.dataclass(frozen=True)
class EntailmentTask:
  """A task of labelled pairs.

  Attributes:
    name: the spelling in results and messages.
    parts: {split: ((data set, its split), ...)}.
    eval_split: the split whose figure counts.
    aliases: further spellings; upper and lower case never matter.
  """

  name: str
  parts: Mapping[str, tuple[tuple[str, str], ...]]
  eval_split: str
  aliases: tuple[str, ...] = ()


def _own_splits(data_set):
  return {split: ((data_set, split),) for split in SPLITS}


TASKS = (
  # As published: all of SNLI is training data there.
  EntailmentTask(
    "ALLNLI",
    {
      "train": (("SNLI", "train"), ("SNLI", "dev"), ("SNLI", "test"), ("MNLI", "train")),
      "dev": (("MNLI", "dev"),),
    },
    "dev",
  ),
  EntailmentTask("MNLI", _own_splits("MNLI"), "dev"),
  EntailmentTask("SNLI", _own_splits("SNLI"), "test"),
  EntailmentTask("SICK-E", _own_splits("SICK"), "test", ("sicke",)),
)


@dataclasses.dataclass(frozen=True, eq=False)
class EntailmentData:
  """The labelled pairs of a task.

  Attributes:
    task: the `EntailmentTask`.
    splits: {split: `SentencePairs` whose scores are places in `LABELS`}, in the order train, dev, test.
    dropped: {split: pairs that were left out since they have no agreed label}.
    source: where the pairs came from, for people to read.
  """

  task: EntailmentTask
  splits: Mapping[str, SentencePairs]
  dropped: Mapping[str, int]
  source: str


def find_entailment_task(name: str) -> EntailmentTask | None:
  """The task of this name or alias, in upper or lower case; None where there is none."""
  for task in TASKS:
    if str(name).lower() in (spelling.lower() for spelling in (task.name, *task.aliases)):
      return task
  return None


def load_entailment(
  name: str, data_dir: str | os.PathLike | None = None, tfds_data_dir: str | os.PathLike | None = None
) -> EntailmentData:
  """Loads a task's labelled pairs, as far as they are there; those labelled "-" are left out and counted.

  Args:
    name: ALLNLI (train: SNLI's three splits and MNLI's train; dev: MNLI's matched dev), MNLI (dev: matched; test:
      mismatched dev), SNLI or SICK-E.
    data_dir: folder with SNLI/{train,dev,test}.tsv, MNLI/{train,dev_matched,dev_mismatched}.tsv in GLUE's layout, and
      SICK/SICK_{train,trial,test_annotated}.txt; None to take SNLI and MNLI from TensorFlow Datasets.
    tfds_data_dir: TensorFlow Datasets' folder; None for its default.

  Raises:
    ConfigError: no such task, or a folder is empty.
    DataError: the data is missing, malformed or cannot be downloaded.
  """
  task = find_entailment_task(name)
  if task is None:
    raise ConfigError(f"unknown task {name!r}; allowed are {', '.join(task.name for task in TASKS)}")
  for flag, path in (("data_dir", data_dir), ("tfds_data_dir", tfds_data_dir)):
    if path is not None and not os.fspath(path):
      raise ConfigError(f"--{flag} is empty; expected a path, or leave the flag out")
  if data_dir is not None:
    data_dir = os.path.expanduser(data_dir)
    splits, dropped, notes = _gather(task, functools.partial(_read_file, data_dir))
    if not splits:
      files = [_FILES[name][split] for parts in task.parts.values() for name, split in parts]
      hints = (likely_data_dir(data_dir, *file.split("/")) for file in files)
      raise DataError(
        f"{pathlib.Path(data_dir) / files[0]} and the other files of {task.name} do not exist; --data_dir={data_dir} "
        f"must hold {', '.join(files)}" + next(filter(None, hints), "")
      )
    source = f"{task.name}'s files in {data_dir}"
  else:
    names = {name for parts in task.parts.values() for name, _ in parts}
    without = sorted(name for name in names if name not in _TFDS)
    if without:
      raise DataError(
        f"{task.name} is not in TensorFlow Datasets: pass --data_dir=FOLDER that holds "
        f"{', '.join(_FILES[without[0]].values())}"
      )
    folder = tfds_data_dir and os.path.expanduser(tfds_data_dir)
    builders = {name: _TFDS[name].prepare(folder, ", ".join(_FILES[name].values())) for name in sorted(names)}
    splits, dropped, notes = _gather(task, functools.partial(_read_tfds, builders))
    found = (f"{builder.info.full_name} in {builder.data_dir_root}" for builder in builders.values())
    source = f"TensorFlow Datasets {' and '.join(found)}"
  return EntailmentData(task, splits, dropped, ", ".join([source, *notes]))


def _gather(task, read):
  """({split: pairs}, {split: dropped}, notes) of a task, `read(data set, split)` giving pairs and notes, or None."""
  splits, dropped, notes, missing = {}, {}, [], []
  for split, parts in task.parts.items():
    read_parts = []
    for name, part in parts:
      found = read(name, part)
      if found is None:
        missing.append(_FILES[name][part])
        continue
      read_parts.append(found[0])
      notes += found[1]
    if not read_parts:
      continue
    pairs = SentencePairs.concatenate(read_parts)
    splits[split] = pairs.with_gold()
    dropped[split] = len(pairs) - len(splits[split])
    if not len(splits[split]):
      raise DataError(f"{task.name}: no pair of its {split} split has a label, all {len(pairs)} are {NO_LABEL!r}")
  if missing:
    notes.insert(0, f"without {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not there")
  if any(dropped.values()):
    counts = ", ".join(f"{number} in {split}" for split, number in dropped.items() if number)
    notes.append(f"pairs without an agreed label left out: {counts}")
  return splits, dropped, notes


def _read_file(data_dir, name, split):
  if name == _SICK:
    pairs = sick_files.read_file(data_dir, split, ("entailment_judgment", label_reader(_FROM_SICK)))
    return None if pairs is None else (pairs, [])
  file = _FILES[name][split]
  path = pathlib.Path(data_dir) / file
  if not exists(path, data_dir):
    return None
  score = ("gold_label", label_reader(_FROM_FILE))
  pairs, broken = read_table(path, ("sentence1", "sentence2"), score, INCOMPLETE_LINES_ALLOWED)
  return pairs, [f"{count(broken, 'malformed line')} of {file} left out"] * bool(broken)


def _read_tfds(builders, name, split):
  builder = builders[name]
  stored = _TFDS[name].tfds_splits[split]
  *sentences, labels = tfds_source.read_split(builder, stored, ("premise", "hypothesis"), ("label",))
  scores = np.full(len(labels), np.nan)  # TFDS has -1 for "-"
  for place, label in enumerate(LABELS):
    scores[labels == builder.info.features["label"].str2int(label)] = place
  return SentencePairs(*sentences, scores), []
