"""A user's own TFBertModel in a `SentenceEncoder`; tests are skipped where transformers has no TFBertModel."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.flow.keras import keras, tf_variables
from bert_flow_tf.vectors.model_of_vectors import check_embedder, embedder_values
from tests.encoder import tiny
from tests.encoder.layer_test import TEXTS, check_training, tokens
from tests.testing import rejected, tf_bert

pytestmark = pytest.mark.packages

SIZES = {"hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 28}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
  transformers = tf_bert()
  folder = tiny.save_tiny(tmp_path_factory.mktemp("tokenizer"))
  return transformers.BertTokenizerFast(str(folder / "vocab.txt"))


@pytest.fixture
def model():
  return user_model()


def user_model(**changes):
  transformers = tf_bert()
  tf_keras.utils.set_random_seed(1)
  return transformers.TFBertModel(config_of(initializer_range=0.5, **changes))


def config_of(**changes):
  return tf_bert().BertConfig(**{**tiny.CONFIG, **SIZES, **changes})


def mean_of_last(model, tokenizer, training=False):
  """Returns the mean over the tokens of the last block's output, as transformers computes it."""
  batch = tokenizer(TEXTS, padding=True, return_tensors="tf")
  states = model(dict(batch), training=training).last_hidden_state
  mask = tf.cast(batch["attention_mask"], tf.float32)[:, :, tf.newaxis]
  return (tf.reduce_sum(states * mask, axis=1) / tf.reduce_sum(mask, axis=1)).numpy()


def test_the_model_stays_what_it_was(model, tokenizer, tmp_path):
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
  other = user_model()
  other.build_in_name_scope()
  other.load_weights(str(tmp_path / "weights.h5"))
  np.testing.assert_allclose(mean_of_last(other, tokenizer), before, atol=1e-6)
  for folder in ("transformers", "ours"):
    if folder == "ours":
      save_encoder(encoder, tmp_path / folder)
    loaded = SentenceEncoder.from_pretrained(tmp_path / folder)
    np.testing.assert_allclose(tiny.embed(loaded, TEXTS), before, atol=1e-5)
    assert loaded.weights_checksum == encoder.weights_checksum
    assert loaded.tokenizer.checksum == encoder.tokenizer.checksum


@pytest.mark.parametrize(
  ("kind", "precision"), [("slow", "float32"), ("fast", "bfloat16"), ("folder", "float32"), ("ours", "bfloat16")]
)
def test_embeddings_follow_the_weights_in_training(tokenizer, tmp_path, kind, precision):
  transformers, model = tf_bert(), user_model()
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


def test_a_model_that_is_trained_further_is_another_encoder(model, tokenizer, tmp_path):
  """A model that was made before the training is saved with the weights in use, and does not fit its index."""
  before = SentenceModel(SentenceEncoder(model, tokenizer)).fit(TEXTS, "mean", show_progress=False)
  index = embedder_values(before)
  before.save(tmp_path / "before")
  model.weights[0].assign_add(tf.random.stateless_normal(model.weights[0].shape, [3, 4]))
  for check in (
    lambda: check_embedder(index, before, "index"),
    lambda: SentenceModel.load(tmp_path / "before", model=before.encoder),
  ):
    with pytest.raises(EncoderError, match="weights_sha256"):
      check()
  before.save(tmp_path / "after")
  loaded = SentenceModel.load(tmp_path / "after", model=before.encoder)
  np.testing.assert_allclose(loaded.encode(TEXTS), before.encode(TEXTS), atol=1e-5)


def test_a_model_with_a_head_is_embedded_by_its_bert(tokenizer):
  head = tf_bert().TFBertForSequenceClassification(config_of(num_labels=3))
  encoder = SentenceEncoder(head, tokenizer)
  np.testing.assert_allclose(encoder.encode(TEXTS, "avg"), mean_of_last(head.bert, tokenizer), atol=1e-5)
  assert "bert/encoder/layer_0/output/dense/bias" in encoder.tf1_variables()
  head.bert.embeddings.weight.assign_add(tf.random.stateless_normal(head.bert.embeddings.weight.shape, [3, 4]))
  np.testing.assert_allclose(encoder.encode(TEXTS, "avg"), mean_of_last(head.bert, tokenizer), atol=1e-5)


