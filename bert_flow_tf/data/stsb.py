"""STS-B: the STS benchmark's files, or GLUE's from files or TFDS, with the scores of test that GLUE hides."""

import dataclasses
import hashlib
import io
import os
import pathlib
import tarfile

import numpy as np

from bert_flow_tf.data import tfds_source
from bert_flow_tf.data.files.delimited import tab_separated
from bert_flow_tf.data.files.source import FilePath, line_error
from bert_flow_tf.data.loading import load_table_parts, table_parts
from bert_flow_tf.data.pairs import SPLITS, SentencePairs
from bert_flow_tf.data.semeval import STS_GOLD, STS_WIKI
from bert_flow_tf.data.table import Path, TaskTable, difference, first_with, missing_file, note_of, pairs_of
from bert_flow_tf.data.task import Paths, TaskData, TaskSpec
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.io.files import write_bytes
from bert_flow_tf.progress import counted

GOLD_URL = f"{STS_WIKI}/4/48/Stsbenchmark.tar.gz"
# The digest that torchtext publishes (torchtext/datasets/stsb.py).
GOLD_MD5 = "4eb0065aba063ef77873d3a9c8088811"

# {split: (number of pairs, `SentencePairs.digest`)} of the benchmark's files; GLUE's have other quotation marks and
# a few other words.
PUBLISHED = {
  "train": (5749, "afde707cc95c44a4636e01e54bcebacb7893163671f9cb7297287dbd7de0e647"),
  "dev": (1500, "7b4b40fe04613c6d3517aa627f8e24852962d5fd6341e56f3835a70682f5b0e7"),
  "test": (1379, "c570606e4517093c7401292698498f007fd703e9caa51812f48f47c986b4b52e"),
}

_NAME, _FOLDER = "the STS benchmark", "STS/STSBenchmark"
_FILES = {split: f"sts-{split}.csv" for split in SPLITS}
_GLUE = TaskTable(
  name="STS-B", gold=STS_GOLD, places=(7, 8, 9), hidden={"test.tsv": (7, 8)}, required=SPLITS, tfds="glue/stsb"
)
_EXPECTED = f"{_FOLDER}/sts-{{train,dev,test}}.csv or STS-B/{{train,dev,test}}.tsv with sts-test.csv"
_DIFFERING_ROWS_ALLOWED = 0.01


def load_stsb(spec: TaskSpec, paths: Paths) -> TaskData:
  """Returns train, dev and test from data_dir, or from TFDS with the gold of stsb_gold, or else of a download."""
  if paths.data_dir is None:
    return _load_tfds(spec, paths.tfds_data_dir, paths.stsb_gold)
  if paths.stsb_gold is not None:
    message = f"stsb_gold={paths.stsb_gold}: only for TensorFlow Datasets; leave out stsb_gold or data_dir"
    raise ConfigError(message, argument="stsb_gold")
  # The benchmark's files have the gold of all splits, so they come before GLUE's.
  folder = first_with(paths.data_dir, (_FOLDER, "STS-B", ""), [_FILES["train"]])
  if folder is not None:
    return _load_benchmark(spec, folder)
  if _GLUE.find(paths.data_dir, "train") is not None:
    return _load_glue(spec, paths.data_dir)
  raise missing_file(paths.data_dir, _FOLDER, _FILES["train"], _EXPECTED)


def read_benchmark(path: FilePath) -> SentencePairs:
  """Returns the pairs of a file of the benchmark, which has no header; columns after the sentences are ignored."""
  rows = []
  for number, fields in tab_separated(path):
    if len(fields) < 7:
      columns = "(genre, file, year, id, score, sentence1, sentence2)"
      raise line_error(path, number, f"{counted(len(fields), 'column')}, expected at least 7, tab separated {columns}")
    rows.append((STS_GOLD.read(fields[4], path, number), fields[5], fields[6]))
  return pairs_of(rows, path)


def _load_benchmark(spec: TaskSpec, folder: Path) -> TaskData:
  """Returns the splits of the benchmark's files."""
  splits, source = {}, f"{_NAME}'s files in {folder}"
  for split, name in _FILES.items():
    splits[split] = read_benchmark(folder / name)
    note = note_of(str(folder / name), difference(_NAME, PUBLISHED, splits[split], split))
    if note:
      source += f", {split}{note}"
  return TaskData(spec, splits, source)


