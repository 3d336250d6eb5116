"""Loaders of the SemEval tasks: SICK, and STS-12 to STS-16, from files or from the TFDS builders of this package."""

import functools
import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from bert_flow_tf.data import sick, tfds_source
from bert_flow_tf.data.nli import LABELS
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.readers import ScoreOf, label_reader
from bert_flow_tf.data.sources import missing_file, note_of
from bert_flow_tf.data.sts import Year, read_full, read_year
from bert_flow_tf.data.task import Loaded, Paths
from bert_flow_tf.errors import DataError

_SICK_FILES = "SICK/SICK_{train,trial,test_annotated}.txt"
_ENTAILMENT = ("entailment_judgment", label_reader({label.upper(): float(i) for i, label in enumerate(LABELS)}))


def load_sick_relatedness(paths: Paths) -> Loaded:
  """Loads train, dev (SICK's trial) and test of SICK-R, with gold from 1 to 5.

  Raises:
    DataError: a file is missing or malformed, or cannot be downloaded.
  """
  if paths.data_dir is not None:
    return _load_sick_files(paths.data_dir, sick.RELATEDNESS)

  def make(data_dir):
    from bert_flow_tf.data.tfds_builders import SickR

    return SickR(data_dir=data_dir)

  def urls(builder):
    present = [split for split in sick.URLS if _is_manual(builder, functools.partial(sick.read_file, split=split))]
    return [url for split, url in sick.URLS.items() if split not in present]

  builder = tfds_source.prepared("SICK-R", "sick_r", paths.tfds_data_dir, _SICK_FILES, urls, make)
  splits = {}
  for split, stored in tfds_source.SPLITS.items():
    a, b, scores = tfds_source.read_split(builder, stored, ("sentence1", "sentence2"), "score")
    splits[split] = SentencePairs(a, b, tfds_source.scores_of(scores))
  return Loaded(splits, tfds_source.source_of(builder))


def load_sick_entailment(paths: Paths) -> Loaded:
  """Loads the same splits as SICK-E, with the index in `nli.LABELS` as gold, from files.

  Raises:
    DataError: data_dir is not given, or a file is missing or malformed.
  """
  if paths.data_dir is None:
    raise DataError(
      f"data_dir: missing; SICK-E is not in TensorFlow Datasets and needs a folder with {_SICK_FILES}",
      argument="data_dir",
    )
  return _load_sick_files(paths.data_dir, _ENTAILMENT)


def _load_sick_files(data_dir: str, score: tuple[str, ScoreOf]) -> Loaded:
  splits, notes = {}, [f"SICK's files in {data_dir}"]
  for split, file in sick.FILES.items():
    result = sick.read_file(data_dir, split, score)
    if result is None:
      raise missing_file(data_dir, sick.FOLDER, file, _SICK_FILES)
    splits[split] = result[0]
    note = note_of(f"{file} in {data_dir}", sick.difference(result[0], split, score[0]))
    notes += [f"{split}{note}"] * bool(note) + result[1]
  return Loaded(splits, ", ".join(notes))


def load_sts(years: tuple[Year, ...], paths: Paths) -> Loaded:
  """Loads a task, with subsets such as MSRpar, or a union of tasks, with subsets such as STS-12/MSRpar.

  A file full.txt in data_dir itself is read first, as in the published code; a full.txt has no subsets.

  Raises:
    DataError: a file is missing or malformed, or cannot be downloaded.
  """
  union = ("STS-12-16", "STS/STS-12-16") if len(years) > 1 else ()
  if paths.data_dir is not None and (full := read_full(paths.data_dir, ("", *union))):
    return _loaded(*full)
  load_year = _load_files if paths.data_dir is not None else _load_tfds
  loaded = {year.name: load_year(year, paths) for year in years}
  pairs = {name: pairs for name, (pairs, _) in loaded.items()}
  joined = SentencePairs.join(pairs) if len(years) > 1 else pairs[years[0].name]
  return _loaded(joined, "; ".join(source for _, source in loaded.values()))


def _loaded(pairs: SentencePairs, source: str) -> Loaded:
  """Returns the only split of a task; a full.txt without scores is for fitting alone."""
  return Loaded({"test": pairs}, source, {"eval_split": None} if np.isnan(pairs.scores).all() else {})


def _load_files(year: Year, paths: Paths) -> tuple[SentencePairs, str]:
  data_dir = paths.data_dir or ""
  result = read_year(data_dir, year)
  if result is not None:
    pairs, source = result
    return pairs, source + note_of(source, year.difference(pairs))
  result = read_full(data_dir, year.full_places)
  if result is None:
    raise missing_file(data_dir, year.folder, f"STS.input.{year.subsets[0]}.txt", year.expected)
  return result


def _load_tfds(year: Year, paths: Paths) -> tuple[SentencePairs, str]:
  def make(data_dir):
    from bert_flow_tf.data.tfds_builders import SemevalSts

    return SemevalSts(config=year.config, data_dir=data_dir)

  def urls(builder):
    return [] if _is_manual(builder, lambda folder: read_year(folder, year)) else [year.url]

  name = f"semeval_sts/{year.config}"
  builder = tfds_source.prepared(year.name, name, paths.tfds_data_dir, year.expected, urls, make)
  *text, scores = tfds_source.read_split(builder, "test", ("subset", "sentence1", "sentence2"), "score")
  rows = zip(*text, tfds_source.scores_of(scores), strict=True)
  parts = {
    subset: SentencePairs(*list(zip(*group, strict=True))[1:])  # type: ignore[arg-type]
    for subset, group in itertools.groupby(rows, key=lambda row: row[0])
  }
  return SentencePairs.join(parts), tfds_source.source_of(builder)


def _is_manual(builder: Any, read: Callable[[str], Any]) -> bool:
  """Returns whether `read` returns data for TFDS's folder of manual downloads."""
  manual = os.path.join(os.fspath(builder.data_dir_root), "downloads", "manual")
  return "://" not in manual and read(manual) is not None
