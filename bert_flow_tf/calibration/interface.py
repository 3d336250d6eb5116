"""What a calibration does, whichever it is."""

import abc
from typing import Any

from bert_flow_tf.errors import CalibrationError


class Calibration(abc.ABC):
  """Embeddings u [n, dim] -> calibrated embeddings z [n, output_dim]; fitted without labels.

      calibration = make_calibration(parse_calibration("whitening")).fit(embeddings)
      similarities = cosine_similarity(calibration.transform(a), calibration.transform(b))

  Rows are sentence occurrences: a sentence that stands in three pairs counts three times, as in the paper's "target"
  setting. For the rows of n pairs all first sentences come first, then all second ones, [2 n, dim]; the methods of
  `methods.py` do not look at the order.

  The flow takes part as `bert_flow_tf.calibration.flow.FlowCalibration`.

  Attributes:
    encoder: what the embeddings came from, as `SentenceEncoder.identity` says it; None if nobody said. Saved and
      loaded with the rest.
  """

  encoder: dict[str, Any] | None = None

  @property
  @abc.abstractmethod
  def name(self):
    """The value of `--calibration`, such as "sn+natsv-6"."""

  @abc.abstractmethod
  def fit(self, embeddings):
    """Fits from embeddings [n, dim] alone, whatever was fitted before, and returns itself."""

  def partial_fit(self, embeddings):
    """Goes on fitting with more embeddings [n, dim] and returns itself; where the method allows it."""
    raise CalibrationError(f"{self.name} cannot be fitted in parts: call fit with all embeddings")

  @abc.abstractmethod
  def transform(self, embeddings):
    """Embeddings [n, dim] -> float32 array [n, output_dim]."""

  @abc.abstractmethod
  def save(self, folder):
    """Writes a folder that `load` reads; an older calibration there is replaced."""

  @classmethod
  @abc.abstractmethod
  def load(cls, folder):
    """The calibration that `save` wrote."""
