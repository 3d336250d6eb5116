"""Programs of others on an exported model, without this package: `python programs.py NAME FOLDER`; prints JSON.

Each function is one program. Its name is NAME, its result is printed.
"""

import json
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (its ops)

TEXTS = ["a dog", "cats b", "", "dog dog a a a b"]
# Numbers of tokens of the rows of a batch, at most those of the model.
BATCHES = ((1,), (3,), (99,), (1, 99, 5, 2))


def numbers(values):
  """Returns nested lists."""
  return np.asarray(values, np.float64).tolist()


def hub_fine_tuning(folder):
  """All of it trained, by TensorFlow Hub; the tuned layer saved and loaded within a user's model."""
  import tensorflow_hub as hub
  import tf_keras

  layer = hub.KerasLayer(folder, trainable=True, input_shape=[], dtype=tf.string)
  model = tf_keras.Sequential([layer, tf_keras.layers.Dense(1)])
  model.compile(tf_keras.optimizers.Adam(1e-4), "mse")
  before = [weight.numpy() for weight in layer.trainable_weights]
  losses = model.fit(tf.constant(TEXTS), np.array([0.0, 1, 0, 1]), epochs=5, verbose=0).history["loss"]
  unchanged = [w.name for old, w in zip(before, layer.trainable_weights, strict=True) if np.array_equal(old, w)]
  place = tempfile.mkdtemp()
  model.save(place)
  loaded = tf_keras.models.load_model(place)
  return {
    "losses": losses,
    "unchanged": unchanged,
    "trainable": len(before),
    "regularization_losses": len(layer.losses),
    "difference": float(np.abs(loaded.predict(tf.constant(TEXTS), verbose=0) - model(tf.constant(TEXTS))).max()),
  }


def keras_3(folder):
  """TFSMLayer of Keras 3 with its default endpoint and with the server's, whose head is fitted, saved and loaded."""
  import keras

  texts = tf.constant(TEXTS)
  layer = keras.layers.TFSMLayer(folder, call_endpoint="serving_default", trainable=False)
  inputs = keras.Input([], dtype="string")
  model = keras.Model(inputs, keras.layers.Dense(1)(layer(inputs)["embedding"]))
  model.compile(keras.optimizers.Adam(0.05), "mse")
  losses = model.fit(texts, np.array([0.0, 1, 0, 1]), epochs=40, verbose=0).history["loss"]
  place = f"{tempfile.mkdtemp()}/model.keras"
  model.save(place)
  loaded = keras.models.load_model(place, safe_mode=False)
  difference = np.abs(loaded.predict(texts, verbose=0) - model.predict(texts, verbose=0))
  embeddings = {"serve": keras.layers.TFSMLayer(folder, trainable=False)(texts), **layer(texts)}
  vectors = {name: numbers(value) for name, value in embeddings.items()}
  return {"losses": losses, "difference": float(difference.max()), **vectors}


def beam(folder):
  """Apache Beam's embedding of text columns and its default handlers for inference."""
  import apache_beam
  from apache_beam.ml.inference.base import RunInference
  from apache_beam.ml.inference.tensorflow_inference import TFModelHandlerNumpy, TFModelHandlerTensor
  from apache_beam.ml.transforms.base import MLTransform
  from apache_beam.ml.transforms.embeddings.tensorflow_hub import TensorflowHubTextEmbeddings

  place = tempfile.mkdtemp()

  def written(name):
    return apache_beam.Map(json.dumps) | apache_beam.io.WriteToText(f"{place}/{name}", shard_name_template="")

  with apache_beam.Pipeline() as pipeline:
    embed = TensorflowHubTextEmbeddings(columns=["x"], hub_url=folder)
    transform = MLTransform(write_artifact_location=f"{place}/artifacts").with_transform(embed)
    rows = pipeline | apache_beam.Create([{"x": text} for text in TEXTS]) | transform
    rows | apache_beam.Map(lambda row: [row["x"]]) | "columns" >> written("columns")
    for name, make, handler in (
      ("tensors", tf.constant, TFModelHandlerTensor),
      ("arrays", np.array, TFModelHandlerNumpy),
    ):
      elements = pipeline | f"create {name}" >> apache_beam.Create(TEXTS) | f"make {name}" >> apache_beam.Map(make)
      results = elements | f"infer {name}" >> RunInference(handler(folder))
      results | f"list {name}" >> apache_beam.Map(lambda r: [numbers(r.inference)]) | f"write {name}" >> written(name)
  answers = {}
  for name in ("columns", "tensors", "arrays"):
    with open(f"{place}/{name}", encoding="utf-8") as file:
      answers[name] = [json.loads(line)[0] for line in file]
  return answers


def of_fixed_ids(folder, run):
  """Returns the largest differences of `run(ids=, lengths=)` from embed_ids_fixed, relative to the largest value."""
  signature = tf.saved_model.load(folder).signatures["embed_ids_fixed"]
  width = signature.structured_input_signature[1]["ids"].shape[1]
  differences = []
  for batch in BATCHES:
    ids = 8 + np.arange(len(batch) * width, dtype=np.int32).reshape(len(batch), width) % 5
    lengths = np.minimum(np.array(batch, np.int32), width)
    expected = signature(ids=tf.constant(ids), lengths=tf.constant(lengths))["embedding"].numpy()
    actual = run(ids=ids, lengths=lengths)
    assert actual.shape == expected.shape
    differences.append(float(np.abs(actual - expected).max() / np.abs(expected).max()))
  return {"differences": differences}


def lite(folder, interpreter=tf.lite.Interpreter):
  """`embed_ids_fixed` by the built-in operations of TensorFlow Lite, against TensorFlow."""
  converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=["embed_ids_fixed"])
  converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
  run = interpreter(model_content=converter.convert()).get_signature_runner("embed_ids_fixed")
  return of_fixed_ids(folder, lambda **inputs: run(**inputs)["embedding"])


def litert(folder):
  """The same by LiteRT's own package."""
  from ai_edge_litert.interpreter import Interpreter

  return lite(folder, Interpreter)


def openvino(folder):
  """`embed_ids_fixed` by OpenVINO, against TensorFlow."""
  import openvino as ov

  loaded = tf.saved_model.load(folder)
  model = ov.convert_model(loaded.signatures["embed_ids_fixed"])
  run = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
  return of_fixed_ids(folder, lambda **inputs: run(inputs)[0])


def onnx(folder):
  """`embed_ids_fixed` by tf2onnx's command and ONNX Runtime, against TensorFlow."""
  import onnxruntime
  from tf2onnx import convert

  place = f"{tempfile.mkdtemp()}/model.onnx"
  arguments = ["--saved-model", folder, "--signature_def", "embed_ids_fixed", "--opset", "18", "--output", place]
  sys.argv = ["convert", *arguments]
  convert.main()
  session = onnxruntime.InferenceSession(place, providers=["CPUExecutionProvider"])
  names = [entry.name for entry in session.get_inputs()]
  return {"inputs": names, **of_fixed_ids(folder, lambda **inputs: session.run(None, inputs)[0])}


if __name__ == "__main__":
  os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
  print(json.dumps(globals()[sys.argv[1]](sys.argv[2])))
