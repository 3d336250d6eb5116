"""The flow in TensorFlow Probability: bijectors of a layer and of the whole chain, and the density."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp

from bert_flow_tf.flow.chain import dropout_seeds, latent_order
from bert_flow_tf.flow.layer import FlowLayer

tfb = tfp.bijectors


class LayerBijector(tfp.bijectors.Bijector):
  """The bijector of one `FlowLayer`, z = layer(u).

  Args:
    layer: the `FlowLayer`.
    dropout_seed: as in `FlowLayer.make_bijector`.
  """

  def __init__(self, layer: Any, dropout_seed: tf.Tensor | None = None) -> None:
    parameters = {"layer": layer, "dropout_seed": dropout_seed}
    super().__init__(forward_min_event_ndims=1, parameters=parameters, name=layer.name)
    self._layer, self._dropout_seed = layer, dropout_seed

  @classmethod
  def _parameter_properties(cls, dtype: Any) -> dict[str, Any]:
    return {}

  def _forward(self, u):
    return self._layer.forward_and_log_det(u, dropout_seed=self._dropout_seed)[0]

  def _inverse(self, z):
    return self._layer.inverse(z, self._dropout_seed)

  def _forward_log_det_jacobian(self, u):
    log_det = self._layer.forward_and_log_det(u, dropout_seed=self._dropout_seed)[1]
    return tf.zeros([], u.dtype) if log_det is None else log_det


def chain_bijector(
  levels: Sequence[Sequence[Sequence[FlowLayer]]], dim: int, dropout_seed: tf.Tensor | None = None
) -> tfb.Bijector:
  """Returns the bijector of the whole flow; forward is u -> z, as `chain.forward_and_log_det` computes it.

  `tfb.Chain` applies its list from right to left, so every list is passed reversed: the layer that an embedding passes
  first is last.

  Args:
    levels: levels of steps of layers, in the order in which u passes them.
    dim: dimensions of u. Level l works on the first dim / 2**l; the others have left.
    dropout_seed: int32 [2] or None, as in `FlowLayer.make_bijector`; each layer gets another seed from it.
  """
  seeds = dropout_seeds(dropout_seed)
  parts = []
  for index, level in enumerate(levels):
    layers = [layer.make_bijector(next(seeds)) for step in level for layer in step]
    bijector = tfb.Chain(layers[::-1], name="level")
    width = dim >> index
    if width < dim:
      bijector = tfb.Blockwise([bijector, tfb.Identity()], block_sizes=[width, dim - width], name="split")
    parts.append(bijector)
  parts.append(tfb.Permute(latent_order(dim, len(levels)), axis=-1, name="reordering"))
  return tfb.Chain(parts[::-1], name="chain")


def density(bijector: tfb.Bijector, dim: int, dtype: str) -> tfp.distributions.Distribution:
  """Returns the density of u [dim] whose latents z, `bijector` forward, are standard normal."""
  normal = tfp.distributions.Normal(tf.zeros([], dtype), tf.ones([], dtype))
  base = tfp.distributions.Sample(normal, sample_shape=[dim])
  return tfp.distributions.TransformedDistribution(base, tfb.Invert(bijector))
