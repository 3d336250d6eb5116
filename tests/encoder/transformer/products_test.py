"""Tests of products.py: halves in the dense layers, float32 elsewhere, with and without instructions of the CPU."""

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.encoder.transformer import products as products_lib
from tests.encoder import tiny
from tests.encoder.tiny import IDS, MASK

HALVES = ["bfloat16", "float16"]
# Half of the distance from 1 to the next number.
ROUNDING = {"bfloat16": 2**-8, "float16": 2**-11}
DENSE = (".dense.weight", ".query.weight", ".key.weight", ".value.weight")
SENTENCES = ["a dog", "cats . a b", "b"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return tiny.save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def encoders(folder):
  return {name: SentenceEncoder.from_pretrained(folder, precision=name) for name in ("float32", "bfloat16", "float16")}


def run(encoder):
  states, pooled = encoder.bert(tf.constant(IDS), tf.constant(MASK))
  assert all(values.dtype == tf.float32 for values in (*states, pooled))
  return [*(state.numpy()[MASK == 1] for state in states), pooled.numpy()]


def relative(values, expected):
  return [np.abs(a - b).max() / np.abs(b).max() for a, b in zip(values, expected, strict=True)]


@pytest.mark.parametrize("name", HALVES)
def test_matrices_are_rounded_and_nothing_else(encoders, name):
  """Against NumPy's BERT in float64 with the dense layers' matrices rounded: the rest is their inputs' rounding."""
  weights = tiny.random_weights()
  dtype = tf.as_dtype(name).as_numpy_dtype
  rounded = {k: v.astype(dtype).astype(np.float32) if k.endswith(DENSE) else v for k, v in weights.items()}
  states, pooled = tiny.numpy_bert(rounded, IDS, MASK)
  errors = relative(run(encoders[name]), [*(state[MASK == 1] for state in states), pooled])
  assert errors[0] < 1e-6  # tables of embeddings and their normalization
  assert all(ROUNDING[name] / 50 < error < 4 * ROUNDING[name] for error in errors[1:]), errors
  assert encoders[name].weights_checksum == encoders["float32"].weights_checksum
  assert all(weight.dtype == tf.float32 for weight in encoders[name].bert.weights)


@pytest.mark.parametrize("name", HALVES)
def test_products_of_halves_where_there_are_instructions(folder, encoders, name, monkeypatch):
  """The graph is that of a CPU with instructions; here it uses TensorFlow's own kernels, whose sums are less exact."""
  if products_lib.onednn_is_limited():
    pytest.skip("ONEDNN_MAX_CPU_ISA excludes products of halves: TensorFlow ignores it and crashes")
  monkeypatch.setattr(products_lib, "_has_instructions", lambda precision: True)
  native = SentenceEncoder.from_pretrained(folder, precision=name)
  errors = relative(run(native), run(encoders["float32"]))
  assert all(0 < error < 12 * ROUNDING[name] for error in errors[1:]), errors
  step = tf.function(lambda ids: native.embed_batch(ids, tf.ones_like(ids), "avg"))
  products = [op for op in step.get_concrete_function(tf.constant(IDS)).graph.get_operations() if op.type == "MatMul"]
  assert len(products) == 13 and {op.outputs[0].dtype.name for op in products} == {name}


@pytest.mark.parametrize("name", HALVES)
def test_dropout_has_the_same_masks(encoders, name):
  seed = tf.constant([3, 4])
  drops = {key: encoders[key].embed_batch(IDS, MASK, "avg", seed).numpy() for key in ("float32", name)}
  plain = encoders["float32"].embed_batch(IDS, MASK, "avg").numpy()
  assert np.abs(drops["float32"] - plain).max() > 0.1
  np.testing.assert_allclose(drops[name], drops["float32"], atol=20 * ROUNDING[name])


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="test of a machine without GPUs")
@pytest.mark.parametrize(
  ("name", "cpuinfo", "expected"),
  [
    ("bfloat16", "processor\t: 0\nflags\t\t: fpu avx2 avx512_bf16\nflags : fpu\n", True),
    ("bfloat16", "flags\t\t: fpu amx_bf16 amx_tile\n", True),
    ("bfloat16", "Features\t: fp asimd bf16\n", True),
    ("bfloat16", "flags\t\t: fpu avx512f avx512_fp16\n", False),
    ("float16", "flags\t\t: fpu avx512f avx512_fp16\n", True),
    ("float16", "flags\t\t: fpu avx512_bf16 f16c\n", False),
    ("float16", "", False),
    ("float16", None, False),
  ],
)
def test_instructions_of_the_cpu(name, cpuinfo, expected, tmp_path, monkeypatch):
  logged = []
  monkeypatch.setattr(logging, "warning", lambda text, *values: logged.append(text % values))
  monkeypatch.setattr(products_lib, "_CPUINFO", tmp_path / "cpuinfo")
  for name_of_limit in ("TF_ENABLE_ONEDNN_OPTS", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
    monkeypatch.delenv(name_of_limit, raising=False)
  if cpuinfo is not None:
    (tmp_path / "cpuinfo").write_text(cpuinfo)
  assert products_lib._has_instructions(name) == expected
  assert [f"precision={name}" in line and "slower than float32" in line for line in logged] == [True] * (not expected)
  monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "avx2")
  assert not products_lib._has_instructions(name)
  monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
  monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
  assert not products_lib._has_instructions(name)


@pytest.mark.parametrize(
  ("name", "details", "expected"),
  [
    ("bfloat16", {"compute_capability": (9, 0)}, True),
    ("bfloat16", {"compute_capability": (7, 5)}, False),
    ("float16", {"compute_capability": (7, 5)}, True),
    ("float16", {"compute_capability": (6, 1)}, False),
    ("bfloat16", {}, True),  # not of NVIDIA
  ],
)
def test_instructions_of_the_gpu(name, details, expected, monkeypatch):
  monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["a GPU"])
  monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: details)
  assert products_lib._has_instructions(name) == expected


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int8"])
def test_joint_products_equal_those_of_each_layer(folder, name):
  encoder = SentenceEncoder.from_pretrained(folder, precision=name)
  block = encoder.bert.blocks[0]
  rows = tf.random.stateless_normal([5, block.query.sizes[0]], [0, 1])
  joint = block.joint(rows).numpy()
  largest = None
  if name == "int8":
    assert not block.query.is_int8 and block.joint.is_int8  # no weight is held twice
    largest = block.joint._inputs.largest
  parts = []
  for layer in (block.query, block.key, block.value):
    layer.compute_in(products_lib.make_products(name), frozen=True, largest=largest)
    parts.append(layer(rows))
  np.testing.assert_allclose(joint, np.concatenate(parts, axis=1), atol=1e-6 * np.abs(joint).max())
