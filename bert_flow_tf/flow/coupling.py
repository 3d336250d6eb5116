"""Coupling layers: one half of the dimensions is changed by a network of the other half."""

from collections.abc import Callable

import tensorflow as tf

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.actnorm import LOGSCALE_FACTOR, ActNorm
from bert_flow_tf.flow.keras import Layer, Shape, keras, registered
from bert_flow_tf.flow.layer import (
  FlowLayer,
  Network,
  build_part,
  from_keras,
  last_dimension,
  product,
  seed_stream,
  to_keras,
)
from bert_flow_tf.flow.named_weights import NamedWeight, prefixed

# Standard deviation of the hidden layers' kernels (Glow; the original's constant).
KERNEL_STDDEV = 0.05


@registered
class NormalizedDense(FlowLayer):
  """h = actnorm(x kernel), x [batch, inputs] -> h [batch, units]; not a bijector.

  Weights: `kernel` [inputs, units], normal(0, 0.05), no bias, and the weights of its `ActNorm`.
  """

  def __init__(self, units: int, actnorm_init: str = "data", seed: int | None = None, **kwargs: object) -> None:
    super().__init__({"units": units, "actnorm_init": actnorm_init, "seed": seed}, **kwargs)
    self.units = units
    seeds = seed_stream(seed)
    self.actnorm = ActNorm(actnorm_init, seed=next(seeds), name="actnorm", dtype=self.dtype)
    self._kernel_seed = next(seeds)

  def build(self, input_shape: Shape) -> None:
    """Creates kernel and actnorm."""
    shape = [last_dimension(input_shape), self.units]
    initializer = keras.initializers.RandomNormal(0.0, KERNEL_STDDEV, seed=self._kernel_seed)
    self.kernel = self.add_weight(name="kernel", shape=shape, initializer=initializer)
    build_part(self.actnorm, self.units)
    super().build(input_shape)

  def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
    """x [batch, inputs] -> [batch, units]."""
    return (product(inputs, self.kernel) + self.actnorm.b) * tf.exp(self.actnorm.log_scale())

  def initialize(self, inputs: tf.Tensor) -> tf.Tensor:
    """Initializes the actnorm from x [batch, inputs]; returns the layer's output."""
    return self.actnorm.initialize(product(inputs, self.kernel))

  def named_weights(self) -> dict[str, NamedWeight]:
    """Returns `W` [1, 1, inputs, units] and the actnorm's weights below `actnorm`."""
    kernel = NamedWeight(self.kernel, (1, 1, *self.kernel.shape))
    return {"W": kernel, **prefixed("actnorm", self.actnorm.named_weights())}


@registered
class ZeroDense(FlowLayer):
  """y = (x kernel + b) * exp(3 * logs), x [batch, inputs] -> y [batch, units]; all weights start at zero.

  Thus an additive coupling starts as the identity. Weights: `kernel` [inputs, units], `b` [units], `logs` [units].
  """

  def __init__(self, units: int, **kwargs: object) -> None:
    super().__init__({"units": units}, **kwargs)
    self.units = units

  def build(self, input_shape: Shape) -> None:
    """Creates the weights."""
    shape = [last_dimension(input_shape), self.units]
    self.kernel = self.add_weight(name="kernel", shape=shape, initializer="zeros")
    self.b = self.add_weight(name="b", shape=[self.units], initializer="zeros")
    self.logs = self.add_weight(name="logs", shape=[self.units], initializer="zeros")
    super().build(input_shape)

  def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
    """x [batch, inputs] -> [batch, units]."""
    return (product(inputs, self.kernel) + self.b) * tf.exp(LOGSCALE_FACTOR * self.logs)

  def named_weights(self) -> dict[str, NamedWeight]:
    """Returns `W` [1, 1, inputs, units], `b` [1, 1, 1, units] and `logs` [1, units]."""
    return {
      "W": NamedWeight(self.kernel, (1, 1, *self.kernel.shape)),
      "b": NamedWeight(self.b, (1, 1, 1, self.units)),
      "logs": NamedWeight(self.logs, (1, self.units)),
    }


