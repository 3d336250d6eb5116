"""The flow and another calibration side by side: each part's rows have length 1."""

import numpy as np
import pytest

from bert_flow_tf.calibration.combined import Mix, SideBySide, side_by_side
from bert_flow_tf.calibration.flow import FlowCalibration, calibration_sha256, load_calibration
from bert_flow_tf.calibration.moments import Moments
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.serving.calibration_graph import make_calibration_graph
from bert_flow_tf.training.calibrate import fit_calibration
from tests.calibration.cases import cone, cosines
from tests.testing import rewrite_json
from tests.training import small

D, SHARES = 8, (0.6, 0.4)
IDENTITY = {"vectors_of": "a cone"}


def rows(n=60, seed=0):
  return np.concatenate([cone(n, D, seed), cone(n, D, seed + 50)], axis=1)


@pytest.fixture(scope="module")
def parts():
  """Returns a flow that is initialized, and a soft whitening, both of the mix of two views."""
  flow = FlowCalibration(small.make_flow(D), Mix.of(Moments.of(rows(), False), SHARES))
  flow.flow.initialize(flow.mixed(rows()))
  return flow, make_calibration("soft-whitening", SHARES).fit(rows())


def test_cosine_is_the_mean_of_the_parts(parts):
  both, new = side_by_side(parts), rows(20, 1)
  z = both.transform(new)
  assert (both.name, both.dim, both.output_dim, z.dtype) == ("flow+soft-whitening", 2 * D, 2 * D, np.float32)
  for part, of in zip(np.split(z, 2, axis=1), parts, strict=True):
    expected = of.transform(new).astype(np.float64)
    np.testing.assert_allclose(part, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
  expected = np.mean([cosines(part.transform(new)) for part in parts], axis=0)
  np.testing.assert_allclose(cosines(z), expected, atol=1e-6)
  assert side_by_side(parts[1:]) is parts[1]
  assert both.transform(new[:0]).shape == (0, 2 * D)


def test_a_row_of_zeros_stays(parts):
  whitening = parts[1]
  mean = whitening.affine()[0].astype(np.float32)
  z = SideBySide(
    [make_calibration("mean").fit(np.float32([[1, 2], [3, 4]])), make_calibration("none").fit(rows()[:, :2])]
  )
  np.testing.assert_allclose(z.transform(np.float32([[2, 3]]))[0], [0, 0, *np.float32([2, 3]) / np.sqrt(13)], rtol=1e-6)
  assert np.isfinite(SideBySide([whitening, whitening]).transform(mean[None])).all()


def test_saved_loaded_and_served(parts, tmp_path):
  both, new = SideBySide(parts), rows(20, 1)
  both.encoder = IDENTITY
  both.save(tmp_path / "both")
  loaded = load_calibration(tmp_path / "both")
  assert (loaded.name, loaded.dim, loaded.output_dim, loaded.encoder) == (both.name, 2 * D, 2 * D, IDENTITY)
  assert [part.encoder for part in loaded.parts] == [IDENTITY] * 2
  np.testing.assert_array_equal(loaded.transform(new), both.transform(new))
  checksum = calibration_sha256(tmp_path / "both")
  both.encoder = None
  both.save(tmp_path / "both")
  assert calibration_sha256(tmp_path / "both") == checksum
  SideBySide([parts[0], make_calibration("whitening", SHARES).fit(rows())]).save(tmp_path / "other")
  assert calibration_sha256(tmp_path / "other") != checksum
  graph = make_calibration_graph(loaded, 2 * D)
  assert (graph.name, graph.is_flow, graph.sizes) == (both.name, False, {"dim": 2 * D, "output_dim": 2 * D})
  np.testing.assert_allclose(graph.transform(new), both.transform(new), atol=1e-6)
  assert len(graph.variables) == len(parts[0].flow.weights)
  with pytest.raises(CalibrationError, match="gives 3"):
    make_calibration_graph(loaded, 3)


@pytest.mark.parametrize("damaged", [3, [], [{}], [{}, {}], [{"method": "sn"}, 3]])
def test_damaged(parts, damaged, tmp_path):
  SideBySide(parts).save(tmp_path / "both")
  rewrite_json(tmp_path / "both/calibration.json", parts=damaged)
  with pytest.raises(CalibrationError):
    load_calibration(tmp_path / "both")


def test_no_parts_of_a_fit(parts):
  both = SideBySide(parts)
  for call in (both.fit, both.partial_fit, both.merge):
    with pytest.raises(CalibrationError, match=r"^flow\+soft-whitening"):
      call(rows())


@pytest.mark.slow
def test_fit(tmp_path):
  settings = {"num_train_epochs": 2, "train_batch_size": 8, "seed": 1, "show_progress": False, "shares": SHARES}
  sides = rows(32), rows(32, 1)
  both = fit_calibration(sides, "flow+soft-whitening", "a cone", folder=tmp_path / "fit", **settings)
  flow, soft = both.parts
  expected = make_calibration("soft-whitening", SHARES).fit(np.concatenate(sides))
  np.testing.assert_array_equal(soft.transform(sides[0]), expected.transform(sides[0]))
  again = fit_calibration(sides, "flow", folder=tmp_path / "fit", **settings)  # resumes the finished fit of the flow
  np.testing.assert_array_equal(flow.transform(sides[0]), again.transform(sides[0]))
  assert both.encoder == IDENTITY
