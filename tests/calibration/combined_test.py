"""calibration/combined.py: mixes of views, and the flow and another calibration side by side."""

import numpy as np
import pytest

from bert_flow_tf.calibration.combined import Mix, SideBySide, side_by_side
from bert_flow_tf.calibration.flow import FlowCalibration, calibration_sha256, load_calibration
from bert_flow_tf.calibration.graph import make_calibration_graph
from bert_flow_tf.calibration.moments import Moments
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.errors import CalibrationError, ConfigError, FlowError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.training.calibrate import fit_calibration
from tests.calibration.cases import SHARES, D, close, cosines, mixed, views
from tests.testing import rejected, rewrite_archive
from tests.training import small

IDENTITY = {"vectors_of": "a cone"}


def test_the_mix():
  u, new = views(300), views(20, 1)
  mix = Mix.of(Moments.of(u, False), SHARES)
  assert (mix.dim, mix.output_dim) == (2 * D, D)
  close(mix(np.float64(new)), mixed(new, fitted_on=u), 1e-12)
  x, whole = mixed(u), Moments.of(u, True)
  found = Mix.of(whole, SHARES).moments(whole)
  close(found.mean, 0 * x[0])
  close(found.scatter / 300, np.cov(x.T, bias=True), 1e-12)
  np.testing.assert_allclose([np.mean(np.sum(mixed(u[:, :D], [1.0]) ** 2, axis=1))], 1.0)


def test_rounding_of_float32_rows_keeps_the_cosine():
  """x of rows in float32 has their rounding errors, 6e-8 of the largest number of a row, and no others."""
  exact = np.random.default_rng(0).standard_normal([200, 2 * D]) * [*[1.0] * D, *[100.0] * D] + 3
  for name in ("soft-whitening", "whitening"):
    found = make_calibration(name, SHARES).fit(exact.astype(np.float32)).transform(exact.astype(np.float32))
    values, vectors = np.linalg.eigh(np.cov(mixed(exact).T))
    extra = values.mean() / 2 if name == "soft-whitening" else 0
    expected = mixed(exact) @ vectors / np.sqrt(values + extra)
    np.testing.assert_allclose(cosines(found), cosines(expected), atol=1e-4)


def test_a_view_that_does_not_vary_contributes_nothing():
  u = views(100)
  u[:, D:] = np.float32(0.1)
  expected = make_calibration("whitening").fit(mixed(u[:, :D], [1.0])).transform(mixed(u[:, :D], [1.0]))
  found = make_calibration("whitening", SHARES).fit(u).transform(u)
  np.testing.assert_allclose(cosines(found), cosines(expected), atol=1e-5)
  # Nor does one whose rows differ by float32's rounding, as the rows of two batches of an encoder.
  u[::2, D:] = np.nextafter(u[::2, D:], np.float32(1))
  rounded = make_calibration("whitening", SHARES).fit(u).transform(u)
  np.testing.assert_allclose(cosines(rounded), cosines(expected), atol=1e-5)
  with pytest.raises(CalibrationError):
    make_calibration("whitening", SHARES).fit(np.full([9, 2 * D], 0.1, np.float32))


def test_a_view_that_varies_a_little_counts():
  """Its deviations are 1e-4 of its mean, a thousand roundings of float32."""
  u = views(100).astype(np.float64)
  u[:, D:] = 1 + 1e-4 * u[:, D:] / np.abs(u[:, D:]).max()
  mix = Mix.of(Moments.of(u, False), SHARES)
  expected = np.sqrt(np.mean(np.sum((u[:, D:] - u[:, D:].mean(axis=0)) ** 2, axis=1)))
  assert mix.rms[1] == pytest.approx(expected, rel=1e-6)


def test_a_dimension_that_does_not_vary_in_any_view_becomes_zero():
  u = views(100)
  u[:, 3], u[:, D + 3] = 0.1, 1000.1
  for name in ("sn", "whitening"):
    calibration = make_calibration(name, SHARES).fit(u)
    assert not calibration.affine()[1][[3, D + 3]].any() or name == "whitening"
    assert calibration.output_dim == (D if name == "sn" else D - 1)


