"""Tests of `engine=openvino` of a SentenceEncoder and of models: the same embeddings, and where TensorFlow stays."""

import concurrent.futures
import dataclasses
import pickle
import shutil
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.corpus.job import EmbeddingJob, JobSettings
from bert_flow_tf.corpus.models import embedder_of
from bert_flow_tf.encoder import loading, sentence_encoder
from bert_flow_tf.encoder.engines import openvino_engine
from bert_flow_tf.encoder.loading import load_encoder
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.cpus import usable_cpus
from bert_flow_tf.vectors.model_of_vectors import load_model_of
from bert_flow_tf.vectors.vector_folder import VectorFolder
from tests.encoder import tiny
from tests.testing import golden_encoder, openvino_or_skip, rejected

openvino_or_skip()

TEXTS = ["a dog", "a cat b", "dogs . cats a b mask", "", "b b b b b b b a", "dog"]
ALL_POOLINGS = ("avg-first-last", "cls", "cls-token", "max", "concat-top-2", "avg-top-2", "mix", "word-rows")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """Returns the folder of a tiny BERT."""
  return tiny.save_tiny(tmp_path_factory.mktemp("tiny"))


def both(name, **settings):
  """Returns an encoder of each engine."""
  name = str(name)
  return [SentenceEncoder.from_pretrained(name, engine=engine, **settings) for engine in ("tensorflow", "openvino")]


@pytest.mark.parametrize(
  "settings",
  [{}, {"token_weights": "idf"}, {"truncate_dim": 5, "prompt": "cat: "}, {"hidden_act": "relu"}],
  ids=["plain", "idf", "truncated", "relu"],
)
def test_embeddings_are_those_of_tensorflow(folder, settings):
  by_tensorflow, by_openvino = both(folder, **settings)
  for pooling in ALL_POOLINGS:
    expected = by_tensorflow.encode(TEXTS, pooling)
    for batch_size in (64, 2):
      found = by_openvino.encode(TEXTS, pooling, batch_size=batch_size)
      np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=pooling)
  assert by_openvino.engine == "openvino" and by_openvino.prompt == by_tensorflow.prompt
  other = by_openvino.with_prompt("b ")
  np.testing.assert_allclose(other.encode(TEXTS), by_tensorflow.with_prompt("b ").encode(TEXTS), atol=1e-5)


# ALBERT shares its blocks, ELECTRA widens its word rows, ModernBERT and DeBERTa name their weights in other ways.
@pytest.mark.parametrize("name", ["albert", "electra", "modernbert", "deberta-v2", "roberta", "mpnet"])
def test_weights_of_all_architectures_have_their_checksum_and_word_rows(name):
  by_tensorflow, by_openvino = both(golden_encoder(name))
  assert by_openvino.weights_checksum == by_tensorflow.weights_checksum
  assert by_openvino.count_params() == by_tensorflow.count_params()
  assert by_openvino.deciding_settings == by_tensorflow.deciding_settings
  for pooling in ("mix", "word-rows"):
    found = by_openvino.encode(TEXTS, pooling)
    np.testing.assert_allclose(found, by_tensorflow.encode(TEXTS, pooling), atol=1e-5)


def test_no_variable_is_made_to_embed(folder, monkeypatch):
  def forbidden(*args, **kwargs):
    raise AssertionError("a variable was made")

  monkeypatch.setattr(tf, "Variable", forbidden)
  model = SentenceModel.from_pretrained(folder, engine="openvino", token_weights="idf")
  for pooling in ALL_POOLINGS:
    model.encoder.encode(TEXTS, pooling)
  model.fit(TEXTS * 4, "mean", show_progress=False)
  assert len(pickle.dumps(model.encoder)) and model.encoder.weights_checksum
  with pytest.raises(AssertionError, match="a variable was made"):
    SentenceEncoder.from_pretrained(folder)


@pytest.mark.parametrize("engine", ["tensorflow", "openvino"])
def test_a_copy_outlives_the_folder(tmp_path, folder, engine):
  place = shutil.copytree(folder, tmp_path / "copy")
  encoder = SentenceEncoder.from_pretrained(place, engine=engine)
  expected = encoder.encode(TEXTS, "mix")
  content = pickle.dumps([encoder, encoder.with_prompt("a ")])
  shutil.rmtree(place)
  copy, prompted = pickle.loads(content)
  assert copy.engine == prompted.engine == engine and copy.weights_checksum == encoder.weights_checksum
  np.testing.assert_allclose(copy.encode(TEXTS, "mix"), expected, atol=1e-6)
  np.testing.assert_allclose(prompted.with_prompt("").encode(TEXTS, "mix"), expected, atol=1e-6)


