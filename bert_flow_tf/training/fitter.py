"""The fit of calibrations, on sentences or on vectors."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from absl import logging

from bert_flow_tf.calibration.combined import side_by_side
from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.names import AUTO, FLOW, CalibrationSpec
from bert_flow_tf.calibration.step import Calibration
from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.flow.config import check_arguments
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io.forks import check_not_forked
from bert_flow_tf.progress import counted
from bert_flow_tf.training.fit_rows import FitSentences, FitVectors
from bert_flow_tf.training.flow_trainer import Trainer
from bert_flow_tf.training.loop import LoopResult
from bert_flow_tf.training.optimizer import num_steps
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import EmbeddingPairs, ScaledPairs, SentencePairsWithDropout
from bert_flow_tf.training.strategies import make_strategy
from bert_flow_tf.training.workers import worker_failures

if TYPE_CHECKING:
  from bert_flow_tf.training.choice import Choice

# Adam moves a weight by about the learning rate, so a flow cannot follow embeddings that deviate from their mean by
# less than a few of its steps. Those of published encoders deviate by 0.03 (of length 1) to 0.6 in a dimension.
_MIN_DEVIATION = 0.01
# Fitted parts that a fitter keeps; the oldest one goes first.
_MAX_PARTS = 32

FlowScores = Callable[[FlowCalibration, int], Mapping[str, float]]


class Fitter:
  """Fits calibrations. A part that several of them share, as flow and flow+soft-whitening do, is fitted once.

  Args:
    strategy: of a flow's fit: a `tf.distribute.Strategy`, its name, or None as in `SentenceModel.fit`.
    folder: folder of a flow's checkpoints and TensorBoard events; None for none.
    show_progress: whether a flow's fit shows its progress.
    flow_scores: (flow, steps done) -> further values for TensorBoard, whenever a checkpoint is due.
    keep_trainers: whether a flow's compiled steps are kept, for further flows of the same size and settings.

  Attributes:
    flow: the last fitted flow, or None.
    flow_fit: the `LoopResult` of its fit, or None.
    choice: the `Choice` of the last fit of "auto", or None.
  """

  def __init__(
    self,
    *,
    strategy: tf.distribute.Strategy | str | None = None,
    folder: str | os.PathLike | None = None,
    show_progress: bool = True,
    flow_scores: FlowScores | None = None,
    keep_trainers: bool = False,
  ) -> None:
    self.flow: FlowCalibration | None = None
    self.flow_fit: LoopResult | None = None
    self.choice: Choice | None = None
    self._strategy, self._folder, self._show_progress = strategy, folder, show_progress
    self._flow_scores, self._keep_trainers = flow_scores, keep_trainers
    self._parts: dict[Any, Calibration] = {}
    self._trainers: dict[Any, Trainer] = {}

  def fit(
    self, specs: Sequence[CalibrationSpec], rows: FitSentences | FitVectors, settings: FlowSettings | None = None
  ) -> list[Calibration | None]:
    """Fits calibrations on rows; returns one per spec, None for characters alone, which nothing is fitted to.

    Args:
      specs: method and k of each part of each calibration.
      rows: sentences or vectors.
      settings: settings of a flow; auto reads its seed.
    """
    settings = settings or FlowSettings()
    # The flow takes longest: it is fitted last, so that a rejected part is rejected at once.
    parts = [part for spec in specs for part in spec.parts]
    parts.sort(key=lambda part: part.method == FLOW)
    fitted = {}
    for part in parts:
      fitted[part] = self._part(part, rows, settings)
    calibrations: list[Calibration | None] = []
    for spec in specs:
      calibration = None
      if spec.parts:
        calibration = side_by_side([fitted[part] for part in spec.parts])
        calibration.encoder, calibration.query_shift = rows.identity, rows.query_shift
      calibrations.append(calibration)
    return calibrations

  def _part(self, part, rows, settings):
    """Returns one part: fitted before on equal rows, or now."""
    has_settings = part.method in (FLOW, AUTO)
    key = part, rows.key, settings if has_settings else None
    if key not in self._parts:
      self._parts[key] = self._fit_part(part, rows, settings)
      if len(self._parts) > _MAX_PARTS:
        del self._parts[next(iter(self._parts))]
    return self._parts[key]

  def _fit_part(self, part: CalibrationSpec, rows: Any, settings: FlowSettings) -> Calibration:
    """Fits one part."""
    if part.method == FLOW:
      return self._fit_flow(rows, settings)
    if part.method == AUTO:
      choice = self.choice = rows.choose(settings.seed)
      return choice.calibration
    # Imported here: a flow needs none of it.
    from bert_flow_tf.training.linear_fit import fit_linear

    gold = rows.gold() if part.k_on_dev else None
    return fit_linear(part, rows.all(), gold)

  def _fit_flow(self, rows, settings):
    settings = settings.for_pairs(rows.num_pairs)
    trainer = self._trainer(settings, rows.dim)
    source = rows.flow_pairs(lambda num_pairs: trainer.pairs_seen(num_pairs, settings.epochs))
    fitted, self.flow_fit = fit_flow(trainer, source, settings.epochs, self._flow_scores)
    if self._keep_trainers:  # the next fit changes the trainer's own flow
      fitted = FlowCalibration(fitted.flow.copy(), fitted.scale)
    self.flow = fitted
    return fitted

  def _trainer(self, settings, dim):
    """Returns the trainer of a new flow: a kept one that is restarted, or a new one."""
    # Compiling takes longer than fitting: seed and number of epochs are the only settings that need no new graph.
    key = dim, dataclasses.replace(settings, seed=0, num_train_epochs=1.0)
    if key in self._trainers:
      self._trainers[key].restart(settings.seed)
      return self._trainers[key]
    trainer = make_trainer(settings, dim, self._strategy, self._folder, self._show_progress)
    if self._keep_trainers:
      self._trainers[key] = trainer
    return trainer


def settings_of_fit(spec: CalibrationSpec, given: Mapping[str, Any], dev: Any) -> FlowSettings:
  """Returns the settings of a fit: the flow takes all fields of `FlowSettings`, auto the seed, the others none.

  Raises:
    ConfigError: a setting belongs to another calibration, or a calibration needs dev to choose its K.
  """
  if spec.k_on_dev and dev is None:
    raise ConfigError(f"calibration={spec.name}: give K, as {spec.name}-6, or dev, to choose it on", "calibration")
  allowed = []
  if spec.method == FLOW:
    allowed = [field.name for field in dataclasses.fields(FlowSettings)]
  elif spec.method == AUTO:
    allowed = ["seed"]
  for name in given:
    if name not in allowed:
      expected = ", ".join(allowed) or "none"
      raise ConfigError(f"{name}: calibration={spec.name} has no such argument; it takes {expected}", argument=name)
  return FlowSettings(**given)


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
