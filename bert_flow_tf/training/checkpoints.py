"""Checkpoints of a training: written atomically, the last two kept, resumed only by the same training."""

import json
import os
import pathlib
import re
import shutil
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.io import files
from bert_flow_tf.io.settings import differences

IDENTITY_FILE = "fit.json"
KEEP = 2


class Checkpoints:
  """The checkpoints of one training in one folder.

  Args:
    folder: the folder; created if absent.
    identity: json values that decide the weights (settings, data).
    **objects: {name: variables or a trackable object} of each checkpoint.

  Raises:
    TrainingError: the folder holds another training's checkpoints, or cannot be written.
  """

  def __init__(self, folder: str | os.PathLike, identity: Mapping[str, Any], **objects: Any) -> None:
    self._folder = pathlib.Path(folder)
    self._claim(json.loads(json.dumps(identity)))
    self._checkpoint = tf.train.Checkpoint(**objects)
    for unfinished in self._folder.glob("*_temp"):  # of a process that was killed while it saved
      shutil.rmtree(unfinished, ignore_errors=True)
    for unfinished in self._folder.glob("checkpoint.tmp*"):
      unfinished.unlink(missing_ok=True)
    try:
      self._manager = tf.train.CheckpointManager(self._checkpoint, os.fspath(self._folder), max_to_keep=KEEP)
    except (tf.errors.OpError, ValueError) as error:
      raise TrainingError(
        f"checkpoint folder {self._folder}: damaged ({error}); remove it to start from step 0"
      ) from error

  def _claim(self, identity):
    file = self._folder / IDENTITY_FILE
    try:
      self._folder.mkdir(parents=True, exist_ok=True)
      if file.exists():
        self._compare(files.read_json(file), identity)
      else:
        files.write_text(file, json.dumps(identity, indent=2) + "\n")
    except (OSError, ValueError) as error:
      raise TrainingError(
        f"checkpoint folder {self._folder}: {file.name} cannot be used ({error}); remove the folder to start again"
      ) from error

  def _compare(self, saved, identity):
    if not isinstance(saved, dict):
      raise ValueError("no settings in it")
    differing = differences(saved, json.loads(json.dumps(identity)))
    if differing:
      is_data = any(text.startswith("data ") for text in differing)
      meaning = " (data stands for encoder, pooling, sentences and versions)" if is_data else ""
      raise TrainingError(
        f"checkpoint folder {self._folder} belongs to another fit ({'; '.join(differing)}): choose another exp_name, "
        f"or remove this one{meaning}"
      )

  def restore(self, step: int | None = None) -> str | None:
    """Restores the newest checkpoint that can be read.

    Args:
      step: restores only the checkpoint of this step; None for the newest.

    Returns:
      The checkpoint's name, or None if there are no checkpoints.

    Raises:
      TrainingError: there are checkpoints, and none of them can be read.
    """
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
      raise TrainingError(
        f"checkpoint folder {self._folder}: no checkpoint in it can be read; remove it to start from step 0"
      )
    return None

  def save(self, step: int) -> None:
    """Writes the checkpoint of a step.

    Raises:
      TrainingError: it cannot be written, for instance because the disk is full.
    """
    try:
      self._manager.save(checkpoint_number=step)
    except tf.errors.OpError as error:
      reason = re.sub(r"\{\{.*?\}\} ?", "", error.message.splitlines()[0])  # TensorFlow's name of the op
      reason = "the disk is full; free some space, and the same command resumes" if "No space" in reason else reason
      raise TrainingError(f"checkpoint folder {self._folder}: step {step} cannot be saved ({reason})") from error

  @property
  def latest(self) -> str | None:
    """Name of the newest checkpoint."""
    return self._manager.latest_checkpoint
