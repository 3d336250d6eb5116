"""Fits the flow on pairs of embeddings, over tf.distribute, and resumes where it was stopped."""

import dataclasses

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.data.pipeline import ORDER, batched, pair_order
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
from bert_flow_tf.training.schedule import num_steps
from bert_flow_tf.training.sources import EmbeddingPairs
from bert_flow_tf.training.summaries import Summaries

# XLA makes a step on a CPU three times as fast (3 against 10 ms at 768 dimensions) and costs 6 seconds more to start.
XLA_PAYS_FROM_STEPS = 1000

# Steps that run without coming back to Python: few enough for Ctrl-C and progress, many enough to cost nothing.
STEPS_A_CALL = 10


@dataclasses.dataclass(frozen=True)
class FitResult:
  """What a fit did.

  Attributes:
    steps: steps made in all, those before a resume included.
    first_step: steps that a checkpoint had already made.
    losses: float array, one a step made here: the loss before the step, in bits per dimension, the sum of the mean
      over first and the mean over second sentences.
    initialization_rows: rows that initialised the actnorms here, 0 if they were not.
  """

  steps: int
  first_step: int
  losses: np.ndarray
  initialization_rows: int = 0


class Trainer:
  """Fits a flow as the published code does: loss, optimizer, number of steps. The order is `pair_order`'s.

      loss = mean(bits per dimension of first sentences) + mean(bits per dimension of second sentences)

  Args:
    flow: a `Glow`, made under `strategy.scope()`.
    learning_rate: constant rate of `AdamWeightDecay`.
    strategy: a `tf.distribute.Strategy`; None for the current one.
    batch_size: pairs a step, over all replicas.
    seed: integer from 0 to 2**31 - 1 that the order of the pairs and dropout derive from.
    use_xla: True, False, or None to compile the step where the number of steps makes it pay.
    checkpoint_folder: where the fit is saved and resumed from; None for nowhere.
    save_checkpoints_steps: steps between two checkpoints.
    summary_folder: TensorBoard events; None for none.
    show_progress: whether progress is shown.
    identity: further json values that a resumed fit must share with the one that it resumes.

  Raises:
    ConfigError: an argument outside its allowed values.
  """

  def __init__(
    self,
    flow,
    learning_rate=1e-3,
    strategy=None,
    batch_size=32,
    seed=0,
    use_xla=None,
    checkpoint_folder=None,
    save_checkpoints_steps=100,
    summary_folder=None,
    show_progress=True,
    identity=None,
  ):
    self._strategy = strategy or tf.distribute.get_strategy()
    replicas = self._strategy.num_replicas_in_sync
    if batch_size < 1 or batch_size % replicas:
      expected = f"a positive multiple of the {replicas} replicas" if replicas > 1 else "at least 1"
      raise ConfigError(f"train_batch_size is {batch_size}, expected {expected}")
    if not (np.isfinite(learning_rate) and learning_rate > 0):
      raise ConfigError(f"flow_learning_rate is {learning_rate}, expected a positive number")
    if not 0 <= seed < 2**31:
      raise ConfigError(f"seed is {seed}, expected a whole number from 0 to 2**31 - 1")
    if save_checkpoints_steps < 1:
      raise ConfigError(f"save_checkpoints_steps is {save_checkpoints_steps}, expected at least 1")
    self._flow = flow
    self._batch_size = batch_size
    self._learning_rate = learning_rate
    self._seed = seed
    self._use_xla = use_xla
    self._checkpoint_folder = checkpoint_folder
    self._save_checkpoints_steps = save_checkpoints_steps
    self._summary_folder = summary_folder
    self._show_progress = show_progress
    self._identity = identity or {}
    self._advances = {}
    with worker_failures(self._strategy), self._strategy.scope():
      self._optimizer = AdamWeightDecay(learning_rate)
      self._optimizer.build(flow.trainable_variables)
      self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")

  @property
  def is_chief(self):
    """Whether this process writes what all workers share."""
    return is_chief(self._strategy)

  def num_steps(self, num_pairs, num_train_epochs):
    """Steps of a fit, an int; see `schedule.num_steps`."""
    return num_steps(num_pairs, self._batch_size, num_train_epochs)

  def restart(self, seed=None):
    """Flow, optimizer and order of the pairs as new ones of this seed would have them; what was compiled is kept.

    For many fits in one process, where compiling would take longer than fitting. The flow keeps its other arguments.

    Args:
      seed: as in `Trainer` and `Glow`; None for those that they have.
    """
    self._flow.restart(self._flow.seed if seed is None else seed)
    self._optimizer.restart()
    self._seed = self._seed if seed is None else seed

  def pairs_seen(self, num_pairs, num_train_epochs):
    """Rising numbers of the pairs that `fit` will see, int64: of a large corpus only these need an embedding."""
    positions = self.num_steps(num_pairs, num_train_epochs) * self._batch_size
    order = pair_order(num_pairs, self._seed).take(positions).batch(positions)
    return np.unique(next(order.as_numpy_iterator()))

  def fit(self, source, num_train_epochs=1.0, shuffle=True):
    """Initialises the flow where it needs it, and fits it; called again, it goes on fitting from the weights there are.

    Args:
      source: `EmbeddingPairs` or `SentencePairsWithDropout`.
      num_train_epochs: passes over the pairs, a positive number.
      shuffle: False to take the pairs in their order.

    Returns:
      `FitResult`.

    Raises:
      ConfigError: the fit would make no step.
      TrainingError: the loss or a weight became NaN or infinite; the last good checkpoint is kept. Or `source` is
        neither of the two. Or another worker was lost, or fits something else.
      FlowError: the embeddings do not suit the initialisation.
    """
    if not hasattr(source, "features"):
      raise TrainingError(f"found {type(source).__name__}, expected EmbeddingPairs(a, b) or SentencePairsWithDropout")
    total = self.num_steps(len(source), num_train_epochs)
    with worker_failures(self._strategy):
      return self._fit(source, total, shuffle)

  def _fit(self, source, total, shuffle):
    self._step.assign(0)
    order = pair_order(len(source), self._seed, shuffle)
    checkpoints = self._checkpoints(source, total, shuffle)
    restored = checkpoints.restore() if checkpoints else None
    rows = 0
    if not from_chief(self._strategy, int(bool(restored))):
      rows = self._initialize(source, order)
    copy_from_chief(self._strategy, [*self._flow.variables, *self._optimizer.variables, self._step])
    first_step = int(tf.convert_to_tensor(self._step).numpy())
    if restored:
      logging.info("resumed at step %d of %d from %s", first_step, total, restored)
    elif checkpoints:
      checkpoints.save(0)
    losses = self._run(source, order, total, first_step, checkpoints)
    return FitResult(total, first_step, losses, rows)

  def _checkpoints(self, source, total, shuffle):
    """The chief alone has any."""
    if self._checkpoint_folder is None and not has_several_workers(self._strategy):
      return None
    identity = {
      "flow": self._flow.settings(),
      "learning_rate": self._learning_rate,
      "batch_size": self._batch_size,
      "seed": self._seed,
      "steps": total,
      "order": ORDER,
      "shuffle": shuffle,
      "pairs": len(source),
      "data": source.fingerprint(),
      **self._identity,
    }
    check_agreement(self._strategy, identity)
    if self._checkpoint_folder is None or not self.is_chief:
      return None
    parts = {"flow": self._flow, "optimizer": self._optimizer, "step": self._step}
    return Checkpoints(self._checkpoint_folder, identity, **parts)

  def _initialize(self, source, order):
    if not self._flow.needs_initialization:
      return 0
    features = next(iter(source.features(batched(order, self._batch_size).take(1))))
    first_sentences, _ = source.embed(features, tf.constant([self._seed, -1], tf.int32))
    self._flow.initialize(first_sentences)
    return len(first_sentences)

  def _run(self, source, order, total, step, checkpoints):
    advance = self._compiled_advance(source, total)
    seed = tf.constant(self._seed, tf.int32)
    iterator = iter(self._distribute(source, order, step))
    losses = []
    if step < total:
      logging.info("compiling the step, which takes some seconds")
    folder = self._summary_folder if self.is_chief else None
    with Progress(total, self._show_progress, "fitting", "step", step) as progress, Summaries(folder) as summaries:
      while step < total:
        until_saved = self._save_checkpoints_steps - step % self._save_checkpoints_steps
        count = min(STEPS_A_CALL, until_saved, total - step)
        chunk = advance(iterator, seed, tf.constant(step, tf.int64), tf.constant(count, tf.int64)).numpy()
        saved = count == until_saved or step + count == total
        self._check(chunk, step, saved, checkpoints)
        step += count
        self._step.assign(step)
        for offset, loss in enumerate(chunk):
          summaries.write(step - count + offset + 1, {"loss_bits_per_dim": loss})
        summaries.flush()
        if saved and checkpoints:
          checkpoints.save(step)
        losses.append(chunk)
        progress.update(count, f"{chunk[-1]:.4f} bits/dim")
    return np.concatenate(losses) if losses else np.zeros(0)

  def _distribute(self, source, order, start_step):
    def pipeline(context):
      per_worker = self._strategy.num_replicas_in_sync // context.num_input_pipelines
      rows = batched(order, self._batch_size, start_step, context.num_input_pipelines, context.input_pipeline_id)
      if per_worker > 1:
        rows = rows.unbatch().batch(context.get_per_replica_batch_size(self._batch_size), drop_remainder=True)
      return source.features(rows).prefetch(tf.data.AUTOTUNE)

    return self._strategy.distribute_datasets_from_function(pipeline)

  def _compiled_advance(self, source, total):
    """What makes the steps; of an earlier fit where that serves this one too."""
    use_xla = total >= XLA_PAYS_FROM_STEPS if self._use_xla is None else self._use_xla
    if not isinstance(source, EmbeddingPairs):  # its graph holds an encoder
      return self._make_advance(source, use_xla)
    if use_xla not in self._advances:
      # All steps of a call compile as one where no other replica has to be waited for inside them.
      waits = isinstance(self._strategy, tf.distribute.MirroredStrategy | tf.distribute.MultiWorkerMirroredStrategy)
      whole = use_xla and not waits
      self._advances[use_xla] = self._make_compiled_advance() if whole else self._make_advance(source, use_xla)
    return self._advances[use_xla]

  def _loss_and_gradients(self, first, second, seed):
    with tf.GradientTape() as tape:
      loss = self._loss(first, second, seed)
    return loss, tape.gradient(loss, self._flow.trainable_variables)

  def _apply(self, gradients):
    self._optimizer.apply_gradients(zip(gradients, self._flow.trainable_variables, strict=True))

  def _make_advance(self, source, use_xla):
    """A graph that makes `count` steps and returns their losses, [count]."""
    strategy = self._strategy
    loss_and_gradients = tf.function(self._loss_and_gradients, autograph=False, jit_compile=use_xla or None)

    def replica_step(features, seed, step):
      seed = _seed_of(seed, step, tf.distribute.get_replica_context().replica_id_in_sync_group)
      first, second = source.embed(features, seed)
      loss, gradients = loss_and_gradients(first, second, seed)
      self._apply(gradients)
      return loss

    @tf.function(autograph=False)
    def advance(iterator, seed, step, count):
      def body(index, losses):
        loss = strategy.run(replica_step, args=(next(iterator), seed, step + index))
        loss = strategy.reduce(tf.distribute.ReduceOp.SUM, loss, axis=None)
        return index + 1, losses.write(tf.cast(index, tf.int32), loss)

      losses = tf.TensorArray(self._flow.dtype, tf.cast(count, tf.int32), element_shape=[])
      index = tf.constant(0, tf.int64)
      return tf.while_loop(lambda index, _: index < count, body, [index, losses])[1].stack()

    return advance

  def _make_compiled_advance(self):
    """The same for cached embeddings, all steps of a call as one computation of XLA.

    Compiled step by step, half of the time goes into handing two hundred variables in and out.
    """
    strategy, shape = self._strategy, [self._batch_size, self._flow.dim]

    @tf.function(autograph=False, jit_compile=True)
    def steps(first, second, seeds, count):
      def body(index, losses):
        loss, gradients = self._loss_and_gradients(first[index], second[index], seeds[index])
        self._apply(gradients)
        return index + 1, tf.tensor_scatter_nd_update(losses, [[index]], [loss])

      losses = tf.zeros([STEPS_A_CALL], self._flow.dtype)
      return tf.while_loop(lambda index, _: index < count, body, [tf.constant(0), losses])[1]

    @tf.function(autograph=False)
    def advance(iterator, seed, step, count):
      count = tf.cast(count, tf.int32)

      def body(index, first, second, seeds):
        a, b = next(iterator)
        seeds = seeds.write(index, _seed_of(seed, step + tf.cast(index, tf.int64), 0))
        return index + 1, first.write(index, a), second.write(index, b), seeds

      # Always of the same size, for which it is compiled; what is beyond `count` stays zero and is not looked at.
      sides = [tf.TensorArray(tf.float32, STEPS_A_CALL, element_shape=shape) for _ in range(2)]
      seeds = tf.TensorArray(tf.int32, STEPS_A_CALL, element_shape=[2])
      _, *arrays = tf.while_loop(lambda index, *_: index < count, body, [tf.constant(0), *sides, seeds])
      losses = strategy.run(steps, args=(*(array.stack() for array in arrays), count))
      return losses[:count]

    return advance

  def _loss(self, first, second, seed):
    """Share of the loss that a replica has, a scalar in bits per dimension."""
    # A pass a sentence, as the original: one pass over both rounds otherwise, and a ReLU at its edge makes two
    # trajectories of that (seen on golden/l2_d3_w32_dim64.npz).
    loss = tf.zeros([], self._flow.dtype)
    for position, side in enumerate((first, second)):
      dropout_seed = None
      if self._flow.config.coupling_dropout:
        dropout_seed = tf.random.experimental.stateless_fold_in(seed, position)
      loss += tf.reduce_sum(self._flow.bits_per_dim(side, dropout_seed)) / self._batch_size
    return loss

  def _check(self, losses, step, weights_too, checkpoints):
    bad = np.flatnonzero(~np.isfinite(losses))
    finite = not weights_too or all(
      np.isfinite(tf.convert_to_tensor(weight).numpy()).all() for weight in self._flow.trainable_variables
    )
    if not bad.size and finite:
      return
    at = step + (bad[0] if bad.size else len(losses) - 1) + 1
    what = f"the loss is {losses[bad[0]]}" if bad.size else "a weight is not finite"
    kept = f"the checkpoint before it, {checkpoints.latest}, is kept" if checkpoints else "nothing was saved"
    if not self.is_chief:
      kept = "what was saved, the chief says"
    raise TrainingError(f"fitting stopped: {what} at step {at}; {kept}; lower flow_learning_rate")


def _seed_of(seed, step, replica):
  """Seed of a step's dropout on a replica, int32 [2]."""
  seed = tf.stack([seed, tf.cast(step, tf.int32)])
  return tf.random.experimental.stateless_fold_in(seed, tf.cast(replica, tf.int32))
