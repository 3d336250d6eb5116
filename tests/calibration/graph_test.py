"""Graphs of calibrations against the calibrations in Python."""

import numpy as np
import pytest

from bert_flow_tf import FlowConfig, Glow
from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.graph import make_calibration_graph
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.errors import CalibrationError
from tests.flow.cases import randomize


@pytest.fixture(scope="module")
def embeddings():
  """Returns correlated rows with a mean and with standard deviations that differ a hundredfold."""
  rng = np.random.default_rng(0)
  mixed = rng.normal(size=[200, 16]) @ rng.normal(size=[16, 16]) * np.geomspace(0.05, 5, 16) + rng.normal(size=16) * 3
  return mixed.astype(np.float32)


def close(actual, expected, tolerance=1e-5):
  """Asserts float32 values within the tolerance, relative to the largest value."""
  actual, expected = np.asarray(actual), np.asarray(expected)
  assert actual.dtype == np.float32
  np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_flow(embeddings):
  # In float64, a difference is an error and not rounding.
  flow = Glow(FlowConfig(n_levels=1, depth=1), 16, seed=1, dtype="float64")
  flow.initialize(embeddings)
  graph = make_calibration_graph(FlowCalibration(randomize(flow)), 16)
  assert (graph.is_flow, graph.name, graph.output_dim) == (True, "flow", 16)
  latents = flow.transform(embeddings)
  close(graph.transform(embeddings), latents)
  bits, nats = graph.log_prob(embeddings)
  close(bits, flow.bits_per_dim(embeddings))
  close(nats, flow.distribution.log_prob(embeddings))
  close(graph.inverse(latents), flow.inverse(latents))


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
