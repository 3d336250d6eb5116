"""calibration/moments.py: merging is exact for every split; rows that are rejected."""

import numpy as np
import pytest

from bert_flow_tf.calibration import moments
from bert_flow_tf.calibration.moments import Moments
from tests.calibration.cases import cone


def assert_equal(found, rows, rtol=1e-12):
  """Asserts the moments that NumPy computes of all rows at once, in float64."""
  rows = rows.astype(np.float64)
  scale = np.abs(rows).max() ** 2
  assert found.count == len(rows)
  np.testing.assert_allclose(found.mean, rows.mean(axis=0), rtol=rtol)
  covariance = np.cov(rows.T, ddof=0)
  scatter = found.scatter if found.scatter.ndim == 2 else np.diag(found.scatter)
  expected = covariance if found.scatter.ndim == 2 else np.diag(np.diag(covariance))
  np.testing.assert_allclose(scatter / len(rows), expected, rtol=0, atol=rtol * scale)
  np.testing.assert_allclose(found.variance, rows.var(axis=0), rtol=0, atol=rtol * scale)
  np.testing.assert_allclose(found.mean_square, (rows**2).mean(axis=0), rtol=rtol)


@pytest.mark.parametrize("cross", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_any_split_merges_to_the_whole(cross, seed):
  rng = np.random.default_rng(seed)
  rows = cone(200, 6, seed)
  cuts = np.sort(rng.integers(0, 201, rng.integers(0, 12)))  # repeated cuts: empty batches
  merged = Moments.of(rows[:0], cross)
  for batch in np.split(rows, cuts):
    merged = merged.merged(Moments.of(batch, cross))
  assert_equal(merged, rows)


def test_single_rows_and_either_order():
  rows = cone(40, 5)
  parts = [Moments.of(row[None], True) for row in rows]
  forward, backward = parts[0], parts[-1]
  for part in parts[1:]:
    forward = forward.merged(part)
  for part in parts[-2::-1]:
    backward = backward.merged(part)
  assert_equal(forward, rows)
  assert_equal(backward, rows)


def test_pieces_of_a_long_array(monkeypatch):
  monkeypatch.setattr(moments, "CHUNK", 7)
  assert_equal(Moments.of(cone(100, 4), True), cone(100, 4))


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
  for array, kept in zip((a.mean, a.scatter, b.scatter), before, strict=True):
    np.testing.assert_array_equal(array, kept)
