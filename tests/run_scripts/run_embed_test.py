"""run_scripts/run_embed.py with good and wrong command lines."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.calibration.flow import load_calibration
from tests.corpus.toy import read_npy
from tests.run_scripts import hostile_embed
from tests.run_scripts.command_lines import check_rejected, check_succeeded

pytestmark = pytest.mark.slow
COMMAND_LINES = hostile_embed
SENTENCES = hostile_embed.SENTENCES


@pytest.fixture(scope="module")
def expected(ran):
  """Returns the embeddings without and with the calibration."""
  with np.load(ran[0] / "expected.npz") as archive:
    plain, pooled = archive["plain"], archive["pooled"]
  whitened = load_calibration(ran[0] / "whitening").transform(pooled)
  return {"plain": plain, "whitened": whitened.reshape(len(whitened), hostile_embed.LOW_DIM, -1).mean(axis=2)}


def test_good_command_lines(ran):
  check_succeeded(ran[1], hostile_embed.good(ran[0]))


def test_errors_are_one_line(ran):
  folder, found = ran
  check_rejected(found, hostile_embed.bad(folder))
  assert not (folder / "refused").exists()


def test_text_to_npy(ran, expected):
  folder, found = ran
  ids, vectors = read_npy(folder / "plain")
  assert ids == [str(i) for i in range(len(SENTENCES))]
  np.testing.assert_allclose(vectors, expected["plain"], atol=1e-5)
  assert len(list((folder / "plain").glob("shard-*-of-00004.npy"))) == 4
  assert re.search(r"^ +embedded +320$", found["plain"]["stdout"], re.MULTILINE)
  assert "records per second" in found["plain"]["stdout"] and "per second" not in found["again"]["stdout"]
  manifest = json.loads((folder / "plain/manifest.json").read_text())
  assert manifest["complete"] and manifest["counters"] == {"read": 320, "embedded": 320, "skipped (empty)": 0, "bad": 0}


def test_tsv_with_a_calibration_that_names_the_encoder(ran, expected):
  ids, vectors = read_npy(ran[0] / "tsv")
  assert ids == [str(i) for i in range(len(SENTENCES))]
  np.testing.assert_allclose(vectors, expected["whitened"], atol=1e-4)


def test_tfrecord_to_tfrecord(ran, expected):
  spec = {"id": tf.io.FixedLenFeature([], tf.string), "embedding": tf.io.FixedLenFeature([2], tf.float32)}
  paths = sorted(str(path) for path in (ran[0] / "tfrecord").glob("shard-*.tfrecord"))
  found = [tf.io.parse_single_example(record, spec) for record in tf.data.TFRecordDataset(paths)]
  assert len(paths) == 7 and [one["id"].numpy() for one in found] == [b"%d" % i for i in range(len(SENTENCES))]
  np.testing.assert_allclose([one["embedding"].numpy() for one in found], expected["whitened"], atol=1e-4)


def test_bad_records(ran):
  folder, found = ran
  ids, vectors = read_npy(folder / "bad records")
  assert ids == ["0", "3"] and vectors.shape == (2, 12)
  lines = (folder / "bad records/dead-letter-00000-of-00001.tsv").read_text().splitlines()
  assert [line.split("\t")[1:3] for line in lines] == [["3", "not UTF-8"], ["5", "too long"]]
  out = found["bad records"]["stdout"]
  assert all(
    re.search(rf"^ +{re.escape(name)} +1$", out, re.MULTILINE) for name in ("skipped (empty)", "bad (too long)")
  )
  assert "dead-letter-*" in out


def test_a_saved_model(ran):
  vectors = read_npy(ran[0] / "saved model")[1]
  np.testing.assert_array_equal(vectors, [[len(sentence), len(sentence) + 1] for sentence in SENTENCES])