@registered
class CouplingNetwork(FlowLayer):
  """NN of a coupling: dense, actnorm, ReLU; all three again, or tanh * sigmoid ("gatu"); a dense layer of zeros.

  x [batch, inputs] -> [batch, units]. The actnorms take part in the data-dependent initialization and add nothing to
  the log-determinant. While fitting, dropout follows both hidden layers if the configuration sets it.
  """

  def __init__(
    self,
    units: int,
    width: int = 32,
    activation: str = "relu",
    dropout: float = 0.0,
    actnorm_init: str = "data",
    seed: int | None = None,
    **kwargs: object,
  ) -> None:
    arguments = {"units": units, "width": width, "activation": activation, "dropout": dropout}
    super().__init__({**arguments, "actnorm_init": actnorm_init, "seed": seed}, **kwargs)
    self.activation = activation
    self.dropout = dropout
    seeds = seed_stream(seed)

    def hidden(name):
      return NormalizedDense(width, actnorm_init, seed=next(seeds), name=name, dtype=self.dtype)

    self.first = hidden("1_1")
    names = {"relu": ["1_2"], "gatu": ["1_tanh", "1_sigm"]}[activation]
    self.second = [hidden(name) for name in names]
    self.last = ZeroDense(units, name="zeros", dtype=self.dtype)

  def build(self, input_shape: Shape) -> None:
    """Builds the three layers."""
    build_part(self.first, last_dimension(input_shape))
    for layer in [*self.second, self.last]:
      build_part(layer, self.first.units)
    super().build(input_shape)

  def call(self, inputs: tf.Tensor, dropout_seed: tf.Tensor | None = None) -> tf.Tensor:
    """x [batch, inputs] -> [batch, units]; dropout_seed as in `FlowLayer.forward_and_log_det`."""
    # `__call__` is not used: Keras' work around each layer took a quarter of the time that tracing a fit takes.
    return self._apply(inputs, NormalizedDense.call, dropout_seed)

  def initialize(self, inputs: tf.Tensor) -> tf.Tensor:
    """Initializes the actnorms layer by layer from x [batch, inputs]; returns [batch, units]."""
    return self._apply(self.prepared(inputs), NormalizedDense.initialize, None)

  def _apply(self, inputs: tf.Tensor, apply: Callable, dropout_seed: tf.Tensor | None) -> tf.Tensor:
    # `apply` is `call`, or `initialize`, which sets a layer's actnorm before it returns the output.
    hidden = tf.nn.relu(apply(self.first, inputs))
    hidden = self._drop(hidden, dropout_seed, 0)
    if self.activation == "relu":
      hidden = tf.nn.relu(apply(self.second[0], hidden))
    else:
      tanh, sigmoid = (apply(layer, hidden) for layer in self.second)
      hidden = tf.tanh(tanh) * tf.sigmoid(sigmoid)
    return self.last.call(self._drop(hidden, dropout_seed, 1))

  def _drop(self, hidden, dropout_seed, position):
    # Each hidden layer has a mask of its own, which follows from the seed, so that a step can be computed again.
    if dropout_seed is None or not self.dropout:
      return hidden
    seed = tf.random.experimental.stateless_fold_in(dropout_seed, position)
    return tf.nn.experimental.stateless_dropout(hidden, self.dropout, seed)

  def named_weights(self) -> dict[str, NamedWeight]:
    """Returns the weights below `conv_block/1_1`, `conv_block/1_2` (or 1_tanh, 1_sigm) and `zeros`."""
    weights = prefixed("zeros", self.last.named_weights())
    for layer in [self.first, *self.second]:
      weights.update(prefixed(f"conv_block/{layer.name}", layer.named_weights()))
    return weights


@registered
class OwnNetwork(FlowLayer):
  """NN of a coupling that the user wrote: any Keras layer x [batch, inputs] -> [batch, units]; not a bijector.

  It is in training mode where a seed of dropout is given or drawn; its masks do not follow that seed.
  """

  def __init__(self, units: int, network: Network, **kwargs: object) -> None:
    super().__init__({"units": units}, **kwargs)
    network = from_keras(network)
    self.units = units
    if callable(network) and not isinstance(network, Layer):
      network = network(units)
    if not isinstance(network, Layer):
      given = type(network).__name__
      raise ConfigError(f"network: expected a function, number of outputs -> Keras layer, got {given}", "network")
    self.network = network

  def get_config(self) -> dict[str, object]:
    """Returns the constructor's arguments; the network as Keras saves it."""
    return {**super().get_config(), "network": to_keras(self.network)}

  def build(self, input_shape: Shape) -> None:
    """Builds the network; raises FlowError if it gives other numbers than the coupling takes."""
    self.inputs = last_dimension(input_shape)
    shape = self.network(tf.zeros([1, self.inputs], self.dtype)).shape
    if shape != [1, self.units]:
      expected = f"[batch, {self.units}] for inputs [batch, {self.inputs}]"
      raise FlowError(f"network: expected {expected}, got {shape}", "network")
    super().build(input_shape)

  def call(self, inputs: tf.Tensor, dropout_seed: tf.Tensor | None = None) -> tf.Tensor:
    """x [..., inputs] -> [..., units]."""
    rows = self.network(tf.reshape(inputs, [-1, self.inputs]), training=dropout_seed is not None)
    shape = tf.concat([tf.shape(inputs)[:-1], [self.units]], axis=0)
    return tf.reshape(tf.cast(rows, self.dtype), shape)

  def named_weights(self) -> dict[str, NamedWeight]:
    """Returns the weights by their numbers; the original has none of them."""
    weights = self.network.weights
    return {str(index): NamedWeight(weight, weight.shape, original=False) for index, weight in enumerate(weights)}


