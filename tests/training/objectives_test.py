"""Objectives of a siamese training: losses, initial weights, and the classifier's folder."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.training.objectives import Classifier, cosine_losses

WEIGHTS = np.random.default_rng(0).normal(size=[3, 12]).astype(np.float32)
LABELS = ("contradiction", "entailment", "neutral")


def test_initial_weights_and_probabilities():
  rng = np.random.default_rng(0)
  u, v = rng.normal(size=[2, 5, 6]).astype(np.float32)
  classifier = Classifier.initial(6, LABELS, 3)
  weights = classifier.output_weights.numpy()
  assert weights.shape == (3, 18) and np.abs(weights).max() <= 0.04 and weights.std() == pytest.approx(0.0176, rel=0.25)
  np.testing.assert_array_equal(weights, Classifier.initial(6, LABELS, 3).output_weights)
  assert (weights != Classifier.initial(6, LABELS, 4).output_weights.numpy()).all()
  logits = np.hstack([u, v, np.abs(u - v)]).astype(np.float64) @ weights.T
  np.testing.assert_allclose(classifier.probabilities(u, v), special.softmax(logits, axis=1), rtol=1e-5)


def test_a_sentence_of_zeros_has_cosine_0_and_no_gradient():
  u, v = np.random.default_rng(0).normal(size=[2, 5, 6]).astype(np.float32)
  u[0] = 0.0
  u = tf.Variable(u)
  with tf.GradientTape() as tape:
    losses = cosine_losses(u, v, tf.fill([5], 0.5))
  assert losses.numpy()[0] == pytest.approx(0.25) and np.isfinite(tape.gradient(losses, u)).all()


def test_a_saved_classifier_is_the_same(tmp_path):
  Classifier(WEIGHTS, LABELS, {"name": "mini"}).save(tmp_path / "classifier")
  loaded = Classifier.load(tmp_path / "classifier")
  assert loaded.output_weights.numpy().tobytes() == WEIGHTS.tobytes()
  assert (loaded.dim, loaded.labels, loaded.encoder) == (4, LABELS, {"name": "mini"})
  with pytest.raises(TrainingError, match="absent"):
    Classifier.load(tmp_path / "absent")


@pytest.mark.parametrize(
  ("weights", "labels", "message"),
  [
    (WEIGHTS[:, :11], LABELS, r"shape \[3, 11\], expected \[num_labels, 3 \* dim\]"),
    (WEIGHTS[0], LABELS, r"shape \[12\]"),
    (np.zeros([0, 12]), (), "shape"),
    (WEIGHTS, LABELS[:2], "labels are .*, expected 3 different names"),
    (WEIGHTS, ("a", "a", "b"), "expected 3 different names"),
  ],
)
def test_rejected_classifiers(weights, labels, message):
  with pytest.raises(TrainingError, match=message):
    Classifier(weights, labels)
