"""The calibrations against NumPy and SciPy on all rows at once, by other algebra: SVD of the rows, not of moments."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

from bert_flow_tf.calibration import moments
from bert_flow_tf.calibration.methods import MeanRemoval, NoCalibration, StandardNormalization, Whitening
from bert_flow_tf.calibration.names import load_linear_calibration, make_calibration
from bert_flow_tf.errors import CalibrationError, ConfigError
from tests.calibration.cases import NAMES, cone, cosines


def null(rows, k):
  """Rows without their first k right singular vectors."""
  basis = scipy.linalg.svd(rows, full_matrices=False)[2][:k]
  return lambda y: y - y @ basis.T @ basis


def reference(name, u):
  """Returns the method as a function, fitted on float64 u [n, dim]."""
  method, _, k = name.removeprefix("soft-").partition("-")
  k = float(k) if k else None
  mean, deviation = u.mean(axis=0), u.std(axis=0)
  if method == "whitening":
    # SVD of the centered rows: singular value s is sqrt(lambda (n - 1)).
    _, s, vt = scipy.linalg.svd(u - mean, full_matrices=False)
    variances = s**2 / (len(u) - 1)
    if not name.startswith("soft"):
      return lambda x: ((x - mean) @ vt.T / np.sqrt(variances))[:, : k and int(k)]
    scale = variances**-k if k else (variances + variances.mean() / 2) ** -0.5
    return lambda x: (x - mean) @ vt.T * scale
  return {
    "none": lambda x: x,
    "mean": lambda x: x - mean,
    "sn": lambda x: (x - mean) / deviation,
    "natsv": null(u, k and int(k)),
    "sn+natsv": lambda x: null(scipy.stats.zscore(u), int(k))((x - mean) / deviation),
  }[method]


@pytest.mark.parametrize("name", NAMES)
def test_against_the_reference(name):
  u, new = cone(300, 12), cone(50, 12, seed=1)
  calibration = make_calibration(name).fit(u)
  transform = reference(name, u.astype(np.float64))
  for rows in (u, new):
    found, expected = calibration.transform(rows), transform(rows.astype(np.float64))
    assert found.dtype == np.float32 and found.shape == expected.shape == (len(rows), calibration.output_dim)
    np.testing.assert_allclose(cosines(found), cosines(expected), atol=2e-6)
    if "whitening" in name:  # a direction and its opposite serve alike
      found, expected = np.abs(found), np.abs(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6 * np.abs(expected).max())
  assert (calibration.name, calibration.dim, calibration.count) == (name, 12, 300)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cuts", [[], [1], [299], [5, 5, 100, 101], list(range(1, 300))])
def test_fitted_in_parts(name, cuts):
  u = cone(300, 12)
  parts = make_calibration(name)
  for batch in np.split(u, cuts):
    assert parts.partial_fit(batch) is parts
  found, expected = parts.transform(u), make_calibration(name).fit(u).transform(u)
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
  assert parts.count == 300


@pytest.mark.parametrize("name", NAMES)
def test_merged(name, tmp_path):
  """Two that were fitted apart, one of them saved and loaded between."""
  u = cone(300, 12)
  make_calibration(name).fit(u[120:]).save(tmp_path / "second")
  merged = make_calibration(name).fit(u[:120])
  assert merged.merge(load_linear_calibration(tmp_path / "second")) is merged and merged.count == 300
  expected = make_calibration(name).fit(u).transform(u)
  np.testing.assert_allclose(merged.transform(u), expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_what_cannot_be_merged():
  whitening = Whitening().fit(cone(60, 5))
  for other, message in (
    (make_calibration("sn").fit(cone(60, 5)), "whitening cannot be merged with sn"),
    (make_calibration("whitening-3").fit(cone(60, 5)), "whitening cannot be merged with whitening-3"),
    (Whitening().fit(cone(60, 6)), "fitted on 5 dimensions, the other on 6"),
    (Whitening(), "is not fitted"),
    (None, "whitening cannot be merged with NoneType"),
  ):
    with pytest.raises(CalibrationError, match=message):
      whitening.merge(other)
  assert whitening.count == 60
  whitening.encoder, other = {"name": "a"}, Whitening().fit(cone(60, 5))
  assert whitening.merge(other).encoder == {"name": "a"} and other.merge(whitening).encoder == {"name": "a"}
  other.encoder = {"name": "b"}
  with pytest.raises(CalibrationError, match="on embeddings of a, the one to merge on those of b"):
    whitening.merge(other)


def test_fit_forgets_and_partial_fit_goes_on():
  a, b = cone(60, 5), cone(40, 5, seed=1)
  calibration = Whitening().fit(a)
  np.testing.assert_array_equal(calibration.fit(b).transform(a), Whitening().fit(b).transform(a))
  calibration.partial_fit(a)
  expected = Whitening().fit(np.concatenate([a, b])).transform(a)
  np.testing.assert_allclose(calibration.transform(a), expected, atol=1e-5)


def test_whitened_rows_have_the_covariance_one():
  u = cone(500, 16)
  z = Whitening().fit(u).transform(u).astype(np.float64)
  np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-6)
  np.testing.assert_allclose(np.cov(z.T), np.eye(16), atol=1e-5)


def test_first_columns_of_whitening_are_those_of_most_variance_and_have_a_fixed_sign():
  u = cone(500, 16)
  whole = Whitening().fit(u)
  np.testing.assert_array_equal(Whitening(4).fit(u).transform(u), whole.transform(u)[:, :4])
  kernel = whole._solved()["kernel"]
  assert (np.diff(np.linalg.norm(kernel, axis=0)) > 0).all()  # 1 / sqrt(lambda)
  assert (kernel[np.argmax(np.abs(kernel), axis=0), range(16)] > 0).all()


def test_pieces_of_a_long_array(monkeypatch):
  expected = Whitening().fit(cone(100, 5)).transform(cone(100, 5))
  monkeypatch.setattr(moments, "CHUNK", 9)
  np.testing.assert_allclose(Whitening().fit(cone(100, 5)).transform(cone(100, 5)), expected, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_not_fitted(name, tmp_path):
  calibration = make_calibration(name)
  for use in (
    lambda: calibration.transform(cone(3, 4)),
    lambda: calibration.save(tmp_path / "folder"),
    lambda: calibration.dim,
    lambda: calibration.output_dim,
  ):
    with pytest.raises(CalibrationError, match=f"^{name.replace('+', '.')} is not fitted: call fit or partial_fit"):
      use()
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_rows(name, rows):
  with pytest.raises(CalibrationError, match=f"at least 2 sentences, got {rows}$"):
    make_calibration(name).fit(cone(rows, 12))
  parts = make_calibration(name).partial_fit(cone(rows, 12))
  with pytest.raises(CalibrationError, match="at least 2 sentences"):
    parts.transform(cone(3, 12))
  parts.partial_fit(cone(30, 12))  # and more can come
  assert parts.transform(cone(3, 12)).shape == (3, parts.output_dim)


@pytest.mark.parametrize("name", NAMES)
def test_rejected_rows_change_nothing(name):
  calibration = make_calibration(name).fit(cone(80, 12))
  expected = calibration.transform(cone(9, 12, seed=2))
  bad = cone(9, 12)
  bad[4, 4] = np.nan
  for rows in (bad, cone(9, 11), cone(9, 12)[0]):
    for method in (calibration.fit, calibration.partial_fit, calibration.transform):
      if method == calibration.fit and rows.ndim == 2 and rows.shape[1] == 11:
        continue  # another width is another fit
      with pytest.raises(CalibrationError) as caught:
        method(rows)
      assert caught.value.argument == "embeddings"
  with pytest.raises(CalibrationError):
    calibration.fit(cone(1, 12))
  np.testing.assert_array_equal(calibration.transform(cone(9, 12, seed=2)), expected)
  assert calibration.transform(cone(0, 12)).shape == (0, calibration.output_dim)


def test_far_from_the_fit_is_an_error_not_infinity():
  calibration = StandardNormalization().fit(cone(50, 4) * np.float32(1e-20))
  with pytest.raises(CalibrationError, match=r"^embeddings: row 1 "):
    calibration.transform(np.float32([[1, 1, 1, 1], [1e30, 1, 1, 1]]))


@pytest.mark.parametrize("scale", [1e-15, 1e15])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "none"])
def test_scale_of_the_embeddings_does_not_matter(name, scale):
  u = cone(100, 6)
  found = make_calibration(name).fit(u * np.float32(scale)).transform(u * np.float32(scale))
  np.testing.assert_allclose(cosines(found), cosines(make_calibration(name).fit(u).transform(u)), atol=1e-4)


def test_integers_lists_and_float64_are_taken():
  rows = [[1, 2], [3, 5], [4, 4]]
  found = MeanRemoval().fit(rows).transform(np.array(rows, np.float64))
  np.testing.assert_allclose(found, np.array(rows) - np.mean(rows, axis=0), rtol=1e-6)


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", True])
def test_k_that_is_no_number_of_directions(k):
  for method in (Whitening, NoCalibration):
    with pytest.raises(ConfigError) as caught:
      method(k)
    assert caught.value.argument == "k"
