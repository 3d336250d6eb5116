"""The softmax layer of siamese fine-tuning, on disk."""

import dataclasses

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
  """Logits [u, v, |u - v|] W': the bias-free matrix W of the published code, under its name `output_weights`.

  Attributes:
    output_weights: float32 array [num_labels, 3 * dim], u and v being embeddings of `dim` dimensions.
    labels: the labels' names in the order of the rows, a tuple of str; None where nobody said.
    encoder: what the embeddings came from, as `SentenceEncoder.identity` says it; None where nobody said.

  Raises:
    TrainingError: another shape, not finite numbers, or labels that do not match the rows.
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
  def num_labels(self):
    """Number of labels."""
    return self.output_weights.shape[0]

  @property
  def dim(self):
    """Dimensions of an embedding."""
    return self.output_weights.shape[1] // 3

  def save(self, folder):
    """Writes the classifier's folder (`classifier.json`, `weights.npz`) in one step; an older one there is replaced.

    Raises:
      TrainingError: the folder cannot be written, or holds something else.
    """
    settings = {key: getattr(self, key) for key in _SETTINGS}
    CLASSIFIER_FOLDER.write(folder, settings, {VARIABLE: self.output_weights})

  @classmethod
  def load(cls, folder):
    """The classifier that `save` wrote.

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
      found, expected = settings.get(key, loaded.num_labels), getattr(loaded, key)
      if type(found) is not int or found != expected:
        raise TrainingError(f"classifier folder {folder}: {key} is {found!r}, the weights have {expected}")
    return loaded
