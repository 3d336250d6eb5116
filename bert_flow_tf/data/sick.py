"""SICK-R: relatedness of the SICK pairs, from files, or through our TFDS builder."""

import os
import pathlib

from bert_flow_tf.data import sick_files, tfds_source
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.sources import Loaded, Paths, likely_data_dir
from bert_flow_tf.errors import DataError

_PATTERN = "SICK_{train,trial,test_annotated}.txt"
_OFFLINE = f"offline, pass --data_dir=FOLDER that holds {sick_files.FOLDER}/{_PATTERN}"
_TFDS_SPLITS = {"train": "train", "dev": "validation", "test": "test"}


def load(paths: Paths) -> Loaded:
  """Loads train, dev (SICK's trial) and test, with gold from 1 to 5.

  Raises:
    DataError: a file is missing or malformed, or cannot be downloaded.
  """
  if paths.data_dir is None:
    return _load_tfds(paths.tfds_data_dir)
  splits = {}
  for split, file in sick_files.FILES.items():
    splits[split] = sick_files.read_file(paths.data_dir, split)
    if splits[split] is None:
      raise DataError(
        f"{pathlib.Path(paths.data_dir) / sick_files.FOLDER / file} does not exist; --data_dir={paths.data_dir} must "
        f"hold {sick_files.FOLDER}/{_PATTERN}" + likely_data_dir(paths.data_dir, sick_files.FOLDER, file)
      )
  other = {split: len(pairs) for split, pairs in splits.items() if len(pairs) != sick_files.SIZES[split]}
  note = "".join(f", {size} pairs in {split} (SICK has {sick_files.SIZES[split]})" for split, size in other.items())
  return Loaded(splits, f"SICK's files in {paths.data_dir}{note}")


def _load_tfds(tfds_data_dir: str | None) -> Loaded:
  """Reads what our TFDS builder has prepared."""

  def make(data_dir):
    from bert_flow_tf.data.sick_builder import SickR

    return SickR(data_dir=data_dir)

  def urls(builder):
    manual = os.path.join(os.fspath(builder.data_dir_root), "downloads", "manual")
    return [
      url for split, url in sick_files.URLS.items() if "://" in manual or sick_files.read_file(manual, split) is None
    ]

  builder = tfds_source.prepared("SICK-R", "sick_r", tfds_data_dir, _OFFLINE, urls, make)
  splits = {}
  for split, stored in _TFDS_SPLITS.items():
    *sentences, scores = tfds_source.read_split(builder, stored, ("sentence1", "sentence2"), ("score",))
    splits[split] = SentencePairs(*sentences, tfds_source.scores_of(scores))
  return Loaded(splits, f"TensorFlow Datasets {builder.info.full_name} in {builder.data_dir_root}")
