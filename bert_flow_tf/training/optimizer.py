"""The optimizer of BERT's published code, with which the original fits its flow."""

import math
from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from bert_flow_tf.errors import ConfigError

# Names of variables that the published code does not decay. No variable of a flow matches: all of them decay.
EXCLUDED_FROM_WEIGHT_DECAY = ("LayerNorm", "layer_norm", "bias")
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-6


class AdamWeightDecay(tf_keras.optimizers.Optimizer):
  """Adam without bias correction, with decoupled weight decay.

      m = beta_1 m + (1 - beta_1) g,  v = beta_2 v + (1 - beta_2) g^2
      w = w - learning_rate (m / (sqrt(v) + epsilon) + weight_decay_rate w)

  g is the gradient summed over replicas and then clipped to a global norm. The constants are the published code's.
  Variables whose names contain one of `EXCLUDED_FROM_WEIGHT_DECAY` are not decayed.
  """

  def __init__(
    self,
    learning_rate: float | tf_keras.optimizers.schedules.LearningRateSchedule = 1e-3,
    weight_decay_rate: float = 0.01,
    global_clipnorm: float | None = 1.0,
  ) -> None:
    super().__init__(name="AdamWeightDecay", weight_decay=None, global_clipnorm=global_clipnorm, jit_compile=False)
    self._learning_rate = self._build_learning_rate(learning_rate)
    self._weight_decay_rate = weight_decay_rate

  def build(self, var_list: Sequence[tf.Variable]) -> None:
    """Creates the two moments of every variable."""
    super().build(var_list)
    if getattr(self, "_built", False):
      return
    self._built = True
    self._first = [self.add_variable_from_reference(variable, "m") for variable in var_list]
    self._second = [self.add_variable_from_reference(variable, "v") for variable in var_list]

  def restart(self) -> None:
    """Resets the steps and both moments to zero."""
    self.iterations.assign(0)
    for moment in self._first + self._second:
      moment.assign(tf.zeros_like(moment))

  def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
    """Applies one gradient to one variable."""
    index = self._index_dict[self._var_key(variable)]
    first, second = self._first[index], self._second[index]
    # No bias correction, epsilon outside the root, decay apart from the gradient: as published.
    first.assign(_BETA_1 * first + (1.0 - _BETA_1) * gradient)
    second.assign(_BETA_2 * second + (1.0 - _BETA_2) * tf.square(gradient))
    update = first / (tf.sqrt(second) + _EPSILON)
    if not any(part in variable.name for part in EXCLUDED_FROM_WEIGHT_DECAY):
      update += self._weight_decay_rate * variable
    variable.assign_sub(tf.cast(self.learning_rate, variable.dtype) * update)


def num_steps(num_pairs: int, train_batch_size: int, num_train_epochs: float) -> int:
  """Returns int(pairs / batch size * epochs): the published code drops a partial batch. 0 is a ConfigError."""
  if not (math.isfinite(num_train_epochs) and num_train_epochs > 0):
    raise ConfigError(f"num_train_epochs={num_train_epochs}: expected a positive number", argument="num_train_epochs")
  steps = int(num_pairs / train_batch_size * num_train_epochs)
  if steps < 1:
    raise ConfigError(
      f"train_batch_size={train_batch_size}: {num_pairs} pairs of sentences are too few, {num_train_epochs:g} epochs "
      "of them make no step; give more sentences, a smaller batch size or more epochs",
      argument="train_batch_size",
    )
  return steps


def num_warmup_steps(steps: int, warmup_proportion: float) -> int:
  """Returns the number of steps of the rise of `WarmUpLinearDecay`, as the published code rounds it."""
  return int(steps * warmup_proportion)


class WarmUpLinearDecay(tf_keras.optimizers.schedules.LearningRateSchedule):
  """Rises linearly over the first steps, then falls linearly to 0 at the last step. Steps count from 0.

      rate = learning_rate * step / warmup_steps           for step < warmup_steps
      rate = learning_rate * (1 - step / steps)            after that

  As published: step 0 of a warm-up changes no weight, and the fall starts below the highest rate.
  """

  def __init__(self, learning_rate: float, steps: int, warmup_steps: int) -> None:
    super().__init__()
    self._learning_rate, self._steps, self._warmup_steps = learning_rate, steps, warmup_steps

  def __call__(self, step: tf.Tensor) -> tf.Tensor:
    """Returns the rate of a step, a float32 scalar."""
    step = tf.cast(step, tf.float32)
    decayed = self._learning_rate * (1.0 - tf.minimum(step / self._steps, 1.0))
    if not self._warmup_steps:
      return decayed
    return tf.where(step < self._warmup_steps, self._learning_rate * step / self._warmup_steps, decayed)
