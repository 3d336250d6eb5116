"""A layer of the flow as a bijector of TensorFlow Probability."""

from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp


class LayerBijector(tfp.bijectors.Bijector):
  """The bijector of one `FlowLayer`, z = layer(u); dropout as in `FlowLayer.make_bijector`."""

  def __init__(self, layer: Any, dropout_seed: tf.Tensor | None = None) -> None:
    parameters = {"layer": layer, "dropout_seed": dropout_seed}
    super().__init__(forward_min_event_ndims=1, parameters=parameters, name=layer.name)
    self._layer, self._dropout_seed = layer, dropout_seed

  @classmethod
  def _parameter_properties(cls, dtype: Any) -> dict[str, Any]:
    return {}

  def _forward(self, u):
    return self._layer.forward_and_log_det(u, dropout_seed=self._dropout_seed)[0]

  def _inverse(self, z):
    return self._layer.inverse(z, self._dropout_seed)

  def _forward_log_det_jacobian(self, u):
    log_det = self._layer.forward_and_log_det(u, dropout_seed=self._dropout_seed)[1]
    return tf.zeros([], u.dtype) if log_det is None else log_det
