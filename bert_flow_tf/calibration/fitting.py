"""Fits of calibrations without training steps, and the choice of k on a dev split."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.names import CalibrationSpec, make_calibration
from bert_flow_tf.errors import ConfigError


def check_k_on_dev(specs: Sequence[CalibrationSpec], task: Any) -> None:
  """Checks that k can be chosen on the dev split of a `TaskData`, for the specs that leave it open.

  Raises:
    ConfigError: the task has no dev split with gold scores, or is evaluated on it.
  """
  chosen = next((spec.name for spec in specs if spec.k_on_dev), None)
  if chosen is None:
    return
  if "dev" not in task.splits or np.isnan(task.splits["dev"].scores).all():
    reason = f"{task.spec.name} has no dev split with gold scores"
  elif task.spec.eval_split == "dev":
    reason = f"{task.spec.name} is evaluated on dev"
  else:
    return
  raise ConfigError(
    f"calibration={chosen}: k is chosen on dev, but {reason}; give k, for example {chosen}-6", argument="calibration"
  )


def fit_linear(
  spec: CalibrationSpec, rows: np.ndarray, task: Any = None, embeddings: Any = None, shares: Sequence[float] = ()
) -> Calibration:
  """Fits a calibration that is not the flow, and chooses its k on dev if the spec leaves it open.

  Args:
    spec: the calibration.
    rows: float32 [2 n, dim], embeddings of the corpus: all first sentences, then all second ones.
    task: the `TaskData` whose dev split decides k.
    embeddings: `Embeddings` of that split's sentences.
    shares: see `make_calibration`.
  """
  calibration: Any = make_calibration(spec, shares).fit(rows)
  if spec.k_on_dev:
    dev = task.splits["dev"]
    scores = calibration.choose_k(embeddings.of(dev.sentences_a), embeddings.of(dev.sentences_b), dev.scores)
    logging.info("%s: k=%d chosen on dev, Spearman %.2f", spec.name, calibration.k, scores[calibration.k])
  return calibration
