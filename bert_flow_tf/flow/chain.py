"""Steps, levels and splits from embedding to latent."""

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from bert_flow_tf.flow.actnorm import ActNorm
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.coupling import AdditiveCoupling, AffineCoupling
from bert_flow_tf.flow.layer import FlowLayer, Network, seed_stream
from bert_flow_tf.flow.named_weights import NamedWeight, prefixed
from bert_flow_tf.flow.permutation import Invertible1x1, Permutation

if TYPE_CHECKING:  # imported where it is used, as in `FlowLayer.make_bijector`
  import tensorflow_probability as tfp

Levels = Sequence[Sequence[Sequence[FlowLayer]]]  # levels of steps of layers, in the order in which u passes them


def make_step(
  config: FlowConfig, actnorm_init: str, permutation: str, seed: int, dtype: str, network: Network | None = None
) -> list[FlowLayer]:
  """Returns the layers of a step in the order in which an embedding passes them: actnorm, permutation, coupling."""
  seeds = seed_stream(seed)
  coupling = {"additive": AdditiveCoupling, "affine": AffineCoupling}[config.coupling]
  actnorm = ActNorm(actnorm_init, seed=next(seeds), dtype=dtype, name="actnorm")
  mixing: FlowLayer
  if config.permutation:
    mixing = Permutation(permutation, seed=next(seeds), dtype=dtype, name="permutation")
  else:
    mixing = Invertible1x1(seed=next(seeds), dtype=dtype, name="invertible")
  shape = (config.coupling_width, config.activation, config.coupling_dropout, actnorm_init)
  return [actnorm, mixing, coupling(*shape, seed=next(seeds), network=network, dtype=dtype, name=config.coupling)]


def forward_and_log_det(
  levels: Levels, u: tf.Tensor, dropout_seed: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns z [batch, dim] of u [batch, dim], and log|det dz/du|, [batch] or a scalar, as `chain_bijector`."""
  # A third of the operations of TensorFlow Probability, which evaluates the chain once for z and once for log|det|.
  seeds = dropout_seeds(dropout_seed)
  # `left` are the halves that leave as latents between levels; log-determinants of layers add up.
  left, log_dets = [], []
  for index, level in enumerate(levels):
    if index:
      u, leaving = tf.split(u, 2, axis=-1)
      left.append(leaving)
    for step in level:
      for layer in step:
        u, log_det = layer.forward_and_log_det(u, next(seeds))
        if log_det is not None:
          log_dets.append(log_det)
  return tf.concat([*left, u], axis=-1), sum(log_dets, tf.zeros([], u.dtype))


def chain_bijector(levels: Levels, dim: int, dropout_seed: tf.Tensor | None = None) -> "tfp.bijectors.Chain":
  """Returns the `tfb.Chain` of the flow; forward is u -> z, as `forward_and_log_det` computes it, of any dtype."""
  # `tfb.Chain` applies its list from right to left, so every list is passed reversed. Level l works on the first
  # dim / 2**l of the dimensions of u; the others have left.
  from tensorflow_probability import bijectors as tfb

  from bert_flow_tf.flow.bijectors import Cast, FlowChain

  seeds = dropout_seeds(dropout_seed)
  parts = []
  for index, level in enumerate(levels):
    layers = [layer.make_bijector(next(seeds)) for layer in itertools.chain.from_iterable(level)]
    bijector = tfb.Chain(layers[::-1], name="level")
    # The dimensions that have left pass the later levels unchanged.
    width = dim >> index
    if width < dim:
      bijector = tfb.Blockwise([bijector, tfb.Identity()], block_sizes=[width, dim - width], name="split")
    parts.append(bijector)
  parts.append(tfb.Permute(latent_order(dim, len(levels)), axis=-1, name="reordering"))
  parts.append(Cast(levels[0][0][0].dtype))
  return FlowChain(parts[::-1], name="chain")


def initialize_levels(levels: Levels, batch: tf.Tensor) -> None:
  """Sets the weights that depend on data, layer by layer, from u [batch, dim]."""
  dim = batch.shape[1]
  for index, level in enumerate(levels):
    batch = batch[:, : dim >> index]
    for step in level:
      for layer in step:
        batch = layer.initialize(batch)


def level_weights(levels: Levels) -> dict[str, NamedWeight]:
  """Returns the weights by their names in the original below `bert/flow/`."""
  weights = {}
  for level_index, level in enumerate(levels):
    for step_index, step in enumerate(level):
      for layer in step:
        below = layer.named_weights()
        if layer.name == "actnorm":
          below = prefixed("actnorm", below)
        weights |= prefixed(f"revnet_{level_index}/revnet_step_{step_index}", below)
  return weights


def latent_order(dim: int, n_levels: int) -> np.ndarray:
  """Returns the position of each latent before the last reordering, int32 [dim]."""
  # The original's order: the halves that left, in the order in which they left, then the rest.
  bounds = [dim >> level for level in range(n_levels)]
  left = [np.arange(inner, outer) for outer, inner in itertools.pairwise(bounds)]
  return np.concatenate([*left, np.arange(bounds[-1])]).astype(np.int32)


def dropout_seeds(dropout_seed: tf.Tensor | None) -> Iterator[tf.Tensor | None]:
  """Yields a seed for each layer, int32 [2], in their order; None without a seed."""
  for position in itertools.count():
    yield None if dropout_seed is None else tf.random.experimental.stateless_fold_in(dropout_seed, position)