@registered
class AdditiveCoupling(FlowLayer):
  """Shift of the second half by a network of the first.

      forward   z1 = u1,  z2 = u2 + NN(u1)
      inverse   u1 = z1,  u2 = z2 - NN(z1)
      log|det dz/du| = 0

  u is the embedding, z the latent, both [..., dim]; dim is even. Dinh et al. 2015; the paper's section 3.2. The
  weights belong to its `CouplingNetwork`.

  Args:
    width: units of the network's hidden layers.
    activation: "relu" or "gatu".
    dropout: dropout rate of the hidden layers while fitting.
    actnorm_init: as in `ActNorm`.
    seed: integer or None.
    network: NN that replaces the `CouplingNetwork`: a Keras layer, or a function from its number of outputs to a layer.
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
    network: Network | None = None,
    **kwargs: object,
  ) -> None:
    arguments = {"width": width, "activation": activation, "dropout": dropout}
    super().__init__({**arguments, "actnorm_init": actnorm_init, "seed": seed}, **kwargs)
    self.has_dropout = bool(dropout) or network is not None
    network = from_keras(network)
    # A function hides the layer from Keras, which would track it a second time.
    self._given_network = lambda: network

  def get_config(self) -> dict[str, object]:
    """Returns the constructor's arguments; a network of the user's as Keras saves it."""
    config, network = super().get_config(), self._given_network()
    if network is not None:
      if self.built:
        network = self.network.network
      config["network"] = to_keras(network)
    return config

  def build(self, input_shape: Shape) -> None:
    """Creates the network for the halves of the last axis; raises FlowError if it is odd."""
    # The network reads the first half and moves the second half.
    dim = last_dimension(input_shape)
    self.half, odd = divmod(dim, 2)
    if odd:
      expected = "a coupling halves its dimensions; expected an even number"
      raise FlowError(f"input_shape: {expected}, got {dim}", "input_shape")
    # The network has one output per dimension for the shift, and one more per dimension if it also scales.
    units = self.half * self._outputs_per_dimension
    network = self._given_network()
    if network is None:
      self.network = CouplingNetwork(units, name="nn", dtype=self.dtype, **self._arguments)
    else:
      self.network = OwnNetwork(units, network, name="nn", dtype=self.dtype)
    build_part(self.network, self.half)
    super().build(input_shape)

  def forward_and_log_det(
    self, u: tf.Tensor, dropout_seed: tf.Tensor | None = None
  ) -> tuple[tf.Tensor, tf.Tensor | None]:
    """u [..., dim] -> z [..., dim] and the log-determinant, [...], or None for 0."""
    kept, moved = tf.split(self.prepared(u), 2, axis=-1)
    moved, log_det = self._move(moved, self.network.call(kept, dropout_seed))
    return tf.concat([kept, moved], axis=-1), log_det

  def inverse(self, z: tf.Tensor, dropout_seed: tf.Tensor | None = None) -> tf.Tensor:
    """z [..., dim] -> u [..., dim]."""
    kept, moved = tf.split(self.prepared(z), 2, axis=-1)
    return tf.concat([kept, self._move_back(moved, self.network.call(kept, dropout_seed))], axis=-1)

  def _move(self, second, outputs):
    """Returns z2 and the log-determinant of u2 and the network's outputs."""
    return second + outputs, None

  def _move_back(self, second, outputs):
    return second - outputs

  def initialize(self, inputs: tf.Tensor) -> tf.Tensor:
    """Initializes the network from u [batch, dim]; returns z."""
    inputs = self.prepared(inputs)
    self.network.initialize(inputs[:, : self.half])
    return self(inputs)

  def named_weights(self) -> dict[str, NamedWeight]:
    """Returns the network's weights, below `additive/nn` or `affine/nn`."""
    return prefixed(f"{self.kind}/nn", self.network.named_weights())


@registered
class AffineCoupling(AdditiveCoupling):
  """Shift and scale of the second half by a network of the first.

      (shift, s) = even and odd outputs of NN(u1),  scale = sigmoid(s + 2)
      forward   z1 = u1,  z2 = (u2 + shift) * scale
      inverse   u1 = z1,  u2 = z2 / scale - shift
      log|det dz/du| = sum(log(scale))

  u is the embedding, z the latent, both [..., dim]; dim is even. Kingma and Dhariwal 2018, Table 1.
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
