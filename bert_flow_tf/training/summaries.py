"""TensorBoard's scalars of a training."""

import os
from collections.abc import Mapping

import numpy as np
import tensorflow as tf


class Summaries:
  """Writes scalars; a context manager.

  Args:
    folder: TensorBoard's folder; None to write nothing.
  """

  def __init__(self, folder: str | os.PathLike | None) -> None:
    self._folder = folder
    self._writer = None

  def __enter__(self) -> "Summaries":
    if self._folder is not None:
      self._writer = tf.summary.create_file_writer(os.fspath(self._folder))
    return self

  def __exit__(self, *unused: object) -> None:
    if self._writer:
      self._writer.close()

  def write(self, step: int, values: Mapping[str, float]) -> None:
    """Writes {name: number} of a step, counted from 1."""
    if not self._writer:
      return
    # As tf.summary.scalar, which needs the tensorboard package.
    scalar = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"}, data_class=1)
    with self._writer.as_default():
      for name, value in values.items():
        tf.summary.write(name, np.float32(value), step=step, metadata=scalar)

  def flush(self) -> None:
    """Makes the written values readable for other processes."""
    if self._writer:
      self._writer.flush()
