"""Fits the flow on pairs of embeddings, over tf.distribute, and resumes a fit that was interrupted."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.data.pipeline import ORDER, batched, pair_order
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.training.distribution import (
  check_batch_size,
  distribute_batches,
  has_several_workers,
  is_chief,
  worker_failures,
)
from bert_flow_tf.training.flow_steps import STEPS_A_CALL, FlowSteps
from bert_flow_tf.training.loop import LoopResult, TrainingLoop
from bert_flow_tf.training.optimizer import AdamWeightDecay, num_steps
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import EmbeddingPairs, SentencePairsWithDropout
from bert_flow_tf.training.weight_vector import WeightVector


@dataclasses.dataclass(frozen=True)
class FitResult(LoopResult):
  """Result of `Trainer.fit`: its losses, [steps made here], are in bits per dimension, both sides added up.

  `initialization_rows` is the number of rows from which the actnorms were initialized, 0 if they were not.
  """

  initialization_rows: int = 0


class Trainer:
  """Fits a flow with the published code's loss, optimizer and number of steps, in the order of `pair_order`.

      loss = mean(bits per dimension of first sentences) + mean(bits per dimension of second sentences)

  Args:
    flow: a `Glow`, created under `strategy.scope()`.
    settings: `FlowSettings`; without a learning rate, 1e-3.
    strategy: a `tf.distribute.Strategy`; None for the current one.
    checkpoint_folder: folder from which the fit is resumed; None for no checkpoints.
    summary_folder: folder of TensorBoard's events; None for none.
    show_progress: whether progress is shown.
    identity: further json values that a resumed fit must share with the one that it resumes.

  Raises:
    ConfigError: the batch cannot be shared among the replicas.
  """

  def __init__(
    self,
    flow: Glow,
    settings: FlowSettings | None = None,
    strategy: tf.distribute.Strategy | None = None,
    checkpoint_folder: str | os.PathLike | None = None,
    summary_folder: str | os.PathLike | None = None,
    show_progress: bool = True,
    identity: Mapping[str, Any] | None = None,
  ) -> None:
    self._flow = flow
    self._settings = settings or FlowSettings()
    self._strategy = strategy or tf.distribute.get_strategy()
    self._checkpoint_folder, self._summary_folder = checkpoint_folder, summary_folder
    self._show_progress = show_progress
    self._identity = identity or {}
    self._seed = self._settings.seed
    check_batch_size(self._strategy, self._settings.train_batch_size)
    with worker_failures(self._strategy), self._strategy.scope():
      self._weights = WeightVector(flow)
      self._optimizer = AdamWeightDecay(self._settings.rate)
      self._optimizer.build([self._weights.variable])
    batch_size = self._settings.train_batch_size
    self._steps = FlowSteps(flow, self._weights, self._optimizer, batch_size, self._strategy)

  @property
  def is_chief(self) -> bool:
    """True if this process writes the files of all workers."""
    return is_chief(self._strategy)

  def num_steps(self, num_pairs: int, num_train_epochs: float) -> int:
    """Returns the number of steps of a fit; see `schedule.num_steps`."""
    return num_steps(num_pairs, self._settings.train_batch_size, num_train_epochs)

  def restart(self, seed: int | None = None) -> None:
    """Resets flow, optimizer and order of the pairs to those of a new trainer; compiled graphs are kept.

    For many fits in one process, where compiling would take longer than fitting.

    Args:
      seed: new seed of flow and order; None for the current ones.
    """
    self._flow.restart(self._flow.seed if seed is None else seed)
    self._optimizer.restart()
    self._seed = self._seed if seed is None else seed

  def pairs_seen(self, num_pairs: int, num_train_epochs: float) -> np.ndarray:
    """Returns the sorted indices of the pairs that `fit` will use, int64; only these need an embedding."""
    positions = self.num_steps(num_pairs, num_train_epochs) * self._settings.train_batch_size
    order = pair_order(num_pairs, self._seed).take(positions).batch(positions)
    return np.unique(next(order.as_numpy_iterator()))

  def fit(
    self,
    source: EmbeddingPairs | SentencePairsWithDropout,
    num_train_epochs: float = 1.0,
    shuffle: bool = True,
    scores: Callable[[int], Mapping[str, float]] = lambda step: {},
  ) -> FitResult:
    """Initializes the flow if needed, and fits it; a second call continues from the current weights.

    Args:
      source: the pairs.
      num_train_epochs: passes over the pairs, a positive number.
      shuffle: False to use the pairs in their order.
      scores: called with the steps made, whenever a checkpoint is due; returns further values for TensorBoard.

    Raises:
      ConfigError: the fit would make no step.
      TrainingError: the loss or a weight became NaN or infinite (the last good checkpoint is kept), another worker was
        lost, or it has other settings.
      FlowError: the flow cannot be initialized from these embeddings.
    """
    total = self.num_steps(len(source), num_train_epochs)
    with worker_failures(self._strategy):
      order = pair_order(len(source), self._seed, shuffle)
      loop = self._loop(source, total, shuffle)
      rows = []
      loop.restore(lambda: rows.append(self._initialize(source, order)))
      self._weights.load()
      batches = distribute_batches(self._strategy, source, order, self._settings.train_batch_size, loop.step)
      advance = self._steps.advance(source, total, self._settings.use_xla)
      iterator, seed = iter(batches), tf.constant(self._seed, tf.int32)
      result = loop.run(
        lambda step, count: advance(iterator, seed, tf.constant(step, tf.int64), tf.constant(count, tf.int64)).numpy(),
        lambda losses: f"{losses[-1, 0]:.4f} bits/dim",
        STEPS_A_CALL,
        lambda step, losses: self._before_saving(scores, step),
      )
    return FitResult(result.steps, result.first_step, result.losses[:, 0], result.calls, sum(rows))

  def _loop(self, source, total, shuffle):
    # A checksum of all embeddings takes seconds on a large corpus: only a fit that compares it needs it.
    is_compared = self._checkpoint_folder is not None or has_several_workers(self._strategy)
    identity = {
      **self._settings.identity(),
      "seed": self._seed,
      "flow": self._flow.settings(),
      "steps": total,
      "order": ORDER,
      "shuffle": shuffle,
      "pairs": len(source),
      "data": source.fingerprint() if is_compared else None,
      **self._identity,
    }
    return TrainingLoop(
      losses=["loss_bits_per_dim"],
      total=total,
      strategy=self._strategy,
      objects={"flow": self._flow, "optimizer": self._optimizer.in_pieces(self._weights.pieces)},
      variables=[*self._flow.variables, *self._optimizer.variables],
      trained=[self._weights.variable],
      identity=identity,
      save_checkpoints_steps=self._settings.save_checkpoints_steps,
      checkpoint_folder=self._checkpoint_folder,
      summary_folder=self._summary_folder,
      show_progress=self._show_progress,
      rates="flow_learning_rate",
    )

  def _before_saving(self, scores, step):
    """Gives the flow the trained weights, and returns its scores."""
    self._weights.store()
    return scores(step)

  def _initialize(self, source, order):
    """Initializes the actnorms from the first sentences of the first batch; returns their number."""
    if not self._flow.needs_initialization:
      return 0
    features = next(iter(source.features(batched(order, self._settings.train_batch_size).take(1))))
    first_sentences, _ = source.embed(features, tf.constant([self._seed, -1], tf.int32))
    self._flow.initialize(first_sentences)
    return len(first_sentences)
