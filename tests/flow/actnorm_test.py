"""`ActNorm`: its equations on paper, its initial weights, and its data-dependent initialization."""

import numpy as np
import pytest

from bert_flow_tf.flow.actnorm import ActNorm
from tests.flow.cases import cone, fresh


def test_equations_by_hand():
  layer = ActNorm(dtype="float64")
  layer.build([None, 2])
  layer.b.assign([1.0, -2.0])
  layer.logs.assign([np.log(2.0) / 3, np.log(0.5) / 3])
  np.testing.assert_allclose(layer(fresh([[3.0, 4.0]], "float64")), [[8.0, 1.0]])
  bijector = layer.make_bijector()
  np.testing.assert_allclose(bijector.inverse(fresh([[8.0, 1.0]], "float64")), [[3.0, 4.0]])
  layer.logs.assign([0.1, 0.3])
  np.testing.assert_allclose(bijector.forward_log_det_jacobian(fresh([[3.0, 4.0]], "float64"), 1), 1.2)


def test_initialization_by_hand():
  """Population variance, epsilon added to the standard deviation, a third of the log."""
  layer = ActNorm(dtype="float64")
  z = layer.initialize(np.array([[1.0, 10.0], [3.0, 10.5]]))
  np.testing.assert_allclose(layer.b, [-2.0, -10.25])
  np.testing.assert_allclose(layer.logs, [-np.log(1.0 + 1e-6) / 3, -np.log(0.25 + 1e-6) / 3], rtol=1e-12)
  np.testing.assert_allclose(z, [[-1, -1], [1, 1]], atol=1e-5)
  np.testing.assert_array_equal(layer.varying, [1, 1])


def test_default_weights_are_zero():
  layer = ActNorm()
  layer.build([None, 5])
  np.testing.assert_array_equal(layer(fresh(cone(3, 5), "float32")), cone(3, 5).astype(np.float32))


@pytest.mark.parametrize("dim", [3, 768])
def test_glorot_range_is_that_of_the_originals_shape(dim):
  """[1, 1, 1, C]: fan-in 1, fan-out C, so uniform within sqrt(6 / (1 + C)); b and logs are not the same draw."""
  limit = np.sqrt(6 / (1 + dim))
  drawn = []
  for seed in range(200 if dim == 3 else 4):
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
