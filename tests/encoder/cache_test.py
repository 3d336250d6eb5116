"""cache.py: what is read back is what was written, or nothing."""

import pathlib

import numpy as np
import pytest
from absl import logging

from bert_flow_tf.encoder.cache import EmbeddingCache
from bert_flow_tf.errors import EncoderError

EMBEDDINGS = np.random.default_rng(0).normal(size=[5, 4]).astype(np.float32)


@pytest.fixture
def logged(monkeypatch):
  lines = []
  monkeypatch.setattr(logging, "warning", lambda text, *values: lines.append(text % values))
  return lines


@pytest.fixture
def cache(tmp_path):
  return EmbeddingCache(tmp_path / "new" / "folder")


def test_round_trip(cache, logged):
  assert cache.load("k", (5, 4)) is None
  cache.save("k", EMBEDDINGS)
  np.testing.assert_array_equal(cache.load("k", (5, 4)), EMBEDDINGS)
  np.testing.assert_array_equal(np.load(cache.path("k")), EMBEDDINGS)  # an ordinary .npy to others
  assert [path.name for path in cache.folder.iterdir()] == ["k.npy"]
  assert logged == []


def test_key_changes_with_settings_texts_and_their_order():
  key = EmbeddingCache.key
  base = key({"a": 1, "b": 2}, ["x", "y"])
  assert base == key({"b": 2, "a": 1}, ("x", "y"))
  others = [key({"a": 1}, ["x", "y"]), key({"a": 1, "b": 3}, ["x", "y"])]
  others += [
    key({"a": 1, "b": 2}, texts) for texts in (["y", "x"], ["xy"], ["x", "y", ""], ["", "xy"], ["x\ud800", "y"])
  ]
  assert len({base, *others}) == 8


@pytest.mark.parametrize("keep", [0, 10, 31, 32, 100, 150, -33, -32, -1])
def test_truncated_file_is_not_trusted(cache, logged, keep):
  cache.save("k", EMBEDDINGS)
  path = cache.path("k")
  path.write_bytes(path.read_bytes()[:keep])
  assert cache.load("k", (5, 4)) is None
  assert len(logged) == 1 and str(path) in logged[0] and "computing these embeddings again" in logged[0]


def test_every_single_byte_is_checked(cache, logged):
  cache.save("k", EMBEDDINGS)
  path = cache.path("k")
  content = path.read_bytes()
  for position in range(0, len(content), 7):
    path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
    assert cache.load("k", (5, 4)) is None
  path.write_bytes(content)
  np.testing.assert_array_equal(cache.load("k", (5, 4)), EMBEDDINGS)


def test_wrong_shape_type_or_kind_of_file_is_not_trusted(cache, logged):
  cache.save("k", EMBEDDINGS)
  assert cache.load("k", (5, 8)) is None
  cache.save("double", EMBEDDINGS.astype(np.float64))
  assert cache.load("double", (5, 4)) is None
  cache.path("folder").mkdir()
  assert cache.load("folder", (5, 4)) is None
  assert len(logged) == 3


@pytest.mark.parametrize("parts", [["file"], ["file", "below"]])
def test_unwritable_folder_is_one_sentence(tmp_path, parts):
  (tmp_path / "file").write_text("not a folder")
  with pytest.raises(EncoderError, match=r"embedding cache .*file.*: cannot be written .*choose another one"):
    EmbeddingCache(tmp_path.joinpath(*parts))


def test_full_disk_costs_the_cache_and_not_the_result(cache, logged, monkeypatch):
  def full(*unused, **also_unused):
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(np, "save", full)
  cache.save("k", EMBEDDINGS)
  assert len(logged) == 1 and "No space left on device" in logged[0]
  assert list(pathlib.Path(cache.folder).iterdir()) == []
