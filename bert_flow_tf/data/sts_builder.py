"""TFDS builder of STS-12 to STS-16: `SemevalSts(config="sts12")`."""

import os
from typing import ClassVar

import numpy as np
import tensorflow_datasets as tfds

from bert_flow_tf.data import sts_files
from bert_flow_tf.errors import DataError


class SemevalSts(tfds.core.GeneratorBasedBuilder):
  """The SemEval tasks on semantic textual similarity, one configuration a year, the annotated English pairs alone.

  The organisers publish no checksums, so what was downloaded is verified by its content: every subset is there, every
  line can be read, and the pairs with gold are as many as the task has.
  """

  VERSION = tfds.core.Version("1.0.0")
  MANUAL_DOWNLOAD_INSTRUCTIONS = (
    "Only without a network: the organisers' archive (STS2012-en-test.zip and so on), or SentEval's folder "
    "STS/STS12-en-test and so on."
  )
  BUILDER_CONFIGS: ClassVar = [
    tfds.core.BuilderConfig(
      name=year.config, description=f"{year.name}: {year.size} pairs of {', '.join(year.subsets)}"
    )
    for year in sts_files.YEARS
  ]

  def _info(self):
    return tfds.core.DatasetInfo(
      builder=self,
      description="Pairs of sentences with a similarity from 0 to 5: the SemEval STS tasks of 2012 to 2016.",
      homepage="http://ixa2.si.ehu.eus/stswiki",
      features=tfds.features.FeaturesDict(
        {
          "idx": tfds.features.Scalar(np.int32, doc="place in the order of the files"),
          "subset": tfds.features.Text(doc="NAME of STS.input.NAME.txt"),
          "sentence1": tfds.features.Text(),
          "sentence2": tfds.features.Text(),
          "score": tfds.features.Scalar(np.float32, doc="0 to 5"),
        }
      ),
    )

  def _split_generators(self, dl_manager):
    (year,) = (year for year in sts_files.YEARS if year.config == self.builder_config.name)
    try:
      found = sts_files.read_year(os.fspath(dl_manager.manual_dir), year)
    except AssertionError:  # There is no such folder.
      found = None
    if found is None:
      found = sts_files.read_year(os.fspath(dl_manager.download_and_extract(year.url)), year)
    if found is None:
      raise DataError(
        f"the archive at {year.url} has no {year.inside}/STS.input.{year.subsets[0]}.txt; it is kept in "
        f"{dl_manager.download_dir}: remove it there to fetch it again"
      )
    pairs, source = found
    if len(pairs) != year.size:
      raise DataError(f"{source}: found {len(pairs)} pairs with gold, expected the {year.size} of {year.name}")
    return {"test": self._generate_examples(pairs)}

  def _generate_examples(self, pairs):
    for subset in pairs.subsets:
      for i in range(subset.start, subset.stop):
        yield (
          i,
          {
            "idx": i,
            "subset": subset.name,
            "sentence1": pairs.sentences_a[i],
            "sentence2": pairs.sentences_b[i],
            "score": pairs.scores[i],
          },
        )
