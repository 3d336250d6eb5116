"""Encoders as Keras layers: every way to save and copy a model with an encoder."""

import copy
import pickle

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.corpus.models import embedder_of
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.encoder.settings import absent_values
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.flow.keras import keras, registered, tf_variables
from bert_flow_tf.integrations.sentence_transformers import revision
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.vectors.model_of_vectors import check_embedder, embedder_values
from tests.encoder import tiny
from tests.encoder.layer_test import CONFIG, TEXTS, dropout_free, model_of
from tests.keras_ways import ENDINGS, WAYS
from tests.testing import rejected

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


@registered
class Doubled(keras.layers.Layer):
  """A layer of a user's own around an encoder."""

  def __init__(self, layer, **kwargs):
    super().__init__(**kwargs)
    self.layer = layer

  def call(self, inputs):
    return 2.0 * self.layer(inputs)

  def get_config(self):
    return {**super().get_config(), "layer": keras.saving.serialize_keras_object(self.layer)}

  @classmethod
  def from_config(cls, config):
    return cls(keras.saving.deserialize_keras_object(config.pop("layer")), **config)


@pytest.mark.parametrize("is_first", [True, False])
def test_an_encoder_that_a_model_uses_twice_is_one_in_any_order(tmp_path, is_first):
  layer = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path / "tiny", config=CONFIG)).as_layer(trainable=True)
  ids = keras.Input([None], dtype="int32")
  outputs = [Doubled(layer)(ids), layer(ids)]
  model = keras.Model(ids, outputs if is_first else outputs[::-1])
  model.save(tmp_path / "model.keras")
  found = keras.models.load_model(tmp_path / "model.keras")
  assert len(found.weights) == len(model.weights) == len(layer.weights)
  batch = np.array([[2, 8, 9, 3]], np.int32)
  for ours, theirs in zip(found(batch), model(batch), strict=True):
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


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


def _of_function(model):
  return model.as_function(trainable=True).trainable_variables


TRAINED = {
  "a layer": lambda model: tf_variables(model.encoder.as_layer(trainable=True).weights),
  "a frozen layer": lambda model: tf_variables(model.encoder.as_layer().weights),
  "a layer with another prompt": lambda model: tf_variables(model.encoder.with_prompt("b ").as_layer(True).weights),
  "a function": _of_function,
}


@pytest.mark.parametrize(
  ("name", "precision"), list(zip(TRAINED, ("float32", "float32", "bfloat16", "float32"), strict=True))
)
def test_a_trained_encoder_is_another_encoder(tmp_path, name, precision):
  """It is not saved under its former name, and no index, cached embedding or revision of the former one is its own."""
  if name == "a function":
    pytest.importorskip("tensorflow_text")
  folder = tiny.save_tiny(tmp_path / "tiny", config=CONFIG)
  model = SentenceModel.from_pretrained(str(folder), precision=precision, cache=str(tmp_path / "cache"))
  before, index, worker = model.encode(TEXTS), embedder_values(model), embedder_of(model)
  of_mteb = revision(model)
  variables = TRAINED[name](model)
  model.save(tmp_path / "as it was")
  check_embedder(index, model, "index")
  variables[0].assign_add(tf.random.stateless_normal(variables[0].shape, [1, 2]))
  after = model.encode(TEXTS)
  assert np.abs(after - before).max() > 0.1
  np.testing.assert_array_equal(SentenceModel(model.encoder).encode(TEXTS), after)  # without the cache
  model.fit(TEXTS, "mean", show_progress=False)
  assert revision(model.with_calibration(None)) != of_mteb
  with rejected(EncoderError, "vectors", match="weights_sha256"):
    check_embedder(index, model.with_calibration(None), "index")
  for each in (model, pickle.loads(pickle.dumps(model))):
    with rejected(EncoderError, "encoder", match="save_encoder"):
      each.save(tmp_path / "saved")
  assert not (tmp_path / "saved").exists()
  with rejected(EncoderError, "model", match="other weights"):
    embedder_of(model.with_calibration(None)).load()
  assert worker.load().identity.weights_sha256 == index["weights_sha256"]
  # The way that the message names.
  save_encoder(model.encoder, tmp_path / "trained")
  trained = SentenceModel.from_pretrained(str(tmp_path / "trained"), precision=precision)
  again = SentenceModel(trained.encoder, model.calibration)
  again.save(tmp_path / "saved")
  np.testing.assert_allclose(SentenceModel.load(tmp_path / "saved").encode(TEXTS), model.encode(TEXTS), atol=1e-5)


