"""The loop of every training: restores, steps, checks for finite values, saves and reports."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.io import files
from bert_flow_tf.io.settings import differences
from bert_flow_tf.progress import Progress
from bert_flow_tf.training import workers

IDENTITY_FILE = "fit.json"
# Key of an identity: values that explain a difference of its checksum `data`, and are not compared themselves.
DATA_OF = "data_of"
# Differences of these values that an error names.
_SHOWN = 4
# Number of checkpoints that are kept.
KEEP = 2


@dataclasses.dataclass(frozen=True)
class LoopResult:
  """Result of `TrainingLoop.run`: `steps` in all, of which `first_step` were completed before a resume."""

  steps: int
  first_step: int
  losses: np.ndarray  # before each step made here, float [steps, parts of the loss]
  calls: tuple[tuple[int, float], ...]  # (steps, seconds) of each call that made steps

  @property
  def seconds_per_step(self) -> float:
    """Mean over all calls but the first call, which compiles; NaN without a second call."""
    steps = sum(steps for steps, _ in self.calls[1:])
    seconds = sum(seconds for _, seconds in self.calls[1:])
    return seconds / steps if steps else float("nan")


class TrainingLoop:
  """Steps from the newest checkpoint, or from 0, to the last.

  Only the chief of several workers has checkpoints; the others get its values.

  Args:
    losses: names of the parts of the loss.
    total: number of steps.
    strategy: distribution strategy of the variables.
    objects: {name: variables or a trackable object} of a checkpoint, which also holds the number of steps.
    variables: all variables in `objects`.
    trained: variables that must stay finite.
    identity: JSON values that must be equal when a training is resumed.
    save_checkpoints_steps: number of steps between checkpoints.
    checkpoint_folder: folder of the checkpoints; None for none.
    summary_folder: folder of TensorBoard's events; None for none.
    show_progress: whether a progress bar is shown.
    rates: name of the setting that a user lowers if a loss is not finite, for the message.
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
    self._is_chief = workers.is_chief(strategy)
    self._summary_folder = summary_folder if self._is_chief else None
    with strategy.scope():
      self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
    if workers.has_several_workers(strategy):
      workers.check_agreement(strategy, identity)
    self._checkpoints = None
    if checkpoint_folder is not None and self._is_chief:
      self._checkpoints = Checkpoints(checkpoint_folder, identity, **objects, step=self._step)

  @property
  def step(self) -> int:
    """Number of completed steps."""
    return int(tf.convert_to_tensor(self._step).numpy())

  def restore(self, initialize: Callable[[], None] = lambda: None) -> None:
    """Restores the newest checkpoint; if there is none, calls `initialize` and saves step 0."""
    restored = None
    if self._checkpoints:
      restored = self._checkpoints.restore()
    # Every worker starts from the chief's weights, restored or new.
    if not workers.from_chief(self._strategy, int(bool(restored))):
      initialize()
    workers.copy_from_chief(self._strategy, [*self._variables, self._step])
    if restored:
      logging.info("resumed at step %d of %d from %s", self.step, self._total, restored)
    elif self._checkpoints:
      self._checkpoints.save(0)

  def run(
    self,
    advance: Callable[[int, int], np.ndarray],
    note: Callable[[np.ndarray], str],
    steps_per_call: int = 1,
    before_saving: Callable[[int, np.ndarray], Mapping[str, float]] = lambda step, losses: {},
    stopped: Callable[[], bool] = lambda: False,
  ) -> LoopResult:
    """Makes the remaining steps.

    Args:
      advance: function (steps done, steps to do) -> losses before each of these steps, [steps, parts] or [steps].
      note: function from the losses of this run, [steps, parts], to a text shown with the progress.
      steps_per_call: largest number of steps of a call of `advance`.
      before_saving: function (steps done, losses of this run) -> further values for TensorBoard, called whenever a
        checkpoint is due, even without a folder.
      stopped: function that returns whether to end early, called before each call of `advance`.

    Raises:
      TrainingError: a loss or a weight is not finite.
    """
    first = step = self.step
    losses = np.zeros([self._total - first, len(self._names)], np.float32)
    calls = []
    writer = tf.summary.create_noop_writer()
    if self._summary_folder is not None:
      writer = tf.summary.create_file_writer(os.fspath(self._summary_folder))
    # Each turn makes some steps, up to the next checkpoint at most; a loss is checked before anything of it is saved.
    with Progress(self._total, self._show_progress, "training", "step", first) as progress, contextlib.closing(writer):
      while step < self._total and not stopped():
        until_saved = self._every - step % self._every
        count = min(steps_per_call, until_saved, self._total - step)
        start = time.monotonic()
        new_losses = np.reshape(advance(step, count), [count, len(self._names)])
        calls.append((count, time.monotonic() - start))
        saving = count == until_saved or step + count == self._total
        self._check(new_losses, step, saving)
        # Report every step, then save.
        for row in new_losses:
          losses[step - first] = row
          step += 1
          _write_scalars(writer, step, dict(zip(self._names, row, strict=True)))
        self._step.assign(step)
        new_losses = losses[: step - first]
        if saving:
          _write_scalars(writer, step, before_saving(step, new_losses))
          if self._checkpoints:
            self._checkpoints.save(step)
        writer.flush()
        progress.update(count, note(new_losses))
    if step < self._total:
      logging.info("stopped early, at step %d of %d", step, self._total)
    return LoopResult(step, first, losses[: step - first], tuple(calls))

  def _check(self, losses, step, weights_too):
    """Raises a TrainingError if a loss, or at a checkpoint a weight, is not finite."""
    bad = np.argwhere(~np.isfinite(losses))
    if bad.size:
      row, part = bad[0]
      reason = f"{self._names[part]} is {losses[row, part]}"
    elif weights_too and not all(np.isfinite(tf.convert_to_tensor(weight)).all() for weight in self._trained):
      row, reason = len(losses) - 1, "a weight is not finite"
    else:
      return
    # Say from where the user can go on.
    kept = "nothing was saved"
    if self._checkpoints:
      kept = f"the checkpoint before it, {self._checkpoints.latest}, is kept"
    elif not self._is_chief:
      kept = "the chief's message names the last checkpoint"
    raise TrainingError(f"training stopped: {reason} at step {step + row + 1}; {kept}; lower {self._rates}")


