"""A calibration's folder: what is written comes back to the bit, and everything else is one CalibrationError."""

import json

import numpy as np
import pytest

from bert_flow_tf.calibration.flow import calibration_sha256
from bert_flow_tf.calibration.names import load_linear_calibration, make_calibration
from bert_flow_tf.calibration.natsv import Natsv
from bert_flow_tf.errors import CalibrationError
from tests.calibration.cases import NAMES, cone
from tests.testing import rewrite_arrays, rewrite_json

DIM = 8


@pytest.fixture
def saved(tmp_path):
  """Returns the folder of a fitted whitening-3."""
  make_calibration("whitening-3").fit(cone(40, DIM)).save(tmp_path / "folder")
  return tmp_path / "folder"


@pytest.mark.parametrize("name", [*NAMES, "natsv", "sn+natsv"])
def test_round_trip_is_exact_and_fitting_goes_on(name, tmp_path):
  u, more = cone(60, DIM), cone(30, DIM, seed=1)
  calibration = make_calibration(name).fit(u)
  calibration.save(tmp_path / "a" / "folder")
  loaded = load_linear_calibration(tmp_path / "a" / "folder")
  assert (loaded.name, loaded.dim, loaded.count, loaded.output_dim) == (name, DIM, 60, calibration.output_dim)
  if loaded.k is None and isinstance(loaded, Natsv):
    gold = np.arange(30.0)
    assert loaded.choose_k(u[:30], more, gold) == calibration.choose_k(u[:30], more, gold)
  np.testing.assert_array_equal(loaded.transform(more), calibration.transform(more))
  np.testing.assert_array_equal(loaded.partial_fit(more).transform(u), calibration.partial_fit(more).transform(u))


def test_without_views_a_folder_is_as_before(saved):
  """The checksum of a calibration is over all of it; caches and manifests have it."""
  settings = json.loads((saved / "calibration.json").read_text())
  assert list(settings) == ["format_version", "method", "k", "dim", "count", "sha256"]
  before = calibration_sha256(saved)
  rewrite_json(saved / "calibration.json")  # as a version without checksums writes it
  assert calibration_sha256(saved) == before
  with np.load(saved / "arrays.npz") as arrays:
    assert arrays.files == ["mean", "scatter", "kernel"]


def test_chosen_k_is_kept(tmp_path):
  u = cone(60, DIM)
  calibration = Natsv().fit(u)
  calibration.choose_k(u[:30], u[30:], np.arange(30.0))
  calibration.save(tmp_path / "folder")
  loaded = Natsv.load(tmp_path / "folder")
  assert loaded.k == calibration.k and loaded.name == calibration.name
  np.testing.assert_array_equal(loaded.transform(u), calibration.transform(u))
  assert len(loaded.choose_k(u[:30], u[30:], np.arange(30.0))) == DIM - 1


def test_singular_round_trip(tmp_path):
  u = cone(60, DIM)
  u[:, 3] = 1.5
  for name in ("sn", "whitening"):
    calibration = make_calibration(name).fit(u)
    calibration.save(tmp_path / name)
    np.testing.assert_array_equal(load_linear_calibration(tmp_path / name).transform(u), calibration.transform(u))


def test_a_flows_folder_is_named(saved):
  rewrite_json(saved / "calibration.json", config={})
  with pytest.raises(CalibrationError, match=r"it has a flow; load it with Glow\.load"):
    load_linear_calibration(saved)


def test_a_flows_configuration_is_not_deleted(saved):
  (saved / "flow.json").write_text("{}")
  with pytest.raises(CalibrationError, match=r"flow\.json, not a calibration"):
    make_calibration("sn").fit(cone(9, 4)).save(saved)
  assert (saved / "flow.json").exists()


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"method": "pca"}, "method is 'pca', expected one of whitening, soft-whitening, sn,"),
    ({"method": "flow"}, "method is 'flow'"),
    ({"method": ["sn"]}, "method is"),
    ({"method": "sn"}, "k=3: calibration sn takes no k"),
    ({"method": "natsv"}, "arrays .'kernel', 'mean', 'scatter'. in arrays.npz, expected .'basis', 'mean', 'scatter'."),
    ({"method": None}, "method is None"),
    ({"k": "3"}, "k='3'"),
    ({"k": 4}, "array kernel has shape .8, 3., which does not fit"),
    ({"k": -1}, "k=-1"),
    ({"dim": 7}, "array mean has shape"),
    ({"dim": 8.0}, "dim is 8.0"),
    ({"dim": 10**30}, "array mean has shape"),
    ({"dim": True}, "dim is True"),
    ({"count": 1}, "count 1, expected integers"),
    ({"count": None}, "calibration.json has"),
    ({"color": "red"}, "calibration.json has"),
  ],
)
def test_settings_that_describe_nothing(saved, changes, message):
  rewrite_json(saved / "calibration.json", **changes)
  with pytest.raises(CalibrationError, match=message) as caught:
    load_linear_calibration(saved)
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"kernel": None}, "expected .'kernel', 'mean', 'scatter'."),
    ({"other": np.zeros(2)}, "arrays .*'other'"),
    ({"kernel": np.zeros([3, DIM])}, "array kernel has shape"),
    ({"kernel": np.zeros([DIM, 3, 1])}, "array kernel has shape"),
    ({"kernel": np.zeros([])}, "array kernel has shape"),
    ({"kernel": np.zeros([DIM, 3], np.float32)}, "array kernel is float32, expected float64"),
    ({"kernel": np.full([DIM, 3], "x")}, "array kernel is <U1"),
    ({"kernel": np.full([DIM, 3], np.nan)}, "array kernel has NaN or infinity"),
    ({"scatter": np.full([DIM, DIM], np.inf)}, "array scatter has NaN"),
    ({"scatter": np.zeros(DIM)}, "array scatter has shape"),
    ({"mean": np.zeros([DIM], object)}, "damaged"),
  ],
)
def test_arrays_that_do_not_fit(saved, changes, message):
  rewrite_arrays(saved / "arrays.npz", changes)
  with pytest.raises(CalibrationError, match=message):
    load_linear_calibration(saved)
