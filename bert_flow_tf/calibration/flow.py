"""The flow as a calibration."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.calibration.combined import Scale
from bert_flow_tf.calibration.names import FLOW
from bert_flow_tf.calibration.step import Calibration, Contents, Features, check_features, check_release
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.flow.keras import tf_variables
from bert_flow_tf.io.files import Json

# Names of the scale's arrays next to the flow's arrays, the same as in release 0.1.0.
_MEAN, _RMS = "mix/mean", "mix/rms"


class FlowCalibration(Calibration, methods=(FLOW,)):
  """u -> z = f(u), or f(x) for scaled embeddings x; `training.flow_fit.fit_flow` fits it.

  It computes in the flow's dtype; embeddings and latents are float32.
  """

  name = FLOW
  dim = output_dim = 0

  def __init__(self, flow: Glow, scale: Scale | None = None) -> None:
    self.flow, self.scale = flow, scale
    self.dim = self.output_dim = flow.dim

  @property
  def variables(self) -> Sequence[tf.Variable]:
    """See the base class."""
    return tf_variables(self.flow.weights)

  def check_fitted(self) -> None:
    """See the base class."""
    if self.flow.needs_initialization:
      raise CalibrationError("flow is not fitted: fit one with fit_calibration or SentenceModel.fit")

  def __call__(self, features: Features) -> tf.Tensor:
    """u [n, dim] -> latents float32 [n, dim]."""
    check_features(features)
    return tf.cast(self.flow.transform(self.scaled(features.embedding, features.lite)), tf.float32)

  def scaled(self, embeddings: Any, lite: bool = False) -> tf.Tensor:
    """Returns the flow's input: u [n, dim] itself, or scaled, float32; for `lite` see `Features`."""
    if self.scale is None:
      return tf.convert_to_tensor(embeddings)
    return self.scale(embeddings, lite)

  def bits_per_dim(self, embeddings: Any) -> tf.Tensor:
    """Returns the flow's loss for u [n, dim]: [n] in bits per dimension."""
    return self.flow.bits_per_dim(self.scaled(embeddings))

  def log_prob(self, embeddings: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """u [n, dim] -> -log2 p(x) / dim and log p(x) in nats, float32 [n] each."""
    bits = self.bits_per_dim(embeddings)
    nats = bits * (-self.dim * math.log(2.0))
    return tf.cast(bits, tf.float32), tf.cast(nats, tf.float32)

  def inverse(self, latents: tf.Tensor) -> tf.Tensor:
    """z float32 [n, dim] -> x float32 [n, dim]."""
    return tf.cast(self.flow.inverse(latents), tf.float32)

  def contents(self) -> Contents:
    """Returns the settings and arrays of `Glow.contents`, and the scale."""
    settings, arrays = self.flow.contents()
    if self.scale is None:
      return settings, arrays
    return {**settings, "shares": [1.0]}, {**arrays, _MEAN: self.scale.mean, _RMS: np.array([self.scale.rms])}

  @classmethod
  def restore(cls, settings: Json, arrays: Mapping[str, np.ndarray]) -> "FlowCalibration":
    """Returns the calibration of `contents`."""
    # Without the scale, the rest describes the flow.
    flow_settings, weights = dict(settings), dict(arrays)
    scale = None
    if flow_settings.pop("shares", None) is not None:
      check_release(settings)
      scale = Scale(weights.pop(_MEAN), float(weights.pop(_RMS).item()))
    flow = Glow.restore(flow_settings, weights)
    if scale and scale.mean.shape != (flow.dim,):
      raise CalibrationError(f"the shape of {_MEAN} does not fit the flow")
    return cls(flow, scale)
