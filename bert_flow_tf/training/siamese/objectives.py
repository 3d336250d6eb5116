"""Objectives of a siamese training: labels of pairs from [u, v, |u - v|], or the cosine of u and v."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.io import archive

# Name of the classifier's weights in the published code.
VARIABLE = "output_weights"
_KIND = "classifier"

# Standard deviation of BERT's published initialization.
_STDDEV = 0.02
# Makes the initial draw independent of other uses of the same seed.
_STREAM = 0x51A


class Classifier:
  """Cross entropy of a softmax over [u, v, |u - v|], without bias (docs/original.md, "Siamese fine-tuning on NLI").

      logits = [u, v, |u - v|] W^T,  loss = -log softmax(logits)[label]

  W, the output weights, is float32 [labels, 3 dim]; the labels are named in the order of its rows. `encoder` is the
  identity of the encoder as a dict, or None if unknown.
  """

  def __init__(self, output_weights: Any, labels: Sequence[str], encoder: dict | None = None) -> None:
    shape = list(output_weights.shape)
    if len(shape) != 2 or 0 in shape or shape[1] % 3:
      raise TrainingError(f"{VARIABLE} has shape {shape}, expected [num_labels, 3 * dim], as [u, v, |u - v|] needs")
    self.dim, self.labels, self.encoder = shape[1] // 3, tuple(labels), encoder
    self.output_weights = tf.Variable(output_weights, dtype=tf.float32, name=VARIABLE)

  @classmethod
  def initial(cls, dim: int, labels: Sequence[str], seed: int = 0) -> "Classifier":
    """Returns a classifier with W from a normal distribution of deviation 0.02, truncated at two of them."""
    shape = [len(labels), 3 * dim]
    return cls(tf.random.stateless_truncated_normal(shape, [seed, _STREAM], stddev=_STDDEV), labels)

  def settings(self) -> dict[str, Any]:
    """Returns the JSON values that a resumed training must share."""
    return {"labels": list(self.labels), "dim": self.dim}

  def logits(self, u: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    """Returns the logits, float32 [batch, labels], of embeddings [batch, dim]."""
    features = tf.concat([u, v, tf.abs(u - v)], axis=-1)
    return tf.matmul(features, self.output_weights, transpose_b=True)

  def losses(self, u: tf.Tensor, v: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Returns the loss of each pair in nats, float32 [batch]; targets are the labels' numbers, float32 [batch]."""
    labels = tf.cast(targets, tf.int32)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=self.logits(u, v))

  def probabilities(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Returns the softmax of the logits, float32 [n, labels], of embeddings [n, dim]."""
    return tf.nn.softmax(self.logits(tf.constant(u, tf.float32), tf.constant(v, tf.float32))).numpy()

  def save(self, folder: str | os.PathLike) -> None:
    """Writes the classifier's file into a folder, atomically; replaces an older file."""
    weights = tf.convert_to_tensor(self.output_weights).numpy()
    archive.write(folder, _KIND, {"labels": self.labels, "encoder": self.encoder}, {VARIABLE: weights})

  @classmethod
  def load(cls, folder: str | os.PathLike) -> "Classifier":
    """Loads the classifier that `save` wrote; a TrainingError names a file that is absent or damaged."""
    with archive.opened(folder, _KIND, TrainingError) as (settings, arrays):
      return cls(arrays[VARIABLE], settings["labels"], settings["encoder"])


def cosine_losses(u: tf.Tensor, v: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
  """Returns (cos(u, v) - label)^2 of each pair, float32 [batch]; targets are labels scaled to 0..1, float32 [batch]."""
  # Source: docs/original.md, "Fitting the flow", `num_examples`.
  # A sentence of zeros has no direction: its cosine is 0, and so is its gradient.
  cosines = tf.reduce_sum(tf.math.l2_normalize(u, axis=-1) * tf.math.l2_normalize(v, axis=-1), axis=-1)
  return tf.square(cosines - targets)
