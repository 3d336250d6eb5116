"""The flow in TensorFlow Probability: bijectors, networks and base distributions of a user's own, and distributions."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import bijectors as tfb
from tensorflow_probability import distributions as tfd

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow import ActNorm, AdditiveCoupling, AffineCoupling, Glow, Invertible1x1, Permutation
from bert_flow_tf.flow.keras import keras
from bert_flow_tf.training.flow_trainer import Trainer
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import EmbeddingPairs
from tests.flow.cases import CASES, cone, config, fresh, randomize
from tests.flow.keras_test import custom_network
from tests.testing import rejected

LAYERS = [ActNorm, Permutation, Invertible1x1, AdditiveCoupling, AffineCoupling]
LAYERS.append(functools.partial(Glow, config(depth=1), 8, seed=1))


def inputs(dim):
  """Returns embeddings as an array, and tensors of both precisions and of rank 1 to 3."""
  u = cone(6, dim)
  return [u, tf.constant(u, "float32"), tf.constant(u[0], "float32"), tf.constant(u.reshape(2, 3, dim))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: getattr(layer, "__name__", "Glow"))
def test_bijectors_of_new_layers(layer, dtype):
  """The first tensor builds the layer; a tensor of the other precision is cast, whatever its rank is."""
  for u in inputs(8):
    new = layer(dtype=dtype)
    z = new.make_bijector().forward(u)
    assert new.built and z.dtype == dtype and z.shape == u.shape
    log_det = new.make_bijector().forward_log_det_jacobian(fresh(u), event_ndims=1)
    assert log_det.dtype == dtype
    other = "float32" if dtype == "float64" else "float64"
    np.testing.assert_allclose(new.make_bijector().inverse(tf.cast(z, other)), u, rtol=1e-4, atol=1e-4)
  new, u = layer(dtype=dtype), tf.constant(cone(6, 8), dtype)
  z = tf.function(lambda u: new.make_bijector().forward(u))(u)
  np.testing.assert_allclose(new(u), z, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_density_of_any_precision_and_rank(dtype):
  flow = randomize(Glow(config(depth=1), 8, seed=1, dtype=dtype))
  expected = flow.bits_per_dim(cone(6, 8)).numpy()
  for u in inputs(8):
    bits, nats = flow.bits_per_dim(u), flow.distribution.log_prob(u)
    assert bits.dtype == nats.dtype == flow.inverse(u).dtype == dtype and bits.shape == u.shape[:-1]
    np.testing.assert_allclose(tf.reshape(bits, [-1]), expected[: np.size(bits)], rtol=1e-4)
    np.testing.assert_allclose(nats, -bits * 8 * np.log(2), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("coupling", ["additive", "affine"])
def test_networks_of_a_users_own(coupling, dtype):
  flow = Glow({"coupling": coupling, "depth": 1}, 8, seed=1, dtype=dtype, network=custom_network)
  u = cone(40, 8)
  flow.adapt(u)
  np.testing.assert_allclose(flow.inverse(flow(u)), u, rtol=1e-3, atol=1e-3)
  # The network moves the second half.
  layer = {"additive": AdditiveCoupling, "affine": AffineCoupling}[coupling](network=custom_network, dtype=dtype)
  z, user_network = layer(u).numpy(), layer.network.network
  outputs = user_network(u[:, :4]).numpy()
  scale = 1 / (1 + np.exp(-outputs[:, 1::2] - 2)) if coupling == "affine" else 1.0
  np.testing.assert_allclose(
    z[:, 4:], (u[:, 4:] + outputs[:, :: 1 + (coupling == "affine")]) * scale, rtol=1e-4, atol=1e-5
  )
  log_det = layer.make_bijector().forward_log_det_jacobian(fresh(u), event_ndims=1)
  np.testing.assert_allclose(log_det, np.sum(np.log(scale * np.ones([40, 4])), axis=1), atol=1e-4)
  assert np.abs(layer(u, training=True) - layer(u)).max() > 1e-3 < np.abs(flow(u, training=True) - flow(u)).max()
  with rejected(FlowError, None):
    flow.contents()


def test_the_trainer_fits_networks_of_a_users_own():
  flow, u = Glow(config(depth=1), 8, seed=1, network=custom_network), cone(40, 8).astype(np.float32)
  trainer = Trainer(flow, FlowSettings(train_batch_size=8, flow_learning_rate=0.02), show_progress=False)
  losses = trainer.fit(EmbeddingPairs(u, u), num_train_epochs=10).losses
  assert losses[-5:].mean() < losses[:5].mean()
  np.testing.assert_allclose(flow.inverse(flow(u)), u, rtol=1e-3, atol=1e-3)


def test_a_network_of_the_wrong_size_is_named():
  with rejected(FlowError, "network"):
    AdditiveCoupling(network=keras.layers.Dense(3)).build([None, 8])


BASES = [
  tfd.StudentT(5.0, 0.0, 1.0),
  tfd.Independent(tfd.Laplace(tf.zeros(8), tf.ones(8)), 1),
  tfd.MixtureSameFamily(
    tfd.Categorical(probs=[0.3, 0.7]), tfd.MultivariateNormalDiag(tf.zeros([2, 8]), tf.ones([2, 8]))
  ),
  tfd.Sample(tfd.Normal(0.0, 1.0), [8]),
]


@pytest.mark.parametrize("base", BASES, ids=lambda base: type(base).__name__)
def test_other_base_distributions(base):
  """log p(u) is the base's of z, plus the log-determinant, in the loss as in the distribution; saved with the flow."""
  flow = Glow({"n_levels": 2, "depth": 1}, 8, seed=1, base=base)
  u = cone(20, 8)
  flow.adapt(u)
  z = flow(u)
  log_base = tf.reduce_sum(base.log_prob(z), axis=-1) if base.event_shape.rank == 0 else base.log_prob(z)
  expected = log_base + flow.make_bijector().forward_log_det_jacobian(tf.constant(u), event_ndims=1)
  np.testing.assert_allclose(flow.distribution.log_prob(u), expected, rtol=1e-4)
  np.testing.assert_allclose(-flow.bits_per_dim(u) * 8 * np.log(2), expected, rtol=1e-4)
  assert flow.distribution.sample(3).shape == [3, 8]
  again = Glow.from_config(flow.get_config())
  again.set_weights(flow.get_weights())
  np.testing.assert_array_equal(again.bits_per_dim(u), flow.bits_per_dim(u))


