"""Fit of a calibration on vectors of any program."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bert_flow_tf.calibration.names import FLOW, parse_calibration
from bert_flow_tf.calibration.step import Calibration
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.progress import either_name
from bert_flow_tf.training.fit_rows import Dev, FitVectors
from bert_flow_tf.training.fitter import Fitter, settings_of_fit

if TYPE_CHECKING:
  import tensorflow as tf


@either_name
def fit_calibration(
  vectors: npt.ArrayLike | tuple[npt.ArrayLike, npt.ArrayLike] | list[np.ndarray],
  calibration: str = FLOW,
  vectors_of: str | None = None,
  *,
  queries: npt.ArrayLike | list[np.ndarray] | None = None,
  dev: Dev | None = None,
  strategy: tf.distribute.Strategy | str | None = None,
  folder: str | os.PathLike | None = None,
  show_progress: bool = True,
  **settings: Any,
) -> Calibration:
  """Fits a calibration on vectors of any program, without labels; `SentenceModel.fit` does it on sentences.

      whitening = fit_calibration(np.load("a.npy"), "whitening-128", vectors_of="my encoder, version 3")
      whitening.save("whitening")
      calibrated = load_calibration("whitening").transform(np.load("b.npy"))  # float32 [n, 128]

  Args:
    vectors: numbers [n, dim], an array or a list of rows; or a tuple of two such arrays, the two sides of n pairs; or a
      list of arrays, such as memory-mapped files, which are read in parts. The flow's loss is a mean over pairs, but
      does not compare their sides: without pairs it takes rows 0 and 1, 2 and 3, ... and leaves out the last row of an
      odd number.
    calibration: a name that `parse_calibration` reads: "flow", "whitening-128", "flow+soft-whitening", ...
    vectors_of: description of the vectors, any text; saved with the calibration.
    queries: vectors of queries, [m, dim], or a list of such arrays, where `vectors` are the documents that they search;
      see `SentenceModel.fit`, and `Calibration.transform_queries`. Every row counts, of vectors and of queries.
    dev: (first vectors [n, dim], second vectors [n, dim], gold scores [n]) on which natsv and sn+natsv without K choose
      it.
    strategy: see `SentenceModel.fit`.
    folder: folder of the flow's checkpoints and TensorBoard events, from which a stopped fit is resumed; None for none.
    show_progress: whether the flow's fit shows its progress.
    **settings: fields of `training.settings.FlowSettings`, for the flow alone.

  Raises:
    ConfigError: an argument is not allowed.
    CalibrationError, TrainingError: the vectors are not finite numbers of the right shape, too few or all alike.
  """
  spec = parse_calibration(calibration)
  flow_settings = settings_of_fit(spec, settings, dev)
  if spec.needs_sentences:
    needs = "auto and characters need sentences, which vectors do not have"
    raise ConfigError(f"calibration={spec.name}: {needs}; expected another, as soft-whitening", "calibration")
  if folder is not None and spec.method != FLOW:
    raise ConfigError(f"folder: only calibration=flow has this argument, not {spec.name}", argument="folder")
  fitter = Fitter(strategy=strategy, folder=folder, show_progress=show_progress)
  rows = FitVectors(vectors, vectors_of=vectors_of, queries=queries, dev=dev)
  (fitted,) = fitter.fit([spec], rows, flow_settings)
  rows.warn_of_zeros()
  return fitted
