"""Objectives of a siamese training: labels of pairs from [u, v, |u - v|], or the cosine of u and v."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.io.folders import FolderFormat

CLASSIFIER_FOLDER = FolderFormat(
  "classifier", "classifier.json", "weights.npz", TrainingError, "run_siamese or run_convert"
)
VARIABLE = "output_weights"
_SETTINGS = ("num_labels", "dim", "labels", "encoder")
_REQUIRED = ("dim", "labels")

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


@dataclasses.dataclass(frozen=True, eq=False)
class ClassifierWeights:
  """The matrix W of the logits [u, v, |u - v|] W', without bias, `output_weights` in the published code.

  Attributes:
    output_weights: float32 array [num_labels, 3 * dim] for embeddings u and v of `dim` dimensions.
    labels: names of the labels in the order of the rows, or None if unknown.
    encoder: identity of the encoder as a dict, or None if unknown.

  Raises:
    TrainingError: the array has another shape, a value is not a finite number, or labels do not match the rows.
  """

  output_weights: np.ndarray
  labels: tuple[str, ...] | None = None
  encoder: dict | None = None

  def __post_init__(self):
    weights = np.asarray(self.output_weights)
    if weights.ndim != 2 or not weights.size or weights.shape[1] % 3:
      raise TrainingError(
        f"{VARIABLE} has shape {list(weights.shape)}, expected [num_labels, 3 * dim], as [u, v, |u - v|] needs"
      )
    if weights.dtype.kind not in "fiu" or not np.isfinite(weights).all():
      raise TrainingError(f"{VARIABLE} ({weights.dtype}) holds values that are not finite numbers")
    object.__setattr__(self, "output_weights", weights.astype(np.float32))
    if not isinstance(self.encoder, dict | None):
      raise TrainingError(f"encoder is {self.encoder!r}, expected an object")
    if self.labels is None:
      return
    fit = isinstance(self.labels, tuple | list) and all(isinstance(label, str) for label in self.labels)
    if not fit or len(set(self.labels)) != self.num_labels:
      raise TrainingError(f"labels are {self.labels!r}, expected {self.num_labels} different names, or none")
    object.__setattr__(self, "labels", tuple(self.labels))

  @property
  def num_labels(self) -> int:
    """Number of labels."""
    return self.output_weights.shape[0]

  @property
  def dim(self) -> int:
    """Dimensions of an embedding."""
    return self.output_weights.shape[1] // 3

  def save(self, folder: str | os.PathLike) -> None:
    """Writes the classifier's folder (`classifier.json`, `weights.npz`) atomically, in place of an older one.

    Raises:
      TrainingError: the folder cannot be written, or holds something else.
    """
    settings = {key: getattr(self, key) for key in _SETTINGS}
    CLASSIFIER_FOLDER.write(folder, settings, {VARIABLE: self.output_weights})

  @classmethod
  def load(cls, folder: str | os.PathLike) -> "ClassifierWeights":
    """Loads the classifier that `save` wrote.

    Raises:
      TrainingError: the folder is absent, incomplete or damaged.
    """
    settings, arrays = CLASSIFIER_FOLDER.read(folder)
    unknown = sorted({*settings} - {*_SETTINGS}) + sorted({*arrays} - {VARIABLE})
    missing = [key for key in _REQUIRED if key not in settings] + [VARIABLE] * (VARIABLE not in arrays)
    if unknown or missing:
      parts = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"unknown: {', '.join(unknown)}"] * bool(unknown)
      raise TrainingError(f"classifier folder {folder}: damaged, {'; '.join(parts)}")
    try:
      loaded = cls(arrays[VARIABLE], settings["labels"], settings.get("encoder"))
    except TrainingError as error:
      raise TrainingError(f"classifier folder {folder}: {error}") from error
    for key in ("num_labels", "dim"):
      value, expected = settings.get(key, loaded.num_labels), getattr(loaded, key)
      if type(value) is not int or value != expected:
        raise TrainingError(f"classifier folder {folder}: {key} is {value!r}, the weights have {expected}")
    return loaded
