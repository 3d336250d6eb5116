"""The graphs that make the steps of a flow's fit."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.training.distribution import seed_of_step
from bert_flow_tf.training.optimizer import AdamWeightDecay
from bert_flow_tf.training.sources import EmbeddingPairs
from bert_flow_tf.training.weight_vector import WeightVector

# XLA makes a step on a CPU faster (6 instead of 9 ms of CPU time at 768 dimensions), but takes 10 s of it to compile.
# By the clock, on two cores, it pays from 1475 steps; later on cores that other programs use too.
XLA_PAYS_FROM_STEPS = 1500

# Steps of one call: few enough for Ctrl-C and progress, many enough that returning to Python costs nothing.
STEPS_A_CALL = 10


class FlowSteps:
  """Compiles steps of one flow, and keeps the compiled graphs for later fits.

  Args:
    flow: the `Glow`.
    weights: its trained weights, which the steps change.
    optimizer: their optimizer, built.
    batch_size: pairs of a step, over all replicas.
    strategy: the `tf.distribute.Strategy`.
  """

  def __init__(
    self,
    flow: Glow,
    weights: WeightVector,
    optimizer: AdamWeightDecay,
    batch_size: int,
    strategy: tf.distribute.Strategy,
  ) -> None:
    self._flow, self._weights, self._optimizer = flow, weights, optimizer
    self._batch_size, self._strategy = batch_size, strategy
    self._advances = {}

  def advance(self, source: Any, total: int, use_xla: bool | None) -> Callable[..., tf.Tensor]:
    """Returns the function (iterator, seed, step, count) -> losses before `count` steps, float [count].

    Args:
      source: `EmbeddingPairs` or `SentencePairsWithDropout`.
      total: number of steps of the fit.
      use_xla: whether XLA compiles the step; None to decide by `total`.
    """
    use_xla = total >= XLA_PAYS_FROM_STEPS if use_xla is None else use_xla
    if not isinstance(source, EmbeddingPairs):  # its graph holds an encoder
      return self._make_advance(source, use_xla)
    if use_xla not in self._advances:
      # All steps of a call compile as one unless they wait for other replicas.
      waits = isinstance(self._strategy, tf.distribute.MirroredStrategy | tf.distribute.MultiWorkerMirroredStrategy)
      whole = use_xla and not waits
      self._advances[use_xla] = self._make_compiled_advance() if whole else self._make_advance(source, use_xla)
    return self._advances[use_xla]

  def _loss_and_gradient(self, first, second, seed):
    """Returns a replica's share of the loss, a scalar in bits per dimension, and its gradient."""
    # One pass for each side, as the original: a joint pass rounds differently, and a ReLU near 0 turns that into
    # another trajectory (seen on golden/l2_d3_w32_dim64.npz). Both passes are one graph, traced once.
    side_graph = tf.function(self._side, autograph=False)
    loss, gradient = tf.zeros([], self._flow.dtype), None
    vector = tf.convert_to_tensor(self._weights.variable)
    for position, side in enumerate((first, second)):
      dropout_seed = None
      if self._flow.config.coupling_dropout:
        dropout_seed = tf.random.experimental.stateless_fold_in(seed, position)
      of_side, its_gradient = side_graph(side, dropout_seed, vector)
      loss += of_side
      gradient = its_gradient if gradient is None else gradient + its_gradient
    return loss, gradient

  def _side(self, side, dropout_seed, vector):
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(vector)
      with self._weights.as_values(vector):
        bits = self._flow.bits_per_dim(side, dropout_seed)
      loss = tf.reduce_sum(bits) / self._batch_size
    return loss, tape.gradient(loss, vector)

  def _apply(self, gradient):
    self._optimizer.apply_gradients([(gradient, self._weights.variable)])

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

      losses = tf.TensorArray(self._flow.dtype, tf.cast(count, tf.int32), element_shape=[])
      index = tf.constant(0, tf.int64)
      return tf.while_loop(lambda index, _: index < count, body, [index, losses])[1].stack()

    return advance

  def _make_compiled_advance(self):
    """Returns `advance` for cached embeddings, with all steps of a call as one computation of XLA."""
    strategy, shape = self._strategy, [self._batch_size, self._flow.dim]

    @tf.function(autograph=False, jit_compile=True)
    def steps(first, second, seeds, count):
      def body(index, losses):
        loss, gradient = self._loss_and_gradient(first[index], second[index], seeds[index])
        self._apply(gradient)
        return index + 1, tf.tensor_scatter_nd_update(losses, [[index]], [loss])

      losses = tf.zeros([STEPS_A_CALL], self._flow.dtype)
      return tf.while_loop(lambda index, _: index < count, body, [tf.constant(0), losses])[1]

    @tf.function(autograph=False)
    def advance(iterator, seed, step, count):
      count = tf.cast(count, tf.int32)

      def body(index, first, second, seeds):
        a, b = next(iterator)
        seeds = seeds.write(index, seed_of_step(seed, step + tf.cast(index, tf.int64), 0))
        return index + 1, first.write(index, a), second.write(index, b), seeds

      # Always of the size for which it is compiled; entries from `count` on stay zero and are not used.
      sides = [tf.TensorArray(tf.float32, STEPS_A_CALL, element_shape=shape) for _ in range(2)]
      seeds = tf.TensorArray(tf.int32, STEPS_A_CALL, element_shape=[2])
      _, *arrays = tf.while_loop(lambda index, *_: index < count, body, [tf.constant(0), *sides, seeds])
      losses = strategy.run(steps, args=(*(array.stack() for array in arrays), count))
      return losses[:count]

    return advance
