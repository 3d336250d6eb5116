"""The flow's negative log-likelihood as a Keras layer."""

from typing import Any

import tensorflow as tf

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.flow.keras import Shape, registered
from bert_flow_tf.flow.layer import FlowLayer, Vectors, from_keras, to_keras


@registered
class NegativeLogLikelihood(FlowLayer):
  """-log p(u) / (dim ln 2) of u [..., dim], [...], in bits per dimension; its mean is a loss of the model.

      inputs = keras.Input([768])
      model = keras.Model(inputs, NegativeLogLikelihood(flow)(inputs))
      model.compile("adam")
      model.fit(embeddings)

  Args:
    flow: `Glow`. The model may use the flow elsewhere too; `Glow` says how such a model is copied.

  Raises:
    ConfigError: no `Glow`.
  """

  def __init__(self, flow: Glow, **kwargs: object) -> None:
    if not isinstance(flow, Glow):
      way = "Glow(config, dim) makes one, and a calibration by a flow has it as its attribute flow"
      raise ConfigError(f"flow: expected a Glow, got a {type(flow).__name__}; {way}", "flow")
    super().__init__({}, **{"dtype": flow.dtype, **kwargs})
    self.flow = flow

  def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
    """u [..., dim] -> bits per dimension, [...]; with `training=True` with the coupling's dropout."""
    bits = self.flow.bits_per_dim(inputs, self.flow.training_seed(training))
    self.add_loss(tf.reduce_mean(bits))
    return bits

  def compute_output_shape(self, input_shape: Shape) -> tuple[int | None, ...] | tf.TensorShape:
    """Returns the shape of the bits per dimension [...] of u [..., dim]."""
    return super().compute_output_shape(input_shape)[:-1]

  def initialize(self, inputs: Vectors) -> tf.Tensor:
    """Adapts the flow to u [n, dim]; returns bits per dimension."""
    self.flow.adapt(inputs)
    return self(inputs)

  def get_config(self) -> dict[str, object]:
    """Returns the constructor's arguments."""
    return {**super().get_config(), "flow": to_keras(self.flow)}

  @classmethod
  def from_config(cls, config: dict[str, Any]) -> "NegativeLogLikelihood":
    """Returns a new layer with the arguments of `get_config`."""
    return cls(**{**config, "flow": from_keras(config["flow"])})
