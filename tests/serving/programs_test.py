"""Programs of others (`programs.py`) on exported models, in processes without this package; `as_function`."""

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.serving import exported, programs  # isort: skip
import tensorflow as tf  # isort: skip

from bert_flow_tf import FlowConfig, SentenceEncoder, SentenceModel, export_model
from bert_flow_tf.errors import CalibrationError, DataError
from bert_flow_tf.flow.keras import keras
from bert_flow_tf.serving.metadata import without_folders
from bert_flow_tf.serving.served_model import ServedModel
from bert_flow_tf.serving.settings import METADATA
from tests.encoder import tiny
from tests.encoder.tiny import convertible
from tests.testing import REPO, is_openvino_limited, rejected

pytestmark = pytest.mark.slow

SENTENCES = [" ".join(np.random.default_rng(i).choice(["a", "b", "dog", "cat"], 5)) for i in range(60)]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  """Returns {name: model} of calibrations of a tiny BERT."""
  folder = tiny.save_tiny(tmp_path_factory.mktemp("tiny"), config={**tiny.CONFIG, "num_hidden_layers": 1})
  encoder = SentenceEncoder.from_pretrained(str(folder))
  model = SentenceModel(encoder, max_seq_length=16)
  config = FlowConfig(n_levels=2, depth=1, coupling_width=8)
  flow = SentenceModel(
    encoder, exported.random_flow(model.encode(SENTENCES, calibrated=False), config), max_seq_length=16
  )
  white = SentenceModel(encoder, sentence_embedding_type="cls", max_seq_length=16, low_dim=3)
  white.fit(SENTENCES, "whitening-6")
  return {"flow": flow, "whitening": white, "encoder alone": SentenceModel(encoder, max_seq_length=16, low_dim=2)}


@pytest.fixture(scope="module")
def folders(models, tmp_path_factory):
  """Returns {name: folder of the exported model}."""
  base = tmp_path_factory.mktemp("served")
  return {name: export_model(model, base / name) for name, model in models.items()}


def run(program, folder, keras_2=True, packages=()):
  """Returns what a program prints; skips the test if a package that it needs is absent."""
  for package in packages:
    if importlib.util.find_spec(package) is None:
      pytest.skip(f"{package} is not installed: pip install '.[test]'")
  environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1" if keras_2 else "0", "CUDA_VISIBLE_DEVICES": "-1"}
  command = [sys.executable, str(REPO / "tests/serving/programs.py"), program, str(folder)]
  # From another folder, so that the package is not found.
  done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
  assert done.returncode == 0, done.stderr[-3000:]
  return json.loads(done.stdout.splitlines()[-1])


def test_a_hub_layer_is_fine_tuned_and_saved(folders):
  result = run("hub_fine_tuning", folders["flow"], packages=["tensorflow_hub"])
  assert result["losses"][-1] < result["losses"][0] and result["regularization_losses"] == 0
  assert result["unchanged"] == [] and result["trainable"] > 40
  assert result["difference"] < 1e-4


def test_a_layer_of_keras_3(models, folders):
  result = run("keras_3", folders["flow"], keras_2=False)
  assert result["losses"][-1] < 0.5 * result["losses"][0] and result["difference"] == 0.0
  for name in ("serve", "embedding"):
    exported.close(result[name], models["flow"].encode(programs.TEXTS))


def test_apache_beam(models, folders):
  answers = run("beam", folders["flow"], packages=["apache_beam", "tensorflow_hub"])
  expected = models["flow"].encode(programs.TEXTS)
  for name, rows in answers.items():
    assert len(rows) == len(expected), name
    exported.close(sorted(rows), sorted(expected.tolist()))  # Beam keeps no order


@pytest.mark.parametrize("name", ["flow", "whitening", "encoder alone"])
def test_tensorflow_lite(folders, name):
  assert max(run("lite", folders[name])["differences"]) < 1e-4


def test_litert(folders):
  assert max(run("litert", folders["flow"], packages=["ai_edge_litert"])["differences"]) < 1e-4


def test_openvino(folders):
  if is_openvino_limited():
    pytest.skip("a limit of oneDNN's instructions is set, with which OpenVINO fails")
  assert max(run("openvino", folders["flow"], packages=["openvino"])["differences"]) < 1e-4


@pytest.mark.parametrize("name", ["flow", "whitening", "encoder alone"])
def test_onnx(folders, name):
  result = run("onnx", folders[name], packages=["tf2onnx", "onnxruntime"])
  assert result["inputs"] == ["ids", "lengths"] and max(result["differences"]) < 1e-5


@pytest.mark.parametrize("name", ["flow", "whitening", "encoder alone"])
def test_the_graph_that_converters_to_onnx_take(models, name):
  """tf2onnx 1.17 has no erfc, and drops a reshape with two sizes that it does not know."""
  graph = ServedModel(models[name], normalize=True).functions()["embed_ids_fixed"].graph
  assert convertible(graph) > 5


@pytest.mark.parametrize("name", ["flow", "whitening", "encoder alone"])
def test_a_model_as_a_function(models, name):
  model = models[name]
  embed = model.as_function()
  expected = model.encode(SENTENCES)
  exported.close(embed(SENTENCES), expected, 1e-3)
  rows = tf.data.Dataset.from_tensor_slices(SENTENCES).batch(7).map(model.as_function(normalize=True))
  lengths = np.linalg.norm(expected, axis=1, keepdims=True)
  exported.close(np.concatenate(list(rows.as_numpy_iterator())), expected / lengths, 1e-3)
  assert embed([]).shape == (0, expected.shape[1])


