"""Process with a user's Keras model and a flow of ours, which imports their modules in one of several orders."""

import importlib
import json

import numpy as np

# {order: (modules before ours, modules after ours, module of the user's layers)}
ORDERS = {
  "us first": ([], ["tensorflow_probability"], "tf.keras"),
  "us before all others": ([], ["transformers.TFBertModel", "tf_keras", "keras", "tensorflow_hub"], "keras"),
  "keras": (["keras"], [], "keras"),
  "tf.keras": (["tf.keras"], [], "tf.keras"),
  "tf_keras": (["tf_keras"], [], "tf_keras"),
  "tfp": (["tensorflow_probability.distributions"], [], "tf.keras"),
  "TFBertModel": (["transformers.TFBertModel"], [], "tf.keras"),
  "tf.keras, TFBertModel": (["tf.keras", "transformers.TFBertModel"], [], "tf.keras"),
  "tensorflow_hub and tensorflow_text": (["tensorflow_hub", "tensorflow_text"], [], "tf.keras"),
  "keras_hub": (["keras_hub"], [], "keras"),
  "torch": (["torch"], [], "keras"),  # in the other order, Triton ends the process
}
U = np.random.default_rng(0).normal(size=[64, 8]).astype(np.float32)


def load(name):
  """Imports a module, or a module and a name in it, of which some load more at their first use."""
  if name == "tf.keras":
    import tensorflow as tf

    tf.keras.layers  # noqa: B018 (the first use, at which TensorFlow chooses)
    return tf.keras
  module, _, attribute = name.partition(".")
  loaded = importlib.import_module(module)
  return getattr(loaded, attribute) if attribute else loaded


def make_model(keras):
  """Returns a user's model, which learns the sum of a row."""
  model = keras.Sequential([keras.Input([8]), keras.layers.Dense(1, kernel_initializer="zeros")])
  model.compile(keras.optimizers.SGD(0.05), "mse")
  return model


def train(model):
  """Returns the losses of two passes."""
  sums = U.sum(axis=1, keepdims=True)
  return model.fit(U, sums, batch_size=16, epochs=2, shuffle=False, verbose=0).history["loss"]


def use_flow(keras, glow):
  """Returns numbers of a new flow: trained between other layers; its density alone."""
  flow = glow({"n_levels": 2, "depth": 1, "coupling_width": 4}, dim=8, seed=1)
  flow.adapt(U)
  inputs = keras.Input([8])
  scaled = keras.layers.Rescaling(2.0, 0.5)(inputs)
  head = keras.layers.Dense(1, kernel_initializer="ones")
  model = keras.Model(inputs, head(flow(scaled)))
  model.compile(keras.optimizers.SGD(1e-3), "mse")
  losses = train(model)
  return {"losses": losses, "log_prob": flow.distribution.log_prob(U[:3]).numpy().tolist()}


def name_of(keras):
  """Returns "keras" for Keras 3, "tf_keras" for Keras 2."""
  return keras.layers.Layer.__module__.partition(".")[0]


def main(order):
  """Trains the user's model before and after our import, and uses a flow; prints what was computed."""
  before, after, users_module = ORDERS[order]
  for module in before:
    load(module)
  losses = []
  if before:
    keras = load(users_module)
    model = make_model(keras)
    losses.append(train(model))
  from bert_flow_tf.flow import Glow

  for module in after:
    load(module)
  if not before:
    keras = load(users_module)
    model = make_model(keras)
    losses.append(train(model))
  losses.append(train(model))
  import tensorflow as tf

  assert load(users_module) is keras
  flow = use_flow(tf.keras, Glow)
  losses.append(train(model))
  found = {"users_model": losses, "users_keras": name_of(keras), "tf.keras": name_of(tf.keras), "flow": flow}
  print(json.dumps(found))
