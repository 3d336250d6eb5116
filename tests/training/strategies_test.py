"""training/strategies.py, with GPUs that are pretended, and fits on logical CPU devices."""

import os

import numpy as np
import pytest
import tensorflow as tf
from absl import logging
from tensorflow.python.framework import config

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.settings import changed_values
from bert_flow_tf.training import devices, strategies
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.siamese.settings import SiameseSettings
from bert_flow_tf.training.strategies import embedding_scope, make_strategy, seed_of_step
from tests.testing import rejected
from tests.training import small, two_replicas


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="about a machine without GPUs")
def test_default_is_the_cpu_itself(monkeypatch):
  """Whatever TF_CONFIG says, which is logged."""
  warnings = []
  monkeypatch.setattr(logging, "warning", warnings.append)
  assert make_strategy() is tf.distribute.get_strategy() and not warnings
  assert make_strategy().num_replicas_in_sync == 1
  monkeypatch.setenv("TF_CONFIG", "{}")
  assert make_strategy() is tf.distribute.get_strategy() and "TF_CONFIG is ignored" in warnings[0]


def test_deterministic_is_of_the_process_and_of_no_name():
  for settings in (FlowSettings, SiameseSettings):
    assert changed_values(settings(deterministic=True)) == {}
  try:
    make_strategy(deterministic=True)
    assert config.is_op_determinism_enabled()
    assert tf.random.uniform([2]).shape == [2]  # an error without a seed of the process
  finally:
    config.disable_op_determinism()
    tf.random.set_seed(None)


def several_devices():
  """Returns what the slow tests need of several devices, once computed."""
  return two_replicas.results("embedded", "fits", "several")


@pytest.mark.slow
def test_two_replicas_are_one():
  """The same global batch: the same losses and weights to float rounding, both replicas alike to the bit."""
  found = several_devices()["fits"]
  expected, flow = small.fit(epochs=two_replicas.EPOCHS)
  assert len(found["losses"]) == 24
  np.testing.assert_allclose(found["losses"], expected.losses, rtol=1e-5, atol=1e-6)
  for replicas, weight in zip(found["weights"], small.weights(flow), strict=True):
    assert len(replicas) == 2 and replicas[0] == replicas[1]
    np.testing.assert_allclose(replicas[0], weight, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_two_replicas_resume_exactly():
  found = several_devices()["fits"]
  assert found["resumed_at"] == 10
  assert found["resumed"] == [replicas[0] for replicas in found["weights"]]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_all_devices_of_a_scope_embed(precision):
  """Encoders of two and three devices give the embeddings of one device, even of fewer sentences than devices."""
  one, *several = several_devices()["embedded"][precision]
  # In int8 a value that differs by rounding may be rounded to the other side.
  atol = {"int8": 0.01}.get(precision, 1e-5)
  assert len(several) == 2 and np.shape(one[0]) == (150, 8)
  for found in several:
    for embeddings, expected in zip(found, one, strict=True):
      np.testing.assert_allclose(embeddings, expected, rtol=1e-5, atol=atol)


def test_every_seed_step_and_replica_has_dropout_of_its_own():
  seeds = {tuple(seed_of_step(*map(tf.constant, numbers)).numpy()) for numbers in np.ndindex(2, 3, 2)}
  assert len(seeds) == 12


@pytest.mark.slow
@pytest.mark.parametrize("dim", two_replicas.WIDTHS)
@pytest.mark.parametrize("how", ["mirrored", "object", "scope"])
def test_several_widths_and_strategies_in_one_process(dim, how):
  """Also batches that the devices do not divide."""
  for batch_size, found in zip(two_replicas.BATCHES, several_devices()["several"][f"{dim} {how}"], strict=True):
    np.testing.assert_allclose(found, two_replicas.latents(dim, batch_size), rtol=1e-4, atol=1e-4)


def test_all_gpus_embed_and_one_fits(monkeypatch):
  """With GPUs that are pretended; an encoder of several machines embeds on the first device of each."""
  gpus = [tf.config.LogicalDevice(f"/device:GPU:{i}", "GPU") for i in range(2)]
  one, made = tf.distribute.OneDeviceStrategy("CPU:0"), []

  def mirrored(strategies, reduction):
    made.append((strategies, type(reduction).__name__))
    return one

  monkeypatch.setattr(strategies, "_strategies", {})
  monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: gpus if kind == "GPU" else [])
  monkeypatch.setattr(tf.distribute, "MirroredStrategy", mirrored)
  default = tf.distribute.get_strategy()
  assert make_strategy(memory_growth=False) is default and made == []
  for fit in (None, default):
    with embedding_scope(fit):
      assert tf.distribute.get_strategy() is one
  assert made == [(("/device:GPU:0", "/device:GPU:1"), "NoneType")]  # once
  other = tf.distribute.OneDeviceStrategy("CPU:0")
  with embedding_scope(other):
    assert tf.distribute.get_strategy() is other
  with monkeypatch.context() as patched:
    patched.setattr(strategies, "has_several_workers", lambda fit: True)
    with embedding_scope(other):
      assert not tf.distribute.has_strategy()
  gpus.pop()
  monkeypatch.setattr(strategies, "_strategies", {})
  with embedding_scope():
    assert not tf.distribute.has_strategy() and len(made) == 1


