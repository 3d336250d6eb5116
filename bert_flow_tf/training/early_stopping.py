"""Stops a fit that does not get better on dev, and gives back the weights that were best there."""

import math
import pathlib

import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.training.checkpoints import Checkpoints


class EarlyStopping:
  """Looks at dev whenever the fit is saved; what it knows is saved with the fit.

  Args:
    figure: a function without arguments that gives dev's figure for the weights there are, a float; higher is better.
    patience: evaluations in a row without a better figure after which the fit stops.

  Raises:
    ConfigError: patience is not positive.
  """

  def __init__(self, figure, patience=3):
    if patience < 1:
      raise ConfigError(f"early_stopping_patience is {patience}, expected at least 1")
    self._figure = figure
    self._patience = patience
    self._best = tf.Variable(-math.inf, dtype=tf.float64, trainable=False)
    self._best_step = tf.Variable(0, dtype=tf.int64, trainable=False)
    self._since = tf.Variable(0, dtype=tf.int64, trainable=False)
    self._kept = None

  @property
  def variables(self):
    """What a checkpoint of the fit holds of it."""
    return [self._best, self._best_step, self._since]

  @property
  def stopped(self):
    """Whether patience is at its end."""
    return int(self._since.numpy()) >= self._patience

  @property
  def best(self):
    """(best figure, its step); None where there is none yet."""
    return (float(self._best.numpy()), int(self._best_step.numpy())) if int(self._best_step.numpy()) else None

  def settings(self):
    """What decides the result, as json values."""
    return {"patience": self._patience}

  def keep_in(self, folder, identity, **objects):
    """Says where the best weights are kept; the arguments as those of `Checkpoints`."""
    self._kept = Checkpoints(pathlib.Path(folder) / "best", identity, **objects)

  def look(self, step):
    """Evaluates, and keeps the weights if they are the best so far; returns the figure."""
    figure = self._figure()
    if figure > float(self._best.numpy()):  # never for NaN
      # Before the fit's own checkpoint: a fit killed in between comes here again and writes the same.
      self._kept.save(step)
      self._best.assign(figure)
      self._best_step.assign(step)
      self._since.assign(0)
    else:
      self._since.assign_add(1)
    logging.info("dev at step %d: %.2f, best %.2f at step %d", step, figure, *(self.best or (math.nan, 0)))
    return figure

  def take_best(self):
    """Restores the best weights, where any were better than none.

    Raises:
      TrainingError: they cannot be read.
    """
    if self.best is None:
      logging.warning("early stopping: dev never had a figure, so the last weights are taken")
      return
    if self._kept.restore(self.best[1]) is None:
      raise TrainingError(f"the weights of step {self.best[1]}, the best on dev, are not there any more; train again")
