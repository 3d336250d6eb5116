"""Fits of calibrations on vectors: of those without training steps, and of a flow with its trainer."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.calibration.combined import parse_shares, side_by_side, view_dim
from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.names import AUTO, FLOW, CalibrationSpec, make_calibration, parse_calibration
from bert_flow_tf.encoder.identity import VectorsIdentity
from bert_flow_tf.errors import CalibrationError, ConfigError
from bert_flow_tf.flow.glow import Glow, check_arguments
from bert_flow_tf.io.checks import check_rows
from bert_flow_tf.progress import counted
from bert_flow_tf.training.distribution import make_strategy, worker_failures
from bert_flow_tf.training.flow_trainer import Trainer
from bert_flow_tf.training.loop import LoopResult
from bert_flow_tf.training.optimizer import num_steps
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import Dev, EmbeddingPairs, MixedPairs, SentencePairsWithDropout, VectorPairs

# Adam moves a weight by about the learning rate, so a flow cannot follow embeddings that deviate from their mean by
# less than a few of its steps. Those of published encoders deviate by 0.03 (of length 1) to 0.6 in a dimension.
_SMALLEST_DEVIATION = 0.01
# A row that is so many times as long as the median row decides mean and covariance alone.
_OUTLIER = 1e3
# Bits per dimension in 100 steps: above, the score of `mini` on STS-B rose by one or more with a longer fit.
_STEEP = 0.2


def fit_calibration(
  vectors: np.ndarray | tuple[np.ndarray, np.ndarray] | list[np.ndarray],
  calibration: str = FLOW,
  vectors_of: str | None = None,
  *,
  dev: Dev | None = None,
  strategy: tf.distribute.Strategy | str | None = None,
  folder: str | os.PathLike | None = None,
  show_progress: bool = True,
  shares: Sequence[float] = (),
  **settings: Any,
) -> Calibration:
  """Fits a calibration on vectors of any program, without labels; `SentenceModel.fit` does it on sentences.

      whitening = fit_calibration(np.load("a.npy"), "whitening-128", vectors_of="my encoder, version 3")
      whitening.save("whitening")
      calibrated = load_calibration("whitening").transform(np.load("b.npy"))  # float32 [n, 128]

  Args:
    vectors: numbers [n, dim]; or a tuple of two such arrays, the two sides of n pairs; or a list of arrays, such as
      memory-mapped files, which are read in parts. The flow's loss is a mean over pairs, but does not compare their
      sides: without pairs it takes rows 0 and 1, 2 and 3, ... and leaves out the last row of an odd number.
    calibration: a name that `parse_calibration` reads: "flow", "whitening-128", "flow+soft-whitening", ...
    vectors_of: description of the vectors, any text; saved with the calibration.
    dev: (first vectors [n, dim], second vectors [n, dim], gold scores [n]) on which natsv and sn+natsv without K choose
      it.
    strategy: see `SentenceModel.fit`.
    folder: of the flow's checkpoints and TensorBoard events; None for none. A stopped fit is resumed from there.
    show_progress: whether the flow's fit shows its progress.
    shares: share of each view, with sum 1, if the vectors are v concatenated views [n, v * d]: the calibration gets
      their `Mix`, in which each view is centered and divided by its root mean square. () if not.
    **settings: fields of `training.settings.FlowSettings`, for the flow alone.

  Raises:
    ConfigError: an argument is not allowed.
    CalibrationError, TrainingError: the vectors are not finite numbers of the right shape, too few or all alike.
  """
  spec = parse_calibration(calibration)
  flow_settings = settings_of_fit(spec, settings, dev)
  if folder is not None and spec.method != FLOW:
    raise ConfigError(f"folder: only calibration=flow has this argument, not {spec.name}", argument="folder")
  shares = parse_shares(shares)
  if isinstance(vectors, tuple):
    shapes = [np.shape(side) for side in vectors]
    if len(shapes) != 2 or shapes[0] != shapes[1] or len(shapes[0]) != 2:
      raise CalibrationError(f"vectors: a tuple of shapes {shapes}, expected two sides of pairs, [n, dim]", "vectors")
  fitted: dict[str, Calibration] = {}
  for part in reversed(spec.parts):  # the flow, which takes longest, last
    if part.method == FLOW:
      # The flow takes pairs, and steps; ...
      source = _source(vectors)
      flow_settings = flow_settings.for_pairs(len(source))
      trainer = make_trainer(flow_settings, view_dim(source.dim, shares), strategy, folder, show_progress)
      fitted[part.name], _ = fit_flow(trainer, source, flow_settings.epochs, shares)
    else:
      # ... the others take every vector, once.
      rows = np.concatenate(vectors) if isinstance(vectors, tuple) else vectors
      fitted[part.name] = fit_linear(part, rows, dev, shares)
  result = side_by_side([fitted[part.name] for part in spec.parts])
  result.encoder = None if vectors_of is None else VectorsIdentity(vectors_of).to_dict()
  return result


def settings_of_fit(spec: CalibrationSpec, given: Mapping[str, Any], dev: Any) -> FlowSettings:
  """Returns the settings of a fit: the flow takes all fields of `FlowSettings`, auto the seed, the others none.

  A ConfigError names a setting of another calibration, or a calibration whose open K needs dev.
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


