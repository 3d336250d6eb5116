"""Encoders as Keras layers, trained and in models; layer_files_test saves and copies them."""

import importlib.util

import numpy as np
import pytest
import tensorflow as tf
import transformers

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder
from bert_flow_tf.encoder.text.word_piece import pad_batch
from bert_flow_tf.errors import DataError, EncoderError
from bert_flow_tf.flow.keras import keras, tf_variables
from tests.encoder import tiny
from tests.encoder.sentence_encoder_test import ancestors
from tests.testing import run_python

pytestmark = pytest.mark.packages

TEXTS = ["a dog", "cats . a b", "Dog b", "a"]
CONFIG = {**tiny.CONFIG, "num_hidden_layers": 2}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
  """Returns an encoder that no test trains."""
  return SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path_factory.mktemp("tiny"), config=CONFIG))


def tokens(encoder, max_seq_length=64):
  return list(map(tf.constant, pad_batch(encoder.tokenizer(TEXTS, max_seq_length), encoder.tokenizer.pad_id)))


def test_layer_of_texts_and_ids(encoder):
  expected, layer = encoder.encode(TEXTS), encoder.as_layer(trainable=True)
  ids, mask = tokens(encoder)
  inputs = (TEXTS, tf.constant(TEXTS), np.array(TEXTS), ids, ids.numpy(), (ids, mask), [ids, mask])
  batch_encoding = transformers.BatchEncoding({"input_ids": ids, "attention_mask": mask})
  for each in (*inputs, batch_encoding, dict(batch_encoding)):
    np.testing.assert_allclose(layer(each), expected, atol=1e-5)


