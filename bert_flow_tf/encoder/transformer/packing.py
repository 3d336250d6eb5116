"""Rows of hidden states [n, size] of a batch: of all positions, of tokens alone, or of first tokens alone.

Dense layers and normalizations treat each row by itself, so they need no padding; attention takes a padded batch.
"""

from typing import Protocol

import tensorflow as tf
from tensorflow.python.ops import control_flow_util


class Rows(Protocol):
  """Conversion between [batch, seq_len, size] and rows [n, size], in both directions with gradients."""

  def pack(self, batch: tf.Tensor) -> tf.Tensor:
    """[batch, seq_len, size] -> [n, size], and [batch, seq_len] -> [n]."""

  def unpack(self, rows: tf.Tensor) -> tf.Tensor:
    """[n, size] -> [batch, seq_len, size]; 0 at positions without a row."""


class AllPositions:
  """All positions of a batch, padding included: the batch as it is."""

  def pack(self, batch: tf.Tensor) -> tf.Tensor:
    """Returns the batch."""
    return batch

  def unpack(self, rows: tf.Tensor) -> tf.Tensor:
    """Returns the batch."""
    return rows


class Tokens:
  """A row for each token: each position whose mask [batch, seq_len] is not 0."""

  def __init__(self, mask: tf.Tensor) -> None:
    self._mask = mask
    self._places = tf.cast(tf.where(mask > 0), tf.int32)

  def pack(self, batch: tf.Tensor) -> tf.Tensor:
    """[batch, seq_len, size] -> [tokens, size]."""
    return tf.gather_nd(batch, self._places)

  def unpack(self, rows: tf.Tensor) -> tf.Tensor:
    """[tokens, size] -> [batch, seq_len, size], 0 for padding."""
    shape = tf.shape(self._mask)
    return tf.scatter_nd(self._places, rows, [shape[0], shape[1], rows.shape[-1]])


class FirstTokens:
  """A row for the first position of each sentence, that of [CLS]."""

  def pack(self, batch: tf.Tensor) -> tf.Tensor:
    """[batch, seq_len, size] -> [batch, size]."""
    return batch[:, 0]

  def unpack(self, rows: tf.Tensor) -> tf.Tensor:
    """[batch, size] -> [batch, 1, size]."""
    return rows[:, tf.newaxis]


def can_pack() -> bool:
  """Returns whether shapes may depend on values here; XLA, and TPUs by it, need fixed ones."""
  return not control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())
