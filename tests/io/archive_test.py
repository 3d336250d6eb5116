"""bert_flow_tf/io/archive.py: a write is atomic, and all that cannot be read is one error of the caller's class."""

import io
import json
import zipfile

import numpy as np
import pytest

from bert_flow_tf.errors import BertFlowError, FlowError
from bert_flow_tf.io import archive, files

SETTINGS = {"dim": 4, "names": ["a"], "encoder": None}
ARRAYS = {"a/b": np.arange(6.0).reshape(2, 3), "c": np.ones(200, np.float32), "d": np.array(3)}


@pytest.fixture
def saved(tmp_path):
  """Returns the path of a file that `write` wrote."""
  return archive.write(tmp_path / "new/flow", "flow", SETTINGS, ARRAYS)


def members(settings=None, **arrays):
  """Returns {name: bytes} of a file of kind "flow"."""
  header = {"kind": "flow", "format_version": 1} if settings is None else settings
  content = {"settings.json": header if isinstance(header, bytes) else json.dumps(header).encode()}
  for name, array in arrays.items():
    member = io.BytesIO()
    np.save(member, array, allow_pickle=True)
    content[f"{name}.npy"] = member.getvalue()
  return content


def write_zip(path, content, compression=zipfile.ZIP_STORED):
  """Writes {name: bytes} as a zip."""
  with zipfile.ZipFile(path, "w", compression) as file:
    for name, data in content.items():
      file.writestr(name, data)


def check_rejected(path, message):
  """Asserts that the file cannot be read: one line that names it and says why."""
  with pytest.raises(FlowError, match=message) as raised, archive.opened(path.parent, "flow", FlowError):
    pass
  assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)


def test_what_was_written_comes_back_and_equal_content_gives_equal_bytes(saved):
  with archive.opened(saved.parent, "flow", FlowError) as (settings, arrays):
    assert settings == SETTINGS and arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
      np.testing.assert_array_equal(arrays[name], array)
      assert arrays[name].dtype == array.dtype
  before = saved.read_bytes()
  archive.write(saved.parent, "flow", SETTINGS, ARRAYS)
  assert saved.read_bytes() == before and archive.is_in(saved.parent, "flow")
  assert not archive.is_in(saved.parent, "calibration")


def test_another_write_replaces_the_file_and_keeps_those_of_others(saved):
  (saved.parent / "notes.txt").write_text("mine")
  archive.write(saved.parent, "flow", {"dim": 5}, {})
  with archive.opened(saved.parent, "flow", FlowError) as content:
    assert content == ({"dim": 5}, {})
  assert sorted(path.name for path in saved.parent.iterdir()) == ["flow.npz", "notes.txt"]


@pytest.mark.parametrize("kinds", [("calibration", "model"), ("model", "calibration")])
def test_a_folder_has_one_form_of_a_model(tmp_path, kinds):
  """Both would leave open whether SentenceModel.load takes the calibration."""
  archive.write(tmp_path, "classifier", SETTINGS, ARRAYS)
  for kind in kinds:
    archive.write(tmp_path, kind, SETTINGS, ARRAYS)
  assert {path.name for path in tmp_path.iterdir()} == {"classifier.npz", f"{kinds[1]}.npz"}


def test_a_write_that_fails_keeps_the_older_file(saved, monkeypatch):
  before = saved.read_bytes()
  for name in ("replace", "fsync"):

    def full(*_):
      raise OSError("no space left on device")

    with monkeypatch.context() as patch, pytest.raises(BertFlowError, match="no space left"):
      patch.setattr(files.os, name, full)
      archive.write(saved.parent, "flow", {}, {})
    assert saved.read_bytes() == before and [path.name for path in saved.parent.iterdir()] == ["flow.npz"]
    with monkeypatch.context() as patch, pytest.raises(BertFlowError, match="no space left"):
      patch.setattr(files.os, name, full)
      archive.write(saved.parent / "new/folder", "flow", {}, {})
    assert [path.name for path in saved.parent.iterdir()] == ["flow.npz"]


def test_places_that_cannot_be_written_or_read(tmp_path, monkeypatch):
  (tmp_path / "file").write_text("mine")
  for folder in (tmp_path / "file", tmp_path / "file/flow"):
    with pytest.raises(BertFlowError, match=str(folder)):
      archive.write(folder, "flow", SETTINGS, ARRAYS)
    match = f"^{folder}: no folder; expected the folder of a saved flow, as {folder.parent}$"
    with pytest.raises(FlowError, match=match), archive.opened(folder, "flow", FlowError):
      pass
  check_rejected(tmp_path / "nowhere/flow.npz", "no such file; expected the folder of a saved flow")
  monkeypatch.chdir(tmp_path)
  with pytest.raises(BertFlowError) as raised:  # not the working directory
    archive.write("", "flow", SETTINGS, ARRAYS)
  assert raised.value.argument == "folder" and [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_error_of_the_block_names_the_file(saved):
  with (
    pytest.raises(FlowError, match=r"flow\.npz: .*KeyError: 'width'"),
    archive.opened(saved.parent, "flow", FlowError) as (settings, _),
  ):
    settings["width"]


class _Explodes:
  def __reduce__(self):
    return (pytest.fail, ("a pickle was executed",))


def test_pickles_are_never_executed_and_compressed_arrays_not_unpacked(saved):
  for content in (np.array([_Explodes()], object), np.array(_Explodes(), object)):
    write_zip(saved, members(a=content))
    check_rejected(saved, "damaged")
  write_zip(saved, members(a=np.zeros(10**6)), zipfile.ZIP_DEFLATED)
  check_rejected(saved, "compressed members")
