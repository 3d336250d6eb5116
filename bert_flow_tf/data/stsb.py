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

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.readers import read_stsbenchmark
from bert_flow_tf.errors import ConfigError, DataError

SCALE = (0.0, 5.0)
GOLD_URL = "http://ixa2.si.ehu.eus/stswiki/images/4/48/Stsbenchmark.tar.gz"
# As torchtext publishes it (torchtext/datasets/stsb.py): the address has no TLS.
GOLD_MD5 = "4eb0065aba063ef77873d3a9c8088811"

_LAYOUT = pathlib.Path("STS") / "STSBenchmark"
_FILES = {split: f"sts-{split}.csv" for split in ("train", "dev", "test")}
_OFFLINE = f"offline, pass --data_dir=FOLDER that holds {_LAYOUT}/sts-{{train,dev,test}}.csv"
_TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_TIMEOUT_S = 5
_DIFFERING_ROWS_ALLOWED = 0.01


def load(
  data_dir: str | None, tfds_data_dir: str | None, stsb_gold: str | None
) -> tuple[dict[str, SentencePairs], str]:
  """Loads train, dev and test, all with gold scores from 0 to 5.

  Args:
    data_dir: folder with STS/STSBenchmark/sts-{train,dev,test}.csv; None for TensorFlow Datasets.
    tfds_data_dir: TensorFlow Datasets' folder; None for its default.
    stsb_gold: path of sts-test.csv, for the test scores beside TensorFlow Datasets; None to fetch it once.

  Returns:
    The splits by name, and a description of where they came from.

  Raises:
    ConfigError: both data_dir and stsb_gold are given.
    DataError: the data is missing, malformed, cannot be downloaded, or the gold is not of GLUE's rows.
  """
  if data_dir is not None:
    if stsb_gold is not None:
      raise ConfigError(
        f"--stsb_gold={stsb_gold} goes with TensorFlow Datasets, but --data_dir={data_dir} is given, whose "
        "sts-test.csv has the gold scores: leave one of the two out"
      )
    return _load_files(pathlib.Path(data_dir))
  # First what costs nothing: a wrong path is told before anything is downloaded.
  gold = None if stsb_gold is None else read_stsbenchmark(stsb_gold, SCALE)
  builder = _prepared_glue(tfds_data_dir)
  if gold is None:
    stsb_gold = _fetched_gold(os.fspath(builder.data_dir_root))
    gold = read_stsbenchmark(stsb_gold, SCALE)
  splits = {split: _read_glue(builder, split) for split in _TFDS_SPLITS}
  test, differing = _with_gold(splits["test"], gold, stsb_gold)
  note = f" ({differing} of its {len(gold)} rows worded differently)" if differing else ""
  source = f"TensorFlow Datasets {builder.info.full_name} in {builder.data_dir_root}"
  return _checked({**splits, "test": test}), f"{source}, test gold from {stsb_gold}{note}"


def _load_files(data_dir: pathlib.Path) -> tuple[dict[str, SentencePairs], str]:
  """Reads the benchmark's three files below data_dir."""
  folder = data_dir / _LAYOUT
  try:
    missing = [folder / name for name in _FILES.values() if not (folder / name).exists()]
  except OSError as error:
    raise DataError(f"--data_dir={data_dir}: {error.filename} cannot be read: {error.strerror}") from error
  if missing:
    raise DataError(
      f"{missing[0]} does not exist; --data_dir={data_dir} must hold {_LAYOUT}/sts-{{train,dev,test}}.csv"
      + _likely_data_dir(data_dir)
    )
  splits = {split: read_stsbenchmark(folder / name, SCALE) for split, name in _FILES.items()}
  return splits, f"the STS benchmark's files in {folder}"


def _likely_data_dir(data_dir: pathlib.Path) -> str:
  """Says what is wrong with a --data_dir a level or two off, as the end of a message."""
  if not os.path.exists(data_dir):
    return f"; there is no folder {data_dir}"
  if not os.path.isdir(data_dir):
    return f"; {data_dir} is a file"
  here = data_dir.resolve()
  for candidate in (*list(here.parents)[:2], *sorted(here.glob("*/"))):
    if os.path.exists(candidate / _LAYOUT / _FILES["test"]):
      return f"; did you mean --data_dir={candidate}?"
  if os.path.exists(data_dir / _FILES["test"]):
    return f"; the files lie in that folder itself: put them into {data_dir / _LAYOUT}"
  return ""


def _prepared_glue(tfds_data_dir: str | None):
  """Returns the TFDS builder of glue/stsb, prepared on disk."""
  import tensorflow_datasets as tfds

  tried = f"looked for glue/stsb in {tfds_data_dir or 'its default folder'}"
  try:
    builder = tfds.builder("glue/stsb", data_dir=tfds_data_dir)
    tried = f"looked for glue/stsb in {builder.data_dir_root}"
    if not builder.is_prepared():
      url = builder.builder_config.data_url
      tried += f", then at {url}"
      # By itself TFDS tries a dead address ten times, for minutes, and leaves folders behind.
      _get(url, stream=True).close()
      builder.download_and_prepare()
  except Exception as error:  # TFDS promises no set of errors: network, disk, checksum, archive, import.
    raise DataError(f"STS-B cannot be had from TensorFlow Datasets: {tried} ({_reason(error)}); {_OFFLINE}") from error
  return builder


def _read_glue(builder, split: str) -> SentencePairs:
  """Reads one split from disk, in GLUE's order; the scores of test are GLUE's -1."""
  import tensorflow_datasets as tfds

  try:
    rows = tfds.as_numpy(builder.as_dataset(split=_TFDS_SPLITS[split], batch_size=-1))
    order = np.argsort(rows["idx"], kind="stable")  # TFDS shuffles what it stores.
    sentences = [[rows[key][i].decode("utf-8") for i in order] for key in ("sentence1", "sentence2")]
    # TFDS stores float32, where 3.8 is 3.7999999523; six decimals are what float32 holds up to 5.
    scores = np.round(rows["label"][order].astype(np.float64), 6)
  except Exception as error:  # As above; also what TensorFlow says of a damaged record.
    raise DataError(
      f"the {_TFDS_SPLITS[split]} split of glue/stsb in {builder.data_dir} cannot be read "
      f"({_reason(error)}): remove that folder to have it prepared again"
    ) from error
  return SentencePairs(*sentences, scores)


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
    archive = _get(GOLD_URL).content
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
      f"({_reason(error)}); pass the benchmark's sts-test.csv as --stsb_gold=FILE; or {_OFFLINE}"
    ) from error
  return path


def _get(url: str, stream: bool = False):
  """Opens an address as TFDS does, through `requests`, but gives up soon."""
  import requests

  response = requests.get(url, stream=stream, timeout=_TIMEOUT_S)
  response.raise_for_status()
  return response


def _reason(error: Exception) -> str:
  """The error's type and the beginning of its message, on one line."""
  return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
