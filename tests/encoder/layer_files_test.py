"""Encoders as Keras layers: every way to save and copy a model with an encoder."""

import copy
import pickle

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.flow.keras import tf_variables
from tests.encoder import tiny
from tests.encoder.layer_test import CONFIG, TEXTS, dropout_free, model_of
from tests.keras_ways import WAYS

pytestmark = pytest.mark.packages


@pytest.mark.parametrize("trainable", [True, False])
@pytest.mark.parametrize("name", WAYS)
def test_saved_and_copied(tmp_path, name, trainable):
  pytest.importorskip("tensorflow_text")
  model, other = (
    model_of(dropout_free(tmp_path / "tiny").as_layer(trainable, "avg", max_seq_length=6), seed) for seed in (1, 2)
  )
  rng = np.random.default_rng(1)
  for weight in tf_variables(model.weights):
    weight.assign_add(rng.normal(0, 0.1, weight.shape))
  texts = tf.constant(TEXTS)
  expected = model(texts).numpy()
  assert np.abs(other(texts) - expected).max() > 1e-3
  found = WAYS[name](model, other, tmp_path / "model")
  np.testing.assert_allclose(found(texts), expected, atol=1e-6)
  assert [tuple(weight.shape) for weight in found.weights] == [tuple(weight.shape) for weight in model.weights]
  assert len(found.trainable_weights) == len(model.trainable_weights)
  assert len({weight.name for weight in model.layers[1].weights}) == len(model.layers[1].weights)
  # The layers have separate weights, on which the layer and its encoder compute.
  first = tf_variables(found.layers[1].weights)[0]
  first.assign(-first)
  np.testing.assert_array_equal(model(texts), expected)
  assert np.abs(found(texts) - expected).max() > 1e-4
  layer = found.layers[1]
  np.testing.assert_allclose(tiny.embed(layer._encoder, TEXTS, max_seq_length=6), layer(texts), atol=1e-6)


@pytest.mark.parametrize(
  ("way", "trainable"), [(copy.deepcopy, True), (lambda layer: pickle.loads(pickle.dumps(layer)), False)]
)
def test_the_layer_alone_is_copied_with_its_encoder(tmp_path, way, trainable):
  encoder = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path / "tiny", config=CONFIG))
  layer = encoder.as_layer(trainable, name="mine")
  again, expected = way(layer), layer(TEXTS).numpy()
  np.testing.assert_array_equal(again(TEXTS), expected)
  assert again.name == "mine" and len(again.trainable_weights) == len(layer.trainable_weights)
  for weight in tf_variables(again.weights):
    weight.assign_add(tf.ones_like(weight))
  np.testing.assert_array_equal(layer(TEXTS), expected)
  assert np.abs(again(TEXTS) - expected).max() > 1e-3
