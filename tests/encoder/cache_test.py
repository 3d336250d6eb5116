"""cache.py: what is read back is what was written, sentence by sentence, or nothing."""

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
  """The file and its content, after SENTENCES were saved in it."""
  cache.save("k", SENTENCES, EMBEDDINGS)
  (path,) = _files(cache)
  return path, path.read_bytes()


def test_round_trip_in_any_order(cache, logged):
  assert not cache.load("k", SENTENCES, 4)[1].any()
  path, _ = _saved(cache)
  wanted = ["x", "a b", "a", "y", "c\ud800", "c"]
  found, known = cache.load("k", wanted, 4)
  np.testing.assert_array_equal(known, [False, True, True, False, True, False])
  np.testing.assert_array_equal(found[known], EMBEDDINGS[[4, 0, 3]])
  assert found.dtype == np.float32 and found.shape == (6, 4)
  assert not cache.load("another", SENTENCES, 4)[1].any()
  np.testing.assert_array_equal(np.load(path), EMBEDDINGS)  # an ordinary .npy to others
  assert logged == []


def test_many_sentences_in_many_chunks(cache, logged):
  """Digests with zero bytes at their ends are among them, which NumPy's strings drop."""
  sentences = [str(i) for i in range(5000)]
  embeddings = np.random.default_rng(1).normal(size=[5000, 3]).astype(np.float32)
  ends = [digest for digest in cache_lib._digests(sentences) if len(digest) < 16]
  assert len(ends) > 5
  for part in range(7):
    cache.save("k", sentences[part::7], embeddings[part::7])
  assert len(_files(cache)) == 7
  order = np.random.default_rng(2).permutation(5000)
  found, known = cache.load("k", [sentences[i] for i in order], 3)
  assert known.all() and logged == []
  np.testing.assert_array_equal(found, embeddings[order])


def test_older_file_counts(cache):
  """So that what was once returned is returned again, whatever is written later."""
  for others in range(4):
    cache.save("k", SENTENCES[others:], EMBEDDINGS[others:] + others)
    (path,) = set(_files(cache)) - {path for path in _files(cache) if path.stat().st_mtime < 1e6}
    os.utime(path, (1000 - others, 1000 - others))
  found, known = cache.load("k", SENTENCES, 4)
  assert known.all()
  np.testing.assert_array_equal(found, EMBEDDINGS + np.array([[0], [1], [2], [3], [3]], np.float32))


def test_key_changes_with_settings_texts_and_their_order():
  key = EmbeddingCache.key
  base = key({"a": 1, "b": 2}, ["x", "y"])
  assert base == key({"b": 2, "a": 1}, ("x", "y"))
  others = [key({"a": 1}, ["x", "y"]), key({"a": 1, "b": 3}, ["x", "y"]), key({"a": 1, "b": 2})]
  others += [
    key({"a": 1, "b": 2}, texts) for texts in (["y", "x"], ["xy"], ["x", "y", ""], ["", "xy"], ["x\ud800", "y"])
  ]
  assert len({base, *others}) == 9


@pytest.mark.parametrize("keep", [0, 10, 100, 150, 208, -161, -160, -32, -1])
def test_truncated_file_is_not_trusted(cache, logged, keep):
  path, content = _saved(cache)
  path.write_bytes(content[:keep])
  assert not cache.load("k", SENTENCES, 4)[1].any()
  assert len(logged) == 1 and str(path) in logged[0] and "computed again" in logged[0]


def test_every_single_byte_is_checked(cache, logged):
  """A damaged row costs that row, a damaged record the file; what is found is what was saved."""
  path, content = _saved(cache)
  embeddings_end = len(content) - 5 * 32
  for position in range(128, len(content), 3):
    logged.clear()
    path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
    found, known = cache.load("k", SENTENCES, 4)
    assert known.sum() == (4 if position < embeddings_end else 0) and len(logged) == 1, position
    np.testing.assert_array_equal(found[known], EMBEDDINGS[known])
  path.write_bytes(content)
  np.testing.assert_array_equal(cache.load("k", SENTENCES, 4)[0], EMBEDDINGS)


