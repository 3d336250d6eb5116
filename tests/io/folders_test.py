"""Folders of settings and arrays: a write is atomic, and all that cannot be read is one error of the kind's class."""

import json
import pathlib

import numpy as np
import pytest

from bert_flow_tf.errors import FlowError
from bert_flow_tf.io import files
from bert_flow_tf.io.folders import FolderFormat
from tests.testing import rewrite_json

FORMAT = FolderFormat("flow", "flow.json", "weights.npz", FlowError, "Glow.save")
SETTINGS = {"dim": 4, "names": ["a"]}
ARRAYS = {"a/b": np.arange(6.0).reshape(2, 3), "c": np.ones(200, np.float32)}


@pytest.fixture
def saved(tmp_path):
  """Returns a folder that `write` wrote."""
  FORMAT.write(tmp_path / "flow", SETTINGS, ARRAYS)
  return tmp_path / "flow"


def check_content(folder, settings, arrays):
  """Asserts what `read` returns."""
  actual_settings, actual_arrays = FORMAT.read(folder)
  assert actual_settings == settings and actual_arrays.keys() == arrays.keys()
  for name, array in arrays.items():
    np.testing.assert_array_equal(actual_arrays[name], array)
    assert actual_arrays[name].dtype == array.dtype


def check_rejected(folder, message):
  """Asserts that the folder cannot be read: one line that says why."""
  with pytest.raises(FlowError, match=message) as raised:
    FORMAT.read(folder)
  assert str(raised.value).startswith(f"flow folder {folder}: ") and "\n" not in str(raised.value)


def test_another_write_replaces_all_and_clears_what_a_killed_process_left(saved):
  check_content(saved, SETTINGS, ARRAYS)
  # Of a process that no longer runs.
  for name in (f".flow.{files.HOST}.4194304.abcd1234.{ending}" for ending in ("writing", "older")):
    (saved.parent / name).mkdir()
    (saved.parent / name / "rest").write_text("half")
  FORMAT.write(saved, {"dim": 5}, {"d": np.zeros(1)})
  check_content(saved, {"dim": 5}, {"d": np.zeros(1)})
  assert [path.name for path in saved.parent.iterdir()] == ["flow"]
  assert sorted(path.name for path in saved.iterdir()) == ["flow.json", "weights.npz"]


def test_empty_folder_link_and_relative_name_are_written(tmp_path, monkeypatch):
  (tmp_path / "real").mkdir()
  (tmp_path / "link").symlink_to(tmp_path / "real")
  for _ in range(2):
    FORMAT.write(tmp_path / "link", SETTINGS, ARRAYS)
  assert (tmp_path / "link").is_symlink()
  assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
  check_content(tmp_path / "real", SETTINGS, ARRAYS)
  monkeypatch.chdir(tmp_path)
  FORMAT.write("relative/", SETTINGS, ARRAYS)
  check_content("./relative", SETTINGS, ARRAYS)


@pytest.mark.parametrize("content", ["notes.txt", "weights.npz", "flow.json/file", "file itself"])
def test_foreign_folders_are_rejected_and_kept(tmp_path, content):
  folder = tmp_path / "flow"
  file = folder if content == "file itself" else folder / content
  file.parent.mkdir(parents=True, exist_ok=True)
  file.write_text("mine")
  with pytest.raises(FlowError, match="not a flow; choose another folder"):
    FORMAT.write(folder, SETTINGS, ARRAYS)
  assert file.read_text() == "mine" and [path.name for path in tmp_path.iterdir()] == ["flow"]


def test_other_files_next_to_a_flow_are_not_deleted(saved):
  (saved / "notes.txt").write_text("mine")
  with pytest.raises(FlowError, match=r"notes\.txt"):
    FORMAT.write(saved, {}, {})
  assert (saved / "notes.txt").read_text() == "mine"
  check_content(saved, SETTINGS, ARRAYS)


