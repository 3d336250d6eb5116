"""STS-12 to STS-16, the SemEval tasks, and all five as one: from files, or through our TFDS builder.

Each task is a test set alone, in subsets that are evaluated one by one.
"""

import itertools
import os
import pathlib

from bert_flow_tf.data import tfds_source
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.sources import Loaded, Paths, likely_data_dir
from bert_flow_tf.data.sts_files import Year, read_year
from bert_flow_tf.errors import DataError

_PATTERN = "STS.{input,gs}.NAME.txt"


def load(years: tuple[Year, ...], paths: Paths) -> Loaded:
  """Loads one task, its subsets named MSRpar and so on; or several as one, with subsets named STS-12/MSRpar.

  Raises:
    DataError: a file is missing or malformed, or cannot be downloaded.
  """
  load_year = _load_files if paths.data_dir is not None else _load_tfds
  loaded = {year.name: load_year(year, paths) for year in years}
  pairs = {name: pairs for name, (pairs, _) in loaded.items()}
  joined = SentencePairs.join(pairs) if len(years) > 1 else pairs[years[0].name]
  return Loaded({"test": joined}, "; ".join(source for _, source in loaded.values()))


def _load_files(year: Year, paths: Paths) -> tuple[SentencePairs, str]:
  """Reads a task below data_dir."""
  found = read_year(paths.data_dir, year)
  if found is None:
    file = f"STS.input.{year.subsets[0]}.txt"
    raise DataError(
      f"{pathlib.Path(paths.data_dir) / year.folder / file} does not exist; --data_dir={paths.data_dir} must hold "
      f"{year.folder}/{_PATTERN} or {year.archive}" + likely_data_dir(paths.data_dir, year.folder, file)
    )
  return found


def _load_tfds(year: Year, paths: Paths) -> tuple[SentencePairs, str]:
  """Reads a task that our TFDS builder has prepared."""

  def make(data_dir):
    from bert_flow_tf.data.sts_builder import SemevalSts

    return SemevalSts(config=year.config, data_dir=data_dir)

  def urls(builder):
    manual = os.path.join(os.fspath(builder.data_dir_root), "downloads", "manual")
    return [] if "://" not in manual and read_year(manual, year) else [year.url]

  name = f"semeval_sts/{year.config}"
  offline = f"offline, pass --data_dir=FOLDER that holds {year.folder}/{_PATTERN}"
  builder = tfds_source.prepared(year.name, name, paths.tfds_data_dir, offline, urls, make)
  *text, scores = tfds_source.read_split(builder, "test", ("subset", "sentence1", "sentence2"), ("score",))
  rows = zip(*text, tfds_source.scores_of(scores), strict=True)
  parts = {
    subset: SentencePairs(*list(zip(*group, strict=True))[1:])
    for subset, group in itertools.groupby(rows, key=lambda row: row[0])
  }
  return SentencePairs.join(parts), f"TensorFlow Datasets {builder.info.full_name} in {builder.data_dir_root}"
