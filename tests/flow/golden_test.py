"""The flow against numbers that the original's TensorFlow 1 code computed (see `golden_files`)."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.errors import FlowError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.glow import Glow
from tests.flow import reference
from tests.testing import below, golden_files, rejected

FILES = golden_files("flow")


class Golden:
  """One file, and the flow that it describes with the weights that its numbers were taken with."""

  def __init__(self, file):
    with np.load(file) as archive:
      self.arrays = {key: archive[key] for key in archive.files}
    self.config = json.loads(str(self.arrays["config"]))
    self.batch_size = int(self.arrays["batch_size"])
    self.initial = below(self.arrays, "initial")
    self.after_init = below(self.arrays, "after_init")
    self.weights = self.after_init or self.initial
    self.a, self.b = (self.arrays[side][: self.batch_size] for side in "ab")
    self.both = np.concatenate([self.a, self.b])

  def flow(self, weights, dtype="float32"):
    actnorm_init = "data" if self.after_init else "glorot"
    flow = Glow(FlowConfig.from_dict(self.config), self.a.shape[1], actnorm_init, dtype=dtype)
    flow.load_tf1_variables(weights)
    return flow


@pytest.fixture(scope="module", params=FILES, ids=lambda file: file.stem)
def golden(request):
  return Golden(request.param)


def assert_close(found, expected, relative, what="", floor=0.0):
  """Asserts the largest difference, relative to the largest expected value, or to `floor` if that is larger."""
  found, expected = np.asarray(found), np.asarray(expected)
  assert found.shape == expected.shape, what
  assert np.abs(found - expected).max() <= relative * max(np.abs(expected).max(), floor), what


def test_data_dependent_initialization(golden):
  flow = golden.flow(golden.initial)
  assert flow.needs_initialization is False  # loaded weights are taken as they are, unless asked otherwise
  if not golden.after_init:
    with rejected(FlowError, "actnorm_init"):
      flow.initialize(golden.a)
    return
  flow.initialize(golden.a)
  assert flow.initialized
  found = flow.tf1_variables()
  assert found.keys() == golden.after_init.keys()
  for name, expected in golden.after_init.items():
    # Activations have unit variance: the mean of some is zero but for rounding.
    assert_close(found[name], expected, 1e-5, name, floor=0.1)


def test_latents_bits_per_dim_and_gradients(golden):
  flow = golden.flow(golden.weights)
  weights = {name: variable.weight for name, variable in flow.named_weights().items() if variable.original}
  expected = below(golden.arrays, "grad")
  assert {id(weights[name]) for name in expected} == {id(weight) for weight in flow.trainable_variables}
  u = golden.both
  with tf.GradientTape() as tape:
    bits = flow.bits_per_dim(u)
    loss = tf.reduce_mean(bits[: golden.batch_size]) + tf.reduce_mean(bits[golden.batch_size :])
  found = tape.gradient(loss, {name: weights[name] for name in expected})
  z = flow.transform(u)
  assert z.dtype == bits.dtype == "float32"
  assert_close(z, np.concatenate([golden.arrays["z_a"], golden.arrays["z_b"]]), 1e-5)
  assert_close(bits, np.concatenate([golden.arrays["bits_per_dim_a"], golden.arrays["bits_per_dim_b"]]), 1e-5)
  np.testing.assert_allclose(loss, golden.arrays["loss"], rtol=1e-5)
  for name in expected:
    assert_close(np.reshape(found[name], expected[name].shape), expected[name], 1e-4, name)
  np.testing.assert_allclose(flow.inverse(z), u, rtol=0, atol=1e-5 * np.abs(u).max())


def test_float64_agrees_with_the_equations_far_closer(golden):
  """The reference is the original's to float32's last digits, and the flow is the reference's to float64's."""
  weights, u = reference.float64(golden.weights), golden.both.astype(np.float64)
  z, _ = reference.forward(golden.config, weights, u)
  assert_close(z, np.concatenate([golden.arrays["z_a"], golden.arrays["z_b"]]), 1e-5)
  assert_close(reference.bits_per_dim(golden.config, weights, golden.a), golden.arrays["bits_per_dim_a"], 1e-5)
  flow = golden.flow(weights, "float64")
  assert_close(flow.transform(u), z, 1e-12)
  if golden.after_init:
    initial = reference.float64(golden.initial)
    flow.load_tf1_variables(initial)
    flow.initialize(golden.a)
    expected = reference.initialize(golden.config, initial, golden.a)
    for name, array in flow.tf1_variables().items():
      assert_close(array, expected[name], 1e-12, name, floor=0.1)
      assert_close(expected[name], golden.after_init[name], 1e-5, name, floor=0.1)


def test_optimizer_step_of_the_reference_is_the_originals(golden):
  """`reference.AdamWeightDecay` on the golden gradient gives the golden weights after one step."""
  optimizer = reference.AdamWeightDecay(float(golden.arrays["learning_rate"]))
  found = optimizer.step(reference.float64(golden.weights), reference.float64(below(golden.arrays, "grad")))
  for name, expected in below(golden.arrays, "after_1_steps").items():
    # A gradient near zero is divided by its own size: its rounding shows at the size of the learning rate.
    np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=2e-6, err_msg=name)
