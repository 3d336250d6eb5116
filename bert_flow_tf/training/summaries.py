"""TensorBoard's scalars of a fit."""

import os

import numpy as np
import tensorflow as tf


class Summaries:
  """Writes scalars while it is entered.

  Args:
    folder: TensorBoard's; None to write nothing.
  """

  def __init__(self, folder):
    self._folder = folder
    self._writer = None

  def __enter__(self):
    if self._folder is not None:
      self._writer = tf.summary.create_file_writer(os.fspath(self._folder))
    return self

  def __exit__(self, *unused):
    if self._writer:
      self._writer.close()

  def write(self, step, values):
    """Writes {name: number} of a step, counted from 1."""
    if not self._writer:
      return
    # What tf.summary.scalar writes; that function needs the tensorboard package, the file does not.
    scalar = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"}, data_class=1)
    with self._writer.as_default():
      for name, value in values.items():
        tf.summary.write(name, np.float32(value), step=step, metadata=scalar)

  def flush(self):
    """Makes what was written readable."""
    if self._writer:
      self._writer.flush()
