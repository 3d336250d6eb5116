"""Tests of cache.py: each sentence has the embedding that was written, or none."""

import os
import pickle
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
from absl import logging

from bert_flow_tf.encoder import cache as cache_lib
from bert_flow_tf.encoder.cache import EmbeddingCache
from bert_flow_tf.errors import EncoderError
from tests.testing import REPO

SENTENCES = ["a", "b", "", "c\ud800", "a b"]
EMBEDDINGS = np.random.default_rng(0).normal(size=[5, 4]).astype(np.float32)


@pytest.fixture
def logged(monkeypatch):
  lines = []
  monkeypatch.setattr(logging, "warning", lambda text, *values: lines.append(text % values))
  return lines


@pytest.fixture
def cache(tmp_path):
  return EmbeddingCache(tmp_path / "new" / "folder")


def _files(cache, key="k"):
  return sorted((cache.folder / key).iterdir())


def _saved(cache):
  """Saves SENTENCES; returns the path and content of their file."""
  cache.save("k", SENTENCES, EMBEDDINGS)
  (path,) = _files(cache)
  return path, path.read_bytes()


def test_round_trip_in_any_order(cache, logged):
  assert not cache.load("k", SENTENCES, 4)[1].any()
  path, _ = _saved(cache)
  wanted = ["x", "a b", "a", "y", "c\ud800", "c"]
  loaded, cached = cache.load("k", wanted, 4)
  np.testing.assert_array_equal(cached, [False, True, True, False, True, False])
  np.testing.assert_array_equal(loaded[cached], EMBEDDINGS[[4, 0, 3]])
  assert loaded.dtype == np.float32 and loaded.shape == (6, 4)
  assert not cache.load("another", SENTENCES, 4)[1].any()
  np.testing.assert_array_equal(np.load(path), EMBEDDINGS)  # an ordinary .npy file
  assert logged == []


def test_many_sentences_in_many_chunks(cache, logged):
  """Some digests end with zero bytes, which NumPy's strings drop."""
  sentences = [str(i) for i in range(5000)]
  embeddings = np.random.default_rng(1).normal(size=[5000, 3]).astype(np.float32)
  ends = [digest for digest in cache_lib._digests(sentences) if len(digest) < 16]
  assert len(ends) > 5
  for part in range(7):
    cache.save("k", sentences[part::7], embeddings[part::7])
  assert len(_files(cache)) == 7
  order = np.random.default_rng(2).permutation(5000)
  loaded, cached = cache.load("k", [sentences[i] for i in order], 3)
  assert cached.all() and logged == []
  np.testing.assert_array_equal(loaded, embeddings[order])


def test_older_file_has_priority(cache):
  """An embedding that was once returned is returned again, even if another is written later."""
  for others in range(4):
    cache.save("k", SENTENCES[others:], EMBEDDINGS[others:] + others)
    (path,) = set(_files(cache)) - {path for path in _files(cache) if path.stat().st_mtime < 1e6}
    os.utime(path, (1000 - others, 1000 - others))
  loaded, cached = cache.load("k", SENTENCES, 4)
  assert cached.all()
  np.testing.assert_array_equal(loaded, EMBEDDINGS + np.array([[0], [1], [2], [3], [3]], np.float32))


def test_key_depends_on_settings_texts_and_their_order():
  key = EmbeddingCache.key
  base = key({"a": 1, "b": 2}, ["x", "y"])
  assert base == key({"b": 2, "a": 1}, ("x", "y"))
  others = [key({"a": 1}, ["x", "y"]), key({"a": 1, "b": 3}, ["x", "y"]), key({"a": 1, "b": 2})]
  others += [
    key({"a": 1, "b": 2}, texts) for texts in (["y", "x"], ["xy"], ["x", "y", ""], ["", "xy"], ["x\ud800", "y"])
  ]
  assert len({base, *others}) == 9


@pytest.mark.parametrize("keep", [0, 10, 100, 150, 208, -161, -160, -32, -1])
def test_truncated_file_is_not_used(cache, logged, keep):
  path, content = _saved(cache)
  path.write_bytes(content[:keep])
  assert not cache.load("k", SENTENCES, 4)[1].any()
  assert len(logged) == 1 and str(path) in logged[0] and "computed again" in logged[0]


def test_every_single_byte_is_checked(cache, logged):
  """A damaged row loses that row, a damaged record the whole file; the other rows are those that were saved."""
  path, content = _saved(cache)
  embeddings_end = len(content) - 5 * 32
  for position in range(128, len(content), 3):
    logged.clear()
    path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
    loaded, cached = cache.load("k", SENTENCES, 4)
    assert cached.sum() == (4 if position < embeddings_end else 0) and len(logged) == 1, position
    np.testing.assert_array_equal(loaded[cached], EMBEDDINGS[cached])
  path.write_bytes(content)
  np.testing.assert_array_equal(cache.load("k", SENTENCES, 4)[0], EMBEDDINGS)


def test_a_damaged_header_never_gives_wrong_numbers(cache, logged):
  path, content = _saved(cache)
  for position in range(128):
    for flip in (1, 4, 128):
      path.write_bytes(content[:position] + bytes([content[position] ^ flip]) + content[position + 1 :])
      loaded, cached = cache.load("k", SENTENCES, 4)
      np.testing.assert_array_equal(loaded[cached], EMBEDDINGS[cached])


