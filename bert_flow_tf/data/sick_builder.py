"""TFDS builder of SICK: `SickR()`."""

import os

import numpy as np
import tensorflow_datasets as tfds

from bert_flow_tf.data import sick_files
from bert_flow_tf.errors import DataError


class SickR(tfds.core.GeneratorBasedBuilder):
  """Sentences Involving Compositional Knowledge, the files of SemEval 2014 task 1, with relatedness.

  The organisers publish no checksums, so what was downloaded is verified by its content: every line can be read, and
  every split has as many pairs as SICK's.
  """

  VERSION = tfds.core.Version("1.0.0")
  MANUAL_DOWNLOAD_INSTRUCTIONS = (
    "Only without a network: sick_train.zip, sick_trial.zip and sick_test_annotated.zip, or their files in SICK/."
  )

  def _info(self):
    return tfds.core.DatasetInfo(
      builder=self,
      description="Pairs of sentences with a relatedness from 1 to 5: SICK, as of SemEval 2014 task 1.",
      homepage="https://alt.qcri.org/semeval2014/task1",
      features=tfds.features.FeaturesDict(
        {
          "idx": tfds.features.Scalar(np.int32, doc="place in the order of the file"),
          "sentence1": tfds.features.Text(),
          "sentence2": tfds.features.Text(),
          "score": tfds.features.Scalar(np.float32, doc="1 to 5"),
        }
      ),
    )

  def _split_generators(self, dl_manager):
    return {
      "train": self._generate_examples(self._read(dl_manager, "train")),
      "validation": self._generate_examples(self._read(dl_manager, "dev")),
      "test": self._generate_examples(self._read(dl_manager, "test")),
    }

  def _read(self, dl_manager, split):
    """The pairs of one file, from the folder of manual downloads or from the organisers."""
    try:
      pairs = sick_files.read_file(os.fspath(dl_manager.manual_dir), split)
    except AssertionError:  # There is no such folder.
      pairs = None
    if pairs is None:
      pairs = sick_files.read_file(os.fspath(dl_manager.download_and_extract(sick_files.URLS[split])), split)
    if pairs is None:
      raise DataError(
        f"the archive at {sick_files.URLS[split]} has no {sick_files.FILES[split]}; it is kept in "
        f"{dl_manager.download_dir}: remove it there to fetch it again"
      )
    if len(pairs) != sick_files.SIZES[split]:
      raise DataError(f"SICK's {split} split: found {len(pairs)} pairs, expected {sick_files.SIZES[split]}")
    return pairs

  def _generate_examples(self, pairs):
    for i, (first, second) in enumerate(zip(pairs.sentences_a, pairs.sentences_b, strict=True)):
      yield i, {"idx": i, "sentence1": first, "sentence2": second, "score": pairs.scores[i]}