def test_identity_and_cache(folder, tmp_path):
  by_tensorflow, by_openvino = both(folder)
  assert by_openvino.identity().to_dict()["engine"] == "openvino"
  assert by_openvino.identity().differences(by_tensorflow.identity()) == []
  # A cache gives back what was computed, to the bit.
  assert by_openvino.fingerprint([]) != by_tensorflow.fingerprint([])
  first = by_openvino.encode(TEXTS, cache=tmp_path)
  assert (by_openvino.encode(TEXTS, cache=tmp_path) == first).all() and len(list(tmp_path.iterdir())) == 1
  by_tensorflow.encode(TEXTS, cache=tmp_path)
  assert len(list(tmp_path.iterdir())) == 2


def test_a_cache_tells_where_float32_is_computed_in_place_of_bfloat16(folder, monkeypatch):
  keys = set()
  for abilities in (["FP32", "BF16"], ["FP32"]):
    core = type("Core", (), {"get_property": lambda *names, found=abilities: found})()
    monkeypatch.setattr(openvino_engine, "process_core", lambda core=core: core)
    keys.add(SentenceEncoder.from_pretrained(folder, engine="openvino", precision="bfloat16").fingerprint([]))
  assert len(keys) == 2


def test_an_identity_of_0_2_has_no_engine(folder):
  identity = SentenceEncoder.from_pretrained(folder, precision="bfloat16").identity()
  values = identity.to_dict()
  assert values.pop("engine") == "tensorflow"
  assert type(identity).from_dict(values, "here") == identity
  # What manifests and caches of 0.2 hold.
  assert "engine" not in identity.deciding() and identity.deciding()["precision"] == "bfloat16"


def test_other_precisions_are_other_embeddings_of_each_engine(folder):
  identity, other = (
    dataclasses.replace(encoder.identity(), settings=dataclasses.replace(encoder.settings, precision="bfloat16"))
    for encoder in both(folder)
  )
  (line,) = identity.differences(other)
  assert line == "precision bfloat16, now bfloat16 by openvino"
  with rejected(EncoderError, None, match="; give engine=tensorflow, or allow_other_encoder=True$"):
    identity.check_same(other, "here")
  with rejected(EncoderError, None, match="; give engine=openvino, or allow_other_encoder=True$"):
    other.check_same(identity, "here")
  # More than the engine differs.
  with rejected(EncoderError, None, match="give the encoder and settings of the fit"):
    dataclasses.replace(identity, weights_sha256="0").check_same(other, "here")
  float32 = dataclasses.replace(identity, settings=dataclasses.replace(identity.settings, precision="float32"))
  with rejected(EncoderError, None, match="give the encoder and settings of the fit"):
    float32.check_same(other, "here")


@pytest.mark.parametrize("engine, other", [("tensorflow", "openvino"), ("openvino", "tensorflow")])
def test_an_error_names_the_engine_of_vectors(folder, tmp_path, engine, other):
  (tmp_path / "a.txt").write_text("a dog\na cat b\n")
  model = SentenceModel.from_pretrained(folder, engine=engine, precision="bfloat16", document_prompt="b ")
  settings = JobSettings(input=(str(tmp_path / "a.txt"),), output_dir=str(tmp_path / "vectors"))
  EmbeddingJob(settings).run(embedder_of(model))
  vectors = VectorFolder.open(str(tmp_path / "vectors"))
  assert load_model_of(vectors, engine=engine).encoder.engine == engine
  with rejected(EncoderError, "vectors", match=f"; take engine={engine}$"):
    load_model_of(vectors, engine=other)
  # A second run, in the folder, inside it and beside it.
  model = SentenceModel.from_pretrained(folder, engine=other, precision="bfloat16", document_prompt="b ")
  by_other = embedder_of(model)
  for name, match in (("", f"; give engine={engine} to resume, or"), ("/in", f", or give engine={engine}$")):
    with rejected(ConfigError, "output_dir", match=match):
      EmbeddingJob(dataclasses.replace(settings, output_dir=str(tmp_path / f"vectors{name}"))).run(by_other)
  EmbeddingJob(dataclasses.replace(settings, output_dir=str(tmp_path / "others"))).run(by_other)
  with rejected(ConfigError, "vectors", match=f"engines alone .*; embed .*/others again with engine={engine}"):
    vectors.check_against(VectorFolder.open(str(tmp_path / "others")))
  with rejected(ConfigError, "vectors", match="/others and .*/vectors are of different engines alone"):
    VectorFolder.open(str(tmp_path))


