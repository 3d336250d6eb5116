"""STS-B: the STS benchmark's files, GLUE's, or TFDS `glue/stsb`, with the test scores that GLUE hides.

All have the same text. GLUE hides the labels of test, so the scores of that split come from the benchmark's
`sts-test.csv`, whose rows must be those of GLUE.
"""

import functools
import hashlib
import io
import os
import pathlib
import tarfile
import tempfile

import numpy as np

from bert_flow_tf.data import tfds_source
from bert_flow_tf.data.lines import FilePath, read_number
from bert_flow_tf.data.pairs import SPLITS, SentencePairs
from bert_flow_tf.data.readers import left_out, read_stsbenchmark, read_table
from bert_flow_tf.data.sources import STS_WIKI, check_download, first_with, missing_file, note_of, unlike_published
from bert_flow_tf.data.task import Loaded, Paths
from bert_flow_tf.errors import ConfigError, DataError

SCALE = (0.0, 5.0)
GOLD_URL = f"{STS_WIKI}/4/48/Stsbenchmark.tar.gz"
# As torchtext publishes it (torchtext/datasets/stsb.py).
GOLD_MD5 = "4eb0065aba063ef77873d3a9c8088811"

SIZES = {"train": 5749, "dev": 1500, "test": 1379}
# {split: `SentencePairs.digest`} of the benchmark's files; GLUE's have other quotation marks and a few other words.
DIGESTS = {
  "train": "afde707cc95c44a4636e01e54bcebacb7893163671f9cb7297287dbd7de0e647",
  "dev": "7b4b40fe04613c6d3517aa627f8e24852962d5fd6341e56f3835a70682f5b0e7",
  "test": "c570606e4517093c7401292698498f007fd703e9caa51812f48f47c986b4b52e",
}

_FOLDER = "STS/STSBenchmark"
_FILES = {split: f"sts-{split}.csv" for split in SPLITS}
_GLUE_FOLDER = "STS-B"
_GLUE_FILES = {split: f"{split}.tsv" for split in SPLITS}
_EXPECTED = f"{_FOLDER}/sts-{{train,dev,test}}.csv or {_GLUE_FOLDER}/{{train,dev,test}}.tsv with sts-test.csv"
# Columns of sentences and score, and their positions in the published code.
_GLUE_COLUMNS = (("sentence1", "sentence2"), ("score", functools.partial(read_number, scale=SCALE)), (7, 8, 9))
_DIFFERING_ROWS_ALLOWED = 0.01


def load(paths: Paths) -> Loaded:
  """Loads train, dev and test, all with gold scores from 0 to 5.

  Args:
    paths: data_dir with STS/STSBenchmark/sts-{train,dev,test}.csv, or with GLUE's STS-B/{train,dev,test}.tsv and
      sts-test.csv; data_dir may be the folder STSBenchmark or STS-B itself. Without data_dir, text comes from
      TensorFlow Datasets and the test scores from stsb_gold, which is downloaded once if it is None.

  Raises:
    ConfigError: both data_dir and stsb_gold are given.
    DataError: the data is missing, malformed or cannot be downloaded, or the gold is of other rows than GLUE's.
  """
  stsb_gold = paths.stsb_gold
  if paths.data_dir is not None:
    if stsb_gold is not None:
      raise ConfigError(
        f"stsb_gold={stsb_gold}: only for TensorFlow Datasets; sts-test.csv in data_dir={paths.data_dir} has the gold "
        "scores; leave out stsb_gold or data_dir",
        argument="stsb_gold",
      )
    return _load_files(paths.data_dir)
  # Read first, so that a wrong path is reported before a download.
  gold = None if stsb_gold is None else read_stsbenchmark(stsb_gold, SCALE)
  builder = tfds_source.prepared("STS-B", "glue/stsb", paths.tfds_data_dir, _EXPECTED)
  if gold is None:
    stsb_gold = _downloaded_gold(os.fspath(builder.data_dir_root))
    gold = read_stsbenchmark(stsb_gold, SCALE)
    check_download(os.fspath(stsb_gold), _difference(gold, "test"))
  splits = {}
  for split, stored in tfds_source.SPLITS.items():
    a, b, labels = tfds_source.read_split(builder, stored, ("sentence1", "sentence2"), "label")
    splits[split] = SentencePairs(a, b, tfds_source.scores_of(labels))
  splits["test"], differing = _with_gold(splits["test"], gold, stsb_gold)
  for split, pairs in splits.items():
    _check_scale(split, pairs.scores)
  return Loaded(splits, f"{tfds_source.source_of(builder)}, {_gold_note(stsb_gold, gold, differing)}")


