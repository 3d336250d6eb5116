"""Graphs of calibrations against the calibrations in Python."""

import numpy as np
import pytest

from bert_flow_tf import FlowConfig, Glow
from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.graph import make_calibration_graph
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.errors import CalibrationError

FLOWS = [
  {},
  {"n_levels": 3, "depth": 2},
  {"activation": "gatu"},
  {"coupling": "affine"},
  {"permutation": False},
  {"permutation": False, "coupling": "affine", "activation": "gatu", "n_levels": 3, "depth": 1},
]


@pytest.fixture(scope="module")
def embeddings():
  """Returns correlated rows with a mean and with standard deviations that differ a hundredfold."""
  rng = np.random.default_rng(0)
  mixed = rng.normal(size=[200, 16]) @ rng.normal(size=[16, 16]) * np.geomspace(0.05, 5, 16) + rng.normal(size=16) * 3
  return mixed.astype(np.float32)


def make_flow(embeddings, order="reverse", dtype="float32", **config):
  flow = Glow(
    FlowConfig.from_dict({**FlowConfig().to_dict(), **config}),
    embeddings.shape[1],
    permutation=order,
    seed=1,
    dtype=dtype,
  )
  flow.initialize(embeddings)
  rng = np.random.default_rng(2)
  for weight in flow.trainable_weights:
    weight.assign_add(rng.normal(0, 0.03, weight.shape).astype(dtype))
  return flow


def close(actual, expected, tolerance=1e-5):
  """Asserts float32 values within the tolerance, relative to the largest value."""
  actual, expected = np.asarray(actual), np.asarray(expected)
  assert actual.dtype == np.float32
  np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("config", FLOWS, ids=str)
def test_flow(embeddings, config):
  # In float64, a difference is an error and not rounding.
  flow = make_flow(embeddings, dtype="float64", **config)
  graph = make_calibration_graph(FlowCalibration(flow), 16)
  assert (graph.is_flow, graph.name, graph.output_dim) == (True, "flow", 16)
  latents = flow.transform(embeddings)
  close(graph.transform(embeddings), latents)
  bits, nats = graph.log_prob(embeddings)
  close(bits, flow.bits_per_dim(embeddings))
  close(nats, flow.distribution.log_prob(embeddings))
  close(graph.inverse(latents), flow.inverse(latents))


def test_flow_with_a_random_permutation_a_constant_dimension_and_float64(embeddings):
  constant = embeddings.copy()
  constant[:, 3] = 7.0
  for dtype, tolerance in (("float32", 1e-4), ("float64", 1e-5)):
    flow = make_flow(constant, "random", dtype)
    graph = make_calibration_graph(FlowCalibration(flow), 16)
    close(graph.transform(constant), flow.transform(constant), tolerance)
    close(graph.inverse(flow.transform(constant)), constant, tolerance)


def test_whitening_by_small_deviations_keeps_its_digits():
  rng = np.random.default_rng(0)
  rows = (rng.normal(size=[500, 8]) * np.geomspace(1e-3, 1, 8) + 50).astype(np.float32)
  calibration = make_calibration("whitening").fit(rows)
  for dtype, tolerance in ((np.float64, 1e-6), (np.float32, 1e-5)):
    close(make_calibration_graph(calibration, 8, dtype).transform(rows), calibration.transform(rows), tolerance)


def test_none_is_the_embedding_itself(embeddings):
  assert np.array_equal(make_calibration_graph(None, 16).transform(embeddings), embeddings)


def test_errors(embeddings):
  unfitted = FlowCalibration(Glow(FlowConfig(), 16, seed=1))
  natsv = make_calibration("natsv").fit(embeddings)  # k is not chosen
  for calibration in (unfitted, make_calibration("sn"), natsv):
    with pytest.raises(CalibrationError):
      make_calibration_graph(calibration, 16)