class Trap:
  """Object that makes a folder when it is unpickled."""

  def __init__(self, path):
    self.path = path

  def __reduce__(self):
    return os.mkdir, (str(self.path),)


def test_foreign_files_are_reported_and_not_run(cache, logged, tmp_path):
  path, content = _saved(cache)
  folder, trap = path.parent, Trap(tmp_path / "sprung")
  (folder / "renamed.npy").write_bytes(content)
  (folder / "pickle.npy").write_bytes(pickle.dumps(trap))
  np.save(folder / "objects.npy", np.array([[trap]], object), allow_pickle=True)
  with (folder / "archive.npy").open("wb") as file:
    np.savez(file, x=EMBEDDINGS)
  np.save(folder / "plain.npy", EMBEDDINGS)
  with (folder / "huge.npy").open("wb") as file:
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (10**15, 4)})
  (folder / "folder.npy").mkdir()
  (folder / "notes.txt").write_text("ignored")
  loaded, cached = cache.load("k", [*SENTENCES, "new"], 4)
  np.testing.assert_array_equal(cached, [True] * 5 + [False])
  np.testing.assert_array_equal(loaded[:5], EMBEDDINGS)
  assert len(logged) == 7 and not trap.path.exists(), logged
  for name in ("renamed", "pickle", "objects", "archive", "plain", "huge", "folder"):
    assert sum(f"/{name}.npy" in line for line in logged) == 1, name


def test_file_of_another_width_is_not_used(cache, logged):
  _saved(cache)
  assert not cache.load("k", SENTENCES, 8)[1].any()
  assert len(logged) == 1


def test_rows_that_are_not_finite_are_neither_written_nor_read(cache, logged, monkeypatch):
  embeddings = EMBEDDINGS.copy()
  embeddings[1, 2], embeddings[3, 0] = np.nan, -np.inf
  cache.save("none", SENTENCES[1:2], embeddings[1:2])
  assert not (cache.folder / "none").exists()
  cache.save("k", SENTENCES, embeddings)
  loaded, cached = cache.load("k", SENTENCES, 4)
  np.testing.assert_array_equal(cached, [True, False, True, False, True])
  np.testing.assert_array_equal(loaded[cached], EMBEDDINGS[cached])
  assert logged == []
  with monkeypatch.context() as patch:  # a file from a program that does not check
    patch.setattr(cache_lib, "_finite", lambda rows: np.ones(len(rows), bool))
    cache.save("bad", SENTENCES, embeddings)
  assert cache.load("bad", SENTENCES, 4)[1].sum() == 3 and len(logged) == 1


def test_permissions_are_those_of_any_file(cache):
  umask = os.umask(0o027)
  try:
    path, _ = _saved(cache)
  finally:
    os.umask(umask)
  assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("parts", [["file"], ["file", "below"]])
def test_unwritable_folder(tmp_path, parts):
  (tmp_path / "file").write_text("not a folder")
  with pytest.raises(EncoderError) as error:
    EmbeddingCache(tmp_path.joinpath(*parts))
  assert error.value.argument == "cached_dir"


def test_full_disk_is_logged_and_not_an_error(cache, logged, monkeypatch):
  def full(file, *unused, **also_unused):
    file.write(b"some")
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(np, "save", full)
  cache.save("k", SENTENCES, EMBEDDINGS)
  assert len(logged) == 1 and "No space left on device" in logged[0]
  assert _files(cache) == []


def test_incomplete_files_of_killed_processes_are_deleted_after_a_day(cache, logged):
  path, _ = _saved(cache)
  old, new = path.parent / ".old.writing", path.parent / ".new.writing"
  for file in (old, new):
    file.write_bytes(b"half")
  os.utime(old, (time.time() - 90000,) * 2)
  cache.save("k", ["z"], EMBEDDINGS[:1])
  assert not old.exists() and new.exists() and len(_files(cache)) == 3
  assert cache.load("k", [*SENTENCES, "z"], 4)[1].all() and logged == []


# Program that writes and reads the same files as a second process at the same time, and prints errors.
_WRITER = """
import pathlib, sys
import numpy as np
from absl import logging
from bert_flow_tf.encoder.cache import EmbeddingCache
logging.warning = lambda text, *values: print(text % values)
cache, rng = EmbeddingCache(sys.argv[1]), np.random.default_rng(0)
cache.folder.joinpath(f"ready{sys.argv[2]}").touch()
while not all(cache.folder.joinpath(f"ready{i}").exists() for i in range(2)):
  pass
for turn in range(30):
  sentences, rows = [f"{turn} {i}" for i in range(50)], rng.normal(size=[50, 64]).astype(np.float32)
  cache.save("k", sentences, rows)
  loaded, cached = cache.load("k", sentences, 64)
  if not cached.all() or not np.array_equal(loaded, rows):
    print(f"turn {turn}: {cached.sum()} cached")
"""


def test_processes_that_write_the_same_file_at_once(cache):
  commands = [[sys.executable, "-c", _WRITER, str(cache.folder), str(i)] for i in range(2)]
  pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": REPO}
  runs = [subprocess.Popen(command, **pipes) for command in commands]
  assert [run.communicate(timeout=60)[0] for run in runs] == ["", ""]
  assert [run.returncode for run in runs] == [0, 0]
  assert len(_files(cache)) == 30