def test_a_function_of_unit_rows_in_an_index(models, tmp_path):
  """In a module of dot products, as TensorFlow Recommenders' BruteForce is, saved and loaded; a row of zeros stays."""
  model = SentenceModel(models["flow"].encoder, max_seq_length=16).fit(SENTENCES, "characters-16")
  texts = ["a dog", "", "cat b a"]

  class Index(tf.Module):
    def __init__(self):
      super().__init__()
      self.embed = model.as_function(normalize=True)
      self.rows = tf.Variable(self.embed(SENTENCES))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def __call__(self, text):
      return tf.matmul(self.embed(text), self.rows, transpose_b=True)

  tf.saved_model.save(Index(), str(tmp_path / "index"))
  rows = [model.encode(part).astype(np.float64) for part in (texts, SENTENCES)]
  found, stored = (part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-30) for part in rows)
  scores = tf.saved_model.load(str(tmp_path / "index"))(texts)
  np.testing.assert_allclose(scores, found @ stored.T, atol=1e-5)
  assert not rows[0][1].any() and rows[0][0].any()
  version = export_model(model, tmp_path / "served", normalize=True)
  for embed in (tf.saved_model.load(str(version)), model.as_function(normalize_embeddings=True)):
    np.testing.assert_allclose(embed(tf.constant(texts)), found, atol=1e-6)


@pytest.mark.parametrize("name", ["flow", "whitening", "encoder alone"])
def test_what_a_function_trains(models, name):
  model = models[name]
  for trainable in (False, True):
    embed = model.as_function(trainable=trainable)
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(embed(["a dog"]) ** 2)
    gradients = tape.gradient(loss, [*model.encoder.bert.weights[:5], *embed.trainable_variables])
    assert [gradient is not None for gradient in gradients] == [trainable] * len(gradients)
    assert len(embed.trainable_variables) + len(embed.non_trainable_variables) == len(embed.variables)
  assert len(embed.trainable_variables) > 20


@pytest.mark.parametrize("name", ["flow", "whitening", "encoder alone"])
def test_a_function_in_models_of_keras(models, name, tmp_path):
  """A Lambda, and a layer that holds the function: trained around it, exported; a SavedModel of the function."""
  model, text = models[name], tf.constant(SENTENCES)

  class Embedding(keras.layers.Layer):
    def __init__(self):
      super().__init__()
      self.embed = model.as_function()

    def call(self, inputs):
      return self.embed(inputs)

    def compute_output_shape(self, input_shape):
      return (input_shape[0], model.output_dim)

  expected = model.encode(SENTENCES)
  for number, layer in enumerate(
    (keras.layers.Lambda(model.as_function(), output_shape=(model.output_dim,)), Embedding())
  ):
    inputs = keras.Input([], dtype="string")
    around = keras.Model(inputs, keras.layers.Dense(1)(layer(inputs)))
    assert len(around.trainable_weights) == 2
    around.compile("adam", "mse")
    around.fit(text, np.zeros([len(SENTENCES), 1]), verbose=0)
    np.testing.assert_array_equal(model.encode(SENTENCES), expected)
    around.export(str(tmp_path / str(number)))
    loaded = tf.saved_model.load(str(tmp_path / str(number)))
    exported.close(loaded.serve(text), around(text), 1e-4)
  with rejected(DataError, "text"):
    model.as_function()(inputs)
  function = model.as_function()
  tf.saved_model.save(function, str(tmp_path / "function"))
  loaded = tf.saved_model.load(str(tmp_path / "function"))
  exported.close(loaded(text), expected, 1e-4)
  assert len(loaded.variables) == len(function.variables) and len(loaded.trainable_variables) == 0


@pytest.mark.parametrize("name", ["flow", "whitening"])
def test_a_calibration_alone(models, tmp_path, name):
  model = models[name]
  vectors = model.encode(SENTENCES, calibrated=False)
  reference = vectors if name == "flow" else None
  folder = export_model(model.calibration, tmp_path, reference=reference, normalize=name == "whitening")
  loaded = tf.saved_model.load(str(folder))
  answer = loaded.signatures["serving_default"]
  expected = model.calibration.transform(vectors)
  if name == "whitening":
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
  exported.close(loaded(vectors), expected)
  exported.close(answer(vectors=tf.constant(vectors))["embedding"], expected)
  assert answer(vectors=tf.zeros([0, 12]))["embedding"].shape == (0, expected.shape[1])
  metadata = json.loads((folder / METADATA).read_text())
  assert list(metadata["signatures"]) == list(loaded.signatures)
  assert metadata["encoder"] == without_folders(model.calibration.encoder)
  assert ("reference" in metadata) == (name == "flow")


def test_reference_quantiles(models, tmp_path):
  fitted = SentenceModel(models["flow"].encoder, max_seq_length=16)
  config = {"flow_model_config": FlowConfig(n_levels=2, depth=1, coupling_width=8)}
  fitted.fit(SENTENCES, train_batch_size=8, **config)
  pairs = SENTENCES[:30], SENTENCES[30:]
  for reference, used in ((None, SENTENCES), (pairs, SENTENCES), (iter(SENTENCES * 40), (SENTENCES * 40)[::3])):
    about = json.loads((export_model(fitted, tmp_path, reference=reference) / METADATA).read_text())["reference"]
    bits = np.asarray(fitted.calibration.bits_per_dim(fitted.encode(used, calibrated=False)))
    assert about["rows"] == len(used)
    for share, value in about["bits_per_dim"].items():
      assert value == pytest.approx(np.quantile(bits, float(share)), rel=1e-4)
  with rejected(CalibrationError, "reference"):
    export_model(fitted.calibration, tmp_path, reference=np.full([3, fitted.dim], np.nan))
