"""Activation normalization: a learned shift and scale of each dimension."""

import tensorflow as tf

from bert_flow_tf.flow.keras import Shape, keras, registered
from bert_flow_tf.flow.layer import FlowLayer, Vectors, last_dimension, seed_stream
from bert_flow_tf.flow.named_weights import NamedWeight

# Glow's logscale_factor: the stored `logs` is a third of the log-scale.
LOGSCALE_FACTOR = 3.0

# The original's epsilon in 1 / (std + 1e-6). A dimension with a smaller standard deviation would be scaled by the
# epsilon and not by its data, so it counts as constant. Above a magnitude of 1 the bound grows with the values:
# float32 has a relative precision of 1e-7, and a mean over tokens loses a digit.
EPSILON = 1e-6


@registered
class ActNorm(FlowLayer):
  """Shift and scale of every dimension.

      forward   z = (u + b) * exp(3 * logs)
      inverse   u = z * exp(-3 * logs) - b
      log|det dz/du| = 3 * sum(logs)

  u is the embedding, z the latent, both [batch, dim]. Kingma and Dhariwal 2018, section 3.1. Weights: `b` and `logs`,
  [dim]; and `varying`, [dim], not trained: 0 for a dimension without variance at initialization. The scale of a
  constant dimension stays 1: its likelihood is unbounded, so fitting would increase the scale forever.

  Args:
    actnorm_init: "data" (zeros until `initialize`) or "glorot".
    seed: integer or None.
  """

  def __init__(self, actnorm_init: str = "data", seed: int | None = None, **kwargs: object) -> None:
    super().__init__({"actnorm_init": actnorm_init, "seed": seed}, **kwargs)
    self.actnorm_init = actnorm_init
    self.seed = seed

  def build(self, input_shape: Shape) -> None:
    """Creates the weights: zeros, or Glorot uniform as TensorFlow 1 draws it for shape [1, 1, 1, dim]."""
    dim = last_dimension(input_shape)
    seeds = seed_stream(self.seed)

    # A new initializer, and a new seed, for each of the two weights.
    def initial():
      if self.actnorm_init == "data":
        return "zeros"
      limit = (6.0 / (1 + dim)) ** 0.5
      return keras.initializers.RandomUniform(-limit, limit, seed=next(seeds))

    self.b = self.add_weight(name="b", shape=[dim], initializer=initial())
    self.logs = self.add_weight(name="logs", shape=[dim], initializer=initial())
    self.varying = self.add_weight(name="varying", shape=[dim], initializer="ones", trainable=False)
    super().build(input_shape)

  def forward_and_log_det(self, u: tf.Tensor, dropout_seed: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """u [..., dim] -> z [..., dim] and 3 * sum(logs), a scalar."""
    u = self.prepared(u)
    log_scale = self.log_scale()
    return (u + self.b) * tf.exp(log_scale), tf.reduce_sum(log_scale)

  def inverse(self, z: tf.Tensor, dropout_seed: tf.Tensor | None = None) -> tf.Tensor:
    """z [..., dim] -> u [..., dim]."""
    return self.prepared(z) * tf.exp(-self.log_scale()) - self.b

  def log_scale(self) -> tf.Tensor:
    """Returns 3 * logs, [dim], 0 for a dimension without variance at initialization."""
    return LOGSCALE_FACTOR * self.logs * self.varying

  def initialize(self, inputs: Vectors) -> tf.Tensor:
    """Sets b = -mean, logs = log(1 / (std + 1e-6)) / 3 of u [batch, dim]; returns z with mean 0 and variance 1.

    Constant dimensions keep scale 1. They are returned as exactly 0: the rounding error of a large constant must not
    count as variance in a later layer, which no longer sees the constant's magnitude.
    """
    inputs = self.prepared(inputs)
    # The scale that gives variance 1; 1 without variance.
    mean = tf.reduce_mean(inputs, axis=0)
    std = tf.sqrt(tf.reduce_mean(tf.square(inputs - mean), axis=0))
    varying = std > EPSILON * tf.maximum(tf.cast(1, self.dtype), tf.abs(mean))
    logs = -tf.math.log(std + EPSILON) / LOGSCALE_FACTOR
    self.b.assign(-mean)
    self.logs.assign(tf.where(varying, logs, tf.zeros_like(logs)))
    self.varying.assign(tf.cast(varying, self.dtype))
    outputs = self(inputs)
    return tf.where(varying, outputs, tf.zeros_like(outputs))

  def named_weights(self) -> dict[str, NamedWeight]:
    """Returns `actnorm_center/b` and `actnorm_scale/logs`, each [1, 1, 1, dim], and our own `varying` [dim]."""
    dim = self.b.shape[0]
    return {
      "actnorm_center/b": NamedWeight(self.b, (1, 1, 1, dim)),
      "actnorm_scale/logs": NamedWeight(self.logs, (1, 1, 1, dim)),
      "varying": NamedWeight(self.varying, (dim,), original=False),
    }
