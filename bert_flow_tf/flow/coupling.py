"""Coupling layers: one half of the dimensions moves as a function of the other half."""

import tensorflow as tf
import tensorflow_probability as tfp

from bert_flow_tf.errors import FlowError
from bert_flow_tf.flow.coupling_network import CouplingNetwork
from bert_flow_tf.flow.layer import FlowLayer, prefixed

tfb = tfp.bijectors


class AdditiveCoupling(FlowLayer):
  """Shift of the second half by a network of the first.

      forward   z1 = u1,  z2 = u2 + NN(u1)
      inverse   u1 = z1,  u2 = z2 - NN(z1)
      log|det dz/du| = 0

  u is the embedding's side, z the latent's, both [batch, dim]; dim is even. Dinh et al. 2015; the paper's
  section 3.2. The weights are those of its `CouplingNetwork`.
  """

  kind = "additive"
  _outputs_per_dimension = 1

  def __init__(self, width=32, activation="relu", dropout=0.0, actnorm_init="data", seed=None, **kwargs):
    super().__init__(**kwargs)
    self._network_arguments = {
      "width": width,
      "activation": activation,
      "dropout": dropout,
      "actnorm_init": actnorm_init,
      "seed": seed,
    }

  def build(self, input_shape):
    """Creates the network for the halves of the last axis.

    Raises:
      FlowError: the last axis cannot be halved.
    """
    self.half, odd = divmod(int(input_shape[-1]), 2)
    if odd:
      raise FlowError(f"a coupling halves its dimensions, found {input_shape[-1]}, expected an even number")
    units = self.half * self._outputs_per_dimension
    self.network = CouplingNetwork(units, name="nn", dtype=self.dtype, **self._network_arguments)
    self.network.build([None, self.half])
    super().build(input_shape)

  def make_bijector(self, dropout_seed=None):
    """A `tfb.RealNVP` whose first half is the masked one."""

    def shift_and_log_scale(first_half, output_units):
      del output_units  # half of dim, always
      return self._shift_and_log_scale(self.network(first_half, dropout_seed))

    return tfb.RealNVP(num_masked=self.half, shift_and_log_scale_fn=shift_and_log_scale)

  def _shift_and_log_scale(self, outputs):
    return outputs, None

  def initialize(self, inputs):
    """Initialises the network from u [batch, dim]; returns z."""
    if not self.built:
      self.build(inputs.shape)
    self.network.initialize(inputs[:, : self.half])
    return self(inputs)

  def tf1_variables(self):
    """Those of the network, below `additive/nn` or `affine/nn`."""
    return prefixed(f"{self.kind}/nn", self.network.tf1_variables())

  def actnorms(self):
    """Those of the network."""
    return prefixed(f"{self.kind}/nn", self.network.actnorms())


class AffineCoupling(AdditiveCoupling):
  """Shift and scale of the second half by a network of the first.

      (shift, s) = even and odd outputs of NN(u1),  scale = sigmoid(s + 2)
      forward   z1 = u1,  z2 = (u2 + shift) * scale
      inverse   u1 = z1,  u2 = z2 / scale - shift
      log|det dz/du| = sum(log(scale))

  u is the embedding's side, z the latent's, both [batch, dim]; dim is even. Kingma and Dhariwal 2018, Table 1.
  """

  kind = "affine"
  _outputs_per_dimension = 2

  def _shift_and_log_scale(self, outputs):
    log_scale = tf.math.log_sigmoid(outputs[..., 1::2] + 2.0)
    # RealNVP scales before it shifts.
    return outputs[..., 0::2] * tf.exp(log_scale), log_scale
