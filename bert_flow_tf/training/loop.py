"""The loop of every training: restores, steps, checks for finite values, saves and reports."""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.progress import Progress
from bert_flow_tf.training.checkpoints import Checkpoints
from bert_flow_tf.training.distribution import (
  check_agreement,
  copy_from_chief,
  from_chief,
  has_several_workers,
  is_chief,
)
from bert_flow_tf.training.summaries import Summaries


@dataclasses.dataclass(frozen=True)
class LoopResult:
  """Result of `TrainingLoop.run`.

  Attributes:
    steps: steps made so far, those before a resume included.
    first_step: steps that the restored checkpoint had made.
    losses: float array [steps made here, parts of the loss], before each step.
    calls: (steps, seconds) of each call that made steps; the first one compiles.
  """

  steps: int
  first_step: int
  losses: np.ndarray
  calls: tuple[tuple[int, float], ...]

  @property
  def seconds_per_step(self) -> float:
    """Mean over all calls but the first one, which compiles; NaN without a second call."""
    steps, seconds = (sum(values) for values in zip((0, 0.0), *self.calls[1:], strict=True))
    return seconds / steps if steps else float("nan")


class TrainingLoop:
  """Steps from the newest checkpoint, or from 0, to the last.

  Only the chief of several workers has checkpoints; the others get its values.

  Args:
    losses: names of the parts of the loss, as TensorBoard shows them.
    total: number of steps.
    strategy: the `tf.distribute.Strategy`.
    objects: {name: variables or a trackable object}, which a checkpoint holds, besides the number of steps.
    variables: all variables in these objects.
    trained: the variables that must stay finite.
    identity: json values that a resumed training must share with the one that it resumes.
    save_checkpoints_steps: number of steps between two checkpoints.
    checkpoint_folder: folder of the checkpoints; None for none.
    summary_folder: folder of TensorBoard's events; None for none.
    show_progress: whether progress is shown.
    rates: the arguments that a user lowers if a loss is not finite, for the message.

  Raises:
    TrainingError: the folder holds another training's checkpoints, or the workers' settings differ.
  """

  def __init__(
    self,
    losses: Sequence[str],
    total: int,
    strategy: tf.distribute.Strategy,
    objects: Mapping[str, Any],
    variables: Sequence[tf.Variable],
    trained: Sequence[tf.Variable],
    identity: Mapping[str, Any],
    save_checkpoints_steps: int,
    checkpoint_folder: str | os.PathLike | None = None,
    summary_folder: str | os.PathLike | None = None,
    show_progress: bool = True,
    rates: str = "learning_rate",
  ) -> None:
    self._names, self._total, self._strategy = tuple(losses), total, strategy
    self._variables, self._trained = variables, trained
    self._every, self._show_progress, self._rates = save_checkpoints_steps, show_progress, rates
    self._summary_folder = summary_folder if is_chief(strategy) else None
    with strategy.scope():
      self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
    if has_several_workers(strategy):
      check_agreement(strategy, identity)
    self._checkpoints = None
    if checkpoint_folder is not None and is_chief(strategy):
      self._checkpoints = Checkpoints(checkpoint_folder, identity, **objects, step=self._step)

  @property
  def step(self) -> int:
    """Number of steps made."""
    return int(tf.convert_to_tensor(self._step).numpy())

  def restore(self, initialize: Callable[[], None] = lambda: None) -> None:
    """Restores the newest checkpoint; if there is none, initializes and saves step 0.

    Args:
      initialize: called only if nothing was restored.

    Raises:
      TrainingError: no checkpoint in the folder can be read.
    """
    restored = self._checkpoints.restore() if self._checkpoints else None
    if not from_chief(self._strategy, int(bool(restored))):
      initialize()
    copy_from_chief(self._strategy, [*self._variables, self._step])
    if restored:
      logging.info("resumed at step %d of %d from %s", self.step, self._total, restored)
    elif self._checkpoints:
      self._checkpoints.save(0)

  def run(
    self,
    advance: Callable[[int, int], np.ndarray],
    note: Callable[[np.ndarray], str],
    steps_a_call: int = 1,
    before_saving: Callable[[int, np.ndarray], Mapping[str, float]] = lambda step, losses: {},
    stopped: Callable[[], bool] = lambda: False,
  ) -> LoopResult:
    """Makes the remaining steps.

    Args:
      advance: (steps made, number of steps to make) -> losses before each of these steps, [steps, parts] or [steps].
      note: losses made here [steps, parts] -> text shown with the progress.
      steps_a_call: the largest number of steps to make in one call of `advance`.
      before_saving: (steps made, losses made here) -> further values for TensorBoard; called whenever a checkpoint is
        due, even without a folder.
      stopped: whether to end early; asked before each call of `advance`.

    Raises:
      TrainingError: a loss or a weight is NaN or infinite; the last good checkpoint is kept.
    """
    first = step = self.step
    losses, calls = np.zeros([self._total - first, len(self._names)], np.float32), []
    progress = Progress(self._total, self._show_progress, "training", "step", first)
    with progress, Summaries(self._summary_folder) as events:
      while step < self._total and not stopped():
        until_saved = self._every - step % self._every
        count = min(steps_a_call, until_saved, self._total - step)
        start = time.monotonic()
        made = np.reshape(advance(step, count), [count, len(self._names)])
        calls.append((count, time.monotonic() - start))
        saving = count == until_saved or step + count == self._total
        self._check(made, step, saving)
        for row in made:
          losses[step - first] = row
          step += 1
          events.write(step, dict(zip(self._names, row, strict=True)))
        self._step.assign(step)
        if saving:
          events.write(step, before_saving(step, losses[: step - first]))
          if self._checkpoints:
            self._checkpoints.save(step)
        events.flush()
        progress.update(count, note(losses[: step - first]))
    if step < self._total:
      logging.info("stopped early, at step %d of %d", step, self._total)
    return LoopResult(step, first, losses[: step - first], tuple(calls))

  def _check(self, losses, step, weights_too):
    bad = np.argwhere(~np.isfinite(losses))
    if not bad.size and (not weights_too or all(map(_is_finite, self._trained))):
      return
    row, part = bad[0] if bad.size else (len(losses) - 1, 0)
    reason = f"{self._names[part]} is {losses[row, part]}" if bad.size else "a weight is not finite"
    kept = "nothing was saved"
    if self._checkpoints:
      kept = f"the checkpoint before it, {self._checkpoints.latest}, is kept"
    elif not is_chief(self._strategy):
      kept = "the chief's message names the last checkpoint"
    raise TrainingError(f"training stopped: {reason} at step {step + row + 1}; {kept}; lower {self._rates}")


def _is_finite(variable):
  return bool(tf.reduce_all(tf.math.is_finite(tf.convert_to_tensor(variable))))
