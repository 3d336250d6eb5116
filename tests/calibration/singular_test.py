"""Embeddings with dimensions that are constant or depend on each other, and with fewer rows than dimensions."""

import dataclasses

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

from bert_flow_tf.calibration.methods import StandardNormalization, Whitening
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.errors import BertFlowError, CalibrationError
from bert_flow_tf.training.calibrate import fit_calibration
from tests.calibration.cases import NAMES, cone, cosines
from tests.flow import reference


def warnings_of(caplog):
  return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def singular(kind, rows=200, dim=10):
  """Embeddings of rank 7 in 10 dimensions, in three ways."""
  u = cone(rows, dim)
  if kind == "constant":
    u[:, [2, 5, 7]] = [0.0, -1.25, 3e4]
  elif kind == "copies":
    u[:, [2, 5, 7]] = u[:, [1, 3, 3]] * np.float32([2.0, -0.5, 1.0])
  elif kind == "sums":  # equal to float32's rounding
    u[:, [2, 5, 7]] = u[:, [0, 1, 3]] + u[:, [3, 4, 9]]
  return u


@pytest.mark.parametrize("kind", ["constant", "copies", "sums"])
def test_singular_covariance_is_finite_and_said_once(kind, caplog):
  u = singular(kind)
  with caplog.at_level("WARNING"):
    calibration = Whitening().fit(u)
    z = calibration.transform(u)
    calibration.transform(cone(5, 10, seed=3))
  covariance = "the covariance of 200 sentences in 10 dimensions has rank 7"
  message = f"whitening: {covariance}; dropped: 3 directions without variance"
  assert len(warnings_of(caplog)) == 1 and warnings_of(caplog)[0].startswith(message)
  assert z.shape == (200, 7) and calibration.output_dim == 7
  np.testing.assert_allclose(np.cov(z.T.astype(np.float64)), np.eye(7), atol=1e-4)
  assert Whitening(7).fit(u).transform(u).shape == (200, 7)
  with pytest.raises(CalibrationError, match=r"^k=8: .* has rank 7"):
    Whitening(8).fit(u)


def test_fewer_sentences_than_dimensions(caplog):
  u = cone(6, 20)
  with caplog.at_level("WARNING"):
    z = Whitening().fit(u).transform(u)
  (message,) = warnings_of(caplog)
  assert "6 sentences in 20 dimensions has rank 5" in message and message.endswith("all become equally different")
  assert z.shape == (6, 5) and np.isfinite(z).all()
  off_diagonal = cosines(z)[~np.eye(6, dtype=bool)]
  np.testing.assert_allclose(off_diagonal, -1 / 5, atol=1e-5)  # as the message says
  for name in ("sn", "mean", "natsv-3", "sn+natsv-3", "whitening-3"):
    assert np.isfinite(make_calibration(name).fit(u).transform(cone(9, 20, seed=4))).all()


def test_small_directions_are_kept():
  """A deviation of 1e-5 of the length is information in float32, 1e-8 is not."""
  u = cone(400, 6).astype(np.float64)
  u[:, 5] = np.random.default_rng(0).standard_normal(400) * 1e-4
  u[:, 4] = 1.0 + np.random.default_rng(1).standard_normal(400) * 1e-9
  assert Whitening().fit(u).output_dim == 5
  z = StandardNormalization().fit(u).transform(u)
  assert (z[:, 4] == 0).all() and z[:, 5].std() == pytest.approx(1, rel=1e-5)


def test_a_large_constant_dimension_hides_no_other():
  u = cone(400, 6)
  u[:, 3] = 1e6
  assert Whitening().fit(u).output_dim == 5
  assert (StandardNormalization().fit(u).transform(u).std(axis=0) > 0.99).sum() == 5


