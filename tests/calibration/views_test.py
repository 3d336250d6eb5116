"""calibration/combined.py: calibrations of concatenated views, against NumPy on the mix of all rows at once."""

import numpy as np
import pytest

from bert_flow_tf.calibration.combined import Mix
from bert_flow_tf.calibration.flow import FlowCalibration, calibration_sha256, load_calibration
from bert_flow_tf.calibration.moments import Moments
from bert_flow_tf.calibration.names import load_linear_calibration, make_calibration
from bert_flow_tf.errors import BertFlowError, CalibrationError, ConfigError, FlowError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.serving.calibration_graph import make_calibration_graph
from bert_flow_tf.training.calibrate import fit_calibration
from tests.calibration.cases import NAMES, cone, cosines
from tests.testing import rewrite_arrays, rewrite_json
from tests.training import small

D, SHARES = 8, (0.6, 0.4)


def views(rows, seed=0, d=D):
  """Returns two views, float32 [rows, 2 d], of which the second is a hundred times as large."""
  return np.concatenate([cone(rows, d, seed), 100 * cone(rows, d, seed + 50)], axis=1)


def mixed(u, shares=SHARES, fitted_on=None):
  """Returns the mix of views u, float64 [n, d], by the definition."""
  u, fit = np.asarray(u, np.float64), np.asarray(u if fitted_on is None else fitted_on, np.float64)
  x = 0
  for share, part, of in zip(shares, np.split(u, len(shares), axis=1), np.split(fit, len(shares), axis=1), strict=True):
    rms = np.sqrt(np.mean(np.sum((of - of.mean(axis=0)) ** 2, axis=1)))
    x = x + share * (part - of.mean(axis=0)) / rms if rms else x
  return x


def close(found, expected, tolerance=2e-6):
  np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


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


