"""Base class of the flow's layers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
import tf_keras

from bert_flow_tf.flow.named_weights import NamedWeight

if TYPE_CHECKING:  # a fit needs only `forward_and_log_det`, and TensorFlow Probability takes a second to import
  from bert_flow_tf.flow.bijectors import LayerBijector


class FlowLayer(tf_keras.layers.Layer):
  """Keras layer that owns its weights and gives a `tfb.Bijector` from embedding u to latent z.

  Calling the layer applies the bijector forward: u [batch, dim] -> z [batch, dim]. Each weight is the value of one
  attribute of its layer, where a fit may put a tensor in its place (`training.flow_trainer`).
  """

  def __init__(self, arguments: dict[str, Any] | None = None, **kwargs: Any) -> None:
    super().__init__(**kwargs)
    self._arguments = arguments or {}

  def get_config(self) -> dict[str, Any]:
    """Returns the constructor's arguments."""
    return {**super().get_config(), **self._arguments}

  def forward_and_log_det(
    self, u: tf.Tensor, dropout_seed: tf.Tensor | None = None
  ) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Returns z [..., dim] of u [..., dim], and log|det dz/du|, [...] or a scalar; None if it is always 0.

    `dropout_seed`, int32 [2], is the seed of the coupling's dropout while fitting; None for no dropout.
    """
    raise NotImplementedError

  def inverse(self, z: tf.Tensor, dropout_seed: tf.Tensor | None = None) -> tf.Tensor:
    """Returns u [..., dim] of z [..., dim]; arguments as in `forward_and_log_det`."""
    raise NotImplementedError

  def make_bijector(self, dropout_seed: tf.Tensor | None = None) -> "LayerBijector":
    """Returns a new bijector over this layer's weights; forward is u -> z.

    A bijector caches results by tensor identity: one that is kept while its weights are trained would return results
    of the previous weights.
    """
    from bert_flow_tf.flow.bijectors import LayerBijector

    return LayerBijector(self, dropout_seed)

  def call(self, inputs: tf.Tensor) -> tf.Tensor:
    """u [batch, dim] -> z [batch, dim]."""
    return self.forward_and_log_det(inputs)[0]

  def initialize(self, inputs: tf.Tensor) -> tf.Tensor:
    """Sets the weights that depend on data from u [batch, dim]; returns the layer's output for it."""
    return self(inputs)

  def named_weights(self) -> dict[str, NamedWeight]:
    """Returns the weights by their names below this layer, in the original's checkpoint."""
    return {}


def product(x: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
  """x [..., inputs], matrix [inputs, outputs] -> x matrix [..., outputs]."""
  return tf.matmul(x, matrix) if x.shape.rank == 2 else tf.tensordot(x, matrix, 1)


def seed_stream(seed: int | None) -> Iterator[int]:
  """Yields independent integer seeds without end; with None, other ones at each call."""
  # Below 2**31, as TensorFlow's initializers take them.
  generator = np.random.default_rng(seed)
  while True:
    yield int(generator.integers(2**31))
