"""The Keras of the process, `tf.keras`: 3, or 2 with TF_USE_LEGACY_KERAS=1; and the differences of both.

Nothing else in the package knows which Keras it has.
"""

import contextlib
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

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
  from keras import Variable as Weight
  from keras.layers import Layer
else:
  import tf_keras as keras
  from tensorflow import Variable as Weight
  from tf_keras.layers import Layer
  from tf_keras.src.saving.serialization_lib import SHARED_OBJECTS

Shape: TypeAlias = Sequence[int | None] | tf.TensorShape  # of the inputs of a layer
LayerT = TypeVar("LayerT", bound=Layer)
DType: TypeAlias = str | tf.DType | keras.mixed_precision.Policy | None
# Registers a class under a name that saved models hold, so that Keras finds the class without custom_objects.
registered = keras.saving.register_keras_serializable("bert_flow_tf")
# Scope that prefixes the names of weights.
name_scope = keras.name_scope if IS_KERAS_3 else tf.name_scope


def _let_probability_find_keras() -> None:
  """Makes TensorFlow Probability importable after transformers, which sets TF_USE_LEGACY_KERAS within the process.

  Probability takes the Keras of tensorflow.compat.v2, which chooses at its own first use; Keras 2 is a module of it
  only if the variable was set when TensorFlow was imported.
  """
  import tensorflow.compat.v2 as v2  # not `from`, which would find a different module

  if os.environ.get("TF_USE_LEGACY_KERAS") not in ("1", "true", "True"):
    v2.keras.version()  # chooses Keras 3, also for the time after transformers' import
    return
  import tf_keras

  folder = os.path.join(os.path.dirname(tf_keras.__file__), "api", "_v2")
  if folder not in v2.__path__:
    v2.__path__.append(folder)


_let_probability_find_keras()


def build_scope(layer: Layer) -> contextlib.AbstractContextManager:
  """Returns the scope of the names of a layer's weights while it is built, which Keras 3 opens by itself."""
  return contextlib.nullcontext() if IS_KERAS_3 else tf.name_scope(layer.name)


def as_output_shape(sizes: Iterable[int | None]) -> tuple[int | None, ...] | tf.TensorShape:
  """Returns a shape as `compute_output_shape` gives it: a tuple, in Keras 2 a `tf.TensorShape`."""
  return tuple(sizes) if IS_KERAS_3 else tf.TensorShape(sizes)


def is_symbolic(values: object) -> bool:
  """Returns whether values are an input or output of Keras' layers, without numbers yet."""
  if IS_KERAS_3:
    return isinstance(values, keras.KerasTensor)
  return tf.is_tensor(values) and keras.backend.is_keras_tensor(values)


def parts_of(layer: Layer) -> list[Layer]:
  """Returns a layer and all layers inside it, outer ones first."""
  if IS_KERAS_3:
    return list(layer._flatten_layers())
  return [layer, *(part for part in layer.submodules if isinstance(part, Layer))]


def _layers_of_file(kind):
  """Returns Keras' dict of the layers of the .keras file that is written or read; None outside of this."""
  if IS_KERAS_3:
    try:
      from keras.src.backend.common.global_state import get_global_attribute
    except ImportError:  # not public: another Keras may have another place, and writes and reads files in its own way
      return None
    return get_global_attribute(f"shared_objects/id_to_{kind}_map")
  if not getattr(SHARED_OBJECTS, "enabled", False):
    return None
  return getattr(SHARED_OBJECTS, f"id_to_{kind}_map")


def name_in_file(layer: Layer) -> None:
  """Lets a .keras file that is written name a layer by an id wherever it is used, so that it is one after loading.

  Keras itself does so from the second use on, and adds the id to the first use only if this is not inside a layer.
  """
  written = _layers_of_file("config")
  if written is not None:
    written.setdefault(id(layer), {})


def one_in_file(config: Mapping[str, Any], settings: Mapping[str, Any], make: Callable[[], LayerT]) -> LayerT:
  """Returns a layer for the `config` that Keras gives to `from_config`: that of `make`, or one that was read before.

  Until release 0.2.0, a file did not name the first use of a layer that is within another one. So a named layer that
  was not read before is the only one that was read without a name and has equal settings.
  """
  read = _layers_of_file("obj")
  if read is None:
    return make()
  unnamed = read.setdefault("bert_flow_tf", [])  # [(settings, layer)], as long as Keras reads this file
  is_named = _is_named(config)
  twins = [pair for pair in unnamed if is_named and pair[0] == settings]
  if len(twins) == 1:
    unnamed.remove(twins[0])
    return twins[0][1]
  layer = make()
  if not is_named:
    unnamed.append((settings, layer))
  return layer


def _is_named(config):
  """Returns whether the layer of a config has an id in the file that Keras reads, which `from_config` is not told."""
  frame = sys._getframe()
  while frame is not None and frame.f_code.co_name != "deserialize_keras_object":
    frame = frame.f_back
  saved = frame.f_locals["config"] if frame is not None else {}
  return saved.get("config") is config and "shared_object_id" in saved


def track_parts(layer: Layer) -> None:
  """Lets `tf.train.Checkpoint` find the layers that a layer holds in lists, which Keras 3 hides from it.

  Lists have the names of their attributes, as in Keras 2: a checkpoint of one Keras can be restored in the other.
  """
  if not IS_KERAS_3:
    return
  for part in parts_of(layer):
    for name, value in list(vars(part).items()):
      is_list = isinstance(value, list) and name != "_layers"  # Keras' own list
      if is_list and value and all(isinstance(inner, Layer) for inner in value):
        part._track_trackable(tf.__internal__.tracking.wrap(list(value)), name, overwrite=True)
    _track_rest(part)


def _track_rest(part):
  """Tracks the layers that a layer holds outside of lists, for instance in a dictionary."""
  tracked = set()
  for child in part._trackable_children().values():
    tracked.add(id(child))
    if isinstance(child, list):
      tracked.update(map(id, child))
  for index, inner in enumerate(part._layers):
    if id(inner) not in tracked:
      part._track_trackable(inner, f"layer_{index}", overwrite=True)


# {(id of a variable, whether the layer is trainable): weight} of `weights_on`, as long as a layer has the weight.
_shared: weakref.WeakValueDictionary[tuple[int, bool], Weight] = weakref.WeakValueDictionary()


def weights_on(variables: Mapping[str, tf.Variable], trainable: bool) -> list[Weight]:
  """Returns weights of a layer on existing variables, {name: variable}: training or loading them sets the variables.

  Keras 3 would not notice a variable as a layer's attribute. Layers on the same variables get the same weights, because
  an optimizer would train two weights on one variable twice. Frozen and trainable layers have separate weight objects,
  because Keras sets `trainable` on them.
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


def tf_variables(weights: Iterable[Weight]) -> list[tf.Variable]:
  """Returns the variables of weights; Keras 3 wraps each variable in a separate object."""
  if IS_KERAS_3:
    return [weight._value for weight in weights]  # `value` may be a copy in another precision
  return list(weights)


def variables_of(layer: Layer) -> list[tf.Variable]:
  """Returns a layer's variables without frozen ones, as TensorFlow Probability would train these."""
  trained = {id(weight) for weight in layer.trainable_weights}
  variables = []
  for weight, variable in zip(layer.weights, tf_variables(layer.weights), strict=True):
    if id(weight) in trained or not variable.trainable:
      variables.append(variable)
  return variables
