"""Every way to save and copy a model of Keras: (model, another model with its layers, path) -> a model equal to it."""

import copy
import functools
import pickle

import tensorflow as tf

from bert_flow_tf.flow.keras import IS_KERAS_3, keras

ENDINGS = {"keras": ".keras", "h5": ".h5"}
if not IS_KERAS_3:  # which writes SavedModels by model.export, and loads none as a model
  ENDINGS["saved_model"] = ""


def _saved(model, other, path, ending):
  model.save(f"{path}{ending}")
  return keras.models.load_model(f"{path}{ending}")


def _weights_file(model, other, path):
  model.save_weights(f"{path}.weights.h5")
  other.load_weights(f"{path}.weights.h5")
  return other


def _checkpoint(model, other, path):
  path = tf.train.Checkpoint(model=model).save(str(path))
  values = [name for name, _ in tf.train.list_variables(path) if name.endswith("VARIABLE_VALUE")]
  assert len(values) >= len(model.weights)  # also what the output does not depend on
  tf.train.Checkpoint(model=other).restore(path).assert_consumed()
  return other


def _arrays(model, other, path):
  other.set_weights(model.get_weights())
  return other


def _clone(model, other, path):
  return _arrays(model, keras.models.clone_model(model), path)


WAYS = {name: functools.partial(_saved, ending=ending) for name, ending in ENDINGS.items()}
WAYS |= {
  "weights_h5": _weights_file,
  "checkpoint": _checkpoint,
  "set_weights": _arrays,
  "clone_model": _clone,
  "deepcopy": lambda model, other, path: copy.deepcopy(model),
  "pickle": lambda model, other, path: pickle.loads(pickle.dumps(model)),
}
