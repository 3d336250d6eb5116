"""TFDS builders of SICK, and STS-12 to STS-16, without checksums of the organizers: the pairs are checked."""

import contextlib
import os
from typing import ClassVar

import numpy as np
import tensorflow_datasets as tfds

from bert_flow_tf.data import semeval
from bert_flow_tf.data.table import TFDS_SPLITS, difference
from bert_flow_tf.errors import DataError


class PairsBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
  """Base of the builders: reads files of the folder of manual downloads, or downloads archives."""

  VERSION = tfds.core.Version("1.0.0")

  def _info(self):
    features = {
      "idx": tfds.features.Scalar(np.int32, doc="position in the order of the files"),
      "sentence1": tfds.features.Text(),
      "sentence2": tfds.features.Text(),
      "score": tfds.features.Scalar(np.float32),
    }
    if self.BUILDER_CONFIGS:
      features["subset"] = tfds.features.Text(doc="NAME of STS.input.NAME.txt")
    features = tfds.features.FeaturesDict(features)
    return tfds.core.DatasetInfo(builder=self, description=self.__doc__, features=features)

  def _source(self):
    """Returns the `TaskTable` or `Year` of the builder."""
    raise NotImplementedError

  def missing_urls(self):
    """Returns the addresses of the files that are not in TFDS's folder of manual downloads."""
    source, manual = self._source(), os.path.join(os.fspath(self.data_dir_root), "downloads", "manual")
    urls = []
    for split, url in source.archives.items():
      if "://" in manual or source.pairs_in(manual, split) is None:
        urls.append(url)
    return urls

  def _split_generators(self, dl_manager):
    generators, source = {}, self._source()
    for split, url in source.archives.items():
      # Files that a user put into TFDS's folder come before a download.
      pairs = None
      with contextlib.suppress(AssertionError):  # The folder of manual downloads does not exist.
        pairs = source.pairs_in(os.fspath(dl_manager.manual_dir), split)
      if pairs is None:
        pairs = source.pairs_in(os.fspath(dl_manager.download_and_extract(url)), split)
      if pairs is None:
        again = f"remove it from {dl_manager.download_dir} to download it again"
        raise DataError(f"the archive at {url} has not the files of {source.name}; {again}")
      other = difference(source.name, source.published, pairs, split)
      if other:
        raise DataError(f"{url}: {other}; to use it nevertheless, unpack it into a folder and set data_dir to it")
      generators[TFDS_SPLITS[split]] = self._generate_examples(pairs)
    return generators

  def _generate_examples(self, pairs):
    subsets = pairs.subset_names()
    columns = zip(pairs.sentences_a, pairs.sentences_b, pairs.scores, strict=True)
    for i, (a, b, score) in enumerate(columns):
      example = {"idx": i, "sentence1": a, "sentence2": b, "score": score}
      if subsets:
        example["subset"] = subsets[i]
      yield i, example


class SickR(PairsBuilder):
  """Sentence pairs with a relatedness from 1 to 5: SICK, as of SemEval 2014 task 1."""

  MANUAL_DOWNLOAD_INSTRUCTIONS = (
    "Only without a network: sick_train.zip, sick_trial.zip and sick_test_annotated.zip, or their files in SICK/."
  )

  def _source(self):
    return semeval.SICK_R


class SemevalSts(PairsBuilder):
  """Sentence pairs with a similarity from 0 to 5: the SemEval STS tasks of 2012 to 2016, a configuration per year."""

  MANUAL_DOWNLOAD_INSTRUCTIONS = (
    "Only without a network: the organizers' archive (STS2012-en-test.zip and so on), or SentEval's folder "
    "STS/STS12-en-test and so on."
  )
  BUILDER_CONFIGS: ClassVar = [
    tfds.core.BuilderConfig(
      name=year.config, description=f"{year.name}: {year.size} pairs of {', '.join(year.subsets)}"
    )
    for year in semeval.YEARS
  ]

  def _source(self):
    return next(year for year in semeval.YEARS if year.config == self.builder_config.name)
