"""Tests of hidden states by OpenVINO: equal to TensorFlow's of every architecture; batches, precisions, rejections."""

import concurrent.futures
import gc
import os
import signal
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.encoder.engines import openvino_engine
from bert_flow_tf.encoder.engines.openvino_engine import OpenVinoEngine, check_openvino
from bert_flow_tf.encoder.transformer.activations import ACTIVATIONS
from bert_flow_tf.encoder.transformer.architectures import ARCHITECTURES
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.transformer import path_of_variable
from bert_flow_tf.encoder.transformer.weights import random_transformer
from bert_flow_tf.errors import ConfigError
from tests.testing import finished_python, openvino_or_skip, rejected

openvino = openvino_or_skip()

VOCABULARY = 90
SIZES = {
  "vocab_size": VOCABULARY,
  "hidden_size": 24,
  "num_hidden_layers": 3,
  "num_attention_heads": 3,
  "intermediate_size": 40,
  "max_position_embeddings": 64,
  "hidden_act": "gelu",
}
OF_DISTILBERT = {
  "dim": 24,
  "n_layers": 2,
  "n_heads": 3,
  "hidden_dim": 40,
  "max_position_embeddings": 64,
  "vocab_size": VOCABULARY,
}
OF_MODERNBERT = SIZES | {"num_hidden_layers": 5, "max_position_embeddings": 128, "local_attention": 16}
OF_DEBERTA = SIZES | {"position_buckets": 8, "type_vocab_size": 0}
# (model_type, what its config.json has); a text of 60 tokens has more than two windows of ModernBERT.
CONFIGS = [
  ("bert", SIZES),
  ("roberta", SIZES | {"pad_token_id": 3}),
  ("xlm-roberta", SIZES),
  ("camembert", SIZES | {"layer_norm_eps": 1e-5}),
  ("mpnet", SIZES | {"max_position_embeddings": 300}),
  ("distilbert", OF_DISTILBERT),
  ("electra", SIZES | {"embedding_size": 16}),
  ("electra", SIZES | {"embedding_size": 24}),
  ("albert", SIZES | {"embedding_size": 16}),
  ("modernbert", OF_MODERNBERT),
  ("modernbert", OF_MODERNBERT | {"local_attention": 9, "num_hidden_layers": 6, "global_attn_every_n_layers": 2}),
  ("modernbert", OF_MODERNBERT | {"local_attention": 1, "num_hidden_layers": 2}),
  ("deberta-v2", OF_DEBERTA),
  ("deberta-v2", OF_DEBERTA | {"max_relative_positions": 30, "num_attention_heads": 4}),
]
# OpenVINO multiplies in integers from 128 inputs on.
WIDE = SIZES | {"hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 256, "num_hidden_layers": 2}
# The lengths of the texts of batches: with padding and without, a single text, texts of one token.
BATCHES = [[60, 3, 17, 1], [9, 9], [1], [33], [1, 1], [2, 1]]


def make_model(model_type, values, seed=1):
  """Returns a random `Transformer` whose biases are not 0."""
  model = random_transformer(EncoderConfig({"model_type": model_type, "initializer_range": 0.3, **values}), seed)
  rng = np.random.default_rng(seed)
  for weight in model.weights:
    if len(weight.shape) == 1:
      weight.assign_add(rng.normal(0, 0.1, weight.shape))
  return model


def make_engine(model, precision="float32", paths=None, order="C"):
  """Returns the engine of a model; `paths` gets the paths that it reads, `order` is the order of kernels in memory."""
  arrays = {path_of_variable(weight): np.asarray(weight.numpy(), order=order) for weight in model.weights}

  def read(path):
    if paths is not None:
      paths.append(path)
    return arrays[path]

  return OpenVinoEngine(model.config, read, model.has_pooler, precision)


def random_texts(lengths, pad_id=None):
  """Returns ids of texts; with `pad_id`, it is the third token of each text that has one."""
  rng = np.random.default_rng(sum(lengths))
  texts = [rng.integers(0, VOCABULARY, length, np.int32) for length in lengths]
  for text in texts:
    if pad_id is not None:
      text[2:3] = pad_id
  return texts


def states_of(model, texts):
  """Returns all hidden states and the pooled output by TensorFlow, and which positions are tokens."""
  lengths = np.array([len(text) for text in texts])
  mask = np.arange(lengths.max()) < lengths[:, np.newaxis]
  ids = np.full(mask.shape, model.config.pad_token_id or 0, np.int32)
  ids[mask] = np.concatenate(texts)
  states, pooled = model(tf.constant(ids), tf.constant(mask, tf.int32))
  return np.stack(states), pooled, mask


def assert_near(found, expected, share=1e-5):
  """Compares relative to the largest value."""
  np.testing.assert_allclose(found, expected, rtol=0, atol=share * np.abs(expected).max())


@pytest.fixture(scope="module")
def bert():
  return make_model("bert", SIZES)


def test_all_architectures_have_a_case():
  assert {model_type for model_type, _ in CONFIGS} == set(ARCHITECTURES)


@pytest.mark.parametrize(("model_type", "values"), CONFIGS)
def test_states_equal_tensorflows(model_type, values):
  model = make_model(model_type, values)
  engine = make_engine(model)
  last = model.config.num_hidden_layers
  for lengths in BATCHES:
    texts = random_texts(lengths, pad_id=model.config.pad_token_id or 0)
    expected, expected_pooled, mask = states_of(model, texts)
    states, pooled = engine(texts, range(last + 1), pooled=True)
    assert sorted(states) == list(range(last + 1))
    for number, found in states.items():
      assert found.dtype == np.float32 and found.shape == expected[number].shape and np.isfinite(found).all()
      assert_near(found[mask], expected[number][mask])
    first, first_pooled = engine(texts, [0, last], pooled=True, first_token=True)
    assert first[last].shape == (len(texts), 1, model.config.hidden_size)
    assert_near(first[last][:, 0], expected[last][:, 0])
    assert_near(first[0][mask], expected[0][mask])
    assert_near(engine(texts, [1])[0][1][mask], expected[1][mask])
    if expected_pooled is None:
      assert pooled is first_pooled is None
    else:
      for found in (pooled, first_pooled, engine(texts, [], pooled=True).pooled_output):
        assert_near(found, expected_pooled)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
  model = make_model("bert", SIZES | {"hidden_act": name, "num_hidden_layers": 1})
  texts = random_texts([30])
  assert_near(make_engine(model)(texts, [1]).hidden_states[1], states_of(model, texts)[0][1])


def test_a_text_has_the_same_states_in_any_batch():
  for model_type, values in (("bert", SIZES), ("modernbert", OF_MODERNBERT)):
    engine = make_engine(make_model(model_type, values))
    texts = random_texts([60, 3, 40, 17, 1])
    together = engine(texts, [2]).hidden_states[2]
    for number, text in enumerate(texts):
      alone = engine([text], [2]).hidden_states[2][0]
      assert_near(together[number, : len(text)], alone)


def test_nothing_above_the_last_wanted_block_is_read(bert):
  paths = []
  engine = make_engine(bert, paths=paths)
  assert not paths
  engine(random_texts([3]), [1])
  assert paths and not [path for path in paths if "layer_._1" in path or "layer_._2" in path or "pooler" in path]
  count = len(paths)
  engine(random_texts([7, 7]), [1])
  assert len(paths) == count
  engine(random_texts([3, 2]), [1])  # the model of batches with padding
  large = [path for path in paths[count:] if "word_embeddings" in path or path.endswith("kernel")]
  assert not large
  assert engine(random_texts([3]), []) == ({}, None)


def test_blocks_that_share_weights_read_them_once():
  paths = []
  make_engine(make_model("albert", SIZES | {"embedding_size": 16}), paths=paths)(random_texts([3]), [3])
  assert len(paths) == len(set(paths))


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_kernels_in_the_order_of_pytorchs_files(precision):
  for model_type, values in (("bert", WIDE), ("modernbert", WIDE | {"local_attention": 16})):
    model = make_model(model_type, values)
    texts = random_texts([30, 3])
    found, expected = (make_engine(model, precision, order=order)(texts, [2]).hidden_states[2] for order in "FC")
    assert_near(found, expected, 1e-5 if precision == "float32" else 0.02)


def test_threads_share_an_engine(bert):
  engine = make_engine(bert)
  batches = [random_texts([number + 1, 5]) for number in range(20)]
  expected = [engine(texts, [3]).hidden_states[3] for texts in batches]
  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    found = list(pool.map(lambda texts: engine(texts, [3]).hidden_states[3], batches))
  for states, expected_states in zip(found, expected, strict=True):
    np.testing.assert_array_equal(states, expected_states)


def test_states_without_tensorflow(bert, tmp_path):
  np.savez(tmp_path / "weights.npz", **{path_of_variable(weight): weight.numpy() for weight in bert.weights})
  code = f"""
import logging
import sys
import absl.logging
import numpy as np
from bert_flow_tf.encoder.engines.openvino_engine import OpenVinoEngine
from bert_flow_tf.encoder.transformer.config import EncoderConfig
absl.logging.use_absl_handler()
handlers = list(logging.root.handlers)
weights = np.load({str(tmp_path / "weights.npz")!r})
engine = OpenVinoEngine(EncoderConfig({bert.config.values!r}), weights.__getitem__, True, "int8")
states = engine([np.arange(4, dtype=np.int32)], [3], pooled=True)
assert np.isfinite(states.hidden_states[3]).all() and states.pooled_output.shape == (1, 24)
assert "tensorflow" not in sys.modules
assert handlers == logging.root.handlers  # of which OpenVINO's import takes absl's
"""
  finished_python("-c", code)


def test_threads_are_the_cpus_of_the_process(bert, monkeypatch):
  if not hasattr(os, "sched_getaffinity"):
    pytest.skip("this system does not tell the CPUs of a process")
  monkeypatch.setattr(os, "sched_getaffinity", lambda process: {5})
  engine = make_engine(bert)
  assert engine._settings["INFERENCE_NUM_THREADS"] == 1


def relative_error(found, expected):
  """Returns the error relative to the states' differences from their mean."""
  return np.linalg.norm(found - expected) / np.linalg.norm(expected - expected.mean(axis=(0, 1)))


def test_bfloat16(bert):
  if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
    pytest.skip("this CPU has no products of bfloat16")
  texts = random_texts([20, 20])
  expected = states_of(bert, texts)[0][3]
  assert 1e-5 < relative_error(make_engine(bert, "bfloat16")(texts, [3]).hidden_states[3], expected) < 0.03


def test_a_precision_that_the_cpu_lacks_is_float32(bert, monkeypatch):
  monkeypatch.setitem(openvino_engine._HALVES, "float16", ("f16", "of no CPU"))
  warnings = []
  monkeypatch.setattr(openvino_engine.logging, "warning", lambda message, *values: warnings.append(message % values))
  texts = random_texts([20, 20])
  found = make_engine(bert, "float16")(texts, [3]).hidden_states[3]
  assert_near(found, states_of(bert, texts)[0][3])
  (warning,) = warnings
  assert "precision=float16" in warning and "float32 is computed" in warning


def test_int8():
  """A channel is far larger than the others, as in trained encoders: without divisors the error is above the limit."""
  model = make_model("bert", WIDE | {"initializer_range": 0.15})
  for weight in model.weights:
    path = path_of_variable(weight)
    if path.endswith("LayerNorm/gamma"):
      weight.assign(np.where(np.arange(128) == 7, 80, weight.numpy()))
    elif path.endswith(("query/kernel", "key/kernel", "value/kernel", "intermediate/dense/kernel")):
      weight.assign(np.where(np.arange(128)[:, np.newaxis] == 7, weight.numpy() / 80, weight.numpy()))
  texts = random_texts([60, 30, 5])
  expected, _, mask = states_of(model, texts)
  found = make_engine(model, "int8")(texts, [0, 1, 2]).hidden_states
  np.testing.assert_allclose(found[0][mask], expected[0][mask], atol=1e-4)
  is_small = np.arange(128) != 7
  errors = []
  for number in (1, 2):
    states = [states[number][mask][np.newaxis, :, is_small] for states in (found, expected)]
    errors.append(relative_error(*states))
  assert errors[0] > 1e-4 and max(errors) < 0.02


def test_int8_has_no_range_of_the_whole_batch():
  """A text alone and next to texts with larger values differ by far less than int8's error."""
  model = make_model("bert", WIDE | {"initializer_range": 0.1})
  for weight in model.weights:
    if path_of_variable(weight).endswith("word_embeddings/embeddings"):
      spike = 100 * (np.arange(128) == 7)
      weight.assign(np.where(np.arange(VOCABULARY)[:, np.newaxis] == 0, spike, weight.numpy()))
  text = 1 + np.arange(20, dtype=np.int32)
  expected, engine = states_of(model, [text])[0][2], make_engine(model, "int8")
  alone, together = (engine(batch, [2]).hidden_states[2][:1, :20] for batch in ([text], [text, np.zeros(40, np.int32)]))
  assert relative_error(together, alone) < 0.2 * relative_error(alone, expected)


@pytest.mark.parametrize("model_type", ["albert", "modernbert", "deberta-v2"])
def test_int8_of_other_blocks(model_type):
  values = {"albert": {"embedding_size": 64}, "modernbert": {"local_attention": 16}}
  values["deberta-v2"] = {"position_buckets": 8, "type_vocab_size": 0}
  model = make_model(model_type, WIDE | values[model_type] | {"initializer_range": 0.1})
  engine = make_engine(model, "int8")
  for lengths in ([60, 30, 5], [20]):
    texts = random_texts(lengths)
    expected, _, mask = states_of(model, texts)
    found = engine(texts, [2]).hidden_states[2]
    first = engine(texts, [2], first_token=True).hidden_states[2]
    assert 1e-4 < relative_error(found[mask][np.newaxis], expected[2][mask][np.newaxis]) < 0.1
    np.testing.assert_allclose(first[:, 0], found[:, 0], atol=0.02 * np.abs(found).max())


def test_rejections(bert, monkeypatch):
  with monkeypatch.context() as patched:
    patched.setattr(openvino, "__version__", "2025.4.0-20398-8fdad55727d-releases/2025/4")
    with rejected(ConfigError, "engine", match=r"^engine=openvino: OpenVINO 2025.4.0 is .*2026.2.*\[openvino\]"):
      check_openvino()
    patched.setenv("ONEDNN_MAX_CPU_ISA", "avx2")
    patched.setattr(openvino, "__version__", "2026.4.1-1")
    with rejected(ConfigError, "engine", match="^engine=openvino: ONEDNN_MAX_CPU_ISA=avx2 .*unset ONEDNN_MAX"):
      check_openvino()
    patched.setattr(openvino, "__version__", "2027.0.0-1")
    with rejected(ConfigError, "engine", match="below 2027"):
      make_engine(bert)
  check_openvino()
  monkeypatch.setitem(sys.modules, "openvino", None)
  with rejected(ConfigError, "engine", match=r"^engine=openvino: needs .*pip install 'bert-flow-tf\[openvino\]'"):
    check_openvino()


def test_a_signal_after_engines_are_gone():
  model = make_model("bert", SIZES)
  engines = [make_engine(model) for _ in range(2)]
  for engine in engines:
    engine([random_texts([3])[0]], blocks=[1])
  del engine
  while engines:
    del engines[0]  # the first one first
    gc.collect()
  received = []
  earlier = signal.signal(signal.SIGUSR1, lambda *unused: received.append(True))
  signal.raise_signal(signal.SIGUSR1)  # it would end the process
  signal.signal(signal.SIGUSR1, earlier)
  assert received


def test_nothing_is_reported_to_others(tmp_path):
  """A bare import writes HOME/intel, a client's id, and asks for www.google-analytics.com."""
  code = """
import socket
socket.getaddrinfo = socket.create_connection = None  # would be an error
from bert_flow_tf.encoder.engines.openvino_engine import check_openvino
check_openvino()
import openvino, sys
assert "openvino_telemetry" not in sys.modules
"""
  finished_python("-c", code, HOME=str(tmp_path), CI=None, GITHUB_ACTIONS=None)
  assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given, expected", [("1", 1), ("", 2), ("two", 2), ("0", 2), ("16", 2)])
def test_threads(monkeypatch, given, expected):
  monkeypatch.setattr(openvino_engine, "usable_cpus", lambda: 2)
  monkeypatch.setenv("OMP_NUM_THREADS", given)
  assert openvino_engine.settings_of("float32")["INFERENCE_NUM_THREADS"] == expected
