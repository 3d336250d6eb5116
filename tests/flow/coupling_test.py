"""Couplings and their network: which half moves, what starts at zero, and dropout."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.coupling import AdditiveCoupling, AffineCoupling, CouplingNetwork
from bert_flow_tf.flow.glow import Glow
from tests.flow.cases import cone, fresh, randomize

COUPLINGS = pytest.mark.parametrize("cls", [AdditiveCoupling, AffineCoupling])


@COUPLINGS
def test_second_half_moves_by_the_first_alone(cls):
  layer = cls(5, seed=0, dtype="float64")
  layer.build([None, 6])
  randomize(layer)
  u = cone(4, 6)
  z = layer(fresh(u)).numpy()
  np.testing.assert_array_equal(z[:, :3], u[:, :3])
  assert np.all(np.abs(z[:, 3:] - u[:, 3:]) > 1e-6)
  moved = u.copy()
  moved[:, 4] += 1.0
  change = layer(fresh(moved)).numpy() - z
  assert np.all(change[:, 4] != 0)
  np.testing.assert_array_equal(np.delete(change, 4, axis=1), 0)


def test_affine_outputs_alternate_shift_and_scale():
  layer = AffineCoupling(5, dtype="float64")
  layer.build([None, 4])
  layer.network.last.b.assign([1.0, 100.0, -3.0, -2.0])
  u = np.array([[0.5, 0.5, 2.0, 7.0]])
  np.testing.assert_allclose(layer(fresh(u)), [[0.5, 0.5, 3.0, 2.0]])  # (2 + 1) * sigmoid(102), (7 - 3) * sigmoid(0)
  np.testing.assert_allclose(layer.make_bijector().forward_log_det_jacobian(fresh(u), 1), [np.log(0.5)])


def test_new_couplings_move_nothing():
  """Additive is the identity; affine scales by sigmoid(2), as the original's does."""
  u = cone(4, 6)
  for cls, expected in ((AdditiveCoupling, u[:, 3:]), (AffineCoupling, u[:, 3:] / (1 + np.exp(-2)))):
    layer = cls(5, seed=0, dtype="float64")
    layer.build([None, 6])
    np.testing.assert_allclose(layer(fresh(u))[:, 3:], expected)


@COUPLINGS
def test_what_is_no_network(cls):
  for network, given in ((5, "int"), (lambda units: units, "int"), ("net", "str")):
    with pytest.raises(ConfigError, match=f"network: expected a function .* got {given}"):
      cls(network=network)(tf.zeros([1, 4]))
    with pytest.raises(ConfigError, match="network: "):
      Glow(FlowConfig(depth=1, n_levels=1), 4, network=network)


@COUPLINGS
@pytest.mark.parametrize("dim", [3, 1])
def test_odd_dimensions_are_rejected(cls, dim):
  with pytest.raises(FlowError, match=f"even number, got {dim}"):
    cls(5).build([None, dim])


@COUPLINGS
def test_dropout_mask_is_one_for_output_log_determinant_and_inverse(cls):
  layer = cls(64, dropout=0.3, seed=0, dtype="float64")
  layer.build([None, 6])
  randomize(layer)
  u, h = cone(1, 6), 1e-6
  seed = tf.constant([3, 4])

  def bijector():
    return layer.make_bijector(seed)

  z = bijector().forward(fresh(u)).numpy()
  assert np.abs(z - layer(fresh(u))).max() > 1e-3
  np.testing.assert_array_equal(bijector().forward(fresh(u)), z)
  np.testing.assert_allclose(bijector().inverse(fresh(z)), u, atol=1e-10)
  # The mask differs row by row, so the Jacobian is taken one row at a time.
  jacobian = [
    (bijector().forward(fresh(u + h * step)).numpy() - bijector().forward(fresh(u - h * step)).numpy())[0] / (2 * h)
    for step in np.eye(6)
  ]
  log_det = bijector().forward_log_det_jacobian(fresh(u), event_ndims=1)
  np.testing.assert_allclose(np.sum(log_det), np.linalg.slogdet(jacobian)[1], atol=1e-6)
  together = bijector()
  x = fresh(u)
  np.testing.assert_array_equal(together.forward(x), z)
  np.testing.assert_allclose(together.forward_log_det_jacobian(x, event_ndims=1), log_det)


@pytest.mark.parametrize("activation", ["relu", "gatu"])
def test_dropout_rate_scaling_and_independence(activation):
  """Off without a seed; the two hidden layers have masks of their own; what is kept is scaled to the same mean."""
  rate, width = 0.25, 4000
  network = CouplingNetwork(1, width, activation, rate, seed=0)
  x = np.ones([2, 3], np.float32)
  network.initialize(fresh(cone(8, 3), "float32"))
  masks = []
  drop = network._drop

  def recorded(hidden, seed, position):
    dropped = drop(tf.ones_like(hidden), seed, position)
    masks.append(dropped.numpy())
    return drop(hidden, seed, position)

  network._drop = recorded
  network(fresh(x))
  np.testing.assert_array_equal(masks, 1)
  masks.clear()
  network(fresh(x), tf.constant([1, 2]))
  assert len(masks) == 2
  assert not np.array_equal(*masks)
  for mask in masks:
    np.testing.assert_allclose(np.unique(mask), [0, 1 / (1 - rate)], rtol=1e-6)
    np.testing.assert_allclose(np.mean(mask == 0), rate, atol=0.03)
    assert not np.array_equal(mask[0], mask[1])
  first = masks.copy()
  masks.clear()
  network(fresh(x), tf.constant([1, 3]))
  assert not np.array_equal(first[0], masks[0])


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


def test_network_initialization_goes_layer_by_layer():
  """Each actnorm standardizes what the layer before it, just initialized, gives."""
  network = CouplingNetwork(4, 7, "gatu", seed=0, dtype="float64")
  u = cone(50, 3)
  network.initialize(fresh(u))
  hidden = np.maximum(network.first(fresh(u)), 0)
  for layer, x in ((network.first, u), (network.second[0], hidden), (network.second[1], hidden)):
    y = layer(fresh(x)).numpy()
    np.testing.assert_allclose(y.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(y.std(axis=0), 1, atol=1e-3)
