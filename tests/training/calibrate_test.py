"""training/calibrate.py: fits on vectors that a user may have."""

import numpy as np
import pytest
from absl import logging

from bert_flow_tf import FlowConfig, fit_calibration, load_calibration
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.evaluation.metrics import normalized
from tests.flow.cases import cone

FLOW = {"flow_model_config": FlowConfig(n_levels=1, depth=1, coupling_width=8), "show_progress": False}


@pytest.fixture
def lines(monkeypatch):
  """Returns the lines that are logged."""
  found = []
  for level in ("info", "warning"):
    monkeypatch.setattr(logging, level, lambda text, *values: found.append(text % values))
  return found


def test_the_flow_of_tiny_vectors_is_that_of_their_directions(tmp_path):
  """Adam's steps are as large as the learning rate: unscaled, all cosines of vectors of 1e-4 would be 1."""
  u = cone(400, 8) * np.float32(1e-3)
  expected = fit_calibration(u, "flow", num_train_epochs=5, **FLOW).transform(u)
  assert abs(np.mean(np.sum(normalized(expected[::2]) * normalized(expected[1::2]), axis=1))) < 0.2
  tiny = u * np.float32(1e-3)
  fitted = fit_calibration(tiny, "flow", num_train_epochs=5, **FLOW)
  np.testing.assert_allclose(fitted.transform(tiny), expected, atol=1e-3)
  of_parts = fit_calibration([tiny[:0], tiny], "flow", num_train_epochs=5, **FLOW)
  np.testing.assert_allclose(of_parts.transform(tiny), expected, atol=1e-3)
  fitted.save(tmp_path / "flow")
  np.testing.assert_array_equal(load_calibration(tmp_path / "flow").transform(tiny), fitted.transform(tiny))


@pytest.mark.parametrize("parts", [1, 3])
def test_a_row_that_alone_counts_is_named(lines, parts):
  u = cone(60, 8)
  u[41] = 1e30
  fit_calibration(u if parts == 1 else np.split(u, parts), "mean")
  assert any(line.startswith("row 41 (from 0) is 2e+29 times as long as the median row") for line in lines)
  lines.clear()
  fit_calibration(cone(60, 8), "mean")
  assert not lines


def test_passes_by_the_number_of_pairs_and_a_loss_that_still_falls(lines):
  u = cone(4000, 8)
  fit_calibration(u, "flow", flow_learning_rate=0.01, **FLOW)
  assert "flow: 4 epochs over 2000 pairs" in lines and not any("still falls" in line for line in lines)
  lines.clear()
  fit_calibration(u, "flow", num_train_epochs=0.5, **FLOW)
  assert "flow: 0.5 epochs over 2000 pairs" in lines
  assert any("still falls" in line and "larger num_train_epochs" in line for line in lines)


@pytest.mark.parametrize(
  ("vectors", "argument"),
  [
    (np.ma.masked_greater(cone(60, 8), 2.0), "embeddings"),
    ((cone(9, 8), cone(9, 4)), "vectors"),
    ((cone(9, 8), cone(9, 8), cone(9, 8)), "vectors"),
    (list(cone(9, 8)), "embeddings"),
    ([cone(1, 8)], "embeddings"),
  ],
)
def test_vectors_that_are_rejected(vectors, argument):
  with pytest.raises(CalibrationError) as raised:
    fit_calibration(vectors, "whitening")
  assert raised.value.argument == argument