def _load_files(data_dir: str) -> Loaded:
  """Loads the benchmark's files, or GLUE's; without sts-test.csv, GLUE's test has no gold and is not evaluated."""
  folder = first_with(data_dir, (_FOLDER, _GLUE_FOLDER, ""), _FILES["train"])
  if folder is not None:
    splits = {split: read_stsbenchmark(folder / name, SCALE) for split, name in _FILES.items()}
    notes = [split + note for split, name in _FILES.items() if (note := _note(folder / name, splits[split], split))]
    return Loaded(splits, ", ".join([f"the STS benchmark's files in {folder}", *notes]))
  folder = first_with(data_dir, (_GLUE_FOLDER, ""), _GLUE_FILES["train"])
  if folder is None:
    raise missing_file(data_dir, _FOLDER, _FILES["train"], _EXPECTED)
  splits, notes = {}, [f"GLUE's files in {folder}"]
  for split, name in _GLUE_FILES.items():
    splits[split], number = read_table(folder / name, *_GLUE_COLUMNS, hidden=split == "test")
    notes += left_out(number, name)
  gold_folder = first_with(folder, ("", "original"), _FILES["test"])
  if gold_folder is not None:
    path = gold_folder / _FILES["test"]
    gold = read_stsbenchmark(path, SCALE)
    splits["test"], differing = _with_gold(splits["test"], gold, path)
    notes.append(_gold_note(path, gold, differing))
  elif np.isnan(splits["test"].scores).all():
    notes.append(f"test without gold, because {_FILES['test']} is missing")
    return Loaded(splits, ", ".join(notes), {"eval_split": None})
  return Loaded(splits, ", ".join(notes))


def _difference(pairs: SentencePairs, split: str) -> str:
  return unlike_published(pairs, f"the STS benchmark's {split} split", SIZES[split], DIGESTS[split])


def _note(path: FilePath | None, pairs: SentencePairs, split: str) -> str:
  return note_of(str(path), _difference(pairs, split))


def _gold_note(path: FilePath | None, gold: SentencePairs, differing: int) -> str:
  worded = f" ({differing} of its {len(gold)} rows worded differently)" if differing else ""
  return f"test gold from {path}{worded}{_note(path, gold, 'test')}"


def _with_gold(test: SentencePairs, gold: SentencePairs, path: FilePath | None) -> tuple[SentencePairs, int]:
  """Returns GLUE's test sentences with the gold scores, and the number of rows with different words."""
  if len(test) != len(gold):
    raise DataError(f"{path} has {len(gold)} pairs; GLUE's test split of STS-B has {len(test)}")
  ours = list(zip(test.sentences_a, test.sentences_b, strict=True))
  theirs = list(zip(gold.sentences_a, gold.sentences_b, strict=True))
  differing = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if _letters(*a) != _letters(*b)]
  if len(differing) > _DIFFERING_ROWS_ALLOWED * len(test):
    first = differing[0]
    raise DataError(
      f"{path} is not the gold of GLUE's test split of STS-B: {len(differing)} of {len(test)} rows differ, "
      f"first line {first + 1}: {' | '.join(theirs[first])!r}, in GLUE {' | '.join(ours[first])!r}"
    )
  return SentencePairs(test.sentences_a, test.sentences_b, gold.scores), len(differing)


def _letters(*sentences: str) -> list[str]:
  """Returns the letters and digits of sentences, since tokenization, quotation marks and case may differ."""
  return ["".join(filter(str.isalnum, sentence.casefold())) for sentence in sentences]


def _check_scale(split: str, scores: np.ndarray) -> None:
  """Raises DataError for a score outside the scale, such as GLUE's -1 for a hidden label."""
  outside = np.flatnonzero(~((scores >= SCALE[0]) & (scores <= SCALE[1])))
  if outside.size:
    raise DataError(
      f"glue/stsb, {split} split, row {outside[0] + 1}: the label is {scores[outside[0]]:g}, expected {SCALE[0]:g} to "
      f"{SCALE[1]:g} (GLUE uses -1 for hidden labels)"
    )


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
    # Renamed when complete, so that an interrupted or concurrent run never reads an incomplete file.
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
      part = pathlib.Path(folder) / path.name
      part.write_bytes(gold)
      part.replace(path)
  except (OSError, KeyError, tarfile.TarError) as error:
    raise DataError(
      "stsb_gold: the gold scores of STS-B's test split, which GLUE hides, could not be downloaded from "
      f"{GOLD_URL} ({tfds_source.reason(error)}); set stsb_gold to the benchmark's sts-test.csv, or data_dir to a "
      f"folder with {_EXPECTED}",
      argument="stsb_gold",
    ) from error
  return path
