"""The Keras of the process, which is that of `tf.keras`: 3, or 2 with TF_USE_LEGACY_KERAS=1; and what differs.

Nothing else in the package knows which Keras it has.
"""

import importlib
import importlib.util
import os
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

# The first use of `tf.keras` decides.
IS_KERAS_3 = not tf.keras.layers.Layer.__module__.startswith("tf_keras.")
if IS_KERAS_3:
  import keras

  if keras.backend.backend() != "tensorflow":
    raise ImportError(
      f"bert_flow_tf computes with TensorFlow, and Keras' backend is {keras.backend.backend()}: set "
      "KERAS_BACKEND=tensorflow, or TF_USE_LEGACY_KERAS=1 for Keras 2, before starting Python"
    )
else:
  import tf_keras as keras

Layer = keras.layers.Layer
# What a saved model calls a class of ours, so that Keras finds it without custom_objects.
registered = keras.saving.register_keras_serializable("bert_flow_tf")
# Of the names of weights in layers that other layers build.
name_scope = keras.name_scope if IS_KERAS_3 else tf.name_scope


def _let_probability_import_keras_2() -> None:
  """Makes tensorflow.compat.v2.keras importable if TF_USE_LEGACY_KERAS is set after TensorFlow's import, or will be.

  transformers sets it, and TensorFlow Probability, imported after it, would fail.
  """
  # Another module than the attribute `tf.compat.v2`.
  v2 = importlib.import_module("tensorflow.compat.v2")
  package = importlib.util.find_spec("tf_keras")  # not imported: it takes a second
  for place in package.submodule_search_locations if package else ():
    folder = os.path.join(place, "api", "_v2")
    if folder not in v2.__path__:
      v2.__path__.append(folder)


_let_probability_import_keras_2()


def is_symbolic(values: Any) -> bool:
  """Returns whether values are an input or output of Keras' layers, without numbers yet."""
  if IS_KERAS_3:
    return isinstance(values, keras.KerasTensor)
  return tf.is_tensor(values) and keras.backend.is_keras_tensor(values)


def parts_of(layer: Any) -> list[Any]:
  """Returns a layer and all layers inside it, outer ones first."""
  if IS_KERAS_3:
    return list(layer._flatten_layers())
  return [layer, *(part for part in layer.submodules if isinstance(part, Layer))]


def track_parts(layer: Any) -> None:
  """Lets `tf.train.Checkpoint` find the layers that a layer holds in lists, which Keras 3 hides from it."""
  if IS_KERAS_3:
    for index, part in enumerate(layer._layers):
      layer._track_trackable(part, f"layer_{index}")


# {(id of a variable, whether the layer is trainable): weight} of `weights_on`, as long as a layer has the weight.
_shared: Any = weakref.WeakValueDictionary()


def weights_on(variables: Mapping[str, tf.Variable], trainable: bool) -> list[Any]:
  """Returns existing variables, {name: variable}, as weights of a layer: who trains or loads these sets the variables.

  Keras 3 would not notice a variable as a layer's attribute. Layers on the same variables get the same weights, as an
  optimizer would train two weights on a variable twice; but a frozen layer has others than a trainable one, as it sets
  their `trainable`.
  """
  if not IS_KERAS_3:
    return list(variables.values())
  weights = []
  for name, variable in variables.items():
    key = id(variable), trainable
    weight = _shared.get(key)
    if weight is None or weight.trainable != (trainable and variable.trainable):
      weight = keras.Variable(variable, name=name.replace("/", "."), trainable=variable.trainable)
      if weight._value is not variable:
        raise ImportError(f"Keras {keras.__version__} copies a variable; use Keras 3.15, or TF_USE_LEGACY_KERAS=1")
      _shared[key] = weight
    weights.append(weight)
  return weights


def tf_variables(weights: Iterable[Any]) -> list[tf.Variable]:
  """Returns the variables of weights, each of which Keras 3 wraps in an object of its own."""
  if IS_KERAS_3:
    return [weight._value for weight in weights]  # `value` may be a copy in another precision
  return list(weights)


def variables_of(layer: Any) -> list[tf.Variable]:
  """Returns a layer's variables without frozen ones, as TensorFlow Probability would train these."""
  trained = {id(weight) for weight in layer.trainable_weights}
  variables = []
  for weight, variable in zip(layer.weights, tf_variables(layer.weights), strict=True):
    if id(weight) in trained or not variable.trainable:
      variables.append(variable)
  return variables