@pytest.mark.parametrize(
  "base",
  [
    tfd.Normal(tf.zeros(8), 1.0),
    tfd.Normal(np.float64(0), np.float64(1)),
    tfd.MultivariateNormalDiag(tf.zeros(4)),
    "t",
  ],
)
def test_bases_that_do_not_fit(base):
  with rejected(ConfigError, "base"):
    Glow(config(), 8, base=base)


def test_functions_do_not_retrace():
  flows = [Glow(config(n_levels=1, depth=1), 8, seed=seed) for seed in (1, 2)]
  traces = []

  @tf.function
  def log_prob(distribution, u):
    traces.append("distribution")
    return distribution.log_prob(u)

  @tf.function
  def forward(bijector, u):
    traces.append("bijector")
    return bijector.forward(u)

  u = tf.constant(cone(6, 8), tf.float32)
  for seed in range(2):
    flow = randomize(flows[0], seed)
    np.testing.assert_allclose(log_prob(flow.distribution, u), flow.distribution.log_prob(u), rtol=1e-4)
    np.testing.assert_allclose(forward(flow.make_bijector(), u), flow(u), atol=1e-4)
  assert sorted(traces) == ["bijector", "distribution"]
  np.testing.assert_allclose(forward(flows[1].make_bijector(), u), flows[1](u), atol=1e-4)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_bijectors_are_parts_of_others(case):
  layer, u = case.build(1, "float32"), cone(5, 8).astype(np.float32)
  chain = tfb.Chain([tfb.Invert(layer.make_bijector()), tfb.Scale(2.0), layer.make_bijector()])
  expected = layer.make_bijector().inverse(2.0 * layer(u))
  np.testing.assert_allclose(chain.forward(u), expected, rtol=1e-4, atol=1e-4)
  leaves = tf.nest.flatten(layer.make_bijector(), expand_composites=True)
  assert all(tf.is_tensor(leaf) for leaf in leaves)


def test_a_base_with_variables_is_not_copied():
  flow = Glow(config(), 8, base=tfd.Normal(tf.Variable(0.0), 1.0))
  with rejected(ConfigError, "base"):
    flow.copy()


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: getattr(layer, "__name__", "Glow"))
def test_bijectors_and_distributions_name_their_variables(layer):
  flow = layer()
  first = flow.make_bijector()  # whose first tensor builds the layer
  first.forward(cone(6, 8))
  for bijector in (first, flow.make_bijector()):
    assert len(bijector.trainable_variables) == len(flow.trainable_weights)
    assert len(bijector.variables) == len(flow.weights) - (type(flow) is Glow)  # but the flow's state
    normal = tfd.MultivariateNormalDiag(tf.zeros(8))
    joint = tfd.JointDistributionNamed({"u": tfd.TransformedDistribution(normal, tfb.Invert(bijector))})
    assert len(joint.trainable_variables) == len(flow.trainable_weights)
    module = tf.Module()
    module.bijector = bijector
    assert len(module.trainable_variables) == len(flow.trainable_weights)
  if type(flow) is Glow:
    assert len(flow.distribution.trainable_variables) == len(flow.trainable_weights)
  flow.trainable = False
  assert flow.make_bijector().trainable_variables == ()