def test_k_is_chosen_on_the_mix():
  u, a, b, gold = views(200), views(30, 1), views(30, 2), np.arange(30.0)
  direct = make_calibration("sn+natsv").fit(mixed(u))
  expected = direct.choose_k(mixed(a, fitted_on=u), mixed(b, fitted_on=u), gold)
  calibration = fit_calibration(u, "sn+natsv", shares=SHARES, dev=(a, b, gold))
  assert calibration.k == direct.k
  found = make_calibration("sn+natsv", SHARES).fit(u).choose_k(a, b, gold)
  assert found == pytest.approx(expected, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize(
  "shares", [(0.5, 0.6), (0.5, 0.4), (1.0, 0.0), (1.5, -0.5), (float("nan"), 0.5), "ab", (None, 1), 1]
)
def test_shares_that_are_none(shares):
  with rejected(ConfigError, "shares"):
    make_calibration("whitening", shares)


def test_rejected():
  u = views(40)
  calibration = make_calibration("whitening", SHARES).fit(u)
  with rejected(CalibrationError, "shares"):
    calibration.fit(u[:, 1:])
  with rejected(CalibrationError, None):
    calibration.merge(make_calibration("whitening").fit(u))
  with pytest.raises(CalibrationError):
    calibration.transform(u[:, :D])
  np.testing.assert_array_equal(calibration.transform(u), make_calibration("whitening", SHARES).fit(u).transform(u))


FLOW = {"num_train_epochs": 4, "train_batch_size": 16, "seed": 1, "show_progress": False}


@pytest.mark.slow
def test_flow_of_views_is_that_of_their_mix():
  flow = fit_calibration((views(64), views(64, 1)), "flow", shares=SHARES, **FLOW)
  both, new = np.concatenate([views(64), views(64, 1)]), views(20, 2)
  sides = (mixed(side, fitted_on=both).astype(np.float32) for side in (views(64), views(64, 1)))
  direct = fit_calibration(tuple(sides), "flow", **FLOW)
  x = mixed(new, fitted_on=both).astype(np.float32)
  assert (flow.dim, flow.output_dim) == (2 * D, D)
  # Four epochs of four steps: a rounding of x in its last digit moves the weights by no more than this.
  close(flow.transform(new), direct.transform(x), 1e-3)
  close(flow.transform(new), flow.flow.transform(x), 1e-5)
  close(flow.bits_per_dim(new), flow.flow.bits_per_dim(x), 1e-5)


def test_flow_of_views_saved_and_served(tmp_path):
  u, new = views(64), views(20, 2)
  flow = FlowCalibration(small.make_flow(D), Mix.of(Moments.of(u, False), SHARES))
  flow.flow.initialize(flow.mixed(u))
  flow.save(tmp_path / "flow")
  loaded = load_calibration(tmp_path / "flow")
  assert isinstance(loaded, FlowCalibration) and loaded.mix.shares == SHARES
  np.testing.assert_array_equal(loaded.transform(new), flow.transform(new))
  with rejected(FlowError, None):
    Glow.load(tmp_path / "flow")
  graph = make_calibration_graph(loaded, 2 * D)
  assert (graph.dim, graph.output_dim) == (2 * D, D)
  close(graph.transform(new), flow.transform(new), 1e-5)
  bits, nats = graph.log_prob(new)
  close(bits, flow.bits_per_dim(new), 1e-5)
  close(nats, np.asarray(bits) * -D * np.log(2), 1e-5)
  close(graph.inverse(flow.transform(new)), flow.mixed(new), 1e-4)
  checksum = calibration_sha256(tmp_path / "flow")
  flow.flow.save(tmp_path / "alone")
  assert calibration_sha256(tmp_path / "alone") != checksum
  rewrite_archive(tmp_path / "flow", "calibration", {"mix/rms": np.zeros(3)})
  with rejected(CalibrationError, None):
    load_calibration(tmp_path / "flow")


@pytest.fixture(scope="module")
def parts():
  """Returns a flow that is initialized, and a soft whitening, both of the mix of two views."""
  flow = FlowCalibration(small.make_flow(D), Mix.of(Moments.of(views(60), False), SHARES))
  flow.flow.initialize(flow.mixed(views(60)))
  return flow, make_calibration("soft-whitening", SHARES).fit(views(60))


def test_cosine_is_the_mean_of_the_parts(parts):
  both, new = side_by_side(parts), views(20, 1)
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
    [make_calibration("mean").fit(np.float32([[1, 2], [3, 4]])), make_calibration("none").fit(views(60)[:, :2])]
  )
  np.testing.assert_allclose(z.transform(np.float32([[2, 3]]))[0], [0, 0, *np.float32([2, 3]) / np.sqrt(13)], rtol=1e-6)
  assert np.isfinite(SideBySide([whitening, whitening]).transform(mean[None])).all()


def test_saved_loaded_and_served(parts, tmp_path):
  both, new = SideBySide(parts), views(20, 1)
  both.encoder = IDENTITY
  both.save(tmp_path / "both")
  loaded = load_calibration(tmp_path / "both")
  assert (loaded.name, loaded.dim, loaded.output_dim, loaded.encoder) == (both.name, 2 * D, 2 * D, IDENTITY)
  np.testing.assert_array_equal(loaded.transform(new), both.transform(new))
  checksum = calibration_sha256(tmp_path / "both")
  both.encoder = None
  both.save(tmp_path / "both")
  assert calibration_sha256(tmp_path / "both") == checksum
  SideBySide([parts[0], make_calibration("whitening", SHARES).fit(views(60))]).save(tmp_path / "other")
  assert calibration_sha256(tmp_path / "other") != checksum
  graph = make_calibration_graph(loaded, 2 * D)
  assert (graph.name, graph.is_flow, graph.dim, graph.output_dim) == (both.name, False, 2 * D, 2 * D)
  np.testing.assert_allclose(graph.transform(new), both.transform(new), atol=1e-6)
  assert len(graph.variables) == len(parts[0].flow.weights)


@pytest.mark.parametrize("damaged", [3, [], [{}], [{}, {}], [{"method": "sn"}, 3]])
def test_damaged(parts, damaged, tmp_path):
  SideBySide(parts).save(tmp_path / "both")
  rewrite_archive(tmp_path / "both", "calibration", parts=damaged)
  with pytest.raises(CalibrationError):
    load_calibration(tmp_path / "both")


@pytest.mark.slow
def test_fit(tmp_path):
  settings = {"num_train_epochs": 2, "train_batch_size": 8, "seed": 1, "show_progress": False, "shares": SHARES}
  sides = views(32), views(32, 1)
  both = fit_calibration(sides, "flow+soft-whitening", "a cone", folder=tmp_path / "fit", **settings)
  flow, soft = both.parts
  expected = make_calibration("soft-whitening", SHARES).fit(np.concatenate(sides))
  np.testing.assert_array_equal(soft.transform(sides[0]), expected.transform(sides[0]))
  again = fit_calibration(sides, "flow", folder=tmp_path / "fit", **settings)  # resumes the finished fit of the flow
  np.testing.assert_array_equal(flow.transform(sides[0]), again.transform(sides[0]))
  assert both.encoder == IDENTITY
