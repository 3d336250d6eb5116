"""`Permutation` and `Invertible1x1`: direction, draws and the shape of the initial weights."""

import numpy as np
import tensorflow as tf

from bert_flow_tf.flow.permutation import Invertible1x1, Permutation
from tests.flow.cases import fresh


def built(layer, dim):
  layer.build([None, dim])
  return layer


def test_reverse():
  layer = built(Permutation("reverse"), 4)
  np.testing.assert_array_equal(layer(fresh([[1.0, 2.0, 3.0, 4.0]])), [[4, 3, 2, 1]])
  assert layer.permutation.dtype == tf.int64
  assert layer.trainable_variables == []


def test_direction_of_a_permutation_that_is_not_its_own_inverse():
  """z[i] = u[p[i]], and the matrix of the original's checkpoint gives the same as z = u w."""
  layer = built(Permutation(), 3)
  layer.permutation.assign([2, 0, 1])
  u = fresh([[10.0, 20.0, 30.0]])
  np.testing.assert_array_equal(layer(u), [[30, 10, 20]])
  np.testing.assert_array_equal(layer.make_bijector().inverse(fresh([[30.0, 10.0, 20.0]])), u)
  np.testing.assert_array_equal(u @ layer.named_weights()["invertible/w"].read(), [[30, 10, 20]])


def test_random_permutations_are_permutations_and_follow_the_seed():
  draws = [built(Permutation("random", seed), 64).permutation.numpy() for seed in (1, 1, 2, None, None)]
  for draw in draws:
    np.testing.assert_array_equal(np.sort(draw), np.arange(64))
  np.testing.assert_array_equal(draws[0], draws[1])
  assert len({draw.tobytes() for draw in draws}) == 4
  assert not np.array_equal(draws[0], np.arange(64)[::-1])


def test_invertible_starts_as_a_rotation():
  layer = built(Invertible1x1(seed=1, dtype="float64"), 6)
  w = np.linalg.multi_dot([factor.numpy() for factor in layer.factors()])
  np.testing.assert_allclose(w @ w.T, np.eye(6), atol=1e-12)
  np.testing.assert_allclose(layer(fresh(np.eye(6))), w, atol=1e-12)
  np.testing.assert_allclose(np.sum(layer.log_S), 0, atol=1e-12)
  assert set(layer.sign_S.numpy()) <= {-1, 1}
  np.testing.assert_array_equal(layer.P.numpy().sum(axis=0), np.ones(6))
  assert {weight.name.split(":")[0] for weight in layer.trainable_variables} == {"L", "U", "log_S"}
  same, other = built(Invertible1x1(seed=1, dtype="float64"), 6), built(Invertible1x1(seed=2, dtype="float64"), 6)
  np.testing.assert_array_equal(same.L, layer.L)
  assert not np.allclose(other.L, layer.L)


def test_only_the_triangles_that_count_count():
  layer = built(Invertible1x1(seed=1, dtype="float64"), 4)
  u = fresh(np.random.default_rng(0).standard_normal([3, 4]))
  expected, log_det = layer(u).numpy(), layer.make_bijector().forward_log_det_jacobian(u, 1).numpy()
  layer.L.assign_add(np.triu(np.full([4, 4], 5.0)))
  layer.U.assign_add(np.tril(np.full([4, 4], 5.0)))
  np.testing.assert_allclose(layer(fresh(u)), expected, atol=1e-12)
  np.testing.assert_allclose(layer.make_bijector().forward_log_det_jacobian(fresh(u), 1), log_det)
  layer.L.assign_add(np.tril(np.full([4, 4], 1.0), -1))
  assert np.abs(layer(fresh(u)) - expected).max() > 0.1