def test_any_header_gives_the_right_numbers_or_none(cache, logged):
  path, content = _saved(cache)
  for position in range(128):
    for flip in (1, 4, 128):
      path.write_bytes(content[:position] + bytes([content[position] ^ flip]) + content[position + 1 :])
      found, known = cache.load("k", SENTENCES, 4)
      np.testing.assert_array_equal(found[known], EMBEDDINGS[known])


class Trap:
  """Unpickling it makes a file."""

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
  (folder / "nowhere.npy").symlink_to("absent")
  os.mkfifo(folder / "pipe.npy")
  (folder / "notes.txt").write_text("not looked at")
  found, known = cache.load("k", [*SENTENCES, "new"], 4)
  np.testing.assert_array_equal(known, [True] * 5 + [False])
  np.testing.assert_array_equal(found[:5], EMBEDDINGS)
  assert len(logged) == 9 and not trap.path.exists(), logged
  for name in ("renamed", "pickle", "objects", "archive", "plain", "huge", "folder", "nowhere", "pipe"):
    assert sum(f"/{name}.npy" in line for line in logged) == 1, name


def test_other_width_and_other_type_are_not_trusted(cache, logged):
  _saved(cache)
  assert not cache.load("k", SENTENCES, 8)[1].any()
  assert len(logged) == 1 and "expected float32 (n, 8)" in logged[0]


def test_folder_of_a_key_that_is_a_file(cache, logged):
  (cache.folder / "k").write_text("")
  cache.save("k", SENTENCES, EMBEDDINGS)
  assert not cache.load("k", SENTENCES, 4)[1].any()
  assert len(logged) == 2


def test_what_is_not_finite_is_neither_kept_nor_read(cache, logged, monkeypatch):
  embeddings = EMBEDDINGS.copy()
  embeddings[1, 2], embeddings[3, 0] = np.nan, -np.inf
  cache.save("none", SENTENCES[1:2], embeddings[1:2])
  assert not (cache.folder / "none").exists()
  cache.save("k", SENTENCES, embeddings)
  found, known = cache.load("k", SENTENCES, 4)
  np.testing.assert_array_equal(known, [True, False, True, False, True])
  np.testing.assert_array_equal(found[known], EMBEDDINGS[known])
  assert logged == []
  with monkeypatch.context() as patch:  # as a program that does not check would write it
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
def test_unwritable_folder_is_one_sentence(tmp_path, parts):
  (tmp_path / "file").write_text("not a folder")
  with pytest.raises(EncoderError, match=r"^cached_dir=.*file.*: cannot be written "):
    EmbeddingCache(tmp_path.joinpath(*parts))


def test_full_disk_costs_the_cache_and_not_the_result(cache, logged, monkeypatch):
  def full(file, *unused, **also_unused):
    file.write(b"some")
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(np, "save", full)
  cache.save("k", SENTENCES, EMBEDDINGS)
  assert len(logged) == 1 and "No space left on device" in logged[0]
  assert _files(cache) == []


def test_leftovers_of_killed_processes_go_after_a_day(cache, logged):
  path, _ = _saved(cache)
  old, new = path.parent / ".old.writing", path.parent / ".new.writing"
  for file in (old, new):
    file.write_bytes(b"half")
  os.utime(old, (time.time() - 90000,) * 2)
  cache.save("k", ["z"], EMBEDDINGS[:1])
  assert not old.exists() and new.exists() and len(_files(cache)) == 3
  assert cache.load("k", [*SENTENCES, "z"], 4)[1].all() and logged == []


# Writes the same chunks as every other process that does, and reads while they do; prints what went wrong.
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
  found, known = cache.load("k", sentences, 64)
  if not known.all() or not np.array_equal(found, rows):
    print(f"turn {turn}: {known.sum()} known")
"""


def test_processes_that_write_the_same_at_once(cache):
  commands = [[sys.executable, "-c", _WRITER, str(cache.folder), str(i)] for i in range(2)]
  pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": REPO}
  runs = [subprocess.Popen(command, **pipes) for command in commands]
  assert [run.communicate(timeout=60)[0] for run in runs] == ["", ""]
  assert [run.returncode for run in runs] == [0, 0]
  assert len(_files(cache)) == 30
