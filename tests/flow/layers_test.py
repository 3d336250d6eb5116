"""Layers of the flow: initial weights, data-dependent initialization, dropout; glow_test.py has their equations."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.actnorm import ActNorm
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.coupling import AdditiveCoupling, AffineCoupling, CouplingNetwork
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.flow.permutation import Invertible1x1
from tests.flow.cases import cone, fresh
from tests.testing import rejected

COUPLINGS = pytest.mark.parametrize("cls", [AdditiveCoupling, AffineCoupling])


def test_new_couplings_move_nothing():
  """Additive is the identity; affine scales by sigmoid(2), as the original's does."""
  u = cone(4, 6)
  for cls, expected in ((AdditiveCoupling, u[:, 3:]), (AffineCoupling, u[:, 3:] / (1 + np.exp(-2)))):
    layer = cls(5, seed=0, dtype="float64")
    layer.build([None, 6])
    np.testing.assert_allclose(layer(fresh(u))[:, 3:], expected)


@COUPLINGS
def test_what_is_no_network(cls):
  for network in (5, lambda units: units, "net"):
    with pytest.raises(ConfigError):
      cls(network=network)(tf.zeros([1, 4]))
    with rejected(ConfigError, "network"):
      Glow(FlowConfig(depth=1, n_levels=1), 4, network=network)


@COUPLINGS
@pytest.mark.parametrize("dim", [3, 1])
def test_odd_dimensions_are_rejected(cls, dim):
  with rejected(FlowError, "input_shape"):
    cls(5).build([None, dim])


@pytest.mark.parametrize("activation", ["relu", "gatu"])
def test_dropout_rate_scaling_and_independence(activation):
  """Off without a seed; the two hidden layers have masks of their own; what is kept is scaled to the same mean."""
  rate = 0.25
  network = CouplingNetwork(1, 4000, activation, rate, seed=0)
  network.initialize(fresh(cone(8, 3), "float32"))
  masks, drop = [], network._drop

  def spy(hidden, seed, position):
    masks.append(drop(tf.ones_like(hidden), seed, position).numpy())
    return hidden

  network._drop = spy
  for seed in (None, tf.constant([1, 2]), tf.constant([1, 3])):
    network(np.ones([2, 3], np.float32), seed)
  evaluated, trained = masks[:2], masks[2:]
  np.testing.assert_array_equal(evaluated, 1)
  assert len(trained) == len({mask.tobytes() for mask in trained}) == 4
  for mask in trained:
    np.testing.assert_allclose(np.unique(mask), [0, 1 / (1 - rate)], rtol=1e-6)
    np.testing.assert_allclose(np.mean(mask == 0), rate, atol=0.03)
    assert not np.array_equal(mask[0], mask[1])


@pytest.mark.parametrize("activation", ["relu", "gatu"])
def test_initial_weights_of_the_network(activation):
  network = CouplingNetwork(300, 200, activation, actnorm_init="glorot", seed=0)
  network.build([None, 100])
  hidden = [network.first, *network.second]
  assert [layer.name for layer in hidden] == ["1_1", *(["1_2"] if activation == "relu" else ["1_tanh", "1_sigm"])]
  for layer in hidden:
    np.testing.assert_allclose(np.std(layer.kernel), 0.05, rtol=0.03)
    np.testing.assert_allclose(np.mean(layer.kernel), 0, atol=0.002)
    assert np.abs(layer.kernel).max() > 0.15, "a normal distribution, not a truncated one"
    assert 0 < np.abs(layer.actnorm.b).max() <= np.sqrt(6 / 201)
  assert hidden[-1].kernel.shape == [200, 200]
  assert not np.array_equal(hidden[-1].kernel[:100], hidden[0].kernel)
  for weight in network.last.weights:
    np.testing.assert_array_equal(weight, np.zeros(weight.shape))


def test_default_weights_are_zero():
  layer = ActNorm()
  layer.build([None, 5])
  np.testing.assert_array_equal(layer(fresh(cone(3, 5), "float32")), cone(3, 5).astype(np.float32))


@pytest.mark.parametrize("dim", [3, 768])
def test_glorot_range_follows_the_originals_shape(dim):
  """[1, 1, 1, C]: fan-in 1, fan-out C, so uniform within sqrt(6 / (1 + C)); b and logs are not the same draw."""
  limit = np.sqrt(6 / (1 + dim))
  drawn = []
  for seed in range(80 if dim == 3 else 4):
    layer = ActNorm("glorot", seed=seed)
    layer.build([None, dim])
    drawn.append(np.stack([layer.b, layer.logs]))
    assert not np.array_equal(layer.b, layer.logs)
  drawn = np.array(drawn)
  assert np.abs(drawn).max() <= limit
  assert np.abs(drawn).max() > 0.97 * limit
  np.testing.assert_allclose(drawn.std(axis=(0, 2)), limit / np.sqrt(3), rtol=0.08)
  np.testing.assert_allclose(drawn.mean(axis=(0, 2)), 0, atol=0.1 * limit)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.7, 300.3, 1e6])
def test_constant_dimension_keeps_scale_one_whatever_its_value(value):
  u = cone(33, 4).astype(np.float32)
  u[:, 2] = np.float32(value) * (1 + np.float32(1e-7) * (np.arange(33) % 2))  # rounding, as of a mean over tokens
  layer = ActNorm()
  z = layer.initialize(u).numpy()
  np.testing.assert_array_equal(layer.varying, [1, 1, 0, 1])
  assert layer.logs.numpy()[2] == 0
  # Exactly zero for the layers after it: what rounding left is no variance to them either.
  np.testing.assert_array_equal(z[:, 2], 0)
  np.testing.assert_allclose(z[:, [0, 1, 3]].std(axis=0), 1, atol=1e-4)
  layer.logs.assign([1.0] * 4)
  np.testing.assert_allclose(layer(fresh(u))[:, 2], u[:, 2] + layer.b.numpy()[2], rtol=1e-6)
  np.testing.assert_allclose(layer.make_bijector().forward_log_det_jacobian(fresh(u), 1), 9.0, rtol=1e-6)


def test_small_but_real_variance_is_kept():
  u = cone(64, 3)
  u[:, 1] = 1e-5 * np.random.default_rng(0).standard_normal(64)
  layer = ActNorm()
  z = layer.initialize(u.astype(np.float32)).numpy()
  np.testing.assert_array_equal(layer.varying, [1, 1, 1])
  np.testing.assert_allclose(z[:, 1].std(), 1, atol=0.15)


def test_invertible_starts_as_a_rotation():
  layer, same, other = (Invertible1x1(seed=seed, dtype="float64") for seed in (1, 1, 2))
  for each in (layer, same, other):
    each.build([None, 6])
  w = np.linalg.multi_dot([factor.numpy() for factor in layer.factors()])
  np.testing.assert_allclose(w @ w.T, np.eye(6), atol=1e-12)
  np.testing.assert_allclose(np.sum(layer.log_S), 0, atol=1e-12)
  assert set(layer.sign_S.numpy()) <= {-1, 1}
  assert {weight.name.split(":")[0] for weight in layer.trainable_variables} == {"L", "U", "log_S"}
  np.testing.assert_array_equal(same.L, layer.L)
  assert not np.allclose(other.L, layer.L)
