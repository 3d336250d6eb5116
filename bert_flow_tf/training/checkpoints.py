"""Checkpoints of a fit: written whole, kept two at a time, and only continued by the same fit."""

import json
import os
import pathlib
import re
import shutil

import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.io import files

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
    for unfinished in self._folder.glob("*_temp"):  # of a process that was killed while it saved
      shutil.rmtree(unfinished, ignore_errors=True)
    try:
      self._manager = tf.train.CheckpointManager(self._checkpoint, os.fspath(self._folder), max_to_keep=KEEP)
    except (tf.errors.OpError, ValueError) as error:
      raise TrainingError(f"checkpoint folder {self._folder}: damaged ({error}); remove it to start anew") from error

  def _claim(self, identity):
    file = self._folder / IDENTITY_FILE
    try:
      self._folder.mkdir(parents=True, exist_ok=True)
      if file.exists():
        self._compare(json.loads(file.read_text(encoding="utf-8")), identity)
      else:
        files.write_text(file, json.dumps(identity, indent=2) + "\n")
    except (OSError, ValueError) as error:
      raise TrainingError(
        f"checkpoint folder {self._folder}: {file.name} cannot be used ({error}); remove the folder to start anew"
      ) from error

  def _compare(self, found, identity):
    found, identity = _flat(found), _flat(identity)
    keys = sorted(key for key in {*found, *identity} if found.get(key) != identity.get(key))
    if keys:
      meaning = " (data stands for encoder, pooling and sentences)" if "data" in keys else ""
      differences = ", ".join(f"{key} {found.get(key)} there, {identity.get(key)} now" for key in keys)
      raise TrainingError(
        f"checkpoint folder {self._folder} belongs to another fit ({differences}): choose another folder, as with "
        f"--exp_name or --output_parent_dir, or remove this one{meaning}"
      )

  def restore(self, step=None):
    """Loads the newest checkpoint that is whole; returns its name, or None where there are no checkpoints.

    Args:
      step: the only one to load; None for the newest.

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
        logging.warning("checkpoint %s cannot be read (%s): going back to the one before", path, reason)
    if self._manager.checkpoints:
      raise TrainingError(f"checkpoint folder {self._folder}: no checkpoint in it can be read; remove it to start anew")
    return None

  def save(self, step):
    """Writes a checkpoint named after the steps made.

    Raises:
      TrainingError: it cannot be written, for instance since the disk is full.
    """
    try:
      self._manager.save(checkpoint_number=step)
    except tf.errors.OpError as error:
      reason = re.sub(r"\{\{.*?\}\} ?", "", error.message.splitlines()[0])  # TensorFlow's name of the op
      raise TrainingError(f"checkpoint folder {self._folder}: step {step} cannot be saved ({reason})") from error

  @property
  def latest(self):
    """Name of the newest checkpoint, or None."""
    return self._manager.latest_checkpoint


def _flat(values, prefix=""):
  """{"flow.config.depth": 3} of {"flow": {"config": {"depth": 3}}}: what differs is named, and that alone."""
  if not isinstance(values, dict):
    return {prefix or "all": values}
  parts = (_flat(inner, f"{prefix}.{key}" if prefix else key) for key, inner in values.items())
  return {key: inner for part in parts for key, inner in part.items()}
