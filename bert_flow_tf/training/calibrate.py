"""Fits of calibrations: of any kind on vectors, and of a flow with its trainer."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.calibration.combined import Mix, checked_shares, side_by_side, view_dim
from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.names import FLOW, make_calibration, parse_calibration
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.encoder.identity import VectorsIdentity
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.task_scores import Embeddings
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io.checks import check_rows
from bert_flow_tf.training.distribution import make_strategy, worker_failures
from bert_flow_tf.training.flow_trainer import Trainer
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import EmbeddingPairs, MixedPairs, VectorPairs, embedding_pairs


def fit_calibration(
  vectors: np.ndarray | tuple[np.ndarray, np.ndarray] | list[np.ndarray],
  calibration: str = FLOW,
  vectors_of: str | None = None,
  *,
  dev: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
  folder: str | os.PathLike | None = None,
  show_progress: bool = True,
  shares: Sequence[float] = (),
  **settings: Any,
) -> Calibration:
  """Fits a calibration on vectors, without labels.

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
  if spec.method != FLOW and (settings or folder is not None):
    name = next(iter(settings), "folder")
    raise ConfigError(f"{name}: only calibration=flow has this argument, not {spec.name}", argument=name)
  if spec.k_on_dev and dev is None:
    raise ConfigError(f"calibration={spec.name}: give K, as {spec.name}-6, or dev, to choose it on", "calibration")
  parts = [
    _fit_flow(vectors, settings, folder, show_progress, shares)
    if part.method == FLOW
    else _fit_linear(vectors, part, dev, shares)
    for part in reversed(spec.parts)  # the flow, which takes longest, last
  ]
  fitted = side_by_side(parts[::-1])
  fitted.encoder = None if vectors_of is None else VectorsIdentity(vectors_of).to_dict()
  return fitted


def _fit_flow(vectors, settings, folder, show_progress, shares):
  allowed = [field.name for field in dataclasses.fields(FlowSettings)]
  unknown = next((name for name in settings if name not in allowed), None)
  if unknown is not None:
    raise ConfigError(f"{unknown}: unknown setting of the flow; expected {', '.join(allowed)}", argument=unknown)
  source = _source(vectors)
  flow, _ = make_flow(FlowSettings(**settings), source.dim, None, folder, show_progress, shares)
  flow.fit_source(source)
  return FlowCalibration(flow.flow, flow.mix)


def _fit_linear(vectors, spec, dev, shares):
  fitted: Any = make_calibration(spec, shares)
  if isinstance(vectors, list):
    for part in vectors:
      fitted.partial_fit(part)
  else:
    fitted.fit(np.concatenate(vectors) if isinstance(vectors, tuple) else vectors)
  if dev is not None and spec.k_on_dev:
    fitted.choose_k(*dev)
  return fitted


def _source(vectors):
  """Returns the pairs for a flow's fit."""
  if isinstance(vectors, tuple):
    return EmbeddingPairs(*vectors)
  if isinstance(vectors, list):
    return VectorPairs(vectors)
  rows = check_rows(vectors)
  even = len(rows) // 2 * 2
  return EmbeddingPairs(rows[0:even:2], rows[1:even:2])


class TrainableFlow(FlowCalibration):
  """Flow with the trainer that fits it.

  Args:
    flow: the flow.
    trainer: its trainer.
    num_train_epochs: passes over the pairs.
    shares: share of each view if the embeddings are concatenated views, see `Mix`; () if not.
  """

  def __init__(self, flow: Glow, trainer: Trainer, num_train_epochs: float = 1.0, shares: Sequence[float] = ()) -> None:
    super().__init__(flow)
    self._trainer, self.num_train_epochs, self._shares = trainer, num_train_epochs, shares

  def fit_source(self, source: Any, scores: Callable[[], Mapping[str, float]] = dict) -> "TrainableFlow":
    """Fits on a source of `Trainer.fit`, from the flow's present weights; returns itself.

    `scores` is that of `Trainer.fit`. With shares, the mix of the views is fitted before the flow, on all rows of the
    source, an `EmbeddingPairs`.
    """
    if self._shares:
      self.mix = Mix.of(source.moments(), self._shares)
      source = MixedPairs(source, self.mix)
    self._trainer.fit(source, self.num_train_epochs, scores=scores)
    return self


def make_flow(
  settings: FlowSettings,
  dim: int,
  strategy: tf.distribute.Strategy | None = None,
  folder: str | os.PathLike | None = None,
  show_progress: bool = True,
  shares: Sequence[float] = (),
) -> tuple[TrainableFlow, Trainer]:
  """Makes a flow to be fitted, and its trainer.

  Args:
    settings: the settings; a learning rate or number of epochs that is None is 1e-3 or 1.
    dim: dimensions of the embeddings, all views together.
    strategy: None to make the one that the settings name.
    folder: gets `checkpoints` and `tensorboard`; None for neither.
    show_progress: whether the fit shows its progress.
    shares: see `TrainableFlow`.
  """
  shares = checked_shares(shares)
  if strategy is None:
    arguments = settings.distribution_strategy, settings.worker_wait_seconds, settings.deterministic
    strategy = make_strategy(*arguments)
  with worker_failures(strategy), strategy.scope():
    flow = Glow(settings.config, view_dim(dim, shares), settings.actnorm_init, settings.permutation, settings.seed)
  trainer = Trainer(
    flow,
    settings,
    strategy,
    checkpoint_folder=folder and pathlib.Path(folder) / "checkpoints",
    summary_folder=folder and pathlib.Path(folder) / "tensorboard",
    show_progress=show_progress,
  )
  return TrainableFlow(flow, trainer, settings.epochs, shares), trainer


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