@pytest.mark.parametrize("name", NAMES)
def test_calibration_of_views_is_that_of_their_mix(name):
  """The covariance of x is derived from that of u; the rows x themselves, fitted directly, give the same."""
  u, new = views(300), views(50, 1)
  calibration = make_calibration(name, SHARES).fit(u)
  direct = make_calibration(name).fit(mixed(u))
  assert (calibration.dim, calibration.output_dim, calibration.name) == (2 * D, direct.output_dim, name)
  close(calibration.transform(new), direct.transform(mixed(new, fitted_on=u)), 1e-5)
  close(calibration.transform(u), direct.transform(mixed(u)), 1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_in_parts_merged_and_loaded(name, tmp_path):
  u = views(300)
  whole = make_calibration(name, SHARES).fit(u)
  parts = make_calibration(name, SHARES)
  for batch in np.split(u, [1, 5, 100, 101]):
    parts.partial_fit(batch)
  make_calibration(name, SHARES).fit(u[120:]).save(tmp_path / "second")
  merged = make_calibration(name, SHARES).fit(u[:120]).merge(load_linear_calibration(tmp_path / "second"))
  for other in (parts, merged):
    close(other.transform(u), whole.transform(u), 1e-5)
  whole.save(tmp_path / "whole")
  loaded = load_calibration(tmp_path / "whole")
  assert loaded.shares == SHARES and (loaded.dim, loaded.output_dim) == (whole.dim, whole.output_dim)
  np.testing.assert_array_equal(loaded.transform(u), whole.transform(u))


@pytest.mark.parametrize("name", NAMES)
def test_served_graph(name):
  u, new = views(300), views(50, 1)
  calibration = make_calibration(name, SHARES).fit(u)
  shift, matrix = calibration.affine()
  assert shift.shape == (2 * D,) and matrix.shape == (2 * D, calibration.output_dim)
  close((new - shift) @ matrix, calibration.transform(new))
  close(make_calibration_graph(calibration, 2 * D).transform(new), calibration.transform(new))


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
  with pytest.raises(CalibrationError, match="needs rows that differ"):
    make_calibration("whitening", SHARES).fit(np.full([9, 2 * D], 0.1, np.float32))


def test_a_dimension_that_does_not_vary_in_any_view_becomes_zero():
  u = views(100)
  u[:, 3], u[:, D + 3] = 0.1, 1000.1
  for name in ("sn", "whitening"):
    calibration = make_calibration(name, SHARES).fit(u)
    assert not calibration.affine()[1][[3, D + 3]].any() or name == "whitening"
    assert calibration.output_dim == (D if name == "sn" else D - 1)


def test_few_rows_and_duplicates():
  few = views(5)
  calibration = make_calibration("whitening", SHARES).fit(few)
  assert calibration.output_dim == 4  # the rank of 5 centered rows
  twice = make_calibration("soft-whitening", SHARES).fit(np.repeat(views(40), 2, axis=0))
  once = make_calibration("soft-whitening", SHARES).fit(views(40))
  np.testing.assert_allclose(cosines(twice.transform(few)), cosines(once.transform(few)), atol=1e-6)


def test_k_is_chosen_on_the_mix():
  u, a, b, gold = views(200), views(30, 1), views(30, 2), np.arange(30.0)
  direct = make_calibration("sn+natsv").fit(mixed(u))
  expected = direct.choose_k(mixed(a, fitted_on=u), mixed(b, fitted_on=u), gold)
  calibration = fit_calibration(u, "sn+natsv", shares=SHARES, dev=(a, b, gold))
  assert calibration.k == direct.k
  found = make_calibration("sn+natsv", SHARES).fit(u).choose_k(a, b, gold)
  assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("shares", [(0.5, 0.6), (1.0, 0.0), (1.5, -0.5), (float("nan"), 0.5), "ab", (None, 1), 1])
def test_shares_that_are_none(shares):
  with pytest.raises(ConfigError) as caught:
    make_calibration("whitening", shares)
  assert caught.value.argument == "shares"


def test_rejected():
  u = views(40)
  calibration = make_calibration("whitening", SHARES).fit(u)
  with pytest.raises(CalibrationError, match="15 dimensions are not 2 views"):
    calibration.fit(u[:, 1:])
  with pytest.raises(CalibrationError, match="cannot be merged"):
    calibration.merge(make_calibration("whitening").fit(u))
  with pytest.raises(CalibrationError):
    calibration.transform(u[:, :D])
  np.testing.assert_array_equal(calibration.transform(u), make_calibration("whitening", SHARES).fit(u).transform(u))


@pytest.mark.parametrize("shares", [[0.5, 0.6], 3, [0.3, 0.3, 0.4], {"a": 1}])
def test_damaged_shares(shares, tmp_path):
  make_calibration("whitening", SHARES).fit(views(40)).save(tmp_path / "folder")
  rewrite_json(tmp_path / "folder/calibration.json", shares=shares)
  with pytest.raises(CalibrationError):
    load_calibration(tmp_path / "folder")


FLOW = {"num_train_epochs": 4, "train_batch_size": 16, "seed": 1, "show_progress": False}


@pytest.fixture(scope="module")
def flow(tmp_path_factory):
  """Returns a flow that was fitted on the pairs of two sides, and the folder of its checkpoints."""
  folder = tmp_path_factory.mktemp("fit")
  return fit_calibration((views(64), views(64, 1)), "flow", shares=SHARES, folder=folder, **FLOW), folder


@pytest.mark.slow
def test_flow_of_views_is_that_of_their_mix(flow):
  flow, _ = flow
  both, new = np.concatenate([views(64), views(64, 1)]), views(20, 2)
  sides = (mixed(side, fitted_on=both).astype(np.float32) for side in (views(64), views(64, 1)))
  direct = fit_calibration(tuple(sides), "flow", **FLOW)
  x = mixed(new, fitted_on=both).astype(np.float32)
  assert (flow.dim, flow.output_dim) == (2 * D, D)
  # Four epochs of four steps: a rounding of x in its last digit moves the weights by no more than this.
  close(flow.transform(new), direct.transform(x), 1e-3)
  close(flow.transform(new), flow.flow.transform(x), 1e-5)
  close(flow.bits_per_dim(new), flow.flow.bits_per_dim(x), 1e-5)


@pytest.mark.slow
def test_flow_of_views_in_parts_on_disk(flow):
  u = views(129)
  found = fit_calibration([u[:50], u[50:]], "flow", shares=SHARES, **FLOW)
  expected = fit_calibration(u, "flow", shares=SHARES, **FLOW)
  np.testing.assert_allclose(found.mix.rms, expected.mix.rms, rtol=1e-12)
  close(found.transform(u), expected.transform(u), 1e-3)


@pytest.mark.slow
def test_a_finished_fit_of_the_flow_is_restored_and_other_shares_are_another_fit(flow):
  flow, folder = flow
  sides = views(64), views(64, 1)
  again = fit_calibration(sides, "flow", shares=SHARES, folder=folder, **FLOW)
  np.testing.assert_array_equal(again.transform(sides[0]), flow.transform(sides[0]))
  with pytest.raises(BertFlowError, match="data"):
    fit_calibration(sides, "flow", shares=(0.5, 0.5), folder=folder, **FLOW)


def test_flow_of_views_saved_and_served(tmp_path):
  u, new = views(64), views(20, 2)
  flow = FlowCalibration(small.make_flow(D), Mix.of(Moments.of(u, False), SHARES))
  flow.flow.initialize(flow.mixed(u))
  flow.save(tmp_path / "flow")
  loaded = load_calibration(tmp_path / "flow")
  assert isinstance(loaded, FlowCalibration) and loaded.mix.shares == SHARES
  np.testing.assert_array_equal(loaded.transform(new), flow.transform(new))
  with pytest.raises(FlowError, match="load_calibration"):
    Glow.load(tmp_path / "flow")
  graph = make_calibration_graph(loaded, 2 * D)
  assert graph.sizes == {"dim": 2 * D, "output_dim": D, "latent_dim": D}
  close(graph.transform(new), flow.transform(new), 1e-5)
  bits, nats = graph.log_prob(new)
  close(bits, flow.bits_per_dim(new), 1e-5)
  close(nats, np.asarray(bits) * -D * np.log(2), 1e-5)
  close(graph.inverse(flow.transform(new)), flow.mixed(new), 1e-4)
  checksum = calibration_sha256(tmp_path / "flow")
  flow.flow.save(tmp_path / "alone")
  assert calibration_sha256(tmp_path / "alone") != checksum
  rewrite_arrays(tmp_path / "flow/arrays.npz", {"mix/rms": np.zeros(3)})
  with pytest.raises(CalibrationError, match="mix/rms"):
    load_calibration(tmp_path / "flow")
