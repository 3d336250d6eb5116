"""The network inside a coupling layer: three dense layers, which the original writes as 1x1 convolutions."""

import tensorflow as tf
import tf_keras

from bert_flow_tf.flow.actnorm import LOGSCALE_FACTOR, ActNorm
from bert_flow_tf.flow.layer import FlowLayer, prefixed, product, seed_stream
from bert_flow_tf.flow.named_weights import Tf1Variable

# Standard deviation of the hidden layers' kernels (Glow; the original's constant).
KERNEL_STDDEV = 0.05


class NormalizedDense(FlowLayer):
  """h = actnorm(x kernel): [batch, inputs] -> [batch, units]; not a bijector, so it gives none.

  Weights: `kernel` [inputs, units], normal(0, 0.05), no bias, and those of its `ActNorm`.
  """

  def __init__(self, units, actnorm_init="data", seed=None, **kwargs):
    super().__init__(**kwargs)
    self.units = units
    self._seeds = seed_stream(seed)
    self.actnorm = ActNorm(actnorm_init, seed=next(self._seeds), name="actnorm", dtype=self.dtype)

  def build(self, input_shape):
    """Creates kernel and actnorm."""
    initializer = tf_keras.initializers.RandomNormal(0.0, KERNEL_STDDEV, seed=next(self._seeds))
    self.kernel = self.add_weight("kernel", [int(input_shape[-1]), self.units], initializer=initializer)
    self.actnorm.build([None, self.units])
    super().build(input_shape)

  def call(self, inputs):
    """[batch, inputs] -> [batch, units]."""
    return self.actnorm(product(inputs, self.kernel))

  def initialize(self, inputs):
    """Initialises the actnorm from x [batch, inputs]; returns the layer's output."""
    return self.actnorm.initialize(product(inputs, self.kernel))

  def tf1_variables(self):
    """`W` [1, 1, inputs, units] and the actnorm's below `actnorm`."""
    kernel = Tf1Variable(self.kernel, (1, 1, *self.kernel.shape))
    return {"W": kernel, **prefixed("actnorm", self.actnorm.tf1_variables())}


class ZeroDense(FlowLayer):
  """y = (x kernel + b) * exp(3 * logs): [batch, inputs] -> [batch, units]; all weights start at zero.

  A coupling so starts as the identity. Weights: `kernel` [inputs, units], `b` [units], `logs` [units].
  """

  def __init__(self, units, **kwargs):
    super().__init__(**kwargs)
    self.units = units

  def build(self, input_shape):
    """Creates the weights."""
    self.kernel = self.add_weight("kernel", [int(input_shape[-1]), self.units], initializer="zeros")
    self.b = self.add_weight("b", [self.units], initializer="zeros")
    self.logs = self.add_weight("logs", [self.units], initializer="zeros")
    super().build(input_shape)

  def call(self, inputs):
    """[batch, inputs] -> [batch, units]."""
    return (product(inputs, self.kernel) + self.b) * tf.exp(LOGSCALE_FACTOR * self.logs)

  def tf1_variables(self):
    """`W` [1, 1, inputs, units], `b` [1, 1, 1, units], `logs` [1, units]."""
    return {
      "W": Tf1Variable(self.kernel, (1, 1, *self.kernel.shape)),
      "b": Tf1Variable(self.b, (1, 1, 1, self.units)),
      "logs": Tf1Variable(self.logs, (1, self.units)),
    }


class CouplingNetwork(FlowLayer):
  """NN of a coupling: dense, actnorm, ReLU; the same again or tanh * sigmoid ("gatu"); a dense layer of zeros.

  [batch, inputs] -> [batch, units]. Its actnorms take part in the data-dependent initialisation and add nothing to
  the log-determinant. Dropout, where the configuration asks for it, follows both hidden layers while fitting.
  """

  def __init__(self, units, width=32, activation="relu", dropout=0.0, actnorm_init="data", seed=None, **kwargs):
    super().__init__(**kwargs)
    self.activation = activation
    self.dropout = dropout
    seeds = seed_stream(seed)

    def hidden(name):
      return NormalizedDense(width, actnorm_init, seed=next(seeds), name=name, dtype=self.dtype)

    self.first = hidden("1_1")
    self.second = [hidden(name) for name in (["1_2"] if activation == "relu" else ["1_tanh", "1_sigm"])]
    self.last = ZeroDense(units, name="zeros", dtype=self.dtype)

  def build(self, input_shape):
    """Builds the three layers."""
    self.first.build(input_shape)
    for layer in [*self.second, self.last]:
      layer.build([None, self.first.units])
    super().build(input_shape)

  def call(self, inputs, dropout_seed=None):
    """[batch, inputs] -> [batch, units]; `dropout_seed` int32 [2] as in `FlowLayer.make_bijector`."""
    return self._apply(inputs, lambda layer, x: layer(x), dropout_seed)

  def initialize(self, inputs):
    """Initialises the actnorms layer by layer from x [batch, inputs]; returns [batch, units]."""
    if not self.built:
      self.build(inputs.shape)
    return self._apply(inputs, lambda layer, x: layer.initialize(x), None)

  def _apply(self, inputs, apply, dropout_seed):
    hidden = self._drop(tf.nn.relu(apply(self.first, inputs)), dropout_seed, 0)
    second = [apply(layer, hidden) for layer in self.second]
    hidden = tf.nn.relu(second[0]) if self.activation == "relu" else tf.tanh(second[0]) * tf.sigmoid(second[1])
    return self.last(self._drop(hidden, dropout_seed, 1))

  def _drop(self, hidden, dropout_seed, position):
    if dropout_seed is None or not self.dropout:
      return hidden
    seed = tf.random.experimental.stateless_fold_in(dropout_seed, position)
    return tf.nn.experimental.stateless_dropout(hidden, self.dropout, seed)

  def tf1_variables(self):
    """Those of the three layers, below `conv_block/1_1`, `conv_block/1_2` (or 1_tanh, 1_sigm) and `zeros`."""
    named = prefixed("zeros", self.last.tf1_variables())
    for layer in [self.first, *self.second]:
      named.update(prefixed(f"conv_block/{layer.name}", layer.tf1_variables()))
    return named

  def actnorms(self):
    """Those of the hidden layers."""
    return {f"conv_block/{layer.name}/actnorm": layer.actnorm for layer in [self.first, *self.second]}
