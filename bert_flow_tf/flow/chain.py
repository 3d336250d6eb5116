"""Steps, levels and splits as one `tfb.Chain` from embedding to latent."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from bert_flow_tf.flow.actnorm import ActNorm
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.coupling import AdditiveCoupling, AffineCoupling
from bert_flow_tf.flow.layer import FlowLayer, seed_stream
from bert_flow_tf.flow.named_weights import NamedWeight, prefixed
from bert_flow_tf.flow.permutation import Invertible1x1, Permutation, Reordering

tfb = tfp.bijectors


def make_step(config: FlowConfig, actnorm_init: str, permutation: str, seed: int, dtype: str) -> list[FlowLayer]:
  """Returns the layers of a step in the order in which an embedding passes them: actnorm, permutation, coupling."""
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


def chain_bijector(
  levels: Sequence[Sequence[Sequence[FlowLayer]]], dim: int, dropout_seed: tf.Tensor | None = None
) -> tfb.Bijector:
  """Returns the bijector of the whole flow; forward is u -> z.

  `tfb.Chain` applies its list from right to left, so every list is passed reversed: the layer that an embedding passes
  first is last.

  Args:
    levels: levels of steps of layers, in the order in which u passes them.
    dim: dimensions of u. Level l works on the first dim / 2**l; the others have left.
    dropout_seed: int32 [2] or None, as in `FlowLayer.make_bijector`; each layer gets another seed from it.
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


def initialize_levels(levels: Sequence[Sequence[Sequence[FlowLayer]]], batch: tf.Tensor) -> None:
  """Sets the weights that depend on data, layer by layer, from u [batch, dim]; levels as in `chain_bijector`."""
  dim = batch.shape[1]
  for index, level in enumerate(levels):
    batch = batch[:, : dim >> index]
    for step in level:
      for layer in step:
        batch = layer.initialize(batch)


def level_weights(levels: Sequence[Sequence[Sequence[FlowLayer]]]) -> dict[str, NamedWeight]:
  """Returns the weights by their names in the original below `bert/flow/`; levels as in `chain_bijector`."""
  weights = {}
  for level_index, level in enumerate(levels):
    for step_index, step in enumerate(level):
      for layer in step:
        below = prefixed("actnorm", layer.named_weights()) if layer.name == "actnorm" else layer.named_weights()
        weights |= prefixed(f"revnet_{level_index}/revnet_step_{step_index}", below)
  return weights


def latent_order(dim: int, n_levels: int) -> np.ndarray:
  """Returns the position of each latent before the last reordering, int32 [dim].

  In the original's order the halves that left come first, in order of leaving, then the rest.
  """
  bounds = [dim >> level for level in range(n_levels)]
  left = [np.arange(inner, outer) for outer, inner in itertools.pairwise(bounds)]
  return np.concatenate([*left, np.arange(bounds[-1])]).astype(np.int32)


def _fold_in(dropout_seed: tf.Tensor | None) -> Iterator[tf.Tensor | None]:
  position = 0
  while True:
    if dropout_seed is None:
      yield None
    else:
      yield tf.random.experimental.stateless_fold_in(dropout_seed, position)
    position += 1
