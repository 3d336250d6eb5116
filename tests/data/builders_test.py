"""data/tfds_builders.py, with the test case of TensorFlow Datasets."""

import pathlib
import tempfile
from unittest import mock

import numpy as np
import pytest
import tensorflow_datasets as tfds
from scipy.stats import rankdata

from bert_flow_tf.data import semeval, tfds_builders
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.data.tfds_builders import SemevalSts, SickR
from tests.data.tfds_cases import cut_network, need_preparation
from tests.testing import shared

need_preparation()
pytest.importorskip("dill", reason="tfds.testing needs it but does not say so")

_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"


class _BuilderTestCase(tfds.testing.DatasetBuilderTestCase):
  """Test case of a builder that reads examples of the test instead of a dummy_data folder."""

  # The organizers publish no checksums: the builders verify the pairs instead.
  SKIP_CHECKSUMS = True

  @classmethod
  def setUpClass(cls):
    folder = tempfile.TemporaryDirectory()
    cls.addClassCleanup(folder.cleanup)
    cls.EXAMPLE_DIR = folder.name
    cls.write_examples(pathlib.Path(folder.name))
    super().setUpClass()


def _accept_any(cls):
  """Lets the builders read other pairs than the published ones, while the tests of a class run."""
  patch = mock.patch.object(tfds_builders, "check_download")
  patch.start()
  cls.addClassCleanup(patch.stop)


class SickRTest(_BuilderTestCase):
  DATASET_CLASS = SickR
  SPLITS = {"train": 3, "validation": 1, "test": 2}  # noqa: RUF012

  @classmethod
  def write_examples(cls, folder):
    sizes = {"train": 3, "dev": 1, "test": 2}
    for split, size in sizes.items():
      rows = "".join(f"{i}\t{split} {i}\tb\t{1 + i}.5\tNEUTRAL\n" for i in range(size))
      (folder / semeval.SICK_R.files[split][0]).write_text(_HEADER + rows)
    _accept_any(cls)


class SemevalStsTest(_BuilderTestCase):
  DATASET_CLASS = SemevalSts
  SPLITS = {"test": 4}  # noqa: RUF012
  BUILDER_CONFIG_NAMES_TO_TEST = ["sts13"]  # noqa: RUF012

  @classmethod
  def write_examples(cls, folder):
    folder = folder / "STS13-en-test"
    folder.mkdir()
    for subset, size in (("FNWN", 1), ("headlines", 1), ("OnWN", 2)):
      (folder / f"STS.input.{subset}.txt").write_text("".join(f"{subset} {i}\tb\n" for i in range(size + 1)))
      (folder / f"STS.gs.{subset}.txt").write_text("\n" + "1.5\n" * size)
    _accept_any(cls)


@pytest.mark.parametrize("name", ["SICK-R", "STS-12-16"])
def test_real_manual_files(tmp_path, monkeypatch, name):
  """Compares the complete data sets, whose sizes the builders check."""
  cut_network(monkeypatch)
  (tmp_path / "downloads").mkdir()
  (tmp_path / "downloads" / "manual").symlink_to(shared("data"))
  built = load_task(name, tfds_data_dir=tmp_path)
  read = load_task(name, data_dir=shared("data"))
  assert built.source != read.source and list(built.splits) == list(read.splits)
  for split, pairs in read.splits.items():
    prepared = built.splits[split]
    assert (prepared.sentences_a, prepared.sentences_b) == (pairs.sentences_a, pairs.sentences_b)
    assert prepared.subsets == pairs.subsets
    # TFDS stores float32; some scores are means: 1.33333333333333.
    np.testing.assert_allclose(prepared.scores, pairs.scores, rtol=0, atol=5.1e-7)
    assert (rankdata(prepared.scores) == rankdata(pairs.scores)).all()


# The base class is not a test.
del _BuilderTestCase