def _load_glue(spec: TaskSpec, data_dir: str) -> TaskData:
  """Returns the splits of GLUE's files; without sts-test.csv, test has no gold and is not evaluated."""
  splits, source = load_table_parts("GLUE", table_parts(_GLUE), Paths(data_dir))
  gold_folder = first_with(_GLUE.find(data_dir, "test").parent, ("", "original"), [_FILES["test"]])
  if gold_folder is not None:
    path = gold_folder / _FILES["test"]
    splits["test"], note = _with_gold(splits["test"], read_benchmark(path), path)
    source += f", {note}"
  elif np.isnan(splits["test"].scores).all():
    source += f", test without gold, because {_FILES['test']} is missing"
    spec = dataclasses.replace(spec, eval_split=None)
  return TaskData(spec, splits, source)


def _load_tfds(spec: TaskSpec, tfds_data_dir: str | None, stsb_gold: FilePath | None) -> TaskData:
  """Returns the splits of TensorFlow Datasets, and the gold of test from a file or a download."""
  gold = None
  if stsb_gold is not None:  # read first, so that a wrong path is reported before a download
    gold = read_benchmark(stsb_gold)
  builder = tfds_source.prepared("STS-B", _GLUE.tfds, tfds_data_dir, _EXPECTED)
  if gold is None:
    stsb_gold = _downloaded_gold(os.fspath(builder.data_dir_root))
    gold = read_benchmark(stsb_gold)
  splits, source = load_table_parts("GLUE", table_parts(_GLUE), Paths(tfds_data_dir=tfds_data_dir))
  splits["test"], note = _with_gold(splits["test"], gold, stsb_gold)
  return TaskData(spec, splits, f"{source}, {note}")


def _with_gold(test: SentencePairs, gold: SentencePairs, path: FilePath | None) -> tuple[SentencePairs, str]:
  """Returns GLUE's test sentences with the gold scores, and a note that names the rows with different words."""
  if len(test) != len(gold):
    raise DataError(f"{path} has {len(gold)} pairs; GLUE's test split of STS-B has {len(test)}")
  ours = list(zip(test.sentences_a, test.sentences_b, strict=True))
  theirs = list(zip(gold.sentences_a, gold.sentences_b, strict=True))
  differing = [row for row in range(len(ours)) if _letters(ours[row]) != _letters(theirs[row])]
  if len(differing) > _DIFFERING_ROWS_ALLOWED * len(test):
    count = f"{len(differing)} of {len(test)} rows differ, first line {differing[0] + 1}"
    raise DataError(f"{path} is not the gold of GLUE's test split of STS-B: {count}")
  note = f"test gold from {path}"
  if differing:
    note += f" ({len(differing)} of its {len(gold)} rows worded differently)"
  note += note_of(str(path), difference(_NAME, PUBLISHED, gold, "test"))
  return SentencePairs(test.sentences_a, test.sentences_b, gold.scores), note


def _letters(sentences: tuple[str, str]) -> list[str]:
  """Returns the letters and digits of sentences, since tokenization, quotation marks and case may differ."""
  return ["".join(filter(str.isalnum, sentence.casefold())) for sentence in sentences]


def _downloaded_gold(tfds_root: str) -> pathlib.Path:
  """Returns the path of sts-test.csv in TFDS's downloads; the first call downloads it."""
  path = pathlib.Path(tfds_root) / "downloads" / "stsbenchmark" / _FILES["test"]
  if path.exists():
    return path
  try:
    if "://" in tfds_root:
      raise OSError(f"{tfds_root} is not a local folder")
    archive = tfds_source.get(GOLD_URL).content
    md5 = hashlib.md5(archive, usedforsecurity=False).hexdigest()
    if md5 != GOLD_MD5:
      raise OSError(f"the archive's MD5 is {md5}, expected {GOLD_MD5}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
      gold = members.extractfile(f"stsbenchmark/{_FILES['test']}").read()  # type: ignore[union-attr]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, gold)
  except (OSError, KeyError, tarfile.TarError) as error:
    message = (
      f"stsb_gold: STS-B's test scores could not be downloaded from {GOLD_URL} ({tfds_source.short_reason(error)})"
    )
    mend = f"set stsb_gold to the benchmark's sts-test.csv, or data_dir to a folder with {_EXPECTED}"
    raise DataError(f"{message}; {mend}", argument="stsb_gold") from error
  return path