def test_constant_dimensions_of_sn_become_zero_and_are_named_once(caplog):
  u = singular("constant")
  with caplog.at_level("WARNING"):
    calibration = StandardNormalization().fit(u)
    z, new = calibration.transform(u), calibration.transform(cone(5, 10, seed=3))
  assert warnings_of(caplog) == ["sn: 3 of 10 dimensions have no variance and become 0: 2, 5, 7"]
  assert (z[:, [2, 5, 7]] == 0).all() and (new[:, [2, 5, 7]] == 0).all()
  others = [0, 1, 3, 4, 6, 8, 9]
  np.testing.assert_allclose(z[:, others], scipy.stats.zscore(u[:, others].astype(np.float64)), atol=1e-5)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "none"])
@pytest.mark.parametrize("value", [0.0, 0.1, -3e4])
def test_rows_that_are_all_alike(name, value):
  with pytest.raises(CalibrationError) as caught:
    make_calibration(name).fit(np.full([50, 12], value, np.float32))
  assert caught.value.argument in ("embeddings", "k")


def whitened(u, soft):
  """Whitens by NumPy's singular values in float64, [n, rank]."""
  u = u.astype(np.float64)
  scale = u.std(axis=0)
  centered = (u - u.mean(axis=0))[:, scale > 1e-6 * np.abs(u).max()]
  _, singular_values, v = np.linalg.svd(centered, full_matrices=False)
  variances = singular_values**2 / (len(u) - 1)
  kept = singular_values > 1e-6 * singular_values[0]
  variances, v = variances[kept], v[kept]
  return centered @ (v.T / np.sqrt(variances + soft * variances.mean()))


def badly_conditioned(kind):
  rows, dim = {"wide": (1500, 1024), "few rows": (40, 768)}.get(kind, (400, 64))
  u = cone(rows, dim)
  if kind == "large dimension":
    u[:, 3] *= 1e4
  elif kind == "constant":
    u[:, [2, 5, 7]] = [0.0, -1.25, 3e4]
  elif kind == "copies":
    u[:, [2, 5, 7]] = u[:, [1, 3, 3]]
  return u.astype(np.float16) if kind == "float16" else u


@pytest.mark.parametrize("kind", ["large dimension", "float16", "wide", "few rows"])
@pytest.mark.parametrize(("name", "soft"), [("whitening", 0.0), ("soft-whitening", 0.5)])
def test_badly_conditioned_embeddings_against_float64(kind, name, soft):
  u = badly_conditioned(kind)
  z = make_calibration(name).fit(u).transform(u)
  np.testing.assert_allclose(cosines(z[:60]), cosines(whitened(u, soft)[:60]), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["constant", "copies", "large dimension", "float16", "wide", "few rows"])
def test_flow_of_badly_conditioned_embeddings_against_float64(kind):
  """Latents and loss of the fitted weights, by NumPy in float64."""
  u = badly_conditioned(kind)[:200]
  flow = fit_calibration(u, "flow", train_batch_size=8 if kind == "few rows" else 32, show_progress=False)
  u, config = u[:60], dataclasses.asdict(flow.flow.config)
  z, weights, wide = flow.transform(u), reference.float64(flow.flow.tf1_variables()), u.astype(np.float64)
  expected, _ = reference.forward(config, weights, wide)
  np.testing.assert_allclose(z, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
  np.testing.assert_allclose(cosines(z), cosines(expected), atol=1e-4)
  np.testing.assert_allclose(flow.bits_per_dim(u), reference.bits_per_dim(config, weights, wide), rtol=1e-4)
  assert flow.flow.constant_dimensions == ([2, 5, 7] if kind == "constant" else [])


@pytest.mark.parametrize(
  ("kind", "message"),
  [("duplicates", "all equal"), ("huge", "too large"), ("few rows", "20 pairs")],
)
def test_embeddings_that_no_flow_can_start_from(kind, message):
  u = badly_conditioned(kind)
  u = {"duplicates": u[:1].repeat(400, axis=0), "huge": u * 1e20}.get(kind, u)
  with pytest.raises(BertFlowError, match=message) as caught:
    fit_calibration(u, "flow", show_progress=False)
  assert caught.value.argument in ("embeddings", "train_batch_size")