@pytest.mark.parametrize(("name", "width"), [("Electra", 12), ("Electra", 20), ("Albert", 20)])
def test_word_embeddings_as_wide_as_hidden_states(tokenizer, name, width):
  transformers = tf_bert()
  config = getattr(transformers, f"{name}Config")(
    **{**tiny.CONFIG, **SIZES, "model_type": name.lower(), "embedding_size": width}
  )
  model = getattr(transformers, f"TF{name}Model")(config)
  encoder = SentenceEncoder(model, tokenizer)  # rejects other weights
  np.testing.assert_allclose(tiny.embed(encoder, TEXTS), mean_of_last(model, tokenizer), atol=1e-5)
  assert (encoder.bert.projection is None) == (name == "Electra" and width == SIZES["hidden_size"])


def test_what_is_no_user_model(model, tokenizer):
  for arguments, name in (((tf_keras.Sequential(), tokenizer), "bert"), ((model, 5), "tokenizer")):
    with rejected(EncoderError, name):
      SentenceEncoder(*arguments)
  with pytest.raises(EncoderError, match="is_decoder"):
    SentenceEncoder(user_model(is_decoder=True), tokenizer)
  bare = tf_bert().TFBertModel(config_of(), add_pooling_layer=False)
  with rejected(EncoderError, "sentence_embedding_type"):
    SentenceEncoder(bare, tokenizer).encode(TEXTS, "cls")


class LowRank(tf_keras.layers.Dense):
  """A layer of an adapter, which computes the same as a dense layer until it is trained."""

  def call(self, inputs):
    if not hasattr(self, "update"):
      self.update = tf_keras.layers.Dense(self.units, kernel_initializer="zeros", use_bias=False)
    return super().call(inputs) + self.update(inputs)


def add_to_call(block):
  call = block.intermediate.dense.call
  block.intermediate.dense.call = lambda inputs: call(inputs) + 1.0


def drop_bias(block):
  block.intermediate.dense = tf_keras.layers.Dense(28, use_bias=False)


def replace_activation(block):
  block.intermediate.intermediate_act_fn = tf.nn.relu


def add_adapter(block):
  block.attention.self_attention.query = LowRank(20, name="query")


@pytest.mark.parametrize("change", [add_to_call, drop_bias, replace_activation, add_adapter])
def test_a_layer_of_the_user_is_rejected(model, tokenizer, change):
  change(model.bert.encoder.layer[1])
  with rejected(EncoderError, "bert"):
    SentenceEncoder(model, tokenizer)


def test_a_call_of_the_user_is_rejected(tokenizer):
  class Subclass(tf_bert().TFBertModel):
    pass

  class Noisy(Subclass):
    def call(self, *args, training=False, **kwargs):
      outputs = super().call(*args, training=training, **kwargs)
      if training:
        outputs.last_hidden_state += 1.0
      return outputs

  SentenceEncoder(Subclass(config_of()), tokenizer)
  with rejected(EncoderError, "bert"):
    SentenceEncoder(Noisy(config_of()), tokenizer)


def test_a_frozen_layer_does_not_freeze_the_users_model(model, tokenizer):
  layer = SentenceEncoder(model, tokenizer).as_layer()
  assert layer.trainable_variables == []
  assert len(model.trainable_variables) == len(model.weights)


def test_fine_tuning_in_a_loop(model, tokenizer):
  check_training(SentenceEncoder(model, tokenizer))


def test_a_keras_model_around_a_user_model_saves_its_weights(model, tokenizer, tmp_path):
  text = keras.Input([], dtype="string")
  around = keras.Model(text, SentenceEncoder(model, tokenizer).as_layer(trainable=True)(text))
  with pytest.raises(NotImplementedError, match="save_weights"):
    around.save(str(tmp_path / "m.keras"))
  around.save_weights(str(tmp_path / "w.weights.h5"))
  expected = around(tf.constant(TEXTS)).numpy()
  for weight in tf_variables(around.weights):
    weight.assign(tf.zeros_like(weight))
  around.load_weights(str(tmp_path / "w.weights.h5"))
  np.testing.assert_allclose(around(tf.constant(TEXTS)), expected, atol=1e-6)