def trace(function: Any, *arguments: object) -> None:
  """Traces a `tf.function` for arguments before it is called with them.

  TensorFlow warns of retracing where the fifth function of one place is traced by a call: a process may train more.
  """
  if not tf.config.functions_run_eagerly():
    function.get_concrete_function(*arguments)


def check_claim(folder: str | os.PathLike, identity: Mapping[str, Any]) -> bool:
  """Returns whether a folder has a training's identity; raises TrainingError if it has a different one."""
  file, where = pathlib.Path(folder, IDENTITY_FILE), f"checkpoint folder {folder}"
  if not file.exists():
    return False
  try:
    saved = files.read_json(file)
    saved = {name: saved.get(name) for name in identity}
    data_of = dict(saved.pop(DATA_OF, None) or {})
  except (OSError, ValueError, AttributeError) as error:
    raise TrainingError(f"{where}: {file.name} cannot be used ({error}); remove the folder to start again") from error
  current = json.loads(json.dumps(identity))
  current_data_of = current.pop(DATA_OF, None) or {}
  changed = differences(saved, current)
  if changed:
    meaning = ""
    if saved.get("data") != current.get("data"):
      meaning = " (data stands for encoder, pooling, sentences and versions)"
      reasons = []
      if data_of and current_data_of:
        meaning = " (data stands for sentences and versions)"
        reasons = differences(data_of, current_data_of)
      if reasons:
        # Another encoder differs in much, because its weights do.
        reasons.sort(key=lambda line: not line.startswith("weights_sha256"))
        changed = reasons[:_SHOWN] + [line for line in changed if not line.startswith("data ")]
        meaning = ""
    message = f"{where} belongs to another fit ({'; '.join(changed)}): choose another folder, or remove this one"
    raise TrainingError(message + meaning)
  return True


class Checkpoints:
  """Checkpoints of one training in one folder: written atomically, the last two kept, resumed by the same training."""

  def __init__(self, folder: str | os.PathLike, identity: Mapping[str, Any], **objects: Any) -> None:
    self._folder = pathlib.Path(folder)
    self._where = f"checkpoint folder {folder}"
    if not check_claim(self._folder, identity):
      try:
        self._folder.mkdir(parents=True, exist_ok=True)
        files.write_text(self._folder / IDENTITY_FILE, json.dumps(identity, indent=2) + "\n")
      except OSError as error:
        reason = f"{IDENTITY_FILE} cannot be used ({error}); remove the folder to start again"
        raise TrainingError(f"{self._where}: {reason}") from error
    self._checkpoint = tf.train.Checkpoint(**objects)
    # Files of a process that was killed while it saved.
    for unfinished in self._folder.glob("*_temp"):
      shutil.rmtree(unfinished, ignore_errors=True)
    for unfinished in self._folder.glob("checkpoint.tmp*"):
      unfinished.unlink(missing_ok=True)
    try:
      self._manager = tf.train.CheckpointManager(self._checkpoint, os.fspath(self._folder), max_to_keep=KEEP)
    except (tf.errors.OpError, ValueError) as error:
      raise TrainingError(f"{self._where}: damaged ({error}); remove it to start from step 0") from error

  def restore(self, step: int | None = None) -> str | None:
    """Restores the newest readable checkpoint, or the checkpoint of a step; returns its name, None without any."""
    # Newest first: if a crash or a disk has damaged a checkpoint, the checkpoint before it is used.
    for path in reversed(self._manager.checkpoints):
      if step is not None and not path.endswith(f"-{step}"):
        continue
      try:
        self._checkpoint.restore(path).assert_consumed()
        return path
      except Exception as error:  # a damaged file shows as OpError, IndexError or protobuf's DecodeError
        reason = (str(error) or repr(error)).splitlines()[0]
        logging.warning("checkpoint %s cannot be read (%s): trying the one before", path, reason)
    if self._manager.checkpoints:
      raise TrainingError(f"{self._where}: no checkpoint in it can be read; remove it to start from step 0")
    return None

  def save(self, step: int) -> None:
    """Writes the checkpoint of a step."""
    try:
      self._manager.save(checkpoint_number=step)
    except tf.errors.OpError as error:
      reason = re.sub(r"\{\{.*?\}\} ?", "", error.message.splitlines()[0])  # TensorFlow's name of the op
      if "No space" in reason:
        reason = "the disk is full; free some space, and the same command resumes"
      raise TrainingError(f"{self._where}: step {step} cannot be saved ({reason})") from error

  @property
  def latest(self) -> str | None:
    """Name of the newest checkpoint."""
    return self._manager.latest_checkpoint


def _write_scalars(writer, step, values):
  """Writes TensorBoard's scalars {name: number} of a step, counted from 1."""
  # Writes the same as tf.summary.scalar, which needs the tensorboard package.
  scalar = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"}, data_class=1)
  with writer.as_default():
    for name, value in values.items():
      tf.summary.write(name, np.float32(value), step=step, metadata=scalar)