def test_a_model_remembers_its_engine(folder, tmp_path, monkeypatch):
  models = {}
  for engine in ("tensorflow", "openvino"):
    model = SentenceModel.from_pretrained(folder, engine=engine).fit(TEXTS * 4, "whitening", show_progress=False)
    model.save(tmp_path / engine)
    models[engine] = SentenceModel.load(tmp_path / engine)
    assert models[engine].encoder.engine == engine
    moved = shutil.copytree(folder, tmp_path / f"moved {engine}")
    assert SentenceModel.load(tmp_path / engine, model=str(moved)).encoder.engine == engine
  expected = models["tensorflow"].encode(TEXTS)
  # A calibration that was fitted with one engine is for the other, too.
  for engine, other in (("tensorflow", "openvino"), ("openvino", "tensorflow")):
    loaded = SentenceModel.load(tmp_path / engine, engine=other)
    assert loaded.encoder.engine == other
    np.testing.assert_allclose(loaded.encode(TEXTS), expected, atol=1e-4)

  def missing():
    raise ConfigError("engine=openvino: needs OpenVINO", "engine")

  monkeypatch.setattr(loading, "check_openvino", missing)
  with rejected(EncoderError, "folder", "needs OpenVINO, or give engine=tensorflow, which has the same embeddings"):
    SentenceModel.load(tmp_path / "openvino")
  SentenceModel.load(tmp_path / "openvino", engine="tensorflow")
  with rejected(ConfigError, "engine", "needs OpenVINO$"):
    SentenceModel.load(tmp_path / "tensorflow", engine="openvino")


def test_vectors_of_one_engine_are_resumed_and_searched_by_the_other(folder, tmp_path):
  (tmp_path / "a.txt").write_text("a dog\na cat b\n")
  by_tensorflow, by_openvino = map(SentenceModel, both(folder))
  job = EmbeddingJob(JobSettings(input=(str(tmp_path / "a.txt"),), output_dir=str(tmp_path / "vectors")))
  embedder = embedder_of(by_openvino)
  assert job.run(embedder).records == 2
  assert job.run(embedder_of(by_tensorflow)).records == 0
  # What workers load.
  assert pickle.loads(pickle.dumps(embedder.load))().encoder.engine == "openvino"
  vectors = VectorFolder.open(str(tmp_path / "vectors"))
  for engine in (None, "openvino", "tensorflow"):
    found = load_model_of(vectors, engine=engine)
    np.testing.assert_allclose(found.encode(["a dog"]), by_tensorflow.encode(["a dog"]), atol=1e-5)
    assert engine in (None, found.encoder.engine)


def test_graphs_and_frozen_layers_are_tensorflows(folder):
  by_tensorflow, by_openvino = both(folder)
  expected = by_tensorflow.encode(TEXTS)
  np.testing.assert_allclose(SentenceModel(by_openvino).as_function()(TEXTS), expected, atol=1e-5)
  assert by_openvino.engine == "openvino"
  layer = by_openvino.as_layer()
  np.testing.assert_allclose(layer(tf.constant(TEXTS)), expected, atol=1e-5)
  # The layer's weights can change from now on: the encoder computes on them, and so do its copies.
  prompted = by_openvino.with_prompt("b ")
  assert by_openvino.engine == prompted.engine == "tensorflow"
  by_openvino.variables[0].assign(-by_openvino.variables[0])
  assert np.abs(by_openvino.encode(TEXTS) - expected).max() > 0.01
  np.testing.assert_allclose(pickle.loads(pickle.dumps(by_openvino)).encode(TEXTS), by_openvino.encode(TEXTS))


def test_a_saved_encoder_and_a_saved_layer_are_for_each_engine(folder, tmp_path, caplog):
  by_tensorflow, by_openvino = both(folder)
  save_encoder(by_openvino, tmp_path / "saved")
  assert "does not hold" not in caplog.text
  save_encoder(SentenceEncoder.from_pretrained(folder, engine="openvino", precision="int8"), tmp_path / "int8")
  assert "it does not hold precision='int8', engine='openvino'" in caplog.text
  assert SentenceEncoder.from_pretrained(tmp_path / "saved").weights_checksum == by_tensorflow.weights_checksum
  config = by_openvino.as_layer(name="embedding").get_config()
  config["encoder"]["engine"] = "openvino"  # a layer is TensorFlow's
  assert type(by_tensorflow.as_layer()).from_config(config)._encoder.engine == "tensorflow"