def test_below_a_file_and_without_a_name(tmp_path, monkeypatch):
  (tmp_path / "file").write_text("mine")
  with pytest.raises(FlowError, match="cannot be written"):
    FORMAT.write(tmp_path / "file" / "flow", SETTINGS, ARRAYS)
  check_rejected(tmp_path / "file" / "flow", "no such folder")
  monkeypatch.chdir(tmp_path)
  with pytest.raises(FlowError) as raised:  # not the working directory
    FORMAT.write("", SETTINGS, ARRAYS)
  assert raised.value.argument == "folder" and [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("failing", [1, 2])
def test_failed_replacement_keeps_the_older(saved, monkeypatch, failing):
  """The disk fails at the first or the second of the two renames."""
  calls = []
  rename = pathlib.Path.rename

  def fail(self, target):
    calls.append(target)
    if len(calls) == failing:
      raise OSError("disk says no")
    return rename(self, target)

  with monkeypatch.context() as patch, pytest.raises(FlowError, match="disk says no"):
    patch.setattr(pathlib.Path, "rename", fail)
    FORMAT.write(saved, {}, {})
  check_content(saved, SETTINGS, ARRAYS)
  assert [path.name for path in saved.parent.iterdir()] == ["flow"]


def test_failed_write_leaves_nothing(tmp_path, monkeypatch):
  def full(*args, **kwargs):
    raise OSError("no space left on device")

  monkeypatch.setattr(np, "savez", full)
  with pytest.raises(FlowError, match="no space left"):
    FORMAT.write(tmp_path / "flow", SETTINGS, ARRAYS)
  assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", [["flow.json"], ["weights.npz"], ["flow.json", "weights.npz"]])
def test_missing_files_are_named(saved, missing):
  for name in missing:
    (saved / name).unlink()
  check_rejected(saved, f"no {missing[0]}")


@pytest.mark.parametrize(
  "text",
  ["", "{", "[]", "3", "null", '"a"', "{}", "[[1, 2]]", "[" * 100000, "\x00\x01", '{"dim": 4}'],
)
def test_settings_that_are_garbage(saved, text):
  (saved / "flow.json").write_text(text)
  check_rejected(saved, "damaged, flow.json")


@pytest.mark.parametrize("version", [2, "1", True, [1], None])
def test_another_format(saved, version):
  (saved / "flow.json").write_text(json.dumps({"format_version": version}))
  check_rejected(saved, "this version reads 1")


class _Explodes:
  def __reduce__(self):
    return (pytest.fail, ("a pickle was executed",))


def test_pickles_are_never_executed(saved):
  for content in (np.array([_Explodes()], object), np.array(_Explodes(), object)):
    np.savez(saved / "weights.npz", a=content)
    check_rejected(saved, "damaged")
  np.save(saved / "bare.npy", np.array([_Explodes()], object), allow_pickle=True)
  (saved / "bare.npy").rename(saved / "weights.npz")
  check_rejected(saved, "damaged")


def test_compressed_arrays_are_not_unpacked(saved):
  """Some kilobytes of them can be gigabytes; folders of older versions have no checksum, which would tell it too."""
  rewrite_json(saved / "flow.json")
  np.savez_compressed(saved / "weights.npz", **ARRAYS)
  check_rejected(saved, "compressed arrays")


def test_damaged_arrays(saved):
  file = saved / "weights.npz"
  whole = file.read_bytes()
  np.save(saved / "bare.npy", np.zeros(3))
  garbage = [b"", b"garbage", b"PK\x03\x04", b"\x80\x04N.", (saved / "bare.npy").read_bytes()]
  for content in (*garbage, whole[:-1], whole[: len(whole) // 2], whole[10:]):
    file.write_bytes(content)
    check_rejected(saved, "damaged")
  rng, rejected = np.random.default_rng(0), 0
  for position in rng.integers(len(whole), size=150):
    damaged = bytearray(whole)
    damaged[position] ^= 1 << rng.integers(8)
    file.write_bytes(damaged)
    try:
      FORMAT.read(saved)
    except FlowError:
      rejected += 1
  assert rejected > 75  # the rest are bytes without a meaning, such as dates
