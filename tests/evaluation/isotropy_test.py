"""evaluation/isotropy.py: IsoScore against the published steps and known answers, the spectrum against SciPy."""

import math

import numpy as np
import pytest
import scipy.linalg
from sklearn.decomposition import PCA

from bert_flow_tf.evaluation.isotropy import isoscore, log_cone, singular_spectrum


def _published(points):
  """Returns Algorithm 1 of Rudman et al. 2022, step by step, for n > dim."""
  dim = points.shape[1]
  reoriented = PCA(n_components=dim).fit_transform(points)
  variances = np.diag(np.cov(reoriented.T))
  normalized = math.sqrt(dim) * variances / np.linalg.norm(variances)
  defect = np.linalg.norm(normalized - 1) / math.sqrt(2 * (dim - math.sqrt(dim)))
  used = (dim - defect**2 * (dim - math.sqrt(dim))) ** 2 / dim**2
  return (dim * used - 1) / (dim - 1)


def _cross(variances):
  """Points at +-x on each axis: their covariance is diagonal, proportional to the variances."""
  axes = np.diag(np.sqrt(np.asarray(variances, np.float64)))
  return np.concatenate([axes, -axes])


def _rotation(dim, seed=0):
  return np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))[0]


@pytest.mark.parametrize(
  ("points", "expected"),
  [
    (_cross([1] * 7), 1.0),
    (_cross([1] + [0] * 6), 0.0),
    ([[0.0, 0.0], [1.0, 3.0]], 0.0),
    *((_cross([3] * k + [0] * (10 - k)) @ _rotation(10) + 5, (k - 1) / 9) for k in (1, 2, 5, 9, 10)),
    (_cross([9, 1]), (9 + 1) ** 2 / (81 + 1) - 1),
    (np.eye(5, 100), 3 / 99),  # a regular simplex of 5 points: 4 equal variances
  ],
)
def test_isoscore_by_hand(points, expected):
  assert isoscore(points) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("n", "dim"), [(200, 3), (300, 40)])
def test_against_the_published_steps(n, dim):
  rng = np.random.default_rng(n)
  points = rng.normal(size=(n, dim)) * rng.gamma(1.0, size=dim) @ _rotation(dim) + rng.normal(size=dim)
  assert isoscore(points) == pytest.approx(_published(points), rel=1e-10)
  for alike in (points * 1e-9, points * 1e9, points @ _rotation(dim, 1), points + 1e3):
    assert isoscore(alike) == pytest.approx(_published(points), rel=1e-8)


@pytest.mark.parametrize(
  "points", [np.zeros([0, 4]), np.ones([1, 4]), np.full([9, 4], 0.1, np.float32), np.zeros([9, 4]), np.eye(3)[:, :1]]
)
def test_isoscore_that_is_not_defined(points, recwarn):
  assert math.isnan(isoscore(points)) and not recwarn.list


@pytest.mark.parametrize("shape", [(100, 6), (6, 20), (65, 65), (3, 1)])
def test_spectrum_against_scipy(shape):
  points = (np.random.default_rng(0).normal(size=shape) * np.linspace(1, 9, shape[1]) + 3).astype(np.float32)
  whole = points.astype(np.float64)
  expected = scipy.linalg.svdvals(whole)
  result = singular_spectrum(points)
  assert result.dtype == np.float64 and result.shape == (min(shape),)
  np.testing.assert_allclose(result, expected / expected[0], rtol=1e-10, atol=1e-14)


def test_spectrum_keeps_what_squares_would_lose():
  points = _cross([1.0, 1e-24])
  np.testing.assert_allclose(singular_spectrum(points @ _rotation(2)), [1, 1e-12], rtol=1e-3)


def test_spectrum_of_nothing():
  assert singular_spectrum(np.zeros([0, 4])).shape == (0,)
  assert np.isnan(singular_spectrum(np.zeros([3, 4]))).all()
  np.testing.assert_allclose(singular_spectrum(np.full([3, 4], 0.1)), [1, 0, 0], atol=1e-15)


@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_cone(shift, caplog):
  """Evenly spread rows without a common mean, of an encoder for similarity, get a warning, others get none."""
  rng = np.random.default_rng(0)
  for scale, warned in ((np.ones(30), not shift), (np.geomspace(1.0, 1e-6, 30), False)):
    caplog.clear()
    rows = (rng.normal(size=[300, 30]) * scale + shift).astype(np.float32)
    measures = log_cone(rows, for_similarity=True)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = (unit @ unit.T)[np.triu_indices(300, 1)]
    assert measures["cosine_of_random_pairs"] == pytest.approx(100 * cosines.mean(), abs=1e-3)
    variances = np.linalg.eigvalsh(np.cov(rows.T.astype(np.float64)))
    assert measures["participation_ratio"] == pytest.approx(100 * variances.sum() ** 2 / np.sum(variances**2) / 30)
    assert any("no narrow cone" in record.getMessage() for record in caplog.records) == warned
    assert ("warning" in measures) == warned
  assert math.isnan(log_cone(rows[:1])["cosine_of_random_pairs"])


def test_the_warning_of_a_missing_cone_goes_by_the_encoder(caplog):
  rng = np.random.default_rng(0)
  even, cone = rng.normal(size=[300, 30]), rng.normal(size=[300, 30]) + 9
  for embeddings, for_similarity, warned in ((even, True, True), (even, False, False), (cone, True, False)):
    caplog.clear()
    log_cone(embeddings, for_similarity)
    assert any("no narrow cone" in record.getMessage() for record in caplog.records) == warned
