"""A user's own TFBertModel in a `SentenceEncoder`, and encoders as Keras layers."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
import transformers

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.encoder.tokenizer import pad_batch
from bert_flow_tf.errors import DataError, EncoderError
from tests.encoder import tiny
from tests.testing import REPO, rejected

TEXTS = ["a dog", "cats . a b", "Dog b", "a"]
SIZES = {"hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 28}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
  folder = tiny.save_tiny(tmp_path_factory.mktemp("tokenizer"))
  return transformers.BertTokenizerFast(str(folder / "vocab.txt"))


@pytest.fixture
def model():
  return own_model()


def own_model(**changes):
  tf_keras.utils.set_random_seed(1)
  config = transformers.BertConfig(**{**tiny.CONFIG, **SIZES, "initializer_range": 0.5, **changes})
  return transformers.TFBertModel(config)


def mean_of_last(model, tokenizer, training=False):
  """Returns the mean over the tokens of the last block's output, as transformers computes it."""
  batch = tokenizer(TEXTS, padding=True, return_tensors="tf")
  states = model(dict(batch), training=training).last_hidden_state
  mask = tf.cast(batch["attention_mask"], tf.float32)[:, :, tf.newaxis]
  return (tf.reduce_sum(states * mask, axis=1) / tf.reduce_sum(mask, axis=1)).numpy()


def test_the_own_model_stays_what_it_was(model, tokenizer, tmp_path):
  before = mean_of_last(model, tokenizer)
  encoder = SentenceEncoder(model, tokenizer)
  np.testing.assert_allclose(encoder.encode(TEXTS, "avg"), before, atol=1e-5)
  encoder.embed_batch(*tokens(encoder), "avg", tf.constant([1, 2]))
  # Its layers are Keras' own: dropout in training, and all weights trainable.
  np.testing.assert_array_equal(mean_of_last(model, tokenizer), before)
  noisy = [mean_of_last(model, tokenizer, training=True) for _ in range(2)]
  assert np.abs(noisy[0] - noisy[1]).max() > 1e-2
  assert len(model.trainable_variables) == len(model.weights) and model.trainable
  assert not any("call" in vars(layer) for layer in model.submodules)
  # It can be saved, and an encoder of the saved files is the same.
  model.save_pretrained(tmp_path / "transformers")
  tokenizer.save_pretrained(tmp_path / "transformers")
  model.save_weights(str(tmp_path / "weights.h5"))
  other = own_model()
  other.build_in_name_scope()
  other.load_weights(str(tmp_path / "weights.h5"))
  np.testing.assert_allclose(mean_of_last(other, tokenizer), before, atol=1e-6)
  for folder in ("transformers", "ours"):
    if folder == "ours":
      save_encoder(encoder, tmp_path / folder)
    loaded = SentenceEncoder.from_pretrained(tmp_path / folder)
    np.testing.assert_allclose(loaded.encode(TEXTS, "avg"), before, atol=1e-5)
    assert loaded.weights_checksum == encoder.weights_checksum
    assert loaded.tokenizer.checksum == encoder.tokenizer.checksum


def tokens(encoder, max_seq_length=64):
  return list(map(tf.constant, pad_batch(encoder.tokenizer(TEXTS, max_seq_length), encoder.tokenizer.pad_id)))


