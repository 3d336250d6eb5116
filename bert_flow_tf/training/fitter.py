"""The fit of calibrations, on sentences or on vectors."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bert_flow_tf.calibration.combined import side_by_side
from bert_flow_tf.calibration.names import AUTO, FLOW, CalibrationSpec
from bert_flow_tf.calibration.step import Calibration
from bert_flow_tf.data.files.source import nearest_name
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.lazy import load_tensorflow
from bert_flow_tf.training.fit_rows import FitSentences, FitVectors
from bert_flow_tf.training.settings import FlowSettings

if TYPE_CHECKING:  # imported where they are used: a flow needs TensorFlow
  import tensorflow as tf

  from bert_flow_tf.calibration.flow import FlowCalibration
  from bert_flow_tf.training.choice import Choice
  from bert_flow_tf.training.flow_fit import FlowScores
  from bert_flow_tf.training.flow_trainer import Trainer
  from bert_flow_tf.training.loop import LoopResult

# Fitted parts that a fitter keeps; the oldest one goes first.
_MAX_PARTS = 32
# Arguments of every fit, which a mistyped name may mean besides settings.
_ARGUMENTS = ("calibration", "queries", "dev", "strategy", "folder", "show_progress")


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
    load_tensorflow()
    from bert_flow_tf.training import flow_fit

    settings = settings.for_pairs(rows.num_pairs)
    trainer = self._trainer(settings, rows.dim)
    source = rows.flow_pairs(lambda num_pairs: trainer.pairs_seen(num_pairs, settings.epochs))
    fitted, self.flow_fit = flow_fit.fit_flow(trainer, source, settings.epochs, self._flow_scores)
    if self._keep_trainers:  # the next fit changes the trainer's own flow
      fitted = flow_fit.FlowCalibration(fitted.flow.copy(), fitted.scale)
    self.flow = fitted
    return fitted

  def _trainer(self, settings, dim):
    """Returns the trainer of a new flow: a kept one that is restarted, or a new one."""
    from bert_flow_tf.training.flow_fit import make_trainer

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
      way = nearest_name(name, [*allowed, *_ARGUMENTS]) or f"; it takes {', '.join(allowed) or 'none'}"
      raise ConfigError(f"{name}: calibration={spec.name} has no such argument{way}", argument=name)
  return FlowSettings(**given)
