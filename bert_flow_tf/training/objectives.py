"""Objectives of a siamese training: labels of pairs from [u, v, |u - v|], or the cosine of u and v."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.training.classifier import VARIABLE, ClassifierWeights

# Standard deviation of BERT's published initialization.
_STDDEV = 0.02


class SoftmaxObjective:
  """Cross entropy of a softmax over [u, v, |u - v|], without bias (docs/original.md, "Siamese fine-tuning on NLI").

      logits = [u, v, |u - v|] W^T,  loss = -log softmax(logits)[label]

  Args:
    dim: dimensions of u and v.
    labels: names of the classes, in the order of their numbers.
    seed: seed of the initial W: a normal distribution of standard deviation 0.02, truncated at two of them.

  Attributes:
    output_weights: W, float32 variable of shape [labels, 3 dim].
    encoder: identity of the encoder as a dict, or None if unknown; saved and loaded.
  """

  def __init__(self, dim: int, labels: Sequence[str], seed: int = 0) -> None:
    self.dim, self.labels, self.encoder = int(dim), tuple(labels), None
    shape = [len(self.labels), 3 * self.dim]
    # The second number makes the draw independent of other uses of the same seed.
    initial = tf.random.stateless_truncated_normal(shape, [seed, 0x51A], stddev=_STDDEV)
    self.output_weights = tf.Variable(initial, name=VARIABLE)

  @property
  def variables(self) -> list[tf.Variable]:
    """The trained variables."""
    return [self.output_weights]

  def settings(self) -> dict[str, Any]:
    """Returns json values that describe the objective."""
    return {"kind": "softmax", "labels": list(self.labels), "dim": self.dim}

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
    """Writes the classifier's folder atomically.

    Raises:
      TrainingError: the folder cannot be written, or holds something else.
    """
    weights = tf.convert_to_tensor(self.output_weights).numpy()
    ClassifierWeights(weights, self.labels, self.encoder).save(folder)

  @classmethod
  def load(cls, folder: str | os.PathLike) -> "SoftmaxObjective":
    """Loads the objective that `save` or run_convert wrote.

    Raises:
      TrainingError: the folder is absent, incomplete or damaged, or does not name its labels.
    """
    loaded = ClassifierWeights.load(folder)
    if loaded.labels is None:
      raise TrainingError(f"classifier folder {folder}: classifier.json names no labels; write them in their order")
    objective = cls(loaded.dim, loaded.labels)
    objective.output_weights.assign(loaded.output_weights)
    objective.encoder = loaded.encoder  # type: ignore[assignment]
    return objective


class CosineObjective:
  """Squared error of the cosine against a label scaled to 0..1 (docs/original.md, "Fitting the flow", `num_examples`).

  loss = (cos(u, v) - label)^2
  """

  variables = ()

  def settings(self) -> dict[str, Any]:
    """Returns json values that describe the objective."""
    return {"kind": "cosine"}

  def losses(self, u: tf.Tensor, v: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Returns the loss of each pair, float32 [batch]; targets are the scaled labels, float32 [batch]."""
    cosines = tf.reduce_sum(tf.math.l2_normalize(u, axis=-1) * tf.math.l2_normalize(v, axis=-1), axis=-1)
    return tf.square(cosines - targets)