@pytest.mark.parametrize("kind", ["slow", "fast", "folder", "ours"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_embeddings_follow_the_weights_in_training(tokenizer, tmp_path, kind, precision):
  model = own_model()
  tokenizer.save_pretrained(tmp_path)
  given = {"slow": lambda: transformers.BertTokenizer.from_pretrained(tmp_path), "fast": lambda: tokenizer}
  given |= {"folder": lambda: tmp_path, "ours": lambda: SentenceEncoder(model, tokenizer).tokenizer}
  encoder = SentenceEncoder(model, given[kind](), settings=EncoderSettings(precision=precision))
  checksums, close = set(), {"float32": 1e-5, "bfloat16": 0.1}[precision]
  for _ in range(2):
    np.testing.assert_allclose(encoder.encode(TEXTS, "avg"), mean_of_last(model, tokenizer), atol=close)
    checksums.add(encoder.identity().weights_sha256)
    model.weights[0].assign_add(tf.random.stateless_normal(model.weights[0].shape, [3, 4]))
  assert len(checksums) == 2 and encoder.identity().settings.precision == precision


def test_a_model_with_a_head_is_embedded_by_its_bert(tokenizer):
  head = transformers.TFBertForSequenceClassification(transformers.BertConfig(**{**tiny.CONFIG, **SIZES}, num_labels=3))
  encoder = SentenceEncoder(head, tokenizer)
  np.testing.assert_allclose(encoder.encode(TEXTS, "avg"), mean_of_last(head.bert, tokenizer), atol=1e-5)
  assert "bert/encoder/layer_0/output/dense/bias" in encoder.bert.tf1_variables()
  head.bert.embeddings.weight.assign_add(tf.random.stateless_normal(head.bert.embeddings.weight.shape, [3, 4]))
  np.testing.assert_allclose(encoder.encode(TEXTS, "avg"), mean_of_last(head.bert, tokenizer), atol=1e-5)


@pytest.mark.parametrize("version", ["4.54.0", "5.1.0.dev0"])
def test_transformers_that_cannot_load_it(model, tokenizer, monkeypatch, version):
  monkeypatch.setattr(transformers, "__version__", version)
  for load in (lambda: SentenceEncoder.from_pretrained("mini"), lambda: SentenceEncoder(model, tokenizer)):
    with pytest.raises(EncoderError, match=r"^transformers .* pip install 'transformers>=4\.53\.3,<4\.54'"):
      load()


def test_what_is_no_own_model(model, tokenizer):
  for arguments, name in (((tf_keras.Sequential(), tokenizer), "bert"), ((model, 5), "tokenizer")):
    with rejected(EncoderError, name):
      SentenceEncoder(*arguments)
  with pytest.raises(EncoderError, match="is_decoder"):
    SentenceEncoder(own_model(is_decoder=True), tokenizer)
  with pytest.raises(EncoderError, match="no weights for the pooled output"):
    bare = transformers.TFBertModel(transformers.BertConfig(**{**tiny.CONFIG, **SIZES}), add_pooling_layer=False)
    SentenceEncoder(bare, tokenizer).encode(TEXTS, "cls")


@pytest.mark.parametrize(
  "pooling", ["avg", "avg-first-last", "avg-last-1", "cls", "cls-token", "max", "word-rows", "mix"]
)
def test_layer_of_texts_and_ids(model, tokenizer, pooling):
  encoder = SentenceEncoder(model, tokenizer)
  expected = encoder.encode(TEXTS, pooling)
  layer = encoder.as_layer(True, pooling)
  ids, mask = tokens(encoder)
  inputs = (TEXTS, tf.constant(TEXTS), np.array(TEXTS), ids, ids.numpy(), (ids, mask), [ids, mask])
  of_transformers = tokenizer(TEXTS, padding=True, return_tensors="tf")
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


def test_training_mode_is_dropout_and_a_frozen_layer_has_nothing_to_train(model, tokenizer):
  encoder = SentenceEncoder(model, tokenizer)
  frozen, trained = encoder.as_layer(), encoder.as_layer(trainable=True)
  noisy = [trained(TEXTS, training=True).numpy() for _ in range(2)]
  assert np.abs(noisy[0] - noisy[1]).max() > 1e-3
  np.testing.assert_array_equal(frozen(TEXTS, training=True), frozen(TEXTS))
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(frozen(TEXTS) ** 2)
  assert frozen.trainable_variables == [] and tape.gradient(loss, model.weights[:1]) == [None]
  assert len(model.trainable_variables) == len(model.weights)  # the own model is not frozen with the layer


@pytest.mark.parametrize("name", ["own", "mini", "half", "half, later"])
def test_fine_tuning_with_the_flows_loss_in_a_loop(model, tokenizer, name):
  if name == "own":
    encoder = SentenceEncoder(model, tokenizer)
  else:
    encoder = SentenceEncoder.from_pretrained("mini", precision="bfloat16" if "half" in name else "float32")
  before = encoder.encode(TEXTS)
  layer = encoder.as_layer(trainable=name != "half, later")
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
  np.testing.assert_allclose(after, layer(TEXTS), atol=0.05 if "half" in name else 1e-5)


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


def test_a_keras_model_around_an_own_model_saves_its_weights(model, tokenizer, tmp_path):
  text = tf_keras.Input([], dtype=tf.string)
  around = tf_keras.Model(text, SentenceEncoder(model, tokenizer).as_layer(trainable=True)(text))
  with pytest.raises(NotImplementedError, match="names the encoder, and a model object of your own has no name"):
    around.save(str(tmp_path / "m.keras"))
  around.save_weights(str(tmp_path / "w.weights.h5"))
  expected = around.predict(tf.constant(TEXTS), verbose=0)
  for weight in around.weights:
    weight.assign(tf.zeros_like(weight))
  around.load_weights(str(tmp_path / "w.weights.h5"))
  np.testing.assert_allclose(around.predict(tf.constant(TEXTS), verbose=0), expected, atol=1e-6)


def test_a_layer_of_another_vocabulary_is_rejected(tmp_path):
  layer = SentenceEncoder.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny"))).as_layer()
  config = layer.get_config()
  vocab = (tmp_path / "tiny" / "vocab.txt").read_text().splitlines()
  (tmp_path / "tiny" / "vocab.txt").write_text("\n".join([*vocab[:-1], "other"]) + "\n")
  with pytest.raises(EncoderError, match=r"layer 'encoder_layer.*': .* has another vocabulary"):
    type(layer).from_config(config)


def test_ids_of_the_layer(model, tokenizer):
  encoder = SentenceEncoder(model, tokenizer)
  layer = encoder.as_layer()
  ids, _ = tokens(encoder)
  np.testing.assert_allclose(layer({"input_ids": ids}), encoder.encode(TEXTS), atol=1e-5)
  with pytest.raises(DataError, match="inputs: a dict of ids; expected input_ids and attention_mask"):
    layer({"ids": ids})
  with pytest.raises(DataError, match=r"inputs: ids of shape \(1, 1, 4\); expected \[batch, seq_len\]"):
    layer(np.ones([1, 1, 4], np.int32))
  limit = model.config.max_position_embeddings
  message = f"rows of ids are longer than the {limit} positions"
  assert layer(tf.ones([1, limit], tf.int32)).shape == (1, layer.dim)
  with pytest.raises(DataError, match=message):
    layer(tf.ones([1, limit + 1], tf.int32))
  unknown = tf.function(layer, input_signature=[tf.TensorSpec([None, None], tf.int32)])
  with pytest.raises(tf.errors.InvalidArgumentError, match=message):
    unknown(tf.ones([1, limit + 1], tf.int32))


def test_a_saved_model_around_the_layer_of_ids(model, tokenizer, tmp_path):
  encoder, inputs = SentenceEncoder(model, tokenizer), tf_keras.Input([None], dtype=tf.int32)
  layer = encoder.as_layer(trainable=True)
  tf.saved_model.save(tf_keras.Model(inputs, layer(inputs)), str(tmp_path))
  served = tf.saved_model.load(str(tmp_path))
  np.testing.assert_allclose(served(tokens(encoder)[0]), encoder.encode(TEXTS), atol=1e-5)


def test_the_layer_without_tensorflow_text(model, tokenizer, monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
  encoder = SentenceEncoder(model, tokenizer)
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
