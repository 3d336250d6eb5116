"""Masked-language modelling over tf.distribute, resumed exactly."""

import dataclasses

import numpy as np
import tensorflow as tf
import tf_keras
from absl import logging

from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.progress import Progress
from bert_flow_tf.training.checkpoints import Checkpoints
from bert_flow_tf.training.distribution import (
  check_agreement,
  copy_from_chief,
  from_chief,
  has_several_workers,
  is_chief,
  worker_failures,
)
from bert_flow_tf.training.optimizer import AdamWeightDecay

# The final loss is the mean over as many steps as this: of a single batch it says little.
FINAL_STEPS = 100


@dataclasses.dataclass(frozen=True)
class PretrainingSettings:
  """How a masked language model is trained.

  Attributes:
    steps: steps in all.
    batch_size: sentences a step, over all replicas.
    learning_rate: the highest.
    warmup_steps: steps over which the rate rises linearly from 0 to that; it falls linearly to 0 at the last step.
    weight_decay: of all weights but biases and layer normalisations.
    dropout: whether dropout is on, at the model's rates.
    seed: integer from 0 to 2**31 - 1, of dropout.
    save_checkpoints_steps: steps between two checkpoints.

  Raises:
    ConfigError: one is outside its allowed values; the message names the runner's flag.
  """

  steps: int = 4200
  batch_size: int = 96
  learning_rate: float = 3e-4
  warmup_steps: int = 500
  weight_decay: float = 0.01
  dropout: bool = False
  seed: int = 0
  save_checkpoints_steps: int = 100

  def __post_init__(self):
    for flag, value in {"num_train_steps": self.steps, "train_batch_size": self.batch_size}.items():
      if value < 1:
        raise ConfigError(f"--{flag}={value}: expected at least 1")
    if not (np.isfinite(self.learning_rate) and self.learning_rate > 0):
      raise ConfigError(f"--learning_rate={self.learning_rate}: expected a positive number")
    if not 0 <= self.warmup_steps < self.steps:
      raise ConfigError(
        f"--num_warmup_steps={self.warmup_steps}: expected 0 or more, and fewer than --num_train_steps={self.steps}"
      )
    if not (np.isfinite(self.weight_decay) and self.weight_decay >= 0):
      raise ConfigError(f"--weight_decay={self.weight_decay}: expected 0 or a positive number")


@tf_keras.utils.register_keras_serializable("bert_flow_tf")
class WarmupAndDecay(tf_keras.optimizers.schedules.LearningRateSchedule):
  """The rate rises linearly over the first steps, and falls linearly to 0 (Devlin et al. 2019, appendix A.2).

  Args:
    learning_rate: the highest rate.
    warmup_steps: steps of the rise.
    steps: steps in all.
  """

  def __init__(self, learning_rate, warmup_steps, steps):
    self.learning_rate, self.warmup_steps, self.steps = learning_rate, warmup_steps, steps

  def __call__(self, step):
    """Rate of the step, counted from 0: a scalar float32 Tensor."""
    step = tf.cast(step, tf.float32)
    rise = (step + 1.0) / max(self.warmup_steps, 1)
    fall = (self.steps - step) / (self.steps - self.warmup_steps)
    return self.learning_rate * tf.minimum(1.0, tf.minimum(rise, fall))

  def get_config(self):
    """The arguments of the constructor."""
    return {"learning_rate": self.learning_rate, "warmup_steps": self.warmup_steps, "steps": self.steps}


