"""Tests of int8: the product, embeddings next to float32's, CPUs without VNNI, and what it is not for."""

import pickle

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.encoder.transformer import int8
from bert_flow_tf.encoder.transformer.activations import activate
from bert_flow_tf.errors import BertFlowError, ConfigError
from tests.encoder import tiny
from tests.testing import rejected, run_python

SENTENCES = ["A man is playing a guitar on the stage.", "no", "It rains.", "A child feeds the ducks, and smiles. " * 4]


@pytest.fixture(scope="module")
def encoders():
  return {name: SentenceEncoder.from_pretrained("mini", precision=name) for name in ("float32", "int8")}


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize(
  ("activation", "has_bias", "least"),
  [("gelu", True, None), ("gelu_new", True, -0.2), ("tanh", False, -0.2), (None, True, None)],
)
def test_a_dense_layer_in_integers(activation, has_bias, least, in_graph):
  """Against rounded factors in NumPy, for many rows, one and none; ranges differ by row and by channel."""
  rng = np.random.default_rng(0)
  kernel = np.float32(rng.normal(size=[96, 40]) * np.geomspace(0.01, 10, 40))
  kernel[:, 3] = 0
  bias = rng.normal(size=40).astype(np.float32) if has_bias else None
  products = int8.Int8Products()
  inputs = int8.Inputs(least)
  prepared = products.prepare(tf.constant(kernel), bias, inputs)
  values, ranges = prepared.values.numpy(), prepared.ranges.numpy()
  assert values.dtype == np.int8 and np.abs(values).max() == int8.largest_of_kernels()
  rounded_kernel = values * (ranges / 127)
  assert np.all(np.abs(rounded_kernel - kernel) <= 0.501 * ranges / 127)

  def dense(rows):
    return products.dense(rows, prepared, inputs, activation)

  if in_graph:
    dense = tf.function(dense, [tf.TensorSpec([None, 96])], autograph=False)
  for n in (33, 1, 0):
    rows = rng.normal(size=[n, 96]) * np.geomspace(0.1, 100, n)[:, np.newaxis] + rng.normal(size=[n, 1])
    rows[3:4] = 1
    if least is not None:
      rows = np.maximum(rows, least)
      rows[4:5] = least
    rows = np.float32(rows)
    if least is None:
      steps = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-12) / 127
      rounded = np.round(rows / steps) * steps
    else:
      steps = np.maximum(rows.max(axis=1, keepdims=True) - least, 1e-12) / 255
      rounded = np.round((rows - least) / steps) * steps + least
    expected = rounded @ rounded_kernel
    if has_bias:
      expected = expected + bias
    if activation:
      expected = activate(activation, tf.constant(expected, tf.float32)).numpy()
    found = dense(tf.constant(rows)).numpy()
    assert found.shape == (n, 40)
    # A value between two steps may be rounded to either.
    allowed = 1.2 * steps * np.abs(kernel).max(axis=0) + 1e-4 * (1 + np.abs(rows).max(axis=1, keepdims=True))
    assert np.all(np.abs(found - expected) <= allowed)


def test_a_large_channel_does_not_cost_the_others_their_digits():
  """Without divisors, the error of these products is 29 times as large."""
  rng = np.random.default_rng(0)
  rows, kernel = np.float32(rng.normal(size=[50, 96])), np.float32(rng.normal(size=[96, 40]))
  rows[:, 7] *= 100
  kernel[7] /= 100
  errors = []
  for largest in (None, np.abs(rows).max(axis=0)):
    inputs = int8.Inputs(largest=largest)
    products = int8.Int8Products()
    found = products.dense(tf.constant(rows), products.prepare(tf.constant(kernel), None, inputs), inputs, None)
    errors.append(np.abs(found - rows @ kernel).max())
  assert errors[1] < 0.1 * errors[0]


def test_states_are_near_float32s(encoders):
  ids = tf.constant([encoders["float32"].tokenizer(SENTENCES[:1])[0]])
  found = {}
  for name, encoder in encoders.items():
    found[name] = encoder.bert(ids, tf.ones_like(ids))[0]
  np.testing.assert_array_equal(found["int8"][0], found["float32"][0])
  for state, expected in zip(found["int8"][1:], found["float32"][1:], strict=True):
    assert 0 < np.abs(state - expected).max() < 0.02 * np.abs(expected).max()
  assert encoders["int8"].weights_checksum == encoders["float32"].weights_checksum


