"""Folder of the softmax layer of siamese fine-tuning."""

import dataclasses
import os

import numpy as np

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.io.folders import FolderFormat

CLASSIFIER_FOLDER = FolderFormat(
  "classifier", "classifier.json", "weights.npz", TrainingError, "run_siamese or run_convert"
)
VARIABLE = "output_weights"
_SETTINGS = ("num_labels", "dim", "labels", "encoder")
_REQUIRED = ("dim", "labels")


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