class PretrainingTrainer:
  """Trains a masked language model: mean cross entropy of a batch's hidden pieces, BERT's optimizer.

  A step follows from the weights, the seed and its number alone, so that a training that was stopped goes on as if it
  had not been.

  Args:
    model: a `MaskedLanguageModel`, made under `strategy.scope()`.
    settings: `PretrainingSettings`.
    strategy: a `tf.distribute.Strategy`; None for the current one.
    checkpoint_folder: where the training is saved and resumed from; None for nowhere.
    identity: dict of json values, what else a resumed training must share with the one it resumes: sizes, data.
    show_progress: whether progress is shown.

  Raises:
    ConfigError: the batch cannot be shared among the replicas.
  """

  def __init__(self, model, settings, strategy=None, checkpoint_folder=None, identity=None, show_progress=True):
    self._model, self._settings = model, settings
    self._strategy = strategy or tf.distribute.get_strategy()
    self._folder, self._identity, self._show_progress = checkpoint_folder, identity or {}, show_progress
    replicas = self._strategy.num_replicas_in_sync
    if settings.batch_size % replicas:
      raise ConfigError(f"--train_batch_size={settings.batch_size}: expected a multiple of the {replicas} replicas")
    with worker_failures(self._strategy), self._strategy.scope():
      rate = WarmupAndDecay(settings.learning_rate, settings.warmup_steps, settings.steps)
      optimizer = AdamWeightDecay(rate, settings.weight_decay)
      if model.model.dtype_policy.name == "mixed_float16":
        optimizer = tf_keras.mixed_precision.LossScaleOptimizer(optimizer)
      self._optimizer = optimizer
      self._optimizer.build(model.trainable_variables)
      self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
      self._losses = tf.Variable(tf.fill([settings.steps], np.float32("nan")), trainable=False, name="losses")

  def train(self, batches):
    """Makes the steps that are left.

    Args:
      batches: step (from 0) -> `MaskedBatch`-like of the whole batch.

    Returns:
      float32 array [steps], the loss of every step before it was made, in nats, earlier runs' included.

    Raises:
      TrainingError: the loss became NaN or infinite; the last good checkpoint is kept. Or the checkpoints are another
        training's, or another worker was lost.
    """
    with worker_failures(self._strategy):
      return self._train(batches)

  def _train(self, batches):
    total = self._settings.steps
    checkpoints = self._checkpoints()
    restored = checkpoints.restore() if checkpoints else None
    from_chief(self._strategy, int(bool(restored)))
    state = [*self._model.model.variables, *self._optimizer.variables, self._step, self._losses]
    copy_from_chief(self._strategy, state)
    step = int(tf.convert_to_tensor(self._step).numpy())
    losses = tf.convert_to_tensor(self._losses).numpy().copy()
    if restored:
      logging.info("resumed at step %d of %d from %s", step, total, restored)
    elif checkpoints:
      checkpoints.save(0)
    advance = None
    with Progress(total, self._show_progress, "training", "step", step) as progress:
      while step < total:
        inputs, count = self._shares(batches(step))
        advance = advance or self._advance(inputs)
        losses[step] = float(advance(inputs, count, tf.constant([self._settings.seed, step], tf.int32)))
        step += 1
        saved = step % self._settings.save_checkpoints_steps == 0 or step == total
        if not np.isfinite(losses[step - 1]) or (saved and not self._weights_are_finite()):
          what = "a weight is not finite" if np.isfinite(losses[step - 1]) else f"the loss is {losses[step - 1]}"
          kept = f"the checkpoint before it, {checkpoints.latest}, is kept" if checkpoints else "nothing was saved"
          raise TrainingError(f"training stopped: {what} at step {step}; {kept}; lower --learning_rate")
        if saved:
          self._step.assign(step)
          self._losses.assign(losses)
          if checkpoints:
            checkpoints.save(step)
        progress.update(1, f"loss {final_loss(losses[:step]):.4f}")
    return losses

  def _weights_are_finite(self):
    weights = self._model.model.trainable_variables
    return all(bool(tf.reduce_all(tf.math.is_finite(tf.convert_to_tensor(weight)))) for weight in weights)

  def _checkpoints(self):
    """The chief alone has any."""
    if self._folder is None and not has_several_workers(self._strategy):
      return None
    settings = dataclasses.asdict(self._settings)
    del settings["save_checkpoints_steps"]  # it changes nothing
    identity = {**settings, "precision": self._model.model.dtype_policy.name, **self._identity}
    check_agreement(self._strategy, identity)
    if self._folder is None or not is_chief(self._strategy):
      return None
    parts = {"model": self._model.model, "optimizer": self._optimizer, "step": self._step, "losses": self._losses}
    try:
      return Checkpoints(self._folder, identity, **parts)
    except TrainingError as error:  # which names the flags of the flow's runner
      raise TrainingError(str(error).replace("--exp_name or --output_parent_dir", "--output_dir")) from error

  def _shares(self, batch):
    """The rows of each replica here, as five tensors, and how many pieces are hidden in all."""
    replicas = self._strategy.num_replicas_in_sync
    rows = self._settings.batch_size // replicas

    def share(context):
      first = context.replica_id_in_sync_group * rows
      return tensors(batch.rows(first, first + rows))

    def tensors(part):
      return tuple(tf.constant(array) for array in (part.ids, part.mask, *part.positions.T, part.labels))

    count = tf.constant(max(len(batch.labels), 1), tf.float32)
    if replicas == 1:
      return tensors(batch), count
    return self._strategy.experimental_distribute_values_from_function(share), count

  def _advance(self, inputs):
    """A graph that makes one step and returns its loss; of `inputs` only the types matter."""
    variables, strategy = self._model.trainable_variables, self._strategy
    scaled = isinstance(self._optimizer, tf_keras.mixed_precision.LossScaleOptimizer)

    def replica_step(inputs, count, seed):
      replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int32)
      seed = tf.random.experimental.stateless_fold_in(seed, replica) if self._settings.dropout else None
      with tf.GradientTape() as tape:
        ids, mask, rows, columns, labels = inputs
        positions = tf.stack([rows, columns], axis=1)
        loss = tf.reduce_sum(self._model.losses(ids, mask, positions, labels, seed)) / count
        objective = self._optimizer.get_scaled_loss(loss) if scaled else loss
      gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(objective, variables)]
      gradients = self._optimizer.get_unscaled_gradients(gradients) if scaled else gradients
      self._optimizer.apply_gradients(zip(gradients, variables, strict=True))
      return loss

    # One graph for batches of all shapes: one that knows the shape of its batch rounds otherwise, and a training that
    # goes on would begin with another one than it had.
    scalars = (tf.TensorSpec([], tf.float32), tf.TensorSpec([2], tf.int32))

    @tf.function(autograph=False, input_signature=[tuple(map(_of_any_shape, inputs)), *scalars])
    def advance(inputs, count, seed):
      return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, (inputs, count, seed)), axis=None)

    return advance


def _of_any_shape(value):
  """Type of a tensor, or of one a replica, with sizes left open."""
  spec = value if isinstance(value, tf.TypeSpec) else tf.type_spec_from_value(value)
  if isinstance(spec, tf.TensorSpec):
    return tf.TensorSpec([None] * spec.shape.rank, spec.dtype)
  return type(spec)(*map(_of_any_shape, spec._value_specs))


def final_loss(losses):
  """Mean of the last `FINAL_STEPS` losses, in nats."""
  return float(np.mean(losses[-FINAL_STEPS:]))
