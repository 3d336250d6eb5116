"""Encoders as Keras layers; user_model_test has those of a user's own TFBertModel."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
import transformers

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder
from bert_flow_tf.encoder.text.word_piece import pad_batch
from bert_flow_tf.errors import DataError, EncoderError
from tests.encoder import tiny
from tests.testing import REPO

TEXTS = ["a dog", "cats . a b", "Dog b", "a"]
CONFIG = {**tiny.CONFIG, "num_hidden_layers": 2}


@pytest.fixture
def encoder(tmp_path):
  return SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path / "tiny", config=CONFIG))


def tokens(encoder, max_seq_length=64):
  return list(map(tf.constant, pad_batch(encoder.tokenizer(TEXTS, max_seq_length), encoder.tokenizer.pad_id)))


@pytest.mark.parametrize(
  "pooling", ["avg", "avg-first-last", "avg-last-1", "cls", "cls-token", "max", "word-rows", "mix"]
)
def test_layer_of_texts_and_ids(encoder, pooling):
  expected = encoder.encode(TEXTS, pooling)
  layer = encoder.as_layer(True, pooling)
  ids, mask = tokens(encoder)
  inputs = (TEXTS, tf.constant(TEXTS), np.array(TEXTS), ids, ids.numpy(), (ids, mask), [ids, mask])
  of_transformers = transformers.BatchEncoding({"input_ids": ids, "attention_mask": mask})
  for each in (*inputs, of_transformers, dict(of_transformers)):
    np.testing.assert_allclose(layer(each), expected, atol=1e-5)
  assert layer.dim == expected.shape[1]
  with tf.GradientTape() as tape:
    loss = tf.reduce_mean(layer(tf.constant(TEXTS), training=True) ** 3)
  # Of every weight that the embedding depends on, and of no other.
  gradients = tape.gradient(loss, layer.trainable_variables)
  assert gradients and all(gradient is not None for gradient in gradients)
  names = {weight.name for weight in layer.trainable_variables}
  assert any("pooler" in name for name in names) == (pooling == "cls")
  assert any("layer_._1" in name for name in names) == (pooling not in ("avg-last-1", "word-rows"))


def test_training_mode_is_dropout_and_a_frozen_layer_has_nothing_to_train(encoder):
  frozen, trained = encoder.as_layer(), encoder.as_layer(trainable=True)
  noisy = [trained(TEXTS, training=True).numpy() for _ in range(2)]
  assert np.abs(noisy[0] - noisy[1]).max() > 1e-3
  np.testing.assert_array_equal(frozen(TEXTS, training=True), frozen(TEXTS))
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(frozen(TEXTS) ** 2)
  assert frozen.trainable_variables == [] and tape.gradient(loss, encoder.bert.weights[:1]) == [None]


@pytest.mark.parametrize("trainable", [True, False])
@pytest.mark.parametrize(("precision", "atol"), [("float32", 1e-5), ("bfloat16", 0.05)])
def test_fine_tuning_with_the_flows_loss_in_a_loop(precision, atol, trainable):
  check_training(SentenceEncoder.from_pretrained("mini", precision=precision), trainable, atol)


def check_training(encoder, trainable=True, atol=1e-5):
  """Trains an encoder as a layer, which is trainable at first or made so later, and a flow on it."""
  before = encoder.encode(TEXTS)
  layer = encoder.as_layer(trainable=trainable)
  layer.trainable = True
  flow = Glow(FlowConfig(depth=1, n_levels=1), layer.dim, seed=1)
  flow.initialize(layer(TEXTS))
  optimizer = tf_keras.optimizers.Adam(1e-3)

  @tf.function
  def step(texts):
    with tf.GradientTape() as tape:
      loss = tf.reduce_mean(flow.bits_per_dim(layer(texts, training=True)))
    variables = [*layer.trainable_variables, *flow.trainable_variables]
    gradients = tape.gradient(loss, variables)
    assert None not in gradients
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
    return loss

  losses = [step(tf.constant(TEXTS)).numpy() for _ in range(12)]
  assert losses[-1] < losses[0] - 0.1
  after = encoder.encode(TEXTS)
  assert np.abs(after - before).max() > 1e-2  # the encoder itself was trained
  np.testing.assert_allclose(after, layer(TEXTS), atol=atol)


@pytest.mark.parametrize("ending", [".keras", ".h5", ""])
@pytest.mark.parametrize("trainable", [True, False])
def test_a_keras_model_around_the_layer_is_saved_and_loaded(tmp_path, ending, trainable):
  pytest.importorskip("tensorflow_text")
  layer = SentenceEncoder.from_pretrained("mini").as_layer(trainable, "avg", max_seq_length=6)
  text = tf_keras.Input([], dtype=tf.string)
  around = tf_keras.Model(text, tf_keras.layers.Dense(1)(layer(text)))
  around.compile(tf_keras.optimizers.Adam(1e-2), "mse")
  around.fit(tf.constant(TEXTS), np.arange(4.0), verbose=0)
  around.save(str(tmp_path / f"model{ending}"))
  loaded = tf_keras.models.load_model(str(tmp_path / f"model{ending}"))
  given = tf.constant(TEXTS)
  np.testing.assert_allclose(loaded.predict(given, verbose=0), around.predict(given, verbose=0), atol=1e-6)
  assert len(loaded.trainable_weights) == len(around.trainable_weights)
  # Each has weights of its own.
  loaded.layers[1].weights[0].assign_add(tf.ones_like(loaded.layers[1].weights[0]))
  assert np.abs(layer.weights[0] - loaded.layers[1].weights[0]).min() > 0.9


def test_a_layer_of_another_vocabulary_is_rejected(tmp_path):
  layer = SentenceEncoder.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny"))).as_layer()
  config = layer.get_config()
  vocab = (tmp_path / "tiny" / "vocab.txt").read_text().splitlines()
  (tmp_path / "tiny" / "vocab.txt").write_text("\n".join([*vocab[:-1], "other"]) + "\n")
  with pytest.raises(EncoderError, match="has another vocabulary"):
    type(layer).from_config(config)


def test_ids_of_the_layer(encoder):
  layer = encoder.as_layer()
  ids, _ = tokens(encoder)
  np.testing.assert_allclose(layer({"input_ids": ids}), encoder.encode(TEXTS), atol=1e-5)
  with pytest.raises(DataError, match="inputs: a dict of ids; expected input_ids and attention_mask"):
    layer({"ids": ids})
  with pytest.raises(DataError, match=r"inputs: ids of shape \(1, 1, 4\); expected \[batch, seq_len\]"):
    layer(np.ones([1, 1, 4], np.int32))
  limit = encoder.max_tokens
  message = f"rows of ids are longer than the {limit} positions"
  assert layer(tf.ones([1, limit], tf.int32)).shape == (1, layer.dim)
  with pytest.raises(DataError, match=message):
    layer(tf.ones([1, limit + 1], tf.int32))
  unknown = tf.function(layer, input_signature=[tf.TensorSpec([None, None], tf.int32)])
  with pytest.raises(tf.errors.InvalidArgumentError, match=message):
    unknown(tf.ones([1, limit + 1], tf.int32))


def test_a_saved_model_around_the_layer_of_ids(encoder, tmp_path):
  inputs = tf_keras.Input([None], dtype=tf.int32)
  layer = encoder.as_layer(trainable=True)
  tf.saved_model.save(tf_keras.Model(inputs, layer(inputs)), str(tmp_path / "served"))
  served = tf.saved_model.load(str(tmp_path / "served"))
  np.testing.assert_allclose(served(tokens(encoder)[0]), encoder.encode(TEXTS), atol=1e-5)


def test_the_layer_without_tensorflow_text(encoder, monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
  layer = encoder.as_layer(max_seq_length=4)
  np.testing.assert_allclose(tf.function(layer)(tf.constant(TEXTS)), encoder.encode(TEXTS, None, 4), atol=1e-5)


def test_keras_3_is_told_that_it_would_not_train_the_layer():
  code = """
import keras, numpy as np, bert_flow_tf
layer = bert_flow_tf.SentenceEncoder.from_pretrained("mini").as_layer(trainable=TRAINABLE)
class Model(keras.Model):
  def __init__(self):
    super().__init__()
    self.encoder, self.head = layer, keras.layers.Dense(1)
  def call(self, ids):
    return self.head(self.encoder(ids))
model = Model()
model.compile("adam", "mse")
model.fit(np.full([4, 5], 60, "int32"), np.zeros([4, 1]), verbose=0)
"""
  for trainable in (True, False):
    program = code.replace("TRAINABLE", str(trainable))
    done = subprocess.run([sys.executable, "-c", program], cwd=REPO, capture_output=True, text=True)
    assert ("is a layer of Keras 2, and a model of Keras 3 would not train" in done.stderr) == trainable, done.stderr
    assert (done.returncode == 0) != trainable
