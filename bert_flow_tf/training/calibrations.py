"""Makes a flow with its trainer, and the pairs that it is fitted on."""

import os
import pathlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.evaluation.task_scores import Embeddings
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.training.distribution import make_strategy, worker_failures
from bert_flow_tf.training.flow_trainer import Trainer
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import EmbeddingPairs, embedding_pairs


class TrainableFlow(FlowCalibration):
  """Flow with the trainer that fits it.

  Args:
    flow: the flow.
    trainer: its trainer.
    num_train_epochs: passes over the pairs.
  """

  def __init__(self, flow: Glow, trainer: Trainer, num_train_epochs: float = 1.0) -> None:
    super().__init__(flow)
    self._trainer, self.num_train_epochs = trainer, num_train_epochs

  def fit_source(self, source: Any) -> "TrainableFlow":
    """Fits on a source of `Trainer.fit`, from the flow's present weights; returns itself."""
    self._trainer.fit(source, self.num_train_epochs)
    return self


def make_flow(
  settings: FlowSettings,
  dim: int,
  strategy: tf.distribute.Strategy | None = None,
  folder: str | os.PathLike | None = None,
  show_progress: bool = True,
) -> tuple[TrainableFlow, Trainer]:
  """Makes a flow to be fitted, and its trainer.

  Args:
    settings: the settings; a learning rate or number of epochs that is None is 1e-3 or 1.
    dim: dimensions of the embeddings.
    strategy: None to make the one that the settings name.
    folder: gets `checkpoints` and `tensorboard`; None for neither.
    show_progress: whether the fit shows its progress.
  """
  strategy = strategy or make_strategy(settings.distribution_strategy)
  with worker_failures(strategy), strategy.scope():
    flow = Glow(settings.config, dim, settings.actnorm_init, settings.permutation, settings.seed)
  trainer = Trainer(
    flow,
    settings,
    strategy,
    checkpoint_folder=folder and pathlib.Path(folder) / "checkpoints",
    summary_folder=folder and pathlib.Path(folder) / "tensorboard",
    show_progress=show_progress,
  )
  return TrainableFlow(flow, trainer, settings.epochs), trainer


def flow_source(
  flow: TrainableFlow,
  trainer: Trainer,
  pairs: SentencePairs,
  embeddings: Embeddings,
  embed: Callable[[SentencePairs], Embeddings],
) -> EmbeddingPairs:
  """Returns the `EmbeddingPairs` that a flow is fitted on; of a large corpus only the pairs that the fit uses.

  Args:
    flow: the flow.
    trainer: its trainer.
    pairs: pairs of the corpus.
    embeddings: embeddings that may include the corpus's sentences.
    embed: called for the pairs that are used if `embeddings` lacks a sentence of the corpus.
  """
  if embeddings.have(pairs):
    return embedding_pairs(embeddings, pairs)
  numbers = trainer.pairs_seen(len(pairs), flow.num_train_epochs)
  used = pairs.take(numbers)
  return embedding_pairs(embed(used), used, numbers, len(pairs))
