"""Weights stored in half precision and used in float32."""

import tensorflow as tf

from bert_flow_tf.errors import ConfigError

# Vectors (biases, layer norms) have a thousandth of the size and are the most sensitive; they stay float32.
_HALVED_RANK = 2


class HalfWeight(tf.saved_model.experimental.TrackableResource):
  """Replacement of a variable in a SavedModel: half precision on disk, converted once when the model is loaded.

  Functions captured the handle of the variable. In the exported graph, that handle is a new float32 variable, which an
  initializer of the model sets to the stored values; a request does not convert anything.

  Args:
    variable: float32 variable that the functions read.
    dtype: type of the stored values.
    name: name that is unique in the process that loads the model.
  """

  def __init__(self, variable: tf.Variable, dtype: tf.DType, name: str):
    super().__init__()
    self._shape = variable.shape
    self._handle_of_export = variable.handle
    self._shared_name = name
    self.stored = tf.Variable(tf.cast(variable, dtype), trainable=False, name=f"{name}_stored")
    if not bool(tf.reduce_all(tf.math.is_finite(self.stored))):
      raise ConfigError(
        f"weights_dtype={dtype.name}: a value of {variable.name} is too large for it; use bfloat16 or float32",
        argument="weights_dtype",
      )

  @property
  def resource_handle(self) -> tf.Tensor:
    """Handle that the functions captured; within the exported graph, the handle of the new variable."""
    return self._handle_of_export if self._resource_handle is None else self._resource_handle

  def _create_resource(self):
    return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=self._shape, shared_name=self._shared_name)

  def _initialize(self):
    value = tf.cast(self.stored.read_value(), tf.float32)
    tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=value)

  def _destroy_resource(self):
    """Does nothing: another loaded copy of the same version may use the variable."""


def tracked(variables: list[tf.Variable], dtype: str, prefix: str) -> list:
  """Returns the objects that a SavedModel must track so that it contains a model's variables.

  Args:
    variables: the model's variables.
    dtype: type on disk of the float32 matrices among them, one of `settings.WEIGHTS_DTYPES`.
    prefix: prefix of names, unique among all exports.
  """
  objects = []
  for i, variable in enumerate(variables):
    if dtype == "float32" or variable.dtype != tf.float32 or variable.shape.rank < _HALVED_RANK:
      objects.append(variable)
    else:
      weight = HalfWeight(variable, tf.as_dtype(dtype), f"{prefix}_{i}")
      objects += [weight, weight.stored]
  return objects