@pytest.mark.parametrize("trainable", [False, True])
def test_a_mask_with_gaps(encoder, trainable):
  """Tokens that the mask leaves out, wherever they are, are neither attended to nor in the mean."""
  mask = np.array([[1, 0, 1, 0, 1], [0, 1, 1, 1, 0]], np.int32)
  states, _ = tiny.numpy_bert(tiny.random_weights(CONFIG), tiny.IDS, mask, CONFIG)
  expected = (states[-1] * mask[..., np.newaxis]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
  layer = encoder.as_layer(trainable, "avg")
  np.testing.assert_allclose(layer((tiny.IDS, mask)), expected, atol=1e-5)
  np.testing.assert_allclose(layer({"input_ids": tiny.IDS, "attention_mask": mask}), expected, atol=1e-5)


@pytest.mark.parametrize(
  "pooling", ["avg", "avg-first-last", "avg-last-1", "cls", "cls-token", "max", "word-rows", "mix"]
)
def test_poolings_and_the_weights_that_they_train(encoder, pooling):
  expected = encoder.encode(TEXTS, pooling)
  layer = encoder.as_layer(True, pooling)
  np.testing.assert_allclose(layer(TEXTS), expected, atol=1e-5)
  assert layer.dim == expected.shape[1]
  with tf.GradientTape() as tape:
    loss = tf.reduce_mean(layer(tf.constant(TEXTS), training=True) ** 3)
  # The layer trains every weight that changes the embedding, and no other weight.
  gradients = tape.gradient(loss, tf_variables(layer.trainable_variables))
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


@pytest.mark.parametrize(
  ("precision", "atol", "trainable", "in_graph"), [("float32", 1e-5, True, True), ("bfloat16", 0.05, False, False)]
)
def test_fine_tuning_with_the_flows_loss_in_a_loop(tmp_path, precision, atol, trainable, in_graph):
  folder = tiny.save_tiny(tmp_path, config={**CONFIG, "num_hidden_layers": 1})
  encoder = SentenceEncoder.from_pretrained(folder, precision=precision)
  check_training(encoder, trainable, atol, in_graph)


def check_training(encoder, trainable=True, atol=1e-5, in_graph=False):
  """Trains an encoder as a layer, which is trainable at first or made so later, and a flow on it."""
  before = encoder.encode(TEXTS)
  layer = encoder.as_layer(trainable=trainable)
  layer.trainable = True
  flow = Glow(FlowConfig(depth=1, n_levels=1), layer.dim, seed=1)
  # Not from these four embeddings, of which the flow has the smallest loss at once.
  flow.initialize(tf.random.stateless_normal([32, layer.dim], [1, 2]))
  variables = [*layer.trainable_variables, *flow.trainable_variables]
  optimizer = keras.optimizers.Adam(1e-2)
  optimizer.build(variables)  # otherwise the function is traced twice

  def step(texts):
    with tf.GradientTape() as tape:
      loss = tf.reduce_mean(flow.bits_per_dim(layer(texts, training=True)))
    gradients = tape.gradient(loss, tf_variables(variables))
    assert None not in gradients
    optimizer.apply_gradients(zip(gradients, variables, strict=True))

  if in_graph:
    step = tf.function(step)
  for _ in range(8):
    step(tf.constant(TEXTS))
  after = encoder.encode(TEXTS)
  np.testing.assert_allclose(after, layer(TEXTS), atol=atol)
  # The encoder itself was trained: the same flow has a smaller loss of its embeddings.
  losses = [np.mean(flow.bits_per_dim(embeddings)) for embeddings in (before, after)]
  assert losses[1] < losses[0] - 0.1


def test_a_layer_of_another_vocabulary_is_rejected(tmp_path):
  layer = SentenceEncoder.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny"))).as_layer()
  config = layer.get_config()
  vocab = (tmp_path / "tiny" / "vocab.txt").read_text().splitlines()
  (tmp_path / "tiny" / "vocab.txt").write_text("\n".join([*vocab[:-1], "other"]) + "\n")
  with pytest.raises(EncoderError, match="saved layer: "):
    type(layer).from_config(config)


def test_ids_of_the_layer(encoder):
  layer = encoder.as_layer()
  ids, _ = tokens(encoder)
  np.testing.assert_allclose(layer({"input_ids": ids}), encoder.encode(TEXTS), atol=1e-5)
  with pytest.raises(DataError, match=r"^inputs: .*input_ids"):
    layer({"ids": ids})
  with pytest.raises(DataError, match=r"inputs: .*\(1, 1, 4\)"):
    layer(np.ones([1, 1, 4], np.int32))
  limit = encoder.max_tokens
  message = f"inputs: .*{limit}"
  assert layer(tf.ones([1, limit], tf.int32)).shape == (1, layer.dim)
  with pytest.raises(DataError, match=message):
    layer(tf.ones([1, limit + 1], tf.int32))
  unknown = tf.function(layer, input_signature=[tf.TensorSpec([None, None], tf.int32)])
  with pytest.raises(tf.errors.InvalidArgumentError, match=message):
    unknown(tf.ones([1, limit + 1], tf.int32))
  # In the graph, too, embeddings are read after the check.
  operations = unknown.get_concrete_function().graph.get_operations()
  gathers = [op for op in operations if op.type.startswith(("Gather", "ResourceGather"))]
  assert len(gathers) >= 3  # of words, positions and segments
  for gather in gathers:
    assert any(op.type == "Assert" for op in ancestors([gather])), gather.name


def test_the_layer_without_tensorflow_text(encoder, monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
  layer = encoder.as_layer(max_seq_length=4)
  np.testing.assert_allclose(tf.function(layer)(tf.constant(TEXTS)), encoder.encode(TEXTS, None, 4), atol=1e-5)


# ---- in models of Keras


def dropout_free(folder, **changes):
  """Returns an encoder without dropout of a new tiny folder."""
  config = {**CONFIG, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, **changes}
  return SentenceEncoder.from_pretrained(tiny.save_tiny(folder, config=config))


def model_of(layer, seed=1, shape=(), dtype="string"):
  """Returns a model from sentences, or ids, to a number, with weights by a seed."""
  text = keras.Input(shape, dtype=dtype)
  initializer = keras.initializers.RandomNormal(seed=seed)
  head = keras.layers.Dense(1, kernel_initializer=initializer, dtype="float32")  # whatever the policy is
  return keras.Model(text, head(layer(text)))


def test_fit_moves_what_is_trainable_and_nothing_else(tmp_path):
  encoder = dropout_free(tmp_path)
  texts, scores = tf.constant(TEXTS), np.arange(4.0)[:, np.newaxis]
  for layer in (encoder.as_layer(False, "avg"), encoder.as_layer(True, "avg")):
    model = model_of(layer)
    for trainable in (layer.trainable, not layer.trainable):
      layer.trainable = trainable
      count = len(layer.weights) * trainable
      assert len(layer.trainable_weights) == count and len(model.trainable_weights) == count + 2
      before = [weight.numpy() for weight in encoder.bert.weights]
      model.compile(keras.optimizers.Adam(1e-2), "mse", run_eagerly=True)
      model.fit(texts, scores, verbose=0)
      moved = [np.abs(old - new).max() > 0 for old, new in zip(before, encoder.bert.weights, strict=True)]
      # Neither the pooler nor, at most, a bias of keys, to which attention is blind.
      assert sum(moved) == 0 if not trainable else count - 2 <= sum(moved) <= count
      np.testing.assert_allclose(layer(TEXTS), encoder.encode(TEXTS, "avg"), atol=1e-5)


def test_two_layers_on_one_encoder_are_trained_once(tmp_path):
  encoder = dropout_free(tmp_path)
  text = keras.Input([], dtype="string")
  views = [encoder.as_layer(True, pooling)(text) for pooling in ("avg", "cls")]
  model = keras.Model(text, keras.layers.Dense(1)(keras.layers.Concatenate()(views)))
  assert len(model.trainable_weights) == len(encoder.bert.weights) + 2
  model.compile("adam", "mse", run_eagerly=True)
  model.fit(tf.constant(TEXTS), np.zeros([4, 1]), verbose=0)


def test_symbolic_inputs(encoder):
  layer, expected = encoder.as_layer(), encoder.encode(TEXTS)
  ids, mask = tokens(encoder)
  i, m = keras.Input([None], dtype="int32"), keras.Input([None], dtype="int32")
  named = {"input_ids": i, "attention_mask": m}
  for inputs, given, data in (
    (i, i, ids),
    ([i, m], (i, m), [ids, mask]),
    ([i, m], [i, m], [ids, mask]),
    (named, named, {"input_ids": ids, "attention_mask": mask}),
  ):
    model = keras.Model(inputs, layer(given))
    assert model.output_shape == (None, layer.dim)
    np.testing.assert_allclose(model(data), expected, atol=1e-5)
  sequence = keras.Sequential([keras.Input([], dtype="string"), layer, keras.layers.Dense(2)])
  assert sequence.predict(tf.constant(TEXTS), verbose=0).shape == (4, 2)


def test_a_subclassed_model(tmp_path):
  encoder = dropout_free(tmp_path / "tiny", num_hidden_layers=1)

  class Scores(keras.Model):
    def __init__(self, trainable=True):
      super().__init__()
      self.encoder, self.head = encoder.as_layer(trainable), keras.layers.Dense(1)

    def call(self, text, training=None):
      return self.head(self.encoder(text, training=training))

  texts, before = tf.constant(TEXTS), encoder.encode(TEXTS)
  model = Scores()
  model.compile("adam", "mse")  # the fit of this file that Keras compiles
  model.fit(texts, np.zeros([4, 1]), verbose=0)
  assert np.abs(encoder.encode(TEXTS) - before).max() > 1e-3
  expected = model(texts).numpy()
  model.save_weights(str(tmp_path / "model.weights.h5"))
  for weight in tf_variables(model.encoder.weights):
    weight.assign(tf.zeros_like(weight))
  model.load_weights(str(tmp_path / "model.weights.h5"))
  np.testing.assert_allclose(model(texts), expected, atol=1e-6)


def test_a_model_around_the_layer_is_exported(tmp_path):
  model = model_of(dropout_free(tmp_path / "tiny", num_hidden_layers=1).as_layer(trainable=True))
  model.export(str(tmp_path / "served"))
  served = tf.saved_model.load(str(tmp_path / "served"))
  np.testing.assert_allclose(served.serve(tf.constant(TEXTS)), model(tf.constant(TEXTS)), atol=1e-5)


def test_a_policy_of_mixed_precision_changes_nothing(tmp_path):
  encoder = dropout_free(tmp_path)
  keras.mixed_precision.set_global_policy("mixed_bfloat16")
  try:
    layer = encoder.as_layer(trainable=True)
    model = model_of(layer)
    assert layer(TEXTS).dtype == "float32"
    np.testing.assert_allclose(layer(TEXTS), encoder.encode(TEXTS), atol=1e-6)
    before = encoder.encode(TEXTS)
    model.compile("adam", "mse", run_eagerly=True)
    model.fit(tf.constant(TEXTS), np.zeros([4, 1]), verbose=0)
  finally:
    keras.mixed_precision.set_global_policy("float32")
  assert np.abs(encoder.encode(TEXTS) - before).max() > 1e-3


ON_TWO_DEVICES = """
import pathlib, sys
import numpy as np
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from bert_flow_tf.flow.keras import keras
from tests.encoder.layer_test import TEXTS, dropout_free, model_of, tokens
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
found = []
for scope in (strategy.scope, tf.init_scope):
  with scope():
    encoder = dropout_free(pathlib.Path(sys.argv[1]), num_hidden_layers=1)
    layer = encoder.as_layer(True, "avg")
    # Not of strings: fit of Keras 3 computes means of what the devices get.
    model = model_of(layer, shape=[None], dtype="int32")
    model.compile(keras.optimizers.SGD(0.01), "mse", run_eagerly=scope is tf.init_scope)
  ids, _ = tokens(encoder)
  before = model(ids).numpy()
  model.fit(ids, np.arange(4.0)[:, np.newaxis], batch_size=4, verbose=0)
  found.append(model(ids).numpy())
  assert np.abs(found[-1] - before).max() > 1e-2
  assert len(layer.trainable_weights) == 21
  np.testing.assert_allclose(layer(ids), encoder.encode(TEXTS, "avg"), atol=1e-5)
np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-4)
print("equal")
"""


def test_two_replicas_train_as_one(tmp_path):
  pytest.importorskip("tensorflow_text")
  assert run_python("-c", ON_TWO_DEVICES, tmp_path / "tiny").endswith("equal\n")
