"""Coupling layers: one half of the dimensions is changed by a function of the other half."""

from typing import Any

import tensorflow as tf

from bert_flow_tf.errors import FlowError
from bert_flow_tf.flow.coupling_network import CouplingNetwork
from bert_flow_tf.flow.layer import FlowLayer, Read
from bert_flow_tf.flow.named_weights import NamedWeight, prefixed


class AdditiveCoupling(FlowLayer):
  """Shift of the second half by a network of the first.

      forward   z1 = u1,  z2 = u2 + NN(u1)
      inverse   u1 = z1,  u2 = z2 - NN(z1)
      log|det dz/du| = 0

  u is the embedding, z the latent, both [batch, dim]; dim is even. Dinh et al. 2015; the paper's section 3.2. The
  weights are those of the `CouplingNetwork`.

  Args:
    width: units of the network's hidden layers.
    activation: "relu" or "gatu".
    dropout: dropout rate of the hidden layers while fitting.
    actnorm_init: as in `ActNorm`.
    seed: integer or None.
  """

  kind = "additive"
  _outputs_per_dimension = 1

  def __init__(
    self,
    width: int = 32,
    activation: str = "relu",
    dropout: float = 0.0,
    actnorm_init: str = "data",
    seed: int | None = None,
    **kwargs: Any,
  ) -> None:
    super().__init__(**kwargs)
    self._network_arguments: dict[str, Any] = {
      "width": width,
      "activation": activation,
      "dropout": dropout,
      "actnorm_init": actnorm_init,
      "seed": seed,
    }

  def get_config(self) -> dict[str, Any]:
    """Returns the constructor's arguments."""
    return {**super().get_config(), **self._network_arguments}

  def build(self, input_shape: Any) -> None:
    """Creates the network for the halves of the last axis.

    Raises:
      FlowError: the last axis is odd.
    """
    self.half, odd = divmod(int(input_shape[-1]), 2)
    if odd:
      raise FlowError(f"input_shape: a coupling halves its dimensions; expected an even number, got {input_shape[-1]}")
    units = self.half * self._outputs_per_dimension
    self.network = CouplingNetwork(units, name="nn", dtype=self.dtype, **self._network_arguments)
    self.network.build([None, self.half])
    super().build(input_shape)

  def forward_and_log_det(
    self, u: tf.Tensor, read: Read = tf.convert_to_tensor, dropout_seed: tf.Tensor | None = None
  ) -> tuple[tf.Tensor, tf.Tensor | None]:
    """u [..., dim] -> z [..., dim] and the log-determinant, [...], or None for 0."""
    kept, moved = tf.split(u, 2, axis=-1)
    moved, log_det = self._move(moved, self.network.call(kept, dropout_seed, read))
    return tf.concat([kept, moved], axis=-1), log_det

  def inverse(self, z: tf.Tensor, dropout_seed: tf.Tensor | None = None) -> tf.Tensor:
    """z [..., dim] -> u [..., dim]."""
    kept, moved = tf.split(z, 2, axis=-1)
    return tf.concat([kept, self._move_back(moved, self.network.call(kept, dropout_seed))], axis=-1)

  def _move(self, second, outputs):
    """Returns z2 and the log-determinant of u2 and the network's outputs."""
    return second + outputs, None

  def _move_back(self, second, outputs):
    return second - outputs

  def initialize(self, inputs: tf.Tensor) -> tf.Tensor:
    """Initializes the network from u [batch, dim]; returns z."""
    if not self.built:
      self.build(inputs.shape)
    self.network.initialize(inputs[:, : self.half])
    return self(inputs)

  def named_weights(self) -> dict[str, NamedWeight]:
    """Returns the network's weights, below `additive/nn` or `affine/nn`."""
    return prefixed(f"{self.kind}/nn", self.network.named_weights())


class AffineCoupling(AdditiveCoupling):
  """Shift and scale of the second half by a network of the first.

      (shift, s) = even and odd outputs of NN(u1),  scale = sigmoid(s + 2)
      forward   z1 = u1,  z2 = (u2 + shift) * scale
      inverse   u1 = z1,  u2 = z2 / scale - shift
      log|det dz/du| = sum(log(scale))

  u is the embedding, z the latent, both [batch, dim]; dim is even. Kingma and Dhariwal 2018, Table 1.
  """

  kind = "affine"
  _outputs_per_dimension = 2

  def _move(self, second, outputs):
    log_scale = _log_scale(outputs)
    scale = tf.exp(log_scale)
    return second * scale + outputs[..., 0::2] * scale, tf.reduce_sum(log_scale, axis=-1)

  def _move_back(self, second, outputs):
    return second * tf.exp(-_log_scale(outputs)) - outputs[..., 0::2]


def _log_scale(outputs):
  return tf.math.log_sigmoid(outputs[..., 1::2] + 2.0)