def test_no_embedding_depends_on_its_neighbors(encoders):
  """A step of one value may be rounded to the other side; a range of all tokens would change every value."""
  encoder = encoders["int8"]
  together = encoder.encode(SENTENCES)
  alone = np.concatenate([encoder.encode([sentence]) for sentence in SENTENCES])
  np.testing.assert_allclose(together, alone, atol=2e-3 * np.abs(alone).max())
  copy = pickle.loads(pickle.dumps(encoder))
  np.testing.assert_allclose(copy.encode(SENTENCES), together, atol=2e-3 * np.abs(alone).max())


def test_identity_and_key_of_the_cache(encoders, monkeypatch):
  identities = [encoder.identity() for encoder in encoders.values()]
  assert identities[0].differences(identities[1]) == ["precision float32, now int8"]
  fingerprints = {encoder.fingerprint(SENTENCES) for encoder in encoders.values()}
  monkeypatch.setattr("bert_flow_tf.encoder.transformer.int8.largest_of_kernels", lambda: 5)
  fingerprints.add(encoders["int8"].fingerprint(SENTENCES))
  assert len(fingerprints) == 3


# Prints the largest value of kernels, and the largest error of hidden states, relative to their largest value.
_UNDER_A_LIMIT = """
import numpy as np
import tensorflow as tf
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.int8 import largest_of_kernels
from bert_flow_tf.encoder.transformer.weights import random_transformer
sizes = {"vocab_size": 300, "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
sizes |= {"intermediate_size": 256, "max_position_embeddings": 64}
model = random_transformer(EncoderConfig({"model_type": "bert", **sizes, "initializer_range": 0.1}))
ids = tf.random.stateless_uniform([8, 32], [0, 0], 0, 300, tf.int32)
compute = tf.function(lambda: model(ids, tf.ones_like(ids))[0][-1], autograph=False)
expected = compute().numpy()
model.compute_in("int8", frozen=True)
compute = tf.function(lambda: model(ids, tf.ones_like(ids))[0][-1], autograph=False)
print(largest_of_kernels(), np.abs(compute().numpy() - expected).max() / np.abs(expected).max())
"""


@pytest.mark.parametrize(
  "limit", ["AVX2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("AVX512_CORE", "SSE41"))]
)
def test_cpus_without_vnni(limit):
  """With kernels of 8 bits, pairs of products would saturate, and the error would be 0.24."""
  printed = run_python("-c", _UNDER_A_LIMIT, ONEDNN_MAX_CPU_ISA=limit)
  largest, error = printed.split()
  assert int(largest) in (63, 127) and 0 < float(error) < 0.05


def test_where_there_are_no_such_products(monkeypatch):
  """One sentence before anything is loaded: the model does not exist."""
  int8.largest_of_kernels.cache_clear()
  names = "float32 or bfloat16"
  with monkeypatch.context() as patch:
    patch.setattr(int8, "_is_exact", lambda largest: False)
    with rejected(ConfigError, "precision", match=names):
      SentenceEncoder.from_pretrained("no/model", precision="int8")
  with monkeypatch.context() as patch:
    patch.setattr(tf.config, "get_visible_devices", lambda kind: ["a GPU"])
    with rejected(ConfigError, "precision", match=names):
      SentenceEncoder.from_pretrained("no/model", precision="int8")
  assert int8.largest_of_kernels() in (63, 127)


def test_nothing_is_trained(encoders, tmp_path):
  encoder = encoders["int8"]
  names = "float32 or bfloat16"
  for trainable in (True, False):
    with rejected(ConfigError, "precision", match=names):
      encoder.as_layer(trainable=trainable)
  model = SentenceModel(encoder)
  with rejected(ConfigError, "precision", match=names):
    model.as_function(trainable=True)
  with rejected(ConfigError, "precision", match=names):
    model.fit(SENTENCES, "flow", encoder_dropout=True)
  ids = tf.constant(tiny.IDS)
  for embed in (encoder.pooled_batch, tf.function(encoder.pooled_batch)):
    with tf.GradientTape() as tape, pytest.raises(LookupError, match=names):
      tape.gradient(embed(ids, tf.ones_like(ids), "avg"), encoder.bert.weights[:1])
  with pytest.raises(BertFlowError, match=f"XLA.*{names}"):
    tf.function(lambda: encoder.embed_batch(ids, tf.ones_like(ids), "avg"), jit_compile=True, autograph=False)()
  # Embeddings themselves may be parts of a training.
  np.testing.assert_allclose(model.as_function()(tf.constant(SENTENCES)), model.encode(SENTENCES), atol=0.01)
