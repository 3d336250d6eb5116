"""TFDS builders of SICK, `SickR()`, and STS-12 to STS-16, `SemevalSts(config="sts12")`.

The organizers publish no checksums, so downloads are verified by their content: each line is readable, each file is
present, and sentences and gold are those of the files that we have.
"""

import os
from typing import ClassVar

import numpy as np
import tensorflow_datasets as tfds

from bert_flow_tf.data import sick, sts
from bert_flow_tf.data.sources import check_download
from bert_flow_tf.data.tfds_source import SPLITS
from bert_flow_tf.errors import DataError

_TEXT = tfds.features.Text


class SickR(tfds.core.GeneratorBasedBuilder):
  """Sentences Involving Compositional Knowledge, the files of SemEval 2014 task 1, with relatedness."""

  VERSION = tfds.core.Version("1.0.0")
  MANUAL_DOWNLOAD_INSTRUCTIONS = (
    "Only without a network: sick_train.zip, sick_trial.zip and sick_test_annotated.zip, or their files in SICK/."
  )

  def _info(self):
    return tfds.core.DatasetInfo(
      builder=self,
      description="Sentence pairs with a relatedness from 1 to 5: SICK, as of SemEval 2014 task 1.",
      homepage="https://alt.qcri.org/semeval2014/task1",
      features=tfds.features.FeaturesDict(_features("1 to 5")),
    )

  def _split_generators(self, dl_manager):
    return {stored: self._generate_examples(self._read(dl_manager, split)) for split, stored in SPLITS.items()}

  def _read(self, dl_manager, split):
    pairs, _ = _read(dl_manager, sick.URLS[split], sick.FILES[split], lambda folder: sick.read_file(folder, split))
    check_download(sick.FILES[split], sick.difference(pairs, split))
    return pairs

  def _generate_examples(self, pairs):
    for i in range(len(pairs)):
      yield i, _example(pairs, i)


class SemevalSts(tfds.core.GeneratorBasedBuilder):
  """The annotated English pairs of the SemEval tasks on semantic textual similarity, a configuration per year."""

  VERSION = tfds.core.Version("1.0.0")
  MANUAL_DOWNLOAD_INSTRUCTIONS = (
    "Only without a network: the organizers' archive (STS2012-en-test.zip and so on), or SentEval's folder "
    "STS/STS12-en-test and so on."
  )
  BUILDER_CONFIGS: ClassVar = [
    tfds.core.BuilderConfig(
      name=year.config, description=f"{year.name}: {year.size} pairs of {', '.join(year.subsets)}"
    )
    for year in sts.YEARS
  ]

  def _info(self):
    subset = _TEXT(doc="NAME of STS.input.NAME.txt")
    return tfds.core.DatasetInfo(
      builder=self,
      description="Sentence pairs with a similarity from 0 to 5: the SemEval STS tasks of 2012 to 2016.",
      homepage="https://ixa2.si.ehu.eus/stswiki",
      features=tfds.features.FeaturesDict({**_features("0 to 5"), "subset": subset}),
    )

  def _split_generators(self, dl_manager):
    (year,) = (year for year in sts.YEARS if year.config == self.builder_config.name)
    file = f"{year.inside}/STS.input.{year.subsets[0]}.txt"
    pairs, source = _read(dl_manager, year.url, file, lambda folder: sts.read_year(folder, year))
    check_download(source, year.difference(pairs))
    return {"test": self._generate_examples(pairs)}

  def _generate_examples(self, pairs):
    for i, subset in enumerate(pairs.subset_names()):
      yield i, {**_example(pairs, i), "subset": subset}


def _features(scale):
  return {
    "idx": tfds.features.Scalar(np.int32, doc="position in the order of the files"),
    "sentence1": _TEXT(),
    "sentence2": _TEXT(),
    "score": tfds.features.Scalar(np.float32, doc=scale),
  }


def _example(pairs, i):
  return {"idx": i, "sentence1": pairs.sentences_a[i], "sentence2": pairs.sentences_b[i], "score": pairs.scores[i]}


def _read(dl_manager, url, file, read):
  """Returns `read` of TFDS's folder of manual downloads, or of the downloaded archive if that is None."""
  try:
    result = read(os.fspath(dl_manager.manual_dir))
  except AssertionError:  # The folder does not exist.
    result = None
  if result is None:
    result = read(os.fspath(dl_manager.download_and_extract(url)))
  if result is None:
    raise DataError(
      f"the archive at {url} has no {file}; remove it from {dl_manager.download_dir} to download it again"
    )
  return result
