"""calibration/combined.py: the scale of a flow, and the flow and another calibration side by side."""

import numpy as np
import pytest

from bert_flow_tf.calibration.combined import Scale, SideBySide, side_by_side
from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.moments import Moments
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.calibration.saving import calibration_sha256, load_calibration
from bert_flow_tf.errors import CalibrationError, FlowError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.training.calibrate import fit_calibration
from tests.calibration.cases import D, close, cone, cosines, in_graph
from tests.testing import rejected, rewrite_archive
from tests.training import small

IDENTITY = {"vectors_of": "a cone"}


def test_the_scale_of_a_flow_saved_and_served(tmp_path):
  u, new = cone(64, D), cone(20, D, 2)
  flow = FlowCalibration(small.make_flow(D), Scale.of(Moments.of(u, False)))
  centered = np.float64(u) - np.float64(u).mean(axis=0)
  close(flow.scaled(u), centered / np.sqrt(np.mean(np.sum(centered**2, axis=1))), 1e-5)
  flow.flow.initialize(flow.scaled(u))
  flow.save(tmp_path / "flow")
  loaded = load_calibration(tmp_path / "flow")
  assert isinstance(loaded, FlowCalibration)
  np.testing.assert_array_equal(loaded.transform(new), flow.transform(new))
  with rejected(FlowError, None):
    Glow.load(tmp_path / "flow")
  for lite in (False, True):
    close(in_graph(loaded, lite)(new), flow.transform(new), 1e-5)
  bits, nats = loaded.log_prob(new)
  close(bits, flow.bits_per_dim(new), 1e-5)
  close(nats, np.asarray(bits) * -D * np.log(2), 1e-5)
  close(loaded.inverse(flow.transform(new)), flow.scaled(new), 1e-4)
  checksum = calibration_sha256(tmp_path / "flow")
  flow.flow.save(tmp_path / "alone")
  assert calibration_sha256(tmp_path / "alone") != checksum
  for damaged in ({"mix/rms": np.zeros(3)}, {"mix/mean": np.zeros(3)}):
    flow.save(tmp_path / "flow")
    rewrite_archive(tmp_path / "flow", "calibration", damaged)
    with rejected(CalibrationError, None):
      load_calibration(tmp_path / "flow")


@pytest.fixture(scope="module")
def parts():
  """Returns a flow that is initialized, and a soft whitening, both of the same embeddings."""
  flow = FlowCalibration(small.make_flow(D), Scale.of(Moments.of(cone(60, D), False)))
  flow.flow.initialize(flow.scaled(cone(60, D)))
  return flow, make_calibration("soft-whitening").fit(cone(60, D))


def test_cosine_is_the_mean_of_the_parts(parts):
  both, new = side_by_side(parts), cone(20, D, 1)
  z = both.transform(new)
  assert (both.name, both.dim, both.output_dim, z.dtype) == ("flow+soft-whitening", D, 2 * D, np.float32)
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
    [make_calibration("mean").fit(np.float32([[1, 2], [3, 4]])), make_calibration("none").fit(cone(60, D)[:, :2])]
  )
  np.testing.assert_allclose(z.transform(np.float32([[2, 3]]))[0], [0, 0, *np.float32([2, 3]) / np.sqrt(13)], rtol=1e-6)
  assert np.isfinite(SideBySide([whitening, whitening]).transform(mean[None])).all()


def test_saved_loaded_and_served(parts, tmp_path):
  both, new = SideBySide(parts), cone(20, D, 1)
  both.encoder = IDENTITY
  both.save(tmp_path / "both")
  loaded = load_calibration(tmp_path / "both")
  assert (loaded.name, loaded.dim, loaded.output_dim, loaded.encoder) == (both.name, D, 2 * D, IDENTITY)
  np.testing.assert_array_equal(loaded.transform(new), both.transform(new))
  checksum = calibration_sha256(tmp_path / "both")
  both.encoder = None
  both.save(tmp_path / "both")
  assert calibration_sha256(tmp_path / "both") == checksum
  SideBySide([parts[0], make_calibration("whitening").fit(cone(60, D))]).save(tmp_path / "other")
  assert calibration_sha256(tmp_path / "other") != checksum
  np.testing.assert_allclose(in_graph(loaded)(new), both.transform(new), atol=1e-6)
  assert len(loaded.variables) == len(parts[0].flow.weights)


@pytest.mark.parametrize("damaged", [3, [], [{}], [{}, {}], [{"method": "sn"}, 3]])
def test_damaged(parts, damaged, tmp_path):
  SideBySide(parts).save(tmp_path / "both")
  rewrite_archive(tmp_path / "both", "calibration", parts=damaged)
  with pytest.raises(CalibrationError):
    load_calibration(tmp_path / "both")


@pytest.mark.slow
def test_fit(tmp_path):
  settings = {"num_train_epochs": 2, "train_batch_size": 8, "seed": 1, "show_progress": False}
  sides = cone(32, D), cone(32, D, 1)
  both = fit_calibration(sides, "flow+soft-whitening", "a cone", folder=tmp_path / "fit", **settings)
  flow, soft = both.parts
  expected = make_calibration("soft-whitening").fit(np.concatenate(sides))
  np.testing.assert_array_equal(soft.transform(sides[0]), expected.transform(sides[0]))
  again = fit_calibration(sides, "flow", folder=tmp_path / "fit", **settings)  # resumes the finished fit of the flow
  np.testing.assert_array_equal(flow.transform(sides[0]), again.transform(sides[0]))
  assert both.encoder == IDENTITY
