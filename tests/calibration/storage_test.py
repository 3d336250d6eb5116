"""A calibration's folder: what is written comes back to the bit, and everything else is one CalibrationError."""

import json
import pathlib

import numpy as np
import pytest

from bert_flow_tf.calibration import storage
from bert_flow_tf.calibration.natsv import Natsv
from bert_flow_tf.calibration.spec import load_linear_calibration, make_calibration
from bert_flow_tf.errors import CalibrationError
from tests.calibration.cases import NAMES, cone

DIM = 8


@pytest.fixture
def saved(tmp_path):
  """Folder of a fitted whitening-3."""
  make_calibration("whitening-3").fit(cone(40, DIM)).save(tmp_path / "folder")
  return tmp_path / "folder"


def rewrite(folder, **changes):
  """Changes `calibration.json`; a value of None removes the key."""
  file = folder / "calibration.json"
  settings = {**json.loads(file.read_text()), **changes}
  file.write_text(json.dumps({key: value for key, value in settings.items() if value is not None}))


def rewrite_arrays(folder, **changes):
  """Changes `arrays.npz`; a value of None removes the array."""
  with np.load(folder / "arrays.npz") as archive:
    arrays = {name: archive[name] for name in archive.files if name not in changes}
  arrays.update({name: array for name, array in changes.items() if array is not None})
  np.savez(folder / "arrays.npz", **arrays)


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


def test_nothing_is_left_beside(saved):
  make_calibration("sn").fit(cone(9, 4)).save(saved)
  assert [path.name for path in saved.parent.iterdir()] == ["folder"]
  assert sorted(path.name for path in saved.iterdir()) == ["arrays.npz", "calibration.json"]
  assert load_linear_calibration(saved).name == "sn"


def test_what_a_killed_process_left_is_cleared(saved):
  for name in (".folder.writing", ".folder.older"):
    (saved.parent / name).mkdir()
    (saved.parent / name / "rest").write_text("half")
  make_calibration("sn").fit(cone(9, 4)).save(saved)
  assert [path.name for path in saved.parent.iterdir()] == ["folder"]


@pytest.mark.parametrize("content", ["notes.txt", "arrays.npz", "calibration.json/file", "file itself", "flow.json"])
def test_foreign_folders_are_refused_and_kept(tmp_path, content):
  folder = tmp_path / "folder"
  file = folder if content == "file itself" else folder / content
  file.parent.mkdir(parents=True, exist_ok=True)
  file.write_text("mine")
  with pytest.raises(CalibrationError, match="not a calibration; choose another folder"):
    make_calibration("sn").fit(cone(9, 4)).save(folder)
  assert file.read_text() == "mine" and [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_below_a_file(tmp_path):
  (tmp_path / "file").write_text("mine")
  with pytest.raises(CalibrationError, match="cannot be written"):
    make_calibration("sn").fit(cone(9, 4)).save(tmp_path / "file" / "folder")
  with pytest.raises(CalibrationError, match="no such folder"):
    load_linear_calibration(tmp_path / "file" / "folder")


@pytest.mark.parametrize("failing", [1, 2])
def test_failed_replacement_keeps_the_older(saved, monkeypatch, failing):
  """The disk refuses the first or the second of the two renames."""
  calls = []
  rename = pathlib.Path.rename

  def refuse(self, target):
    calls.append(target)
    if len(calls) == failing:
      raise OSError("disk says no")
    return rename(self, target)

  monkeypatch.setattr(pathlib.Path, "rename", refuse)
  with pytest.raises(CalibrationError, match="disk says no"):
    make_calibration("sn").fit(cone(9, 4)).save(saved)
  monkeypatch.undo()
  assert load_linear_calibration(saved).name == "whitening-3"
  assert [path.name for path in saved.parent.iterdir()] == ["folder"]


@pytest.mark.parametrize("missing", ["calibration.json", "arrays.npz"])
def test_missing_files_are_named(saved, missing):
  (saved / missing).unlink()
  with pytest.raises(CalibrationError, match=f"no {missing}"):
    load_linear_calibration(saved)


def test_a_flows_folder_is_named(saved):
  (saved / "flow.json").write_text("{}")
  with pytest.raises(CalibrationError, match=r"it has a flow; load it with Glow\.load"):
    load_linear_calibration(saved)


@pytest.mark.parametrize(
  "text", ["", "{", "[]", "3", "null", '"a"', "{}", "[[1, 2]]", "[" * 100000, "\x00", '{"format_version": 1}']
)
def test_garbage_settings(saved, text):
  (saved / "calibration.json").write_text(text)
  with pytest.raises(CalibrationError, match="calibration folder"):
    load_linear_calibration(saved)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"format_version": 2}, "format 2, this version reads 1"),
    ({"format_version": True}, "format True"),
    ({"format_version": [1]}, "format"),
    ({"method": "pca"}, "method is 'pca', expected one of whitening, sn,"),
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
    ({"colour": "red"}, "calibration.json has"),
  ],
)
def test_settings_that_describe_nothing(saved, changes, message):
  rewrite(saved, **changes)
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
  rewrite_arrays(saved, **changes)
  with pytest.raises(CalibrationError, match=message):
    load_linear_calibration(saved)


class _Explodes:
  def __reduce__(self):
    return (pytest.fail, ("a pickle was executed",))


def test_pickles_are_never_executed(saved):
  rewrite_arrays(saved, mean=np.array([_Explodes()] * DIM, object))
  with pytest.raises(CalibrationError, match="damaged"):
    load_linear_calibration(saved)
  np.save(saved / "bare.npy", np.array([_Explodes()], object), allow_pickle=True)
  (saved / "bare.npy").rename(saved / "arrays.npz")
  with pytest.raises(CalibrationError, match="damaged"):
    load_linear_calibration(saved)


def test_damaged_arrays_are_one_error(saved):
  file = saved / "arrays.npz"
  whole = file.read_bytes()
  for content in (b"", b"garbage", b"PK\x03\x04", b"\x80\x04N.", whole[:-1], whole[: len(whole) // 2], whole[10:]):
    file.write_bytes(content)
    with pytest.raises(CalibrationError, match="damaged"):
      storage.read(saved)
  rng = np.random.default_rng(0)
  refused = 0
  for position in rng.integers(len(whole), size=100):
    damaged = bytearray(whole)
    damaged[position] ^= 1 << rng.integers(8)
    file.write_bytes(damaged)
    try:
      load_linear_calibration(saved)
    except CalibrationError:
      refused += 1
  assert refused > 50  # the rest hit a date or the like


def test_empty_path_is_not_the_working_directory(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(CalibrationError) as refused:
    make_calibration("sn").fit(cone(9, 4)).save("")
  assert refused.value.argument == "folder" and tmp_path.is_dir() and not list(tmp_path.iterdir())
