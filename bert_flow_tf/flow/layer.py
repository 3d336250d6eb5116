"""What every layer of the flow has in common."""

import numpy as np
import tensorflow as tf
import tf_keras


class FlowLayer(tf_keras.layers.Layer):
  """A Keras layer that owns its weights and gives a `tfb.Bijector` from embedding u to latent z.

  Calling the layer applies the bijector forward: u [batch, dim] -> z [batch, dim].
  """

  def make_bijector(self, dropout_seed=None):
    """A new bijector over this layer's weights; forward is u -> z.

    New at each call because a bijector remembers results by tensor identity: one kept while its weights are
    trained would return the results of the weights of before.

    Args:
      dropout_seed: int32 [2], the mask of the coupling's dropout while fitting; None for no dropout.
    """
    raise NotImplementedError

  def call(self, inputs):
    """Forward: u [batch, dim] -> z [batch, dim]."""
    return self.make_bijector().forward(inputs)

  def initialize(self, inputs):
    """Sets the weights that depend on data from u [batch, dim]; returns the layer's output for it."""
    return self(inputs)

  def tf1_variables(self):
    """{name in the original's checkpoint, below this layer: `Tf1Variable`}."""
    return {}

  def actnorms(self):
    """Every `ActNorm` of this layer, {name below this layer: ActNorm}."""
    return {}


def product(x, matrix):
  """X matrix over the last axis: x [..., inputs], matrix [inputs, outputs] -> [..., outputs]."""
  return tf.matmul(x, matrix) if x.shape.rank == 2 else tf.tensordot(x, matrix, 1)


def seed_stream(seed):
  """Endless independent integer seeds from one; None gives other ones at each call."""
  generator = np.random.default_rng(seed)
  while True:
    yield int(generator.integers(2**31))


def prefixed(prefix, named):
  """The same dict with `prefix/` before every key."""
  return {f"{prefix}/{name}": value for name, value in named.items()}
