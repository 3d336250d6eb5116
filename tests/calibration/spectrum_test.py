"""calibration/spectrum.py: each of the two floors where it alone decides."""

import numpy as np
import pytest

from bert_flow_tf.calibration.moments import Moments
from bert_flow_tf.calibration.spectrum import directions, inverse_deviations


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
  """Fewer rows than dimensions around 0: what should be 0 is a rounding of the largest eigenvalue."""
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
  np.testing.assert_allclose(inverse_deviations(Moments.of(rows, False)), [np.sqrt(3 / 8), 0, 0, 0], rtol=1e-12)