@pytest.mark.parametrize(
  "wanted",
  ["tpu", 2, object.__new__(tf.distribute.ParameterServerStrategy)],
  ids=["name", "type", "parameter server"],
)
def test_rejected_strategies(wanted):
  with rejected(ConfigError, "strategy"):
    make_strategy(wanted)


def test_within_a_scope_its_strategy_is_used():
  one = tf.distribute.OneDeviceStrategy("CPU:0")
  assert make_strategy(one) is one
  with one.scope():
    assert make_strategy() is one and make_strategy("mirrored") is one
    with rejected(ConfigError, "strategy"):
      make_strategy("typo")
    with rejected(ConfigError, "strategy"):
      make_strategy(tf.distribute.OneDeviceStrategy("CPU:0"))


GPUS = [tf.config.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(2)]
DETAILS = {"device_name": "NVIDIA H200", "compute_capability": (9, 0)}


@pytest.fixture
def logged(monkeypatch):
  """Returns the lines that are logged, warnings with their level."""
  lines = []
  monkeypatch.setattr(logging, "info", lambda text, *values: lines.append(text % values))
  monkeypatch.setattr(logging, "warning", lambda text, *values: lines.append("warning: " + text % values))
  return lines


@pytest.fixture
def gpus(monkeypatch):
  """Pretends two GPUs."""
  monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: GPUS)
  monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: DETAILS)


def test_gpus_are_named(gpus, logged):
  names = [f"GPU:{i} NVIDIA H200, compute capability 9.0" for i in range(2)]
  assert devices.log_devices(tf.distribute.get_strategy()) == {"names": names, "replicas": 1}
  assert logged == [f"devices: {names[0]}; {names[1]}"]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no CPUs of a process")
def test_cores_are_those_of_this_process(monkeypatch, logged):
  """As under `taskset -c 0`."""
  monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [])
  monkeypatch.setattr(devices, "_warn_of_unused_gpus", lambda tf: None)
  before = os.sched_getaffinity(0)
  os.sched_setaffinity(0, [min(before)])
  try:
    assert devices.log_devices() == {"names": ["CPU, 1 cores"]}
  finally:
    os.sched_setaffinity(0, before)


@pytest.mark.parametrize("error", [RuntimeError("initialized"), ValueError("virtual devices")])
def test_memory_grows_unless_the_gpus_have_started_or_are_divided(gpus, monkeypatch, error):
  grown = []

  def set_memory_growth(gpu, enable):
    grown.append((gpu, enable))
    raise error

  monkeypatch.setattr(tf.config.experimental, "set_memory_growth", set_memory_growth)
  make_strategy(memory_growth=False)
  assert grown == []
  make_strategy()
  assert grown == [(gpu, True) for gpu in GPUS]
