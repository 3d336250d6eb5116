"""The flow's layers as bijectors of TensorFlow Probability; functions that take them do not retrace for a new one."""

import numpy.typing as npt
import tensorflow as tf
from tensorflow_probability import bijectors as tfb

from bert_flow_tf.flow.keras import Layer, variables_of


class _CurrentWeights(tfb.Bijector):
  """Base of bijectors that always compute by the current weights."""

  # TFP keeps results by the tensor that it got, and not all of them equally long: after a change of the weights it
  # would join new latents with the old log-determinant. A copy of the tensor is new to it.
  def forward(self, x: npt.ArrayLike | tf.Tensor, name: str = "forward", **kwargs: object) -> tf.Tensor:
    """u [..., dim] -> z [..., dim]."""
    return super().forward(_copied(x), name, **kwargs)

  def inverse(self, y: npt.ArrayLike | tf.Tensor, name: str = "inverse", **kwargs: object) -> tf.Tensor:
    """z [..., dim] -> u [..., dim]."""
    return super().inverse(_copied(y), name, **kwargs)

  def forward_log_det_jacobian(self, x: npt.ArrayLike | tf.Tensor, *args: object, **kwargs: object) -> tf.Tensor:
    """u [..., dim] -> log|det dz/du|; further arguments as of `tfb.Bijector`."""
    return super().forward_log_det_jacobian(_copied(x), *args, **kwargs)

  def inverse_log_det_jacobian(self, y: npt.ArrayLike | tf.Tensor, *args: object, **kwargs: object) -> tf.Tensor:
    """z [..., dim] -> -log|det dz/du| at u(z); further arguments as of `tfb.Bijector`."""
    return super().inverse_log_det_jacobian(_copied(y), *args, **kwargs)


def _copied(values):
  """Returns a new tensor of the same numbers; anything but a tensor as it is, of which TFP makes a new one."""
  return tf.identity(values) if isinstance(values, tf.Tensor) else values


class FlowChain(_CurrentWeights, tfb.Chain):
  """`tfb.Chain` of a flow's layers, as `chain.chain_bijector` makes it."""


class LayerBijector(_CurrentWeights, tfb.AutoCompositeTensorBijector):
  """Bijector of a `FlowLayer`, z = layer(u); dropout as in `FlowLayer.make_bijector`."""

  def __init__(
    self, layer: Layer, dropout_seed: tf.Tensor | None = None, weights: list[tf.Variable] | None = None
  ) -> None:
    # TensorFlow Probability finds variables in parameters, and none in a layer.
    if weights is None:
      weights = variables_of(layer)
    parameters = {"layer": layer, "dropout_seed": dropout_seed, "weights": weights}
    super().__init__(forward_min_event_ndims=1, parameters=parameters, name=layer.name)
    self._layer, self._dropout_seed, self._weights = layer, dropout_seed, weights

  @classmethod
  def _parameter_properties(cls, dtype: tf.DType | None) -> dict[str, object]:
    return {}

  # TFP takes every variable that it finds, of a frozen layer, too.
  _TF_MODULE_IGNORED_PROPERTIES = tfb.Bijector._TF_MODULE_IGNORED_PROPERTIES | {"_layer", "_parameters"}

  # TFP shares cached results between equal bijectors: bijectors on different weights must not be equal.
  __eq__ = object.__eq__
  __hash__ = object.__hash__

  def _forward(self, u):
    return self._forward_and_log_det(u)[0]

  def _inverse(self, z):
    u = self._layer.inverse(z, self._dropout_seed)
    self._find_weights()
    return u

  def _forward_log_det_jacobian(self, u):
    log_det = self._forward_and_log_det(u)[1]
    return tf.zeros([], self._layer.dtype) if log_det is None else log_det

  def _forward_and_log_det(self, u):
    result = self._layer.forward_and_log_det(u, self._dropout_seed)
    self._find_weights()
    return result

  def _find_weights(self):
    """Gets the weights of a layer that was new when this bijector was made; its first tensor has built it."""
    if not self._weights and tf.executing_eagerly():  # a tf.function must not change its arguments
      self._weights = self._parameters["weights"] = variables_of(self._layer)


class Cast(tfb.AutoCompositeTensorBijector):
  """Conversion of numbers to one dtype, in both directions; the log-determinant is 0."""

  def __init__(self, to: str) -> None:
    super().__init__(forward_min_event_ndims=0, is_constant_jacobian=True, parameters={"to": to}, name="cast")
    self._to = to

  @classmethod
  def _parameter_properties(cls, dtype: tf.DType | None) -> dict[str, object]:
    return {}

  def _forward(self, u):
    return tf.cast(u, self._to)

  def _inverse(self, z):
    return tf.cast(z, self._to)

  def _forward_log_det_jacobian(self, u):
    return tf.zeros([], self._to)
