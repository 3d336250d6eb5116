"""Weights stored in half precision and computed with in float32."""

import tensorflow as tf

from bert_flow_tf.serving.layout import ExportError

WEIGHTS_DTYPES = ("float32", "float16", "bfloat16")
# Vectors (biases, layer norms) are a thousandth of the size, and the most sensitive.
_HALVED_RANK = 2


class HalfWeight(tf.saved_model.experimental.TrackableResource):
  """Takes the place of a variable in a SavedModel: half precision on disk, cast once when the model is loaded.

  To the graph's functions it is the resource that they captured, the variable's handle. Its exported form makes a
  float32 variable of its own and, among the model's initialisers, assigns the stored one to it: a request pays nothing.

  Args:
    variable: float32 tf.Variable that the functions read.
    dtype: of the stored copy.
    name: unique in the process that will load the model.
  """

  def __init__(self, variable, dtype, name):
    super().__init__()
    self._shape = variable.shape
    self._handle_of_export = variable.handle
    self._shared_name = name
    self.stored = tf.Variable(tf.cast(variable, dtype), trainable=False, name=f"{name}_stored")
    if not bool(tf.reduce_all(tf.math.is_finite(self.stored))):
      raise ExportError(f"--weights_dtype={dtype.name} cannot hold {variable.name}: choose bfloat16 or float32")

  @property
  def resource_handle(self):
    """The handle that functions capture; in the exported graph its own."""
    return self._handle_of_export if self._resource_handle is None else self._resource_handle

  def _create_resource(self):
    return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=self._shape, shared_name=self._shared_name)

  def _initialize(self):
    value = tf.cast(self.stored.read_value(), tf.float32)
    tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=value)

  def _destroy_resource(self):
    """Left to the process's end: another loaded copy of the same version may share it."""


def tracked(variables, dtype, prefix):
  """What a SavedModel keeps of a model's variables.

  Args:
    variables: list of tf.Variable.
    dtype: one of `WEIGHTS_DTYPES`, for the matrices among those in float32.
    prefix: of the names, unique among all exports.

  Returns:
    list of what to track: variables as they are, and `HalfWeight`s with what they store.
  """
  found = []
  for i, variable in enumerate(variables):
    if dtype == "float32" or variable.dtype != tf.float32 or variable.shape.rank < _HALVED_RANK:
      found.append(variable)
      continue
    weight = HalfWeight(variable, tf.as_dtype(dtype), f"{prefix}_{i}")
    found += [weight, weight.stored]
  return found
