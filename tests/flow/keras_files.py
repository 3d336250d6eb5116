"""Process that saves a model of every layer in one Keras, or loads these files in the other (`package_test`)."""

import numpy as np
import tensorflow as tf

from bert_flow_tf.flow import Glow
from bert_flow_tf.flow.keras import IS_KERAS_3, keras
from tests.flow.cases import CASES, DIM, cone
from tests.flow.keras_test import model_of

U = cone(6, DIM).astype(np.float32)


def make(seed):
  """Returns a model of every layer of the list, and its last layer, a flow."""
  layers = [case.build(seed, "float32") for case in CASES]
  return model_of(*layers), layers[-1]


def save(folder):
  """Saves a model in each way that the other Keras can load."""
  model, flow = make(1)
  np.savez(f"{folder}/expected.npz", model=model(U), flow=flow(U))
  model.save_weights(f"{folder}/model.weights.h5")
  tf.train.Checkpoint(flow=flow).write(f"{folder}/checkpoint")
  flow.save(f"{folder}/flow")
  if not IS_KERAS_3:
    model.save(f"{folder}/model.h5")


def load(folder):
  """Compares what each way loads with the saved model."""
  expected = np.load(f"{folder}/expected.npz")
  model, flow = make(2)
  model.load_weights(f"{folder}/model.weights.h5")
  tf.train.Checkpoint(flow=flow).read(f"{folder}/checkpoint").assert_consumed()
  found = {"weights": model(U), "checkpoint": flow(U), "save": Glow.load(f"{folder}/flow")(U)}
  if IS_KERAS_3:
    found["h5"] = keras.models.load_model(f"{folder}/model.h5")(U)
  for name, values in found.items():
    saved = expected["flow" if name in ("checkpoint", "save") else "model"]
    np.testing.assert_allclose(values, saved, rtol=1e-4, atol=1e-4, err_msg=name)
  print("equal", len(found))
