"""How many steps a fit has, and BERT's learning rate over them."""

import numpy as np
import tensorflow as tf
import tf_keras

from bert_flow_tf.errors import ConfigError


def num_steps(num_pairs, batch_size, num_train_epochs):
  """int(pairs / batch * epochs), as published: partial batches are dropped (original.md, "Fitting the flow").

  Args:
    num_pairs: int.
    batch_size: pairs a step, an int.
    num_train_epochs: passes over the pairs, a positive number.

  Raises:
    ConfigError: the epochs are no positive number, or that is no step at all.
  """
  if not (np.isfinite(num_train_epochs) and num_train_epochs > 0):
    raise ConfigError(f"num_train_epochs is {num_train_epochs}, expected a positive number")
  steps = int(num_pairs / batch_size * num_train_epochs)
  if steps < 1:
    raise ConfigError(
      f"{num_pairs} pairs in batches of {batch_size} for {num_train_epochs:g} epochs make no step: take a smaller "
      "batch size (train_batch_size) or more num_train_epochs"
    )
  return steps


class WarmUpLinearDecay(tf_keras.optimizers.schedules.LearningRateSchedule):
  """Rises from 0 in a line, then falls in a line to 0 at the last step, as BERT's published optimizer has it.

      rate(step) = learning_rate * step / warmup_steps         for step < warmup_steps = int(steps * warmup_proportion)
      rate(step) = learning_rate * (1 - step / steps)           after that

  Steps count from 0: the first one of a warm-up changes nothing, and the decay goes on from where it would be without.

  Args:
    learning_rate: the highest rate.
    steps: steps of the fit.
    warmup_proportion: part of the steps that warm up, from 0 to 1.
  """

  def __init__(self, learning_rate, steps, warmup_proportion=0.1):
    super().__init__()
    self._learning_rate = learning_rate
    self._steps = steps
    self._warmup_proportion = warmup_proportion
    self._warmup_steps = int(steps * warmup_proportion)

  def __call__(self, step):
    """The rate at a step, a float32 scalar."""
    step = tf.cast(step, tf.float32)
    decayed = self._learning_rate * (1.0 - tf.minimum(step / self._steps, 1.0))
    if not self._warmup_steps:
      return decayed
    return tf.where(step < self._warmup_steps, self._learning_rate * step / self._warmup_steps, decayed)

  def get_config(self):
    """The arguments of the constructor."""
    return {
      "learning_rate": self._learning_rate,
      "steps": self._steps,
      "warmup_proportion": self._warmup_proportion,
    }
