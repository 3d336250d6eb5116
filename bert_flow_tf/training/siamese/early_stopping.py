"""Early stopping of a training by the score of dev."""

import math
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.training.loop import Checkpoints


class EarlyStopping:
  """State of a training that stops after `patience` evaluations of dev in a row without a better score."""

  def __init__(self, evaluate: Callable[[], float], patience: int = 1, as_published: bool = False) -> None:
    self._evaluate = evaluate
    self._patience = patience
    self._as_published = as_published
    # The published code waits for Pearson's correlation to fall: a lower score is better, the last weights stay.
    worst = math.inf if as_published else -math.inf
    # Best score, its step, and the number of evaluations since; saved with the training's checkpoints.
    self.state = tf.Variable([worst, 0.0, 0.0], dtype=tf.float64, trainable=False)
    self._kept: Checkpoints | None = None

  @property
  def stopped(self) -> bool:
    """True after `patience` evaluations in a row without a better score."""
    return self.state.numpy()[2] >= self._patience

  @property
  def best(self) -> tuple[float, int] | None:
    """Best score and its step; None before the first score."""
    score, step, _ = self.state.numpy()
    if not step:
      return None
    return float(score), int(step)

  def settings(self) -> dict[str, int | bool]:
    """Returns the JSON values that decide the result."""
    return {"patience": self._patience, "as_published": self._as_published}

  def keep_in(self, folder: str | os.PathLike, identity: Mapping[str, Any], objects: Mapping[str, Any]) -> None:
    """Keeps the best weights in folder/best, which `as_published` never reads; see `Checkpoints`."""
    if not self._as_published:
      self._kept = Checkpoints(pathlib.Path(folder) / "best", identity, **objects)

  def evaluate(self, step: int) -> float:
    """Evaluates dev, keeps the weights if they are the best so far, and returns the score."""
    score = self._evaluate()
    best, best_step, since = self.state.numpy()
    # NaN is never better.
    is_better = score < best if self._as_published else score > best
    if is_better:
      # Written before the training's own checkpoint: a training killed in between evaluates again and writes the same.
      if self._kept is not None:
        self._kept.save(step)
      best, best_step, since = score, step, 0
    else:
      since += 1
    self.state.assign([best, best_step, since])
    logging.info("dev at step %d: %.2f, best %.2f at step %d", step, score, best, best_step)
    return score

  def take_best(self) -> None:
    """Restores the best weights; the last ones stay if dev never had a score, and with `as_published`."""
    if self._kept is None:
      return
    if self.best is None:
      logging.warning("early stopping: dev never had a score, so the last weights are used")
    elif self._kept.restore(self.best[1]) is None:
      raise TrainingError(f"the weights of step {self.best[1]}, the best on dev, are missing; train again")
