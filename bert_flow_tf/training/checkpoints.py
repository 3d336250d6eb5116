"""Checkpoints of a fit: written whole, kept two at a time, and only continued by the same fit."""

import json
import os
import pathlib

import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import TrainingError

IDENTITY_FILE = "fit.json"
KEEP = 2


class Checkpoints:
  """The checkpoints of one fit in one folder.

  Args:
    folder: made if absent.
    identity: dict of everything that decides the weights (settings, data); json values.
    **objects: what a checkpoint holds.

  Raises:
    TrainingError: the folder holds another fit's checkpoints, or cannot be written.
  """

  def __init__(self, folder, identity, **objects):
    self._folder = pathlib.Path(folder)
    self._claim(json.loads(json.dumps(identity)))
    self._checkpoint = tf.train.Checkpoint(**objects)
    self._manager = tf.train.CheckpointManager(self._checkpoint, os.fspath(self._folder), max_to_keep=KEEP)

  def _claim(self, identity):
    file = self._folder / IDENTITY_FILE
    try:
      self._folder.mkdir(parents=True, exist_ok=True)
      if file.exists():
        self._compare(json.loads(file.read_text(encoding="utf-8")), identity)
        return
      beside = file.with_suffix(f".writing-{os.getpid()}")
      beside.write_text(json.dumps(identity, indent=2) + "\n", encoding="utf-8")
      beside.replace(file)
    except (OSError, ValueError) as error:
      raise TrainingError(f"checkpoint folder {self._folder}: {file.name} cannot be used ({error})") from error

  def _compare(self, found, identity):
    keys = sorted(key for key in {*found, *identity} if found.get(key) != identity.get(key))
    if keys:
      differences = ", ".join(f"{key} {found.get(key)} there, {identity.get(key)} now" for key in keys)
      raise TrainingError(
        f"checkpoint folder {self._folder} belongs to another fit ({differences}): "
        "choose another folder or remove this one"
      )

  def restore(self):
    """Loads the newest checkpoint that is whole; returns its name, or None where there is none."""
    for path in reversed(self._manager.checkpoints):
      try:
        self._checkpoint.restore(path).assert_consumed()
        return path
      except (tf.errors.OpError, AssertionError, ValueError) as error:
        reason = str(error).splitlines()[0]
        logging.warning("checkpoint %s cannot be read (%s): going back to the one before", path, reason)
    return None

  def save(self, step):
    """Writes a checkpoint named after the steps made."""
    self._manager.save(checkpoint_number=step)

  @property
  def latest(self):
    """Name of the newest checkpoint, or None."""
    return self._manager.latest_checkpoint
