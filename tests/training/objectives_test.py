"""The classifier's folder: what is written comes back, everything else is one TrainingError."""

import json

import numpy as np
import pytest

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.io import checksums
from bert_flow_tf.training.objectives import ClassifierWeights
from tests.testing import rewrite_json

WEIGHTS = np.random.default_rng(0).normal(size=[3, 12]).astype(np.float32)
LABELS = ("contradiction", "entailment", "neutral")


@pytest.mark.parametrize("labels", [LABELS, None])
def test_round_trip_is_exact(tmp_path, labels):
  ClassifierWeights(WEIGHTS, labels, {"name": "mini"}).save(tmp_path / "classifier")
  loaded = ClassifierWeights.load(tmp_path / "classifier")
  assert loaded.output_weights.tobytes() == WEIGHTS.tobytes() and loaded.output_weights.dtype == np.float32
  assert (loaded.num_labels, loaded.dim, loaded.labels, loaded.encoder) == (3, 4, labels, {"name": "mini"})
  settings = checksums.opened(json.loads((tmp_path / "classifier/classifier.json").read_text()))
  assert settings.pop("format_version") == 1
  assert settings == {"num_labels": 3, "dim": 4, "labels": labels and list(labels), "encoder": {"name": "mini"}}


@pytest.mark.parametrize(
  ("weights", "labels", "message"),
  [
    (WEIGHTS[:, :11], None, r"shape \[3, 11\], expected \[num_labels, 3 \* dim\]"),
    (WEIGHTS[0], None, r"shape \[12\]"),
    (np.zeros([0, 12]), None, "shape"),
    (WEIGHTS * np.nan, None, "not finite numbers"),
    (WEIGHTS.astype(str), None, "not finite numbers"),
    (WEIGHTS, LABELS[:2], "labels are .*, expected 3 different names"),
    (WEIGHTS, ("a", "a", "b"), "expected 3 different names"),
    (WEIGHTS, "abc", "expected 3 different names"),
    (WEIGHTS, (1, 2, 3), "expected 3 different names"),
  ],
)
def test_what_is_no_classifier(weights, labels, message):
  with pytest.raises(TrainingError, match=message):
    ClassifierWeights(weights, labels)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"num_labels": 2}, "num_labels is 2, the weights have 3"),
    ({"dim": True}, "dim is True, the weights have 4"),
    ({"labels": ["a"]}, "labels are"),
    ({"color": "red"}, "unknown: color$"),
    ({"encoder": "mini"}, "encoder is 'mini', expected an object"),
  ],
)
def test_damaged_settings(tmp_path, changes, message):
  ClassifierWeights(WEIGHTS, LABELS).save(tmp_path / "c")
  rewrite_json(tmp_path / "c/classifier.json", **changes)
  with pytest.raises(TrainingError, match=message):
    ClassifierWeights.load(tmp_path / "c")


def test_damaged_weights(tmp_path):
  ClassifierWeights(WEIGHTS, LABELS).save(tmp_path / "c")
  for arrays in ({}, {"output_weights": WEIGHTS, "b": WEIGHTS}, {"output_weights": np.array([{}], object)}):
    np.savez(tmp_path / "c/weights.npz", **arrays)
    with pytest.raises(TrainingError, match="classifier folder"):
      ClassifierWeights.load(tmp_path / "c")
  with pytest.raises(TrainingError, match="no such folder"):
    ClassifierWeights.load(tmp_path / "absent")
