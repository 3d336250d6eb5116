"""STS-B: the STS benchmark's files, or TFDS `glue/stsb` with the gold that GLUE hides.

The text is the same in both. GLUE labels its test split -1 throughout, so the scores of that split always
come from the benchmark's own `sts-test.csv`, after a check that its rows are GLUE's.
"""

import hashlib
import io
import os
import pathlib
import tarfile
import tempfile

import numpy as np

from bert_flow_tf.data import tfds_source
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.readers import read_stsbenchmark
from bert_flow_tf.data.sources import Loaded, Paths, required_folder
from bert_flow_tf.errors import ConfigError, DataError

SCALE = (0.0, 5.0)
GOLD_URL = "http://ixa2.si.ehu.eus/stswiki/images/4/48/Stsbenchmark.tar.gz"
# As torchtext publishes it (torchtext/datasets/stsb.py): the address has no TLS.
GOLD_MD5 = "4eb0065aba063ef77873d3a9c8088811"

_LAYOUT = "STS/STSBenchmark"
_FILES = {split: f"sts-{split}.csv" for split in ("train", "dev", "test")}
_OFFLINE = f"offline, pass --data_dir=FOLDER that holds {_LAYOUT}/sts-{{train,dev,test}}.csv"
_TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_DIFFERING_ROWS_ALLOWED = 0.01


def load(paths: Paths) -> Loaded:
  """Loads train, dev and test, all with gold scores from 0 to 5.

  Args:
    paths: data_dir with STS/STSBenchmark/sts-{train,dev,test}.csv; else the test scores beside TensorFlow
      Datasets come from stsb_gold, or are fetched once.

  Raises:
    ConfigError: both data_dir and stsb_gold are given.
    DataError: the data is missing, malformed, cannot be downloaded, or the gold is not of GLUE's rows.
  """
  stsb_gold = paths.stsb_gold
  if paths.data_dir is not None:
    if stsb_gold is not None:
      raise ConfigError(
        f"--stsb_gold={stsb_gold} goes with TensorFlow Datasets, but --data_dir={paths.data_dir} is given, whose "
        "sts-test.csv has the gold scores: leave one of the two out"
      )
    folder = required_folder(paths.data_dir, _LAYOUT, _FILES.values(), "sts-{train,dev,test}.csv")
    splits = {split: read_stsbenchmark(folder / name, SCALE) for split, name in _FILES.items()}
    return Loaded(splits, f"the STS benchmark's files in {folder}")
  # First what costs nothing: a wrong path is told before anything is downloaded.
  gold = None if stsb_gold is None else read_stsbenchmark(stsb_gold, SCALE)
  builder = _prepared_glue(paths.tfds_data_dir)
  if gold is None:
    stsb_gold = _fetched_gold(os.fspath(builder.data_dir_root))
    gold = read_stsbenchmark(stsb_gold, SCALE)
  splits = {split: _read_glue(builder, split) for split in _TFDS_SPLITS}
  test, differing = _with_gold(splits["test"], gold, stsb_gold)
  note = f" ({differing} of its {len(gold)} rows worded differently)" if differing else ""
  source = f"TensorFlow Datasets {builder.info.full_name} in {builder.data_dir_root}"
  return Loaded(_checked({**splits, "test": test}), f"{source}, test gold from {stsb_gold}{note}")


def _prepared_glue(tfds_data_dir: str | None):
  """Returns the TFDS builder of glue/stsb, prepared on disk."""
  return tfds_source.prepared("STS-B", "glue/stsb", tfds_data_dir, _OFFLINE)


def _read_glue(builder, split: str) -> SentencePairs:
  """Reads one split from disk, in GLUE's order; the scores of test are GLUE's -1."""
  *sentences, labels = tfds_source.read_split(builder, _TFDS_SPLITS[split], ("sentence1", "sentence2"), ("label",))
  return SentencePairs(*sentences, tfds_source.scores_of(labels))


def _with_gold(test: SentencePairs, gold: SentencePairs, path) -> tuple[SentencePairs, int]:
  """Returns GLUE's test sentences with the gold scores, and how many rows are worded differently."""
  if len(test) != len(gold):
    raise DataError(f"{path} has {len(gold)} pairs; GLUE's test split of STS-B has {len(test)}")
  ours = list(zip(test.sentences_a, test.sentences_b, strict=True))
  theirs = list(zip(gold.sentences_a, gold.sentences_b, strict=True))
  differing = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if _bare(*a) != _bare(*b)]
  if len(differing) > _DIFFERING_ROWS_ALLOWED * len(test):
    first = differing[0]
    raise DataError(
      f"{path} is not the gold of GLUE's test split of STS-B: {len(differing)} of {len(test)} rows differ, "
      f"first line {first + 1}: {' | '.join(theirs[first])!r} where GLUE has {' | '.join(ours[first])!r}"
    )
  return SentencePairs(test.sentences_a, test.sentences_b, gold.scores), len(differing)


def _bare(*sentences: str) -> list[str]:
  """Letters and digits alone: tokenisation, quotation marks and case do not matter."""
  return ["".join(filter(str.isalnum, sentence.casefold())) for sentence in sentences]


def _checked(splits: dict[str, SentencePairs]) -> dict[str, SentencePairs]:
  """Refuses scores outside the scale, above all GLUE's -1 for a hidden label."""
  for split, pairs in splits.items():
    outside = np.flatnonzero(~((pairs.scores >= SCALE[0]) & (pairs.scores <= SCALE[1])))
    if outside.size:
      label = pairs.scores[outside[0]]
      raise DataError(
        f"glue/stsb, {split} split, row {outside[0] + 1}: the label is {label:g}, expected {SCALE[0]:g} to "
        f"{SCALE[1]:g} (-1 is GLUE's mark of a hidden label)"
      )
  return splits


def _fetched_gold(tfds_root: str) -> pathlib.Path:
  """Returns the path of sts-test.csv below TFDS's downloads, fetched there by the first call."""
  path = pathlib.Path(tfds_root) / "downloads" / "stsbenchmark" / _FILES["test"]
  if path.exists():
    return path
  try:
    if "://" in tfds_root:
      raise OSError(f"{tfds_root} is not on this machine's disk")
    archive = tfds_source.get(GOLD_URL).content
    found = hashlib.md5(archive, usedforsecurity=False).hexdigest()
    if found != GOLD_MD5:
      raise OSError(f"the archive's MD5 is {found}, expected {GOLD_MD5}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
      gold = members.extractfile(f"stsbenchmark/{_FILES['test']}").read()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when complete: a run that is cut short, or one beside it, never sees half a file.
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
      part = pathlib.Path(folder) / path.name
      part.write_bytes(gold)
      part.replace(path)
  except (OSError, KeyError, tarfile.TarError) as error:
    raise DataError(
      f"the gold scores of STS-B's test split, which GLUE hides, could not be fetched from {GOLD_URL} "
      f"({tfds_source.reason(error)}); pass the benchmark's sts-test.csv as --stsb_gold=FILE; or {_OFFLINE}"
    ) from error
  return path
