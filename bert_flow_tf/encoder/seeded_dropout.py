"""Dropout of BERT with masks that a seed determines, so that a fit resumes exactly."""

import tensorflow as tf
import tf_keras


class SeededDropout:
  """Replacement of a model's dropout layers.

  Keras draws masks from a state that is in no checkpoint; here the seed and the layer's position determine the mask.
  """

  def __init__(self, model: tf_keras.Model) -> None:
    self._seed = None
    layers = [layer for layer in model.submodules if isinstance(layer, tf_keras.layers.Dropout)]
    for position, layer in enumerate(layers):
      layer.call = self._dropout(position, layer.rate)

  def on(self, seed: tf.Tensor | None) -> "_Seeded":
    """Returns a context with dropout of a seed, int32 [2]; None for no dropout."""
    return _Seeded(self, seed)

  def _dropout(self, position, rate):
    def call(inputs, training=None):
      del training  # only the seed decides
      if self._seed is None or not rate:
        return tf.identity(inputs)
      seed = tf.random.experimental.stateless_fold_in(self._seed, position)
      return tf.nn.experimental.stateless_dropout(inputs, rate, seed)

    return call


class _Seeded:
  """Context in which a model has dropout; a class, as AutoGraph does not convert generators."""

  def __init__(self, dropout, seed):
    self._dropout = dropout
    self._seed = seed

  def __enter__(self):
    self._dropout._seed = self._seed

  def __exit__(self, *unused):
    self._dropout._seed = None
