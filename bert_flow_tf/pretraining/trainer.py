"""Masked-language modeling over tf.distribute, resumed to the bit."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from bert_flow_tf.io.settings import named_values
from bert_flow_tf.pretraining.masked_lm import MaskedLanguageModel
from bert_flow_tf.pretraining.masking import MaskedBatch
from bert_flow_tf.pretraining.settings import PretrainingSettings
from bert_flow_tf.training.distribution import check_batch_size, worker_failures
from bert_flow_tf.training.loop import TrainingLoop
from bert_flow_tf.training.optimizer import AdamWeightDecay, WarmUpLinearDecay

# The final loss is the mean over this number of steps: that of a single batch varies much.
FINAL_STEPS = 100


class PretrainingTrainer:
  """Trains a masked language model: mean cross entropy of a batch's masked pieces, BERT's optimizer.

  A step follows from weights, seed and its number, so that a resumed training equals an uninterrupted one.

  Args:
    model: a `MaskedLanguageModel`, created under `strategy.scope()`.
    settings: `PretrainingSettings`.
    strategy: a `tf.distribute.Strategy`; None for the current one.
    checkpoint_folder: folder from which the training is resumed; None for no checkpoints.
    identity: further json values that a resumed training must share with the one that it resumes: sizes, data.
    show_progress: whether progress is shown.

  Raises:
    ConfigError: the batch cannot be shared among the replicas.
  """

  def __init__(
    self,
    model: MaskedLanguageModel,
    settings: PretrainingSettings,
    strategy: tf.distribute.Strategy | None = None,
    checkpoint_folder: str | os.PathLike | None = None,
    identity: Mapping[str, Any] | None = None,
    show_progress: bool = True,
  ) -> None:
    self._model, self._settings = model, settings
    self._strategy = strategy or tf.distribute.get_strategy()
    self._folder, self._identity, self._show_progress = checkpoint_folder, identity or {}, show_progress
    check_batch_size(self._strategy, settings.train_batch_size)
    with worker_failures(self._strategy), self._strategy.scope():
      rate = WarmUpLinearDecay(settings.learning_rate, settings.num_train_steps, settings.num_warmup_steps, True)
      optimizer = AdamWeightDecay(rate, settings.weight_decay)
      if model.model.dtype_policy.name == "mixed_float16":
        optimizer = tf_keras.mixed_precision.LossScaleOptimizer(optimizer)
      self._optimizer = optimizer
      self._optimizer.build(model.trainable_variables)
      unknown = tf.fill([settings.num_train_steps], np.float32("nan"))
      self._losses = tf.Variable(unknown, trainable=False, name="losses")

  def train(self, batches: Callable[[int], MaskedBatch]) -> np.ndarray:
    """Makes the remaining steps.

    Args:
      batches: step (from 0) -> the whole batch of that step.

    Returns:
      float32 array [steps], the loss before each step in nats, steps before a resume included.

    Raises:
      TrainingError: the loss became NaN or infinite (the last good checkpoint is kept), the checkpoints belong to
        another training, or another worker was lost.
    """
    with worker_failures(self._strategy):
      loop = self._loop()
      loop.restore()
      losses, first, compiled = tf.convert_to_tensor(self._losses).numpy().copy(), loop.step, []

      def advance(step, _):
        inputs, count = self._shares(batches(step))
        if not compiled:
          compiled.append(self._compiled_step(inputs))
        return compiled[0](inputs, count, tf.constant([self._settings.seed, step], tf.int32)).numpy()

      def keep_losses(step, made):
        losses[first:step] = made[:, 0]
        self._losses.assign(losses)
        return {}

      def note(made):
        return f"loss {final_loss(np.concatenate([losses[:first], made[:, 0]])):.4f}"

      loop.run(advance, note, before_saving=keep_losses)
    return losses

  def _loop(self):
    identity = {**named_values(self._settings), **self._identity}
    variables = [*self._model.model.variables, *self._optimizer.variables, self._losses]
    return TrainingLoop(
      losses=["loss"],
      total=self._settings.num_train_steps,
      strategy=self._strategy,
      objects={"model": self._model.model, "optimizer": self._optimizer, "losses": self._losses},
      variables=variables,
      trained=self._model.model.trainable_variables,
      identity=identity,
      save_checkpoints_steps=self._settings.save_checkpoints_steps,
      checkpoint_folder=self._folder,
      show_progress=self._show_progress,
    )

  def _shares(self, batch):
    """Returns the rows of each local replica, as five tensors, and the number of masked pieces of the whole batch."""
    replicas = self._strategy.num_replicas_in_sync
    rows = self._settings.train_batch_size // replicas

    def share(context):
      first = context.replica_id_in_sync_group * rows
      return tensors(batch.rows(first, first + rows))

    def tensors(part):
      return tuple(tf.constant(array) for array in (part.ids, part.mask, *part.positions.T, part.labels))

    count = tf.constant(max(len(batch.labels), 1), tf.float32)
    if replicas == 1:
      return tensors(batch), count
    return self._strategy.experimental_distribute_values_from_function(share), count

  def _compiled_step(self, inputs):
    """Returns the function (inputs, masked pieces, seed) -> loss of a step; only the types of `inputs` matter here."""
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

    # One graph for batches of all shapes: a graph compiled for one shape rounds differently, so that a resumed
    # training, whose first batch has another shape, would differ.
    scalars = (tf.TensorSpec([], tf.float32), tf.TensorSpec([2], tf.int32))

    @tf.function(autograph=False, input_signature=[tuple(map(_of_any_shape, inputs)), *scalars])
    def step(inputs, count, seed):
      return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, (inputs, count, seed)), axis=None)

    return step


def _of_any_shape(value):
  """Returns the type of a tensor, or of one for each replica, without sizes."""
  spec = value if isinstance(value, tf.TypeSpec) else tf.type_spec_from_value(value)
  if isinstance(spec, tf.TensorSpec):
    return tf.TensorSpec([None] * spec.shape.rank, spec.dtype)
  return type(spec)(*map(_of_any_shape, spec._value_specs))


def final_loss(losses: np.ndarray) -> float:
  """Returns the mean of the last `FINAL_STEPS` losses, in nats."""
  return float(np.mean(losses[-FINAL_STEPS:]))
