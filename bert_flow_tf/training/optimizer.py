"""The optimizer of BERT's published code, with which the original fits its flow."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

# Names of variables that the published code does not decay. No variable of a flow matches: all of them decay.
EXCLUDED_FROM_WEIGHT_DECAY = ("LayerNorm", "layer_norm", "bias")


class AdamWeightDecay(tf_keras.optimizers.Optimizer):
  """Adam without bias correction, with decoupled weight decay.

      m = beta_1 m + (1 - beta_1) g,  v = beta_2 v + (1 - beta_2) g^2
      w = w - learning_rate (m / (sqrt(v) + epsilon) + weight_decay_rate w)

  g is the gradient summed over replicas and then clipped to a global norm. The constants are the published code's.

  Args:
    learning_rate: number, or a `tf_keras.optimizers.schedules.LearningRateSchedule`.
    weight_decay_rate: 0.01 as published.
    beta_1: decay of the first moment.
    beta_2: decay of the second moment.
    epsilon: added outside the root.
    global_clipnorm: bound on the gradients' joint norm; None for none.
    exclude_from_weight_decay: regular expressions searched in a variable's name; a match is not decayed.
  """

  def __init__(
    self,
    learning_rate: float | tf_keras.optimizers.schedules.LearningRateSchedule = 1e-3,
    weight_decay_rate: float = 0.01,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    global_clipnorm: float | None = 1.0,
    exclude_from_weight_decay: Sequence[str] = EXCLUDED_FROM_WEIGHT_DECAY,
    name: str = "AdamWeightDecay",
  ) -> None:
    super().__init__(name=name, weight_decay=None, global_clipnorm=global_clipnorm, jit_compile=False)
    self._learning_rate = self._build_learning_rate(learning_rate)
    self.weight_decay_rate = weight_decay_rate
    self.beta_1 = beta_1
    self.beta_2 = beta_2
    self.epsilon = epsilon
    self.excluded = tuple(exclude_from_weight_decay)

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
    for variable in (self.iterations, *self._first, *self._second):
      variable.assign(tf.zeros_like(variable))

  def in_pieces(self, pieces: Callable[[tf.Variable], Sequence[Any]]) -> tf.train.Checkpoint:
    """Returns the object that a checkpoint holds for this optimizer if its variables are vectors of many weights.

    Args:
      pieces: moment -> trackable objects, one for each weight; the names are those of an optimizer of single weights.
    """
    moments = [piece for moment in (*self._first, *self._second) for piece in pieces(moment)]
    return tf.train.Checkpoint(
      _iterations=self.iterations, _learning_rate=self._learning_rate, _variables=[self.iterations, *moments]
    )

  def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
    """Applies one gradient to one variable."""
    index = self._index_dict[self._var_key(variable)]
    first, second = self._first[index], self._second[index]
    first.assign(self.beta_1 * first + (1.0 - self.beta_1) * gradient)
    second.assign(self.beta_2 * second + (1.0 - self.beta_2) * tf.square(gradient))
    update = first / (tf.sqrt(second) + self.epsilon)
    if not any(re.search(pattern, variable.name) for pattern in self.excluded):
      update += self.weight_decay_rate * variable
    variable.assign_sub(tf.cast(self.learning_rate, variable.dtype) * update)

  def get_config(self) -> dict[str, Any]:
    """Returns the arguments of the constructor."""
    return {
      "name": self.name,
      "learning_rate": self._serialize_hyperparameter(self._learning_rate),
      "weight_decay_rate": self.weight_decay_rate,
      "beta_1": self.beta_1,
      "beta_2": self.beta_2,
      "epsilon": self.epsilon,
      "global_clipnorm": self.global_clipnorm,
      "exclude_from_weight_decay": self.excluded,
    }
