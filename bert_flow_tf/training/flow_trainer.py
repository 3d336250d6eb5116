"""Fits the flow on pairs of embeddings, over tf.distribute, and resumes a fit that was interrupted."""

import dataclasses
import os
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.flow.keras import tf_variables
from bert_flow_tf.training.loop import DATA_OF, LoopResult, TrainingLoop, trace
from bert_flow_tf.training.optimizer import AdamWeightDecay, num_steps
from bert_flow_tf.training.pipeline import ORDER, batched, pair_order
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import EmbeddingPairs, SentencePairsWithDropout
from bert_flow_tf.training.strategies import distribute_batches, make_strategy, seed_of_step
from bert_flow_tf.training.workers import has_several_workers, worker_failures

# XLA makes a step on a CPU faster (6 instead of 9 ms of CPU time at 768 dimensions), but takes 10 s of it to compile.
# In wall-clock time, on two cores, it pays from 1475 steps; later on cores that other programs use too. On a GPU it
# needs a part of CUDA that not every installation has, and was not measured: on a GPU it is the user's choice.
XLA_PAYS_FROM_STEPS = 1500

# Steps per call: few enough for Ctrl-C and progress, many enough that returning to Python costs nothing.
STEPS_PER_CALL = 10


class Trainer:
  """Fits a flow with the published code's loss, optimizer and number of steps, in the order of `pair_order`.

      loss = mean(bits per dimension of first sentences) + mean(bits per dimension of second sentences)

  The flow is created under `strategy.scope()`. With a `checkpoint_folder`, a stopped fit is resumed from there.
  """

  def __init__(
    self,
    flow: Glow,
    settings: FlowSettings | None = None,
    strategy: tf.distribute.Strategy | None = None,
    checkpoint_folder: str | os.PathLike | None = None,
    summary_folder: str | os.PathLike | None = None,
    show_progress: bool = True,
  ) -> None:
    self.flow = flow
    self._settings = settings or FlowSettings()
    self._strategy = make_strategy(
      strategy or tf.distribute.get_strategy(), memory_growth=self._settings.gpu_memory_growth
    )
    self._checkpoint_folder, self._summary_folder = checkpoint_folder, summary_folder
    self._show_progress = show_progress
    self._seed = self._settings.seed
    with worker_failures(self._strategy), self._strategy.scope():
      self._weights = tf_variables(flow.trainable_variables)
      self._optimizer = AdamWeightDecay(self._settings.rate)
      # One vector for all weights: dozens of small moments would take longer than their arithmetic.
      self._optimizer.build([_joined(self._weights)])
    self._advances: dict[bool, Callable[..., tf.Tensor]] = {}  # compiled steps, kept for later fits

  def restart(self, seed: int) -> None:
    """Resets flow, optimizer and order of the pairs, as of a new trainer with this seed.

    Compiled graphs are kept: for many fits in one process, where compiling would take longer than fitting.
    """
    self._seed = seed
    self.flow.restart(seed)
    self._optimizer.restart()

  def pairs_seen(self, num_pairs: int, num_train_epochs: float) -> np.ndarray:
    """Returns the sorted indices of the pairs that `fit` will use, int64; only these need an embedding."""
    batch_size = self._settings.train_batch_size
    positions = num_steps(num_pairs, batch_size, num_train_epochs) * batch_size
    order = pair_order(num_pairs, self._seed).take(positions).batch(positions)
    return np.unique(next(order.as_numpy_iterator()))

  def fit(
    self,
    source: EmbeddingPairs | SentencePairsWithDropout,
    num_train_epochs: float = 1.0,
    shuffle: bool = True,
    scores: Callable[[int], Mapping[str, float]] = lambda step: {},
  ) -> LoopResult:
    """Initializes the flow if needed, and fits it; a second call continues from the current weights.

    The result's losses, [steps made here], are in bits per dimension, both sides added up.

    Args:
      source: pairs of embeddings, or of sentences that are embedded with dropout.
      num_train_epochs: passes over the pairs; a last part of a batch is dropped.
      shuffle: whether the pairs are in random order.
      scores: function from the steps made to further values for TensorBoard, called whenever a checkpoint is due.

    Raises:
      ConfigError: the pairs are too few for one step.
      TrainingError: a loss or a weight is not finite; the last good checkpoint is kept.
    """
    total = num_steps(len(source), self._settings.train_batch_size, num_train_epochs)
    with worker_failures(self._strategy):
      order = pair_order(len(source), self._seed, shuffle)
      loop = self._loop(source, total, shuffle)
      loop.restore(lambda: self._initialize(source, order))
      batches = distribute_batches(self._strategy, source, order, self._settings.train_batch_size, loop.step)
      advance = self._advance(source, total)
      iterator, seed = iter(batches), tf.constant(self._seed, tf.int32)
      if loop.step < total:
        trace(advance, iterator, seed, tf.constant(0, tf.int64), tf.constant(0, tf.int64))

      def make_steps(step, count):
        return advance(iterator, seed, tf.constant(step, tf.int64), tf.constant(count, tf.int64)).numpy()

      def before_saving(step, losses):
        return scores(step)

      result = loop.run(make_steps, lambda losses: f"{losses[-1, 0]:.4f} bits/dim", STEPS_PER_CALL, before_saving)
    return dataclasses.replace(result, losses=result.losses[:, 0])

  def _loop(self, source, total, shuffle):
    # A checksum of all embeddings takes seconds on a large corpus: only a fit that compares it needs it.
    is_compared = self._checkpoint_folder is not None or has_several_workers(self._strategy)
    identity = {
      **self._settings.identity(),
      "seed": self._seed,
      "flow": self.flow.settings(),
      "steps": total,
      "order": ORDER,
      "shuffle": shuffle,
      "pairs": len(source),
      "data": source.fingerprint() if is_compared else None,
      DATA_OF: source.data_of,
    }
    return TrainingLoop(
      losses=["loss_bits_per_dim"],
      total=total,
      strategy=self._strategy,
      objects={"flow": self.flow, "optimizer": self._optimizer},
      variables=[*tf_variables(self.flow.variables), *self._optimizer.variables],
      trained=self._weights,
      identity=identity,
      save_checkpoints_steps=self._settings.save_checkpoints_steps,
      checkpoint_folder=self._checkpoint_folder,
      summary_folder=self._summary_folder,
      show_progress=self._show_progress,
      rates="flow_learning_rate",
    )

  def _initialize(self, source, order):
    """Initializes the actnorms from the first sentences of the first batch, unless they start without data.

    If most of them are equal, as where many pairs have one query, the second sentences are read, too.
    """
    if not self.flow.needs_initialization:
      return
    features = next(iter(source.features(batched(order, self._settings.train_batch_size).take(1))))
    rows, second_sentences = source.embed(features, tf.constant([self._seed, -1], tf.int32))
    if 2 * len(np.unique(rows, axis=0)) < len(rows):
      rows = tf.concat([rows, second_sentences], axis=0)
    self.flow.initialize(rows)

  def _advance(self, source, total):
    """Returns the function (iterator, seed, step, count) -> losses before `count` of `total` steps, float [count]."""
    use_xla = self._settings.use_xla
    if use_xla is None:
      use_xla = total >= XLA_PAYS_FROM_STEPS and not tf.config.list_physical_devices("GPU")
    if not isinstance(source, EmbeddingPairs):  # its graph holds an encoder
      return self._make_advance(source, use_xla)
    if use_xla not in self._advances:
      # All steps of a call compile as one unless they wait for other replicas.
      waits = isinstance(self._strategy, tf.distribute.MirroredStrategy | tf.distribute.MultiWorkerMirroredStrategy)
      if use_xla and not waits:
        self._advances[use_xla] = self._make_compiled_advance()
      else:
        self._advances[use_xla] = self._make_advance(source, use_xla)
    return self._advances[use_xla]

  def _loss_and_gradient(self, first, second, seed):
    """Returns a replica's share of the loss, a scalar in bits per dimension, and its gradient."""
    # A pass per side, as in the original: a joint pass rounds differently, and a ReLU near 0 turns the difference into
    # a different trajectory (seen on golden/l2_d3_w32_dim64.npz). Both passes use the same graph, traced once.
    side_graph = tf.function(self._side, autograph=False)
    losses, gradients = [], []
    for position, side in enumerate((first, second)):
      dropout_seed = None
      if self.flow.config.coupling_dropout:
        dropout_seed = tf.random.experimental.stateless_fold_in(seed, position)
      loss, gradient = side_graph(side, dropout_seed)
      losses.append(loss)
      gradients.append(gradient)
    return losses[0] + losses[1], gradients[0] + gradients[1]

  def _side(self, side, dropout_seed):
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(self._weights)
      bits = self.flow.bits_per_dim(side, dropout_seed)
      loss = tf.reduce_sum(bits) / self._settings.train_batch_size
    return loss, _joined(tape.gradient(loss, self._weights, unconnected_gradients="zero"))

  def _apply(self, gradient):
    changed = self._optimizer.changed_vector(gradient, _joined(self._weights))
    parts = tf.split(changed, [weight.shape.num_elements() for weight in self._weights])
    for weight, part in zip(self._weights, parts, strict=True):
      weight.assign(tf.reshape(part, weight.shape))

  def _make_advance(self, source, use_xla):
    strategy = self._strategy
    loss_and_gradient = tf.function(self._loss_and_gradient, autograph=False, jit_compile=use_xla or None)

    def replica_step(features, seed, step):
      seed = seed_of_step(seed, step, tf.distribute.get_replica_context().replica_id_in_sync_group)
      first, second = source.embed(features, seed)
      loss, gradient = loss_and_gradient(first, second, seed)
      self._apply(gradient)
      return loss

    @tf.function(autograph=False)
    def advance(iterator, seed, step, count):
      def body(index, losses):
        loss = strategy.run(replica_step, args=(next(iterator), seed, step + index))
        loss = strategy.reduce(tf.distribute.ReduceOp.SUM, loss, axis=None)
        return index + 1, losses.write(tf.cast(index, tf.int32), loss)

      losses = tf.TensorArray(self.flow.dtype, tf.cast(count, tf.int32), element_shape=[])
      index = tf.constant(0, tf.int64)
      return tf.while_loop(lambda index, _: index < count, body, [index, losses])[1].stack()

    return advance

  def _make_compiled_advance(self):
    """Returns `advance` for cached embeddings, with all steps of a call as one computation of XLA."""
    strategy, shape = self._strategy, [self._settings.train_batch_size, self.flow.dim]

    @tf.function(autograph=False, jit_compile=True)
    def steps(first, second, seeds, count):
      def body(index, losses):
        loss, gradient = self._loss_and_gradient(first[index], second[index], seeds[index])
        self._apply(gradient)
        return index + 1, tf.tensor_scatter_nd_update(losses, [[index]], [loss])

      losses = tf.zeros([STEPS_PER_CALL], self.flow.dtype)
      return tf.while_loop(lambda index, _: index < count, body, [tf.constant(0), losses])[1]

    @tf.function(autograph=False)
    def advance(iterator, seed, step, count):
      count = tf.cast(count, tf.int32)

      def body(index, first, second, seeds):
        a, b = next(iterator)
        seeds = seeds.write(index, seed_of_step(seed, step + tf.cast(index, tf.int64), 0))
        return index + 1, first.write(index, a), second.write(index, b), seeds

      # Arrays have STEPS_PER_CALL entries, the compiled size; entries from `count` on are unused zeros.
      first = tf.TensorArray(tf.float32, STEPS_PER_CALL, element_shape=shape)
      second = tf.TensorArray(tf.float32, STEPS_PER_CALL, element_shape=shape)
      seeds = tf.TensorArray(tf.int32, STEPS_PER_CALL, element_shape=[2])
      start = [tf.constant(0), first, second, seeds]
      _, first, second, seeds = tf.while_loop(lambda index, a, b, seeds: index < count, body, start)
      losses = strategy.run(steps, args=(first.stack(), second.stack(), seeds.stack(), count))
      return losses[:count]

    return advance


def _joined(tensors):
  """Returns the numbers of all tensors as one vector."""
  return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