def _weighted(folder, corpus, prefix="", **settings):
  """Returns a layer on a new tiny encoder whose weights of tokens are counted in a new file."""
  tiny.save_tiny(folder, config=CONFIG)
  corpus.write_text("a dog\n" * 20 + "cats\n")
  name = f"{prefix}{folder}"
  return SentenceEncoder.from_pretrained(name, token_weights="idf", frequency_corpus=corpus, **settings).as_layer()


@pytest.mark.parametrize("prefix", ["", "static:"])
@pytest.mark.parametrize("name", [name for name in WAYS if name in (*ENDINGS, "clone_model")])
def test_a_file_holds_the_weights_of_tokens(tmp_path, name, prefix):
  """The text that was counted may change or go; loaded and saved again, the file is the same."""
  corpus = tmp_path / "corpus.txt"
  model, other = (model_of(_weighted(tmp_path / "tiny", corpus, prefix), seed) for seed in (1, 2))
  texts = tf.constant(TEXTS)
  expected, config = model(texts).numpy(), model.layers[1].get_config()
  for change in (lambda: corpus.write_text("cats\n" * 20), corpus.unlink):
    change()
    found = WAYS[name](model, other, tmp_path / "model")
    np.testing.assert_allclose(found(texts), expected, atol=1e-6)
    assert found.layers[1].get_config() | {"name": config["name"]} == config


def test_a_layer_of_an_earlier_release_counts_the_text_and_compares(tmp_path):
  """Its file has neither the weights of tokens nor the settings that are younger."""
  corpus = tmp_path / "corpus.txt"
  layer = _weighted(tmp_path / "tiny", corpus, number_weight=0)
  config = layer.get_config()
  for damaged in ("x", "", 3, config["token_weights"][:-9]):
    with pytest.raises(EncoderError, match="token_weights: the saved weights are damaged"):
      type(layer).from_config({**config, "token_weights": damaged})
  del config["token_weights"]
  for keyword in absent_values():
    del config["encoder"][keyword]
  again = type(layer).from_config(config)
  np.testing.assert_array_equal(again(TEXTS), layer(TEXTS))
  corpus.write_text("cats\n" * 20)
  with pytest.raises(EncoderError, match=f"token_weights_sha256.*frequency_corpus={corpus} has changed"):
    type(layer).from_config(config)
  corpus.unlink()
  with pytest.raises(EncoderError, match=f"cannot be loaded: frequency_corpus={corpus}"):
    type(layer).from_config(config)


def _other_epsilon(folder):
  tiny.save_tiny(folder, config={**CONFIG, "layer_norm_eps": 0.1})


def _other_vocabulary(folder):
  pieces = (folder / "vocab.txt").read_text()
  (folder / "vocab.txt").write_text(pieces.replace("dog", "cow"))


def _other_weights(folder):
  tiny.save_tiny(folder, tiny.random_weights(CONFIG, seed=1), CONFIG)


@pytest.mark.parametrize(
  ("change", "difference"),
  [
    (_other_epsilon, "architecture.layer_norm_eps"),
    (_other_vocabulary, "tokenizer_sha256"),
    (_other_weights, None),
  ],
)
def test_the_encoder_of_a_file_is_compared_but_for_its_weights(tmp_path, change, difference):
  """The folder has changed since; the file has the weights themselves."""
  folder = tiny.save_tiny(tmp_path / "tiny", config=CONFIG)
  model = model_of(SentenceEncoder.from_pretrained(folder).as_layer())
  expected = model(tf.constant(TEXTS)).numpy()
  model.save(tmp_path / "model.keras")
  change(folder)
  if difference is None:
    found = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(found(tf.constant(TEXTS)), expected, atol=1e-6)
    return
  with pytest.raises(EncoderError, match=f"'{folder}' is not the saved one: .*{difference}"):
    keras.models.load_model(tmp_path / "model.keras")
