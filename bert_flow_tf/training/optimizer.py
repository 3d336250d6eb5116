"""The optimizer of BERT's published code, with which the original fits its flow."""

import math
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.progress import counted

# Names of variables that are not decayed: the published code's, and ModernBERT's normalizations. No variable of
# a flow matches: all of them decay.
EXCLUDED_FROM_WEIGHT_DECAY = ("LayerNorm", "layer_norm", "norm/gamma", "bias")
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-6


class AdamWeightDecay(tf.Module):
  """Adam without bias correction, with decoupled weight decay.

      m = beta_1 m + (1 - beta_1) g,  v = beta_2 v + (1 - beta_2) g^2
      w = w - learning_rate (m / (sqrt(v) + epsilon) + weight_decay_rate w)

  g is the gradient summed over replicas and then clipped to a global norm. The constants are the published code's.
  Variables whose names contain one of `EXCLUDED_FROM_WEIGHT_DECAY` are not decayed. The learning rate is a number, or
  a function: step, counted from 0 -> rate. The class does not use Keras, so it is the same in both.
  """

  def __init__(
    self,
    learning_rate: float | Callable[[tf.Tensor], tf.Tensor] = 1e-3,
    weight_decay_rate: float = 0.01,
    global_clipnorm: float | None = 1.0,
  ) -> None:
    super().__init__(name="AdamWeightDecay")
    self._weight_decay_rate = weight_decay_rate
    self._global_clipnorm = global_clipnorm
    self._schedule = None
    # Attributes that hold variables are the names in checkpoints, the same as in release 0.1.0.
    self._iterations = _untrained(tf.zeros([], tf.int64), "iteration")
    if callable(learning_rate):
      self._schedule = learning_rate
      self._current_learning_rate = _untrained(learning_rate(self._iterations), "current_learning_rate")
    else:
      self._learning_rate = _untrained(tf.constant(learning_rate, tf.float32), "learning_rate")

  def build(self, variables: Sequence[tf.Variable]) -> None:
    """Creates the two moments of every variable; called once, before the first step."""
    self._first = [_untrained(tf.zeros(variable.shape, variable.dtype), "m") for variable in variables]
    self._second = [_untrained(tf.zeros(variable.shape, variable.dtype), "v") for variable in variables]
    self._positions = {id(variable): position for position, variable in enumerate(variables)}

  @property
  def iterations(self) -> tf.Variable:
    """Number of completed steps."""
    return self._iterations

  @property
  def learning_rate(self) -> tf.Variable:
    """Rate of the last step; the first one's before any step."""
    if self._schedule is None:
      return self._learning_rate
    return self._current_learning_rate

  def restart(self) -> None:
    """Resets the steps and both moments to zero."""
    for variable in (self._iterations, *self._first, *self._second):
      variable.assign(tf.zeros_like(variable))

  def apply_gradients(
    self, gradients_and_variables: Iterable[tuple[tf.Tensor, tf.Variable]], skip_gradients_aggregation: bool = False
  ) -> None:
    """Makes one step in a replica's context, where each replica updates its copies of the variables.

    `skip_gradients_aggregation`: the gradients are already summed over replicas.
    """
    gradients, variables = zip(*gradients_and_variables, strict=True)
    gradients = self._prepared(list(gradients), skip_gradients_aggregation)
    for gradient, variable in zip(gradients, variables, strict=True):
      decayed = not any(part in variable.name for part in EXCLUDED_FROM_WEIGHT_DECAY)
      variable.assign_sub(self._step(gradient, variable, self._positions[id(variable)], decayed))
    self._iterations.assign_add(1)

  def changed_vector(self, gradient: tf.Tensor, vector: tf.Tensor) -> tf.Tensor:
    """Makes a step on weights that are joined to the vector of `build`, all of which decay; returns the new vector."""
    (gradient,) = self._prepared([gradient], False)
    changed = vector - self._step(gradient, vector, 0, True)
    self._iterations.assign_add(1)
    return changed

  def _prepared(self, gradients, are_summed):
    """Returns the gradients summed over replicas and clipped; sets the rate of this step."""
    if not are_summed:
      context = tf.distribute.get_replica_context()
      gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
    if self._global_clipnorm is not None:
      gradients, _ = tf.clip_by_global_norm(gradients, self._global_clipnorm)
    if self._schedule is not None:
      self._current_learning_rate.assign(self._schedule(self._iterations))
    return gradients

  def _step(self, gradient, weight, position, decayed):
    """Returns the change that is subtracted from a weight; updates its moments."""
    first, second = self._first[position], self._second[position]
    # No bias correction, epsilon outside the root, decay apart from the gradient: as published.
    first.assign(_BETA_1 * first + (1.0 - _BETA_1) * gradient)
    second.assign(_BETA_2 * second + (1.0 - _BETA_2) * tf.square(gradient))
    update = first / (tf.sqrt(second) + _EPSILON)
    if decayed:
      update += self._weight_decay_rate * weight
    return tf.cast(self.learning_rate, weight.dtype) * update


def _untrained(value, name):
  return tf.Variable(value, trainable=False, name=name)


def num_steps(num_pairs: int, train_batch_size: int, num_train_epochs: float) -> int:
  """Returns int(pairs / batch size * epochs): the published code drops a partial batch. Raises ConfigError for 0."""
  if not (math.isfinite(num_train_epochs) and num_train_epochs > 0):
    raise ConfigError(f"num_train_epochs={num_train_epochs}: expected a positive number", argument="num_train_epochs")
  steps = int(num_pairs / train_batch_size * num_train_epochs)
  if steps < 1:
    passes = f"{counted(num_train_epochs, 'epoch', 'g')} of {counted(num_pairs, 'pair')} of sentences"
    message = f"train_batch_size={train_batch_size}: {passes} make no step"
    mend = "give more sentences, a calibration other than the flow, or in a fit a smaller batch size or more epochs"
    raise ConfigError(f"{message}; {mend}", argument="train_batch_size")
  return steps


def num_warmup_steps(steps: int, warmup_proportion: float) -> int:
  """Returns the number of steps of the rise of `WarmUpLinearDecay`, as the published code rounds it."""
  return int(steps * warmup_proportion)


class WarmUpLinearDecay:
  """Rises linearly over the first steps, then falls linearly to 0 at the last step. Steps count from 0.

      rate = learning_rate * step / warmup_steps           for step < warmup_steps
      rate = learning_rate * (1 - step / steps)            after that

  The published schedule: step 0 of a warm-up changes no weight, and the fall starts below the highest rate.
  """

  def __init__(self, learning_rate: float, steps: int, warmup_steps: int) -> None:
    self._learning_rate, self._steps, self._warmup_steps = learning_rate, steps, warmup_steps

  def __call__(self, step: tf.Tensor) -> tf.Tensor:
    """Returns the rate of a step, a float32 scalar."""
    step = tf.cast(step, tf.float32)
    decayed = self._learning_rate * (1.0 - tf.minimum(step / self._steps, 1.0))
    if not self._warmup_steps:
      return decayed
    return tf.where(step < self._warmup_steps, self._learning_rate * step / self._warmup_steps, decayed)
