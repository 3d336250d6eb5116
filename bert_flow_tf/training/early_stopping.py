"""Stops a training that does not improve on dev, and restores the weights that were best there."""

import math
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.training.checkpoints import Checkpoints


class EarlyStopping:
  """Evaluates dev whenever a checkpoint is due; its state is saved with the training.

  Args:
    evaluate: returns dev's score for the current weights; higher is better.
    patience: evaluations in a row without a better score after which the training stops.
    as_published: a lower score is better, and the last weights stay. So the published code, which waits for Pearson's
      correlation to fall.

  Raises:
    ConfigError: patience is not positive.
  """

  def __init__(self, evaluate: Callable[[], float], patience: int = 1, as_published: bool = False) -> None:
    if patience < 1:
      raise ConfigError(f"early_stopping_patience={patience}: expected at least 1", argument="early_stopping_patience")
    self._evaluate = evaluate
    self._patience = patience
    self._as_published = as_published
    self._best = tf.Variable(math.inf if as_published else -math.inf, dtype=tf.float64, trainable=False)
    self._best_step = tf.Variable(0, dtype=tf.int64, trainable=False)
    self._since = tf.Variable(0, dtype=tf.int64, trainable=False)
    self._kept: Any = None

  @property
  def variables(self) -> list[tf.Variable]:
    """State, part of the training's checkpoints."""
    return [self._best, self._best_step, self._since]

  @property
  def stopped(self) -> bool:
    """True after `patience` evaluations in a row without a better score."""
    return int(self._since.numpy()) >= self._patience

  @property
  def best(self) -> tuple[float, int] | None:
    """Best score and its step; None before the first score."""
    return (float(self._best.numpy()), int(self._best_step.numpy())) if int(self._best_step.numpy()) else None

  def settings(self) -> dict[str, int | bool]:
    """Returns the json values that decide the result."""
    return {"patience": self._patience, "as_published": self._as_published}

  def keep_in(self, folder: str | os.PathLike, identity: Mapping[str, Any], **objects: Any) -> None:
    """Keeps the best weights in folder/best; the arguments are those of `Checkpoints`."""
    self._kept = Checkpoints(pathlib.Path(folder) / "best", identity, **objects)

  def look(self, step: int) -> float:
    """Evaluates dev, keeps the weights if they are the best so far, and returns the score."""
    score, best = self._evaluate(), float(self._best.numpy())
    if score < best if self._as_published else score > best:  # never for NaN
      # Before the training's own checkpoint: a training killed in between evaluates again and writes the same.
      self._kept.save(step)
      self._best.assign(score)
      self._best_step.assign(step)
      self._since.assign(0)
    else:
      self._since.assign_add(1)
    logging.info("dev at step %d: %.2f, best %.2f at step %d", step, score, *(self.best or (math.nan, 0)))
    return score

  def take_best(self) -> None:
    """Restores the best weights; the last ones stay if dev never had a score, and with `as_published`.

    Raises:
      TrainingError: the best weights cannot be read.
    """
    if self._as_published:
      return
    if self.best is None:
      logging.warning("early stopping: dev never had a score, so the last weights are used")
      return
    if self._kept.restore(self.best[1]) is None:
      raise TrainingError(f"the weights of step {self.best[1]}, the best on dev, are missing; train again")
