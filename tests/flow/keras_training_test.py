"""The flow as layers of Keras: initialized from data, and trained in a model."""

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import FlowError
from bert_flow_tf.flow import ActNorm, AdditiveCoupling, AffineCoupling, Glow, Invertible1x1, NegativeLogLikelihood
from bert_flow_tf.flow.keras import keras
from tests.flow import models, reference
from tests.flow.cases import DIM, cone, config, randomize
from tests.flow.keras_test import U, model_of, small
from tests.testing import rejected
from tests.training import two_replicas


def test_adapt_takes_arrays_and_datasets_and_works_again():
  u, expected = cone(100, DIM), small()
  expected.initialize(u)
  rows = tf.data.Dataset.from_tensor_slices(u)
  for data in (u, u.tolist(), tf.constant(u), rows.batch(32), rows, tf.data.Dataset.zip((rows, rows)).batch(7)):
    flow = small()
    for again in (cone(9, DIM, seed=4), data):
      flow.adapt(again)
    np.testing.assert_array_equal(flow(u), expected(u))
    assert flow.initialized
  flow = small()
  NegativeLogLikelihood(flow).adapt(rows.batch(32))
  np.testing.assert_array_equal(flow(u), expected(u))
  first, batches = small(), small()
  first.adapt(u, batch_size=10, steps=3)
  batches.adapt(rows.repeat().batch(10), steps=3)
  np.testing.assert_array_equal(first(u), batches(u))
  for layer in (ActNorm(), AffineCoupling(4), Invertible1x1()):
    layer.adapt(rows.batch(32))
    assert layer.built
  for bad in (u[:1], u[:, :3], rows.take(0), "u"):
    with pytest.raises(FlowError):
      small().adapt(bad)


def test_a_fit_without_adapt_warns(caplog):
  logging.get_absl_logger().propagate = True
  for adapted in (False, True):
    caplog.clear()
    flow = small()
    if adapted:
      flow.adapt(U)
    model = model_of(NegativeLogLikelihood(flow))
    model.compile("sgd")
    with caplog.at_level("WARNING"):
      model.predict(U, verbose=0)
      assert "adapt" not in caplog.text
      model.fit(U, verbose=0)
    assert ("adapt" in caplog.text) == (not adapted)


def test_initialize_in_a_function_is_an_error():
  with rejected(FlowError, "embeddings"):
    tf.function(small().initialize, autograph=False)(U)


@pytest.mark.parametrize("name", models.MODELS)
def test_every_kind_of_model_trains_every_weight(name):
  """A model trains on one device, and on two devices by a strategy."""
  for unchanged, bits in (models.train(name), two_replicas.results("models")["models"][name]):
    assert unchanged == []
    assert bits[1] < bits[0] - 1e-3


@pytest.mark.parametrize("coupling", ["additive", "affine"])
def test_a_model_fits_the_likelihood(coupling):
  """Loss and a step of SGD against finite differences of the equations."""
  settings = config(n_levels=1, depth=1, coupling=coupling, coupling_width=3)
  flow, u = Glow(settings, 4, seed=1, dtype="float64"), cone(8, 4)
  randomize(flow, seed=2)
  weights = flow.tf1_variables()
  inputs = keras.Input([4], dtype="float64")
  for function in (flow.bits_per_dim, flow.distribution.log_prob, flow.chain[0].make_bijector().forward):
    with rejected(FlowError, "embeddings"):
      function(inputs)
  bits = NegativeLogLikelihood(flow)(inputs)
  model = keras.Model(inputs, bits)
  model.compile(keras.optimizers.SGD(0.01))
  np.testing.assert_allclose(model(u), reference.bits_per_dim(settings.to_dict(), weights, u), rtol=1e-10)
  losses = model.fit(u, batch_size=8, verbose=0).history["loss"]

  def loss(values):
    return np.mean(reference.bits_per_dim(settings.to_dict(), values, u))

  np.testing.assert_allclose(losses, [loss(weights)], rtol=1e-6)
  gradients = reference.gradient(loss, weights)
  for name, array in flow.tf1_variables().items():
    moved = weights[name] - 0.01 * gradients.get(name, 0.0)
    np.testing.assert_allclose(array, moved, rtol=1e-6, atol=1e-8, err_msg=name)


def test_training_means_dropout_where_no_seed_is_given():
  for layer in (
    small(config=config(coupling_dropout=0.5)),
    AdditiveCoupling(9, dropout=0.5),
    AffineCoupling(9, dropout=0.5),
  ):
    layer(U)
    randomize(layer)
    np.testing.assert_array_equal(layer(U, training=False), layer(U))
    masks = [layer(U, training=True).numpy() for _ in range(2)]
    assert np.abs(masks[0] - masks[1]).max() > 1e-3 < np.abs(masks[0] - layer(U)).max()
    drawn = []
    for _ in range(2):
      tf.random.set_seed(3)
      drawn.append(layer(U, training=True))
    np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_computes_the_flow_in_the_precision_of_its_weights(policy):
  expected = model_of(small(), ActNorm("glorot", seed=1))(U)
  keras.mixed_precision.set_global_policy(policy)
  try:
    found = model_of(small(), ActNorm("glorot", seed=1))(U)
    # The model has no Dense layer: oneDNN ends the process for a float16 product on a CPU without float16 instructions.
    half = keras.layers.Activation("tanh")
    model = model_of(half, small(), NegativeLogLikelihood(small()), keras.layers.Reshape([1]))
    model.compile("adam", "mse", run_eagerly=True)
    losses = model.fit(U, np.zeros(6), verbose=0).history["loss"]
    assert Glow(config(), DIM, dtype=policy).dtype == "float32"
  finally:
    keras.mixed_precision.set_global_policy("float32")
  np.testing.assert_array_equal(found, expected)
  assert found.dtype == "float32" and np.isfinite(losses).all()
