"""The chain: direction, order within a step, the split and the order of the latents, by hand."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.flow.actnorm import ActNorm
from bert_flow_tf.flow.chain import chain_bijector, forward_and_log_det, latent_order, make_step
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.flow.permutation import Permutation
from tests.flow.cases import cone, config, fresh, randomize


def actnorm(b, scale):
  layer = ActNorm(dtype="float64")
  layer.build([None, len(b)])
  layer.b.assign(b)
  layer.logs.assign(np.log(scale) / 3)
  return layer


def permutation(indices):
  layer = Permutation()
  layer.build([None, len(indices)])
  layer.permutation.assign(indices)
  return layer


def test_embeddings_pass_from_left_to_right():
  """Layers that do not commute: (u + 1) * 2, then permuted, then (x + [10, 20, 30, 40]) * [1, 2, 3, 4]."""
  layers = [actnorm([1.0] * 4, [2.0] * 4), permutation([3, 0, 1, 2]), actnorm([10, 20, 30, 40], [1, 2, 3, 4])]
  u = np.array([[1.0, 2.0, 3.0, 4.0]])
  expected = [[20.0, 48.0, 108.0, 192.0]]
  for level in ([layers], [[layer] for layer in layers]):
    bijector = chain_bijector([level], 4)
    np.testing.assert_allclose(bijector.forward(fresh(u)), expected)
    np.testing.assert_allclose(bijector.inverse(fresh(expected, "float64")), u)
    log_det = bijector.forward_log_det_jacobian(fresh(u), event_ndims=1)
    np.testing.assert_allclose(np.sum(log_det), np.log(2.0**4 * 24))


def test_second_halves_leave_and_come_first():
  """Adding 1, 10 and 100 in three levels of 8, 4 and 2 dimensions shows who left when."""
  levels = [[[actnorm([add] * width, [1.0] * width)]] for add, width in ((1.0, 8), (10.0, 4), (100.0, 2))]
  u = np.arange(8.0)[None]
  bijector = chain_bijector(levels, 8)
  z = bijector.forward(fresh(u))
  np.testing.assert_allclose(z, [[5, 6, 7, 8, 13, 14, 111, 112]])
  np.testing.assert_allclose(bijector.inverse(fresh(z)), u)
  scaled = [[[actnorm([0.0] * width, [scale] * width)]] for scale, width in ((2.0, 8), (3.0, 4), (5.0, 2))]
  log_det = chain_bijector(scaled, 8).forward_log_det_jacobian(fresh(u), event_ndims=1)
  np.testing.assert_allclose(np.sum(log_det), np.log(2.0**8 * 3.0**4 * 5.0**2))


@pytest.mark.parametrize("seed", [None, [3, 4]])
@pytest.mark.parametrize("coupling", ["additive", "affine"])
def test_the_loop_is_the_chain(coupling, seed):
  """z, the log-determinant and the gradients of what a fit computes are those of TensorFlow Probability's chain."""
  flow = Glow(
    config(n_levels=3, depth=1, coupling=coupling, coupling_dropout=0.2), 16, "glorot", "random", 1, "float64"
  )
  randomize(flow)
  seed = None if seed is None else tf.constant(seed)
  u = cone(6, 16)

  def chain(x):
    bijector = chain_bijector(flow.levels, 16, seed)
    return bijector.forward(x), bijector.forward_log_det_jacobian(x, event_ndims=1)

  found = []
  for both in (chain, lambda x: forward_and_log_det(flow.levels, x, dropout_seed=seed)):
    with tf.GradientTape() as tape:
      z, log_det = both(fresh(u))
      loss = tf.reduce_sum(z**3) + tf.reduce_sum(tf.broadcast_to(log_det, [6]))
    found.append([z, tf.broadcast_to(log_det, [6]), *tape.gradient(loss, flow.trainable_variables)])
  for expected, value in zip(*found, strict=True):
    np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)


def test_latent_order():
  np.testing.assert_array_equal(latent_order(8, 1), np.arange(8))
  np.testing.assert_array_equal(latent_order(8, 2), [4, 5, 6, 7, 0, 1, 2, 3])
  np.testing.assert_array_equal(latent_order(8, 3), [4, 5, 6, 7, 2, 3, 0, 1])
  for dim, n_levels in ((768, 2), (768, 3), (16, 4)):
    np.testing.assert_array_equal(np.sort(latent_order(dim, n_levels)), np.arange(dim))


def test_a_step_is_actnorm_mixing_coupling():
  kinds = [type(layer).__name__ for layer in make_step(config(), "data", "reverse", 0, "float32")]
  assert kinds == ["ActNorm", "Permutation", "AdditiveCoupling"]
  kinds = [
    type(layer).__name__
    for layer in make_step(config(permutation=False, coupling="affine"), "data", "reverse", 0, "float32")
  ]
  assert kinds == ["ActNorm", "Invertible1x1", "AffineCoupling"]


def test_every_coupling_has_a_dropout_mask_of_its_own():
  seeds = []

  class Spy:
    dtype = "float64"

    def make_bijector(self, dropout_seed=None):
      seeds.append(None if dropout_seed is None else tuple(dropout_seed.numpy()))
      return actnorm([0.0] * 4, [1.0] * 4).make_bijector()

  chain_bijector([[[Spy(), Spy()], [Spy()]]], 4)
  assert seeds == [None] * 3
  seeds.clear()
  chain_bijector([[[Spy(), Spy()], [Spy()]]], 4, tf.constant([1, 2]))
  assert len(set(seeds)) == 3
  again = seeds.copy()
  seeds.clear()
  chain_bijector([[[Spy(), Spy()], [Spy()]]], 4, tf.constant([1, 2]))
  assert seeds == again
