"""The fit of a flow: its trainer, the scale of its input, its calibration."""

import os
import pathlib
from collections.abc import Callable, Mapping

import tensorflow as tf
from absl import logging

from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.errors import TrainingError
from bert_flow_tf.flow.config import check_arguments
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io.forks import check_not_forked
from bert_flow_tf.progress import counted
from bert_flow_tf.training.flow_trainer import Trainer
from bert_flow_tf.training.loop import LoopResult
from bert_flow_tf.training.optimizer import num_steps
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import EmbeddingPairs, ScaledPairs, SentencePairsWithDropout
from bert_flow_tf.training.strategies import make_strategy
from bert_flow_tf.training.workers import worker_failures

# Adam moves a weight by about the learning rate, so a flow cannot follow embeddings that deviate from their mean by
# less than a few of its steps. Those of published encoders deviate by 0.03 (of length 1) to 0.6 in a dimension.
_MIN_DEVIATION = 0.01

FlowScores = Callable[[FlowCalibration, int], Mapping[str, float]]


def check_flow(settings: FlowSettings, dim: int, num_pairs: int) -> int:
  """Checks what a flow's fit on embeddings [., dim] needs before anything is embedded; returns its number of steps."""
  settings.check_start()
  check_arguments(settings.config, dim, settings.actnorm_init, settings.permutation, settings.seed, "float32")
  return num_steps(num_pairs, settings.train_batch_size, settings.epochs)


def make_trainer(
  settings: FlowSettings,
  dim: int,
  strategy: tf.distribute.Strategy | str | None = None,
  folder: str | os.PathLike | None = None,
  show_progress: bool = True,
) -> Trainer:
  """Returns the trainer of a new flow for vectors [., dim]."""
  check_not_forked(TrainingError)
  settings.check_start()
  flow_strategy = make_strategy(
    strategy or settings.distribution_strategy,
    settings.worker_wait_seconds,
    settings.deterministic,
    settings.gpu_memory_growth,
  )
  checkpoints = summaries = None
  if folder is not None:
    checkpoints = pathlib.Path(folder) / "checkpoints"
    summaries = pathlib.Path(folder) / "tensorboard"
  # Variables of the flow belong to the strategy; the workers agree on their first values.
  with worker_failures(flow_strategy), flow_strategy.scope():
    flow = Glow(settings.config, dim, settings.actnorm_init, settings.permutation, settings.seed)
  return Trainer(flow, settings, flow_strategy, checkpoints, summaries, show_progress)


def fit_flow(
  trainer: Trainer,
  source: EmbeddingPairs | SentencePairsWithDropout,
  epochs: float,
  flow_scores: FlowScores | None = None,
) -> tuple[FlowCalibration, LoopResult]:
  """Fits the trainer's flow on pairs, scaled if they are too small; for `flow_scores` see `Fitter`."""
  scale = None
  if isinstance(source, EmbeddingPairs) and 0 < source.deviation() < _MIN_DEVIATION:
    logging.info("flow: the embeddings deviate by %.1e from their mean; the flow gets them scaled", source.deviation())
    source = ScaledPairs(source)
    scale = source.scale
  calibration = FlowCalibration(trainer.flow, scale)

  def scores(step):
    return flow_scores(calibration, step) if flow_scores else {}

  logging.info("flow: %s over %s", counted(epochs, "epoch", "g"), counted(len(source), "pair"))
  result = trainer.fit(source, epochs, scores=scores)
  return calibration, result
