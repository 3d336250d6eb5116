"""Number of steps of a fit, and the learning rate of BERT at each step."""

import math
from typing import Any

import tensorflow as tf
import tf_keras

from bert_flow_tf.errors import ConfigError


def num_steps(num_pairs: int, train_batch_size: int, num_train_epochs: float) -> int:
  """Returns int(pairs / batch size * epochs), as the published code: a partial batch is dropped.

  Raises:
    ConfigError: the epochs are not a positive number, or the result is 0.
  """
  if not (math.isfinite(num_train_epochs) and num_train_epochs > 0):
    raise ConfigError(f"num_train_epochs={num_train_epochs}: expected a positive number", argument="num_train_epochs")
  steps = int(num_pairs / train_batch_size * num_train_epochs)
  if steps < 1:
    raise ConfigError(
      f"train_batch_size={train_batch_size}: {num_pairs} pairs and {num_train_epochs:g} epochs make no step; choose a "
      "smaller batch size or more epochs",
      argument="train_batch_size",
    )
  return steps


@tf_keras.utils.register_keras_serializable("bert_flow_tf")
class WarmUpLinearDecay(tf_keras.optimizers.schedules.LearningRateSchedule):
  """Rises linearly over the first steps, then falls linearly to 0 at the last step. Steps count from 0.

      published code:  rate = learning_rate * step / warmup_steps           for step < warmup_steps
                       rate = learning_rate * (1 - step / steps)            after that
      from the peak:   rate = learning_rate * min(1, (step + 1) / warmup_steps, (steps - step) / (steps - warmup_steps))

  In the published code, step 0 of a warm-up changes no weight, and the fall starts below the highest rate.

  Args:
    learning_rate: the highest rate.
    steps: number of steps of the training.
    warmup_steps: number of steps of the rise.
    from_peak: False for BERT's published code, True for Devlin et al. 2019, appendix A.2.
  """

  def __init__(self, learning_rate: float, steps: int, warmup_steps: int, from_peak: bool = False) -> None:
    super().__init__()
    self._learning_rate, self._steps = learning_rate, steps
    self._warmup_steps, self._from_peak = warmup_steps, from_peak

  def __call__(self, step: tf.Tensor) -> tf.Tensor:
    """Returns the rate of a step, a float32 scalar."""
    step = tf.cast(step, tf.float32)
    if self._from_peak:
      rise = (step + 1.0) / max(self._warmup_steps, 1)
      fall = (self._steps - step) / (self._steps - self._warmup_steps)
      return self._learning_rate * tf.minimum(1.0, tf.minimum(rise, fall))
    decayed = self._learning_rate * (1.0 - tf.minimum(step / self._steps, 1.0))
    if not self._warmup_steps:
      return decayed
    return tf.where(step < self._warmup_steps, self._learning_rate * step / self._warmup_steps, decayed)

  def get_config(self) -> dict[str, Any]:
    """Returns the arguments of the constructor."""
    return {
      "learning_rate": self._learning_rate,
      "steps": self._steps,
      "warmup_steps": self._warmup_steps,
      "from_peak": self._from_peak,
    }