def fit_linear(
  spec: CalibrationSpec, rows: np.ndarray | list[np.ndarray], dev: Dev | None = None, shares: Sequence[float] = ()
) -> Calibration:
  """Fits a calibration that needs no training steps on rows [n, dim], whole or in parts; chooses an open k on dev."""
  fitted: Any = make_calibration(spec, shares)
  if isinstance(rows, list):
    for part in rows:
      fitted.partial_fit(part)
    if not spec.k_on_dev:
      fitted.affine()  # an error if the rows are too few or all alike
  else:
    fitted.fit(rows)
  _warn_of_outliers(rows)
  if spec.k_on_dev and dev is not None:
    scores = fitted.choose_k(*dev)
    logging.info("%s: k=%d chosen on dev, Spearman %.2f", spec.name, fitted.k, scores[fitted.k])
  return fitted


def _warn_of_outliers(rows):
  """Logs a warning if one row is so long that no other counts; the fit checks the rows themselves."""
  parts = rows if isinstance(rows, list) else [check_rows(rows)]
  longest = [np.maximum(np.max(part, axis=1), -np.min(part, axis=1)) for part in parts if np.size(part)]
  sizes = np.concatenate(longest or [[0.0]])
  row, median = int(np.argmax(sizes)), float(np.median(sizes))
  if sizes[row] > _OUTLIER * median > 0:
    times = sizes[row] / median
    logging.warning(
      "row %d (from 0) is %.0e times as long as the median row, so it alone counts in the fit", row, times
    )


def check_flow(settings: FlowSettings, dim: int, num_pairs: int, shares: Sequence[float] = ()) -> int:
  """Checks what a flow's fit on embeddings [., dim] needs before anything is embedded; returns its number of steps."""
  size = view_dim(dim, shares)
  check_arguments(settings.config, size, settings.actnorm_init, settings.permutation, settings.seed, "float32")
  return num_steps(num_pairs, settings.train_batch_size, settings.epochs)


def make_trainer(
  settings: FlowSettings,
  dim: int,
  strategy: tf.distribute.Strategy | str | None = None,
  folder: str | os.PathLike | None = None,
  show_progress: bool = True,
  known: dict[Any, Trainer] | None = None,
) -> Trainer:
  """Returns the trainer of a new flow for vectors [., dim], or the `known` one of equal compiled steps, restarted."""
  wait, growth = settings.worker_wait_seconds, settings.gpu_memory_growth
  wanted = strategy or settings.distribution_strategy
  chosen = make_strategy(wanted, wait, settings.deterministic, growth)
  # Compiling takes longer than fitting: seed and number of epochs are the only settings that need no new graph.
  key = chosen, dim, dataclasses.replace(settings, seed=0, num_train_epochs=1.0)
  if known is not None and key in known:
    known[key].restart(settings.seed)
    return known[key]
  checkpoints = summaries = None
  if folder is not None:
    checkpoints = pathlib.Path(folder) / "checkpoints"
    summaries = pathlib.Path(folder) / "tensorboard"
  # Variables of the flow belong to the strategy; the workers agree on their first values.
  with worker_failures(chosen), chosen.scope():
    flow = Glow(settings.config, dim, settings.actnorm_init, settings.permutation, settings.seed)
  trainer = Trainer(flow, settings, chosen, checkpoints, summaries, show_progress)
  if known is not None:
    known[key] = trainer
  return trainer


def fit_flow(
  trainer: Trainer,
  source: EmbeddingPairs | SentencePairsWithDropout,
  epochs: float,
  shares: Sequence[float] = (),
  scores: Callable[[FlowCalibration, int], Mapping[str, float]] = lambda flow, step: {},
) -> tuple[FlowCalibration, LoopResult]:
  """Fits the trainer's flow on pairs, whose views are mixed first; `scores`: (flow, steps made) -> TensorBoard's."""
  mix = None
  if not shares and isinstance(source, EmbeddingPairs) and 0 < source.deviation() < _SMALLEST_DEVIATION:
    logging.info("flow: the embeddings deviate by %.1e from their mean; the flow gets them scaled", source.deviation())
    shares = (1.0,)
  if shares and isinstance(source, EmbeddingPairs):
    source = MixedPairs(source, shares)
    mix = source.mix
  calibration = FlowCalibration(trainer.flow, mix)
  logging.info("flow: %s over %s", counted(epochs, "epoch", "g"), counted(len(source), "pair"))
  result = trainer.fit(source, epochs, scores=lambda step: scores(calibration, step))
  quarter = len(result.losses) // 4
  if quarter >= 4:
    before, last = result.losses[-2 * quarter : -quarter].mean(), result.losses[-quarter:].mean()
    fall = 100 * (before - last) / quarter
    if fall > _STEEP:
      logging.warning(
        "flow: its loss still falls, by %.1f bits per dimension in 100 steps; a larger num_train_epochs can help, "
        "mostly for sentences like these",
        fall,
      )
  return calibration, result


def _source(vectors):
  """Returns the pairs for a flow's fit."""
  if isinstance(vectors, tuple):
    return EmbeddingPairs(*vectors)
  if isinstance(vectors, list):
    return VectorPairs(vectors)
  rows = check_rows(vectors)
  even = len(rows) // 2 * 2
  return EmbeddingPairs(rows[0:even:2], rows[1:even:2])
