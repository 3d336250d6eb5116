"""Atomic local files."""

import os

import pytest

from bert_flow_tf.corpus.storage import LocalStorage


def test_a_file_is_replaced_atomically(tmp_path):
  storage, path = LocalStorage(), str(tmp_path / "a")
  with storage.writing(path) as file:
    file.write(b"old")
    assert storage.stat(path) is None
  mask = os.umask(0)
  os.umask(mask)
  assert os.stat(path).st_mode & 0o777 == 0o666 & ~mask
  with open(path, "rb") as reader:
    with storage.writing(path) as file:
      file.write(b"newer")
    assert reader.read() == b"old"  # an open file keeps its content
  assert storage.stat(path)[0] == 5
  with pytest.raises(ValueError, match="stopped"), storage.writing(path) as file:
    file.write(b"half")
    raise ValueError("stopped")
  with storage.open(path) as file:
    assert file.read() == b"newer"
  assert storage.names(str(tmp_path)) == ["a"]
