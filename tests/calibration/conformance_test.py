"""The laws of every calibration of METHODS; the reference is NumPy's SVD of the rows."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

from bert_flow_tf.calibration.linear import METHODS
from bert_flow_tf.calibration.names import make_calibration, parse_calibration
from bert_flow_tf.calibration.saving import load_calibration
from bert_flow_tf.errors import CalibrationError
from tests.calibration.cases import NAMES, D, close, cone, cosines, in_graph
from tests.testing import rejected

every_name = pytest.mark.parametrize("name", NAMES)


def draw(rows=300, seed=0):
  """Returns embeddings of D dimensions."""
  return cone(rows, D, seed)


def null(rows, k):
  """Rows without their first k right singular vectors."""
  basis = scipy.linalg.svd(rows, full_matrices=False)[2][:k]
  return lambda y: y - y @ basis.T @ basis


def reference(name, u):
  """Returns the method as a function, fitted on float64 u [n, dim]."""
  method, _, k = name.removeprefix("soft-").removeprefix("tempered-").partition("-")
  k = float(k) if k else None
  mean, deviation = u.mean(axis=0), u.std(axis=0)
  if method == "whitening":
    # SVD of the centered rows: singular value s is sqrt(lambda (n - 1)).
    _, s, vt = scipy.linalg.svd(u - mean, full_matrices=False)
    variances = s**2 / (len(u) - 1)
    if name.startswith("tempered"):
      # The shrinkage by its definition, and half the share that the mean has in the mean square.
      covariance, (n, p) = np.cov(u.T), u.shape
      square, trace = np.trace(covariance @ covariance), np.trace(covariance)
      rho = ((1 - 2 / p) * square + trace**2) / ((n + 1 - 2 / p) * (square - trace**2 / p))
      k = k or max(0.2, mean @ mean / np.mean(np.sum(u**2, axis=1)) / 2)
      scale = ((1 - rho) * variances + rho * variances.mean()) ** -k
      return lambda x: (x - mean) @ vt.T * scale
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


def test_the_names_have_every_method():
  assert {parse_calibration(name).method for name in NAMES} == METHODS.keys()


@every_name
def test_against_the_reference(name):
  u, new = draw(), draw(50, 1)
  calibration = make_calibration(name).fit(u)
  transform = reference(name, np.float64(u))
  for rows in (u, new):
    actual, expected = calibration.transform(rows), transform(np.float64(rows))
    assert actual.dtype == np.float32 and actual.shape == expected.shape == (len(rows), calibration.output_dim)
    np.testing.assert_allclose(cosines(actual), cosines(expected), atol=1e-5)
    if "whitening" in name:  # a direction and its opposite serve alike
      actual, expected = np.abs(actual), np.abs(expected)
    close(actual, expected, 1e-5)
  assert (calibration.name, calibration.dim, calibration.count) == (name, u.shape[1], 300)


@every_name
@pytest.mark.parametrize("cuts", [[0, 0, 1], [299], [5, 5, 100, 101], list(range(1, 300, 7))])
def test_fitted_in_parts_and_merged(name, cuts, tmp_path):
  u = draw()
  expected = make_calibration(name).fit(u).transform(u)
  parts = make_calibration(name)
  for batch in np.split(u, cuts):
    assert parts.partial_fit(batch) is parts
  close(parts.transform(u), expected, 1e-5)
  # Merge two calibrations that were fitted separately; one was saved and loaded.
  make_calibration(name).fit(u[120:]).save(tmp_path / "second")
  merged = make_calibration(name).fit(u[:120])
  assert merged.merge(load_calibration(tmp_path / "second")) is merged
  close(merged.transform(u), expected, 1e-5)
  assert parts.count == merged.count == 300


@pytest.mark.parametrize("name", [*NAMES, "natsv", "sn+natsv"])
def test_saved_and_loaded_is_exact_and_can_be_fitted_further(name, tmp_path):
  u, more = draw(60), draw(30, 1)
  calibration = make_calibration(name).fit(u)
  calibration.encoder = {"name": "mini"}
  assert calibration.save(tmp_path / "a/folder") == tmp_path / "a/folder/calibration.npz"
  loaded = load_calibration(tmp_path / "a/folder")
  for attribute in ("name", "dim", "count", "output_dim", "encoder"):
    assert getattr(loaded, attribute) == getattr(calibration, attribute)
  if name.endswith("natsv"):
    gold = np.arange(30.0)
    assert loaded.choose_k(u[:30], more, gold) == calibration.choose_k(u[:30], more, gold)
  np.testing.assert_array_equal(loaded.transform(more), calibration.transform(more))
  np.testing.assert_array_equal(loaded.partial_fit(more).transform(u), calibration.partial_fit(more).transform(u))


@every_name
def test_affine_and_served_graph(name):
  u, new = draw(), draw(50, 1)
  calibration = make_calibration(name).fit(u)
  shift, matrix = calibration.affine()
  assert shift.shape == (u.shape[1],) and matrix.shape == (u.shape[1], calibration.output_dim)
  close((new - shift) @ matrix, calibration.transform(new))
  assert shift.dtype == matrix.dtype == np.float64
  graph = in_graph(calibration)
  close(graph(new), calibration.transform(new))
  assert graph(new[:0]).shape == (0, calibration.output_dim)


@every_name
def test_not_fitted(name, tmp_path):
  calibration = make_calibration(name)
  for use in (
    lambda: calibration.transform(cone(3, 4)),
    lambda: calibration.save(tmp_path / "folder"),
    lambda: calibration.dim,
    lambda: calibration.output_dim,
  ):
    with rejected(CalibrationError, None):
      use()
  assert not list(tmp_path.iterdir())


@every_name
@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_rows(name, rows):
  with rejected(CalibrationError, "embeddings"):
    make_calibration(name).fit(cone(rows, 12))
  parts = make_calibration(name).partial_fit(cone(rows, 12))
  with rejected(CalibrationError, "embeddings"):
    parts.transform(cone(3, 12))
  parts.partial_fit(cone(30, 12))  # and more can come
  assert parts.transform(cone(3, 12)).shape == (3, parts.output_dim)


@every_name
def test_rejected_rows_change_nothing(name):
  calibration = make_calibration(name).fit(cone(80, 12))
  expected = calibration.transform(cone(9, 12, seed=2))
  bad = cone(9, 12)
  bad[4, 4] = np.nan
  for rows in (bad, cone(9, 11), cone(9, 12)[0]):
    for method in (calibration.fit, calibration.partial_fit, calibration.transform):
      if method == calibration.fit and rows.ndim == 2 and rows.shape[1] == 11:
        continue  # another width is another fit
      with rejected(CalibrationError, "embeddings"):
        method(rows)
  with pytest.raises(CalibrationError):
    calibration.fit(cone(1, 12))
  np.testing.assert_array_equal(calibration.transform(cone(9, 12, seed=2)), expected)
  assert calibration.transform(cone(0, 12)).shape == (0, calibration.output_dim)


@pytest.mark.parametrize("name", NAMES[1:])
@pytest.mark.parametrize("value", [0.0, 0.1, -3e4])
def test_rows_that_are_all_alike(name, value):
  with pytest.raises(CalibrationError) as raised:
    make_calibration(name).fit(np.full([50, 12], value, np.float32))
  assert raised.value.argument in ("embeddings", "k")


@pytest.mark.parametrize("scale", [1e-15, 1e15])
@pytest.mark.parametrize("name", NAMES[1:])
def test_scale_of_the_embeddings_does_not_matter(name, scale):
  u = cone(100, 6)
  actual = make_calibration(name).fit(u * np.float32(scale)).transform(u * np.float32(scale))
  np.testing.assert_allclose(cosines(actual), cosines(make_calibration(name).fit(u).transform(u)), atol=1e-4)
