"""Fits any calibration on vectors, whatever made them."""

import os
from typing import Any

import numpy as np

from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.spec import FLOW, make_calibration, parse_calibration
from bert_flow_tf.encoder.identity import VectorsIdentity
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.checks import check_rows
from bert_flow_tf.training.calibrations import make_flow
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import EmbeddingPairs
from bert_flow_tf.training.vector_source import VectorPairs


def fit_calibration(
  vectors: np.ndarray | tuple[np.ndarray, np.ndarray] | list[np.ndarray],
  calibration: str = FLOW,
  vectors_of: str | None = None,
  *,
  dev: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
  folder: str | os.PathLike | None = None,
  show_progress: bool = True,
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
    calibration: "flow", "whitening", "whitening-K", "sn", "natsv-K", "sn+natsv-K", "mean" or "none".
    vectors_of: description of the vectors, any text; saved with the calibration.
    dev: (first vectors [n, dim], second vectors [n, dim], gold scores [n]) on which natsv and sn+natsv without K choose
      it.
    folder: of the flow's checkpoints and TensorBoard events; None for none. A stopped fit is resumed from there.
    show_progress: whether the flow's fit shows its progress.
    **settings: fields of `training.settings.FlowSettings`, for the flow alone.

  Raises:
    ConfigError: an argument is not allowed.
    CalibrationError, TrainingError: the vectors are not finite numbers of the right shape, too few or all alike.
  """
  spec = parse_calibration(calibration)
  fitted: Any
  if spec.method == FLOW:
    fitted = _fit_flow(_source(vectors), FlowSettings(**settings), folder, show_progress)
  else:
    if settings or folder is not None:
      name = next(iter(settings), "folder")
      raise ConfigError(f"{name}: only calibration=flow has this argument, not {spec.name}", argument=name)
    if spec.k_on_dev and dev is None:
      raise ConfigError(
        f"calibration={spec.name}: give K, as in {spec.name}-6, or dev, on which it is chosen", "calibration"
      )
    fitted = make_calibration(spec)
    if isinstance(vectors, list):
      for part in vectors:
        fitted.partial_fit(part)
    else:
      fitted.fit(np.concatenate(vectors) if isinstance(vectors, tuple) else vectors)
    if dev is not None and spec.k_on_dev:
      fitted.choose_k(*dev)
  fitted.encoder = None if vectors_of is None else VectorsIdentity(vectors_of).to_dict()
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


def _fit_flow(source, settings, folder, show_progress):
  flow, trainer = make_flow(settings, source.dim, folder=folder, show_progress=show_progress)
  trainer.fit(source, settings.epochs)
  return FlowCalibration(flow.flow)