def test_what_tensorflow_alone_can_do(folder, tmp_path):
  encoder = SentenceEncoder.from_pretrained(folder, engine="openvino")
  with rejected(ConfigError, "engine", "has no gradients, which a training needs; use engine=tensorflow"):
    encoder.as_layer(trainable=True)
  with rejected(ConfigError, "engine", "has no gradients"):
    SentenceModel(encoder).as_function(trainable=True)
  with rejected(ConfigError, "engine", "encoder_dropout"):
    SentenceModel(encoder).fit(TEXTS * 4, "flow", encoder_dropout=True)
  rounded = SentenceEncoder.from_pretrained(folder, engine="openvino", precision="bfloat16")
  for make in (rounded.as_layer, SentenceModel(rounded).as_function):
    with rejected(ConfigError, "engine", "with other embeddings in bfloat16"):
      make()
  with rejected(ConfigError, "engine", "no transformer"):
    SentenceEncoder.from_pretrained(f"static:{folder}", engine="openvino")
  with tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(len(tf.config.list_logical_devices("CPU")))]).scope():
    devices = tf.distribute.get_strategy().num_replicas_in_sync
    if devices > 1:
      with rejected(ConfigError, "engine", f"not on the {devices} devices"):
        SentenceEncoder.from_pretrained(folder, engine="openvino")
  with rejected(ConfigError, "engine", "a model object of your own"):
    SentenceEncoder(object(), None, settings=EncoderSettings(engine="openvino"))
  (tmp_path / "vectors.txt").write_text("a 1 2\nb 3 4\n")
  with rejected(ConfigError, "engine", "word vectors"):
    SentenceEncoder.from_pretrained(f"glove:{tmp_path / 'vectors.txt'}", engine="openvino")
  with rejected(ConfigError, "engine"):
    EncoderSettings(engine="onnx")


def test_damaged_weights_are_an_error_of_loading(tmp_path):
  weights = tiny.random_weights()
  weights["bert.encoder.layer.1.output.dense.bias"][3] = np.nan
  messages = []
  for engine in ("tensorflow", "openvino"):
    with pytest.raises(EncoderError, match="NaN") as raised:
      load_encoder(EncoderSettings.of(tiny.save_tiny(tmp_path, weights), engine=engine))
    messages.append(str(raised.value))
  assert messages[0] == messages[1]


def test_one_line_of_the_log_names_the_faster_engine(folder, caplog):
  sentence_encoder._suggest_openvino.cache_clear()
  caplog.set_level("INFO", "absl")
  by_tensorflow, by_openvino = both(folder)
  by_openvino.encode(TEXTS)
  SentenceEncoder.from_pretrained(folder, precision="bfloat16").encode(TEXTS)
  assert "engine=openvino" not in caplog.text
  by_tensorflow.encode(TEXTS)
  by_tensorflow.encode(TEXTS, "cls")
  assert caplog.text.count("engine=openvino") == 1


@pytest.mark.parametrize(("given", "expected"), [(0, usable_cpus()), (1, 1)])
def test_threads_are_those_that_tensorflow_is_given(folder, monkeypatch, given, expected):
  """As a worker of Spark limits itself (examples/spark_embed.py)."""
  monkeypatch.setattr(tf.config.threading, "get_intra_op_parallelism_threads", lambda: given)
  encoder = SentenceEncoder.from_pretrained(folder, engine="openvino")
  encoder.encode(TEXTS)
  ((request, _),) = encoder._weights.engine._requests.values()
  assert request.get_compiled_model().get_property("INFERENCE_NUM_THREADS") == expected


def test_threads_that_embed_first_at_once_have_one_engine(folder, monkeypatch):
  made = []

  class Slow(openvino_engine.OpenVinoEngine):
    def __init__(self, *arguments):
      made.append(arguments)
      time.sleep(0.05)  # as the import of OpenVINO's modules, in which other threads run
      super().__init__(*arguments)

  monkeypatch.setattr(sentence_encoder, "OpenVinoEngine", Slow)
  encoder = SentenceEncoder.from_pretrained(folder, engine="openvino")
  barrier = threading.Barrier(4)

  def embed(number):
    barrier.wait()
    return encoder.encode(TEXTS)

  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    first, *others = pool.map(embed, range(4))
  assert len(made) == 1
  for other in others:
    np.testing.assert_array_equal(other, first)


def test_the_engine_is_made_once_for_copies(folder, monkeypatch):
  made = []

  class Counted(openvino_engine.OpenVinoEngine):
    def __init__(self, *arguments):
      made.append(arguments)
      super().__init__(*arguments)

  monkeypatch.setattr(sentence_encoder, "OpenVinoEngine", Counted)
  encoder = SentenceEncoder.from_pretrained(folder, engine="openvino", query_prompt="a ", document_prompt="b ")
  for one in (encoder, encoder.for_queries(), encoder.for_documents(), encoder.with_prompt("dog ")):
    one.encode(TEXTS)
  assert len(made) == 1
