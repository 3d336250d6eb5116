"""Steps, levels and splits as one `tfb.Chain` from embedding to latent."""

import itertools

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from bert_flow_tf.flow.actnorm import ActNorm
from bert_flow_tf.flow.coupling import AdditiveCoupling, AffineCoupling
from bert_flow_tf.flow.layer import seed_stream
from bert_flow_tf.flow.permutation import Invertible1x1, Permutation, Reordering

tfb = tfp.bijectors


def make_step(config, actnorm_init, permutation, seed, dtype):
  """One step, [actnorm, permutation, coupling], in the order in which an embedding passes them."""
  seeds = seed_stream(seed)
  coupling = {"additive": AdditiveCoupling, "affine": AffineCoupling}[config.coupling]
  return [
    ActNorm(actnorm_init, seed=next(seeds), dtype=dtype, name="actnorm"),
    Permutation(permutation, seed=next(seeds), dtype=dtype, name="permutation")
    if config.permutation
    else Invertible1x1(seed=next(seeds), dtype=dtype, name="invertible"),
    coupling(
      config.coupling_width,
      config.activation,
      config.coupling_dropout,
      actnorm_init,
      seed=next(seeds),
      dtype=dtype,
      name=config.coupling,
    ),
  ]


def chain_bijector(levels, dim, dropout_seed=None):
  """The whole flow; forward is u -> z.

  `tfb.Chain` applies its list from right to left, so every list below is given reversed: what an embedding passes
  first stands last.

  Args:
    levels: list of levels, each a list of steps, each a list of layers, in the order in which u passes them.
    dim: dimensions of u. Level l works on the first dim / 2**l; the others have left.
    dropout_seed: int32 [2] or None, as in `FlowLayer.make_bijector`; every layer folds its position in.
  """
  seeds = _fold_in(dropout_seed)
  parts = []
  for index, level in enumerate(levels):
    layers = [layer.make_bijector(next(seeds)) for step in level for layer in step]
    bijector = tfb.Chain(layers[::-1], name="level")
    width = dim >> index
    if width < dim:
      bijector = tfb.Blockwise([bijector, tfb.Identity()], block_sizes=[width, dim - width], name="split")
    parts.append(bijector)
  parts.append(Reordering(latent_order(dim, len(levels))))
  return tfb.Chain(parts[::-1], name="chain")


def latent_order(dim, n_levels):
  """Where each latent stands before the last reordering, int32 [dim].

  The halves that left come first, in order of leaving, then what remains (the original's order).
  """
  bounds = [dim >> level for level in range(n_levels)]
  left = [np.arange(inner, outer) for outer, inner in itertools.pairwise(bounds)]
  return np.concatenate([*left, np.arange(bounds[-1])]).astype(np.int32)


def _fold_in(dropout_seed):
  position = 0
  while True:
    if dropout_seed is None:
      yield None
    else:
      yield tf.random.experimental.stateless_fold_in(dropout_seed, position)
    position += 1
