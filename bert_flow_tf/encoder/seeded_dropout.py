"""Dropout of BERT with masks that a seed determines, so that a fit resumes exactly."""

import tensorflow as tf
import tf_keras


class SeededDropout:
  """Replacement of a model's dropout layers.

  Keras draws masks from a state that is in no checkpoint; here the seed and the layer's position determine the mask.
  """

  def __init__(self, model):
    self._seed = None
    layers = [layer for layer in model.submodules if isinstance(layer, tf_keras.layers.Dropout)]
    for place, layer in enumerate(layers):
      layer.call = self._dropout(place, layer.rate)

  def on(self, seed):
    """Returns a context with dropout of this seed, int32 [2]; None for no dropout."""
    return _Seeded(self, seed)

  def _dropout(self, place, rate):
    def call(inputs, training=None):
      del training  # only the seed decides
      if self._seed is None or not rate:
        return tf.identity(inputs)
      seed = tf.random.experimental.stateless_fold_in(self._seed, place)
      return tf.nn.experimental.stateless_dropout(inputs, rate, seed)

    return call


class _Seeded:
  def __init__(self, dropout, seed):
    self._dropout = dropout
    self._seed = seed

  def __enter__(self):
    self._dropout._seed = self._seed

  def __exit__(self, *unused):
    self._dropout._seed = None
