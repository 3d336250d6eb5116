"""calibration/moments.py: arrays in pieces; each floor of the variance where it alone decides."""

import numpy as np
import pytest

from bert_flow_tf.calibration.moments import Moments, directions
from bert_flow_tf.io import checks
from tests.calibration.cases import close, cone


@pytest.mark.parametrize("cross", [True, False])
def test_pieces_of_a_long_array(cross, monkeypatch):
  monkeypatch.setattr(checks, "_CHUNK", 7)
  rows = cone(100, 4)
  found, covariance = Moments.of(rows, cross), np.cov(rows.T.astype(np.float64), ddof=0)
  close(found.mean, rows.mean(axis=0, dtype=np.float64), 1e-12)
  close(found.scatter / found.count, covariance if cross else np.diag(covariance), 1e-12)


def test_a_mean_far_larger_than_the_deviation():
  """sum x^2 - n mean^2 would have no digit left here."""
  rng = np.random.default_rng(0)
  rows = 1e8 + rng.standard_normal([1000, 3])
  found = Moments.of(rows[:300], True).merged(Moments.of(rows[300:], True))
  np.testing.assert_allclose(found.scatter / 999, np.cov(rows.T), rtol=1e-6)


def test_merging_changes_neither():
  a, b = (Moments.of(cone(9, 3, seed), True) for seed in range(2))
  before = a.mean.copy(), a.scatter.copy(), b.scatter.copy()
  a.merged(b)
  for array, expected in zip((a.mean, a.scatter, b.scatter), before, strict=True):
    np.testing.assert_array_equal(array, expected)


def rank(rows):
  moments = Moments.of(rows, True)
  values, vectors = directions(moments.scatter / moments.count, moments.mean_square)
  assert vectors.shape == (rows.shape[1], len(values)) and (np.diff(values) <= 0).all()
  np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-10)
  return len(values)


@pytest.mark.parametrize("offset", [0, 100, 1e4])
def test_rounding_of_float32_rows(offset):
  """Far from 0, a sum of two dimensions is rounded to many times what float64's eigenvalues err by."""
  rows = offset + np.random.default_rng(0).standard_normal([400, 6])
  rows[:, 5] = rows[:, 0] + rows[:, 1]
  assert rank(rows.astype(np.float32)) == 5
  assert rank(rows[:, :5].astype(np.float32)) == 5


@pytest.mark.parametrize("largest", [1, 30])
def test_error_of_float64_eigenvalues(largest):
  """Fewer rows than dimensions around 0: eigenvalues that should be 0 have the rounding of the largest eigenvalue."""
  rng = np.random.default_rng(0)
  rows = rng.standard_normal([101, 300]) @ np.linalg.qr(rng.standard_normal([300, 300]))[0]
  rows += largest * rng.standard_normal([101, 1]) @ rng.standard_normal([1, 300])
  assert rank(rows) == 100


def test_many_small_directions_are_kept():
  rng = np.random.default_rng(0)
  turn = np.linalg.qr(rng.standard_normal([200, 200]))[0]
  rows = rng.standard_normal([1000, 200]) * np.geomspace(1, 1e-5, 200) @ turn + 1
  assert rank(rows.astype(np.float32)) == 200


def test_deviations():
  rows = np.float32([[1, 5, 0, 3e8], [3, 5, 0, 3e8], [5, 5, 0, 3e8]])
  np.testing.assert_allclose(Moments.of(rows, False).inverse_deviations, [np.sqrt(3 / 8), 0, 0, 0], rtol=1e-12)
