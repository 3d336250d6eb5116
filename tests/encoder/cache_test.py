"""Tests of cache.py, and of SentenceEncoder.encode with a cache: each sentence has the embedding that was written."""

import contextlib
import importlib.metadata
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
from absl import logging

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.encoder import cache as cache_lib
from bert_flow_tf.encoder import text_encoder
from bert_flow_tf.encoder.cache import EmbeddingCache
from bert_flow_tf.errors import EncoderError
from tests.encoder import tiny
from tests.testing import REPO, rejected

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


def _saved(cache):
  """Saves SENTENCES; returns the path and content of their file."""
  cache.save("k", SENTENCES, EMBEDDINGS)
  path = cache.folder / "k.sqlite"
  return path, path.read_bytes()


def test_round_trip_in_any_order(cache, logged):
  assert not cache.load("k", SENTENCES, 4)[1].any()
  _saved(cache)
  wanted = ["x", "a b", "a", "y", "c\ud800", "c"]
  loaded, cached = cache.load("k", wanted, 4)
  np.testing.assert_array_equal(cached, [False, True, True, False, True, False])
  np.testing.assert_array_equal(loaded[cached], EMBEDDINGS[[4, 0, 3]])
  assert loaded.dtype == np.float32 and loaded.shape == (6, 4)
  assert not cache.load("another", SENTENCES, 4)[1].any()
  assert not cache.load("k", SENTENCES, 8)[1].any()  # of another width
  assert logged == []


def test_the_first_writer_wins(cache):
  """An embedding that was once returned is returned again, even if another is written later."""
  for others in range(4):
    cache.save("k", SENTENCES[3 - others :], EMBEDDINGS[3 - others :] + others)
  loaded, cached = cache.load("k", SENTENCES, 4)
  assert cached.all()
  np.testing.assert_array_equal(loaded, EMBEDDINGS + np.array([[3], [2], [1], [0], [0]], np.float32))


def test_a_file_that_is_no_database_is_reported_and_made_again(cache, logged):
  path, _ = _saved(cache)
  path.write_bytes(b"not a database" * 1000)
  assert not cache.load("k", SENTENCES, 4)[1].any()
  assert len(logged) == 1 and str(path) in logged[0] and "computed again" in logged[0]
  _saved(cache)
  assert cache.load("k", SENTENCES, 4)[1].all() and len(logged) == 1


def test_rows_that_are_not_finite_are_not_written(cache, logged):
  embeddings = EMBEDDINGS.copy()
  embeddings[1, 2], embeddings[3, 0] = np.nan, -np.inf
  cache.save("k", SENTENCES, embeddings)
  loaded, cached = cache.load("k", SENTENCES, 4)
  np.testing.assert_array_equal(cached, [True, False, True, False, True])
  np.testing.assert_array_equal(loaded[cached], EMBEDDINGS[cached])
  assert logged == []


@pytest.mark.parametrize("parts", [["file"], ["file", "below"]])
def test_unwritable_folder(tmp_path, parts):
  (tmp_path / "file").write_text("not a folder")
  with rejected(EncoderError, "cached_dir"):
    EmbeddingCache(tmp_path.joinpath(*parts))


def test_full_disk_is_logged_and_not_an_error(cache, logged, monkeypatch):
  connect = sqlite3.connect

  def small(*arguments, **settings):
    database = connect(*arguments, **settings)
    database.execute("pragma max_page_count = 3")
    return database

  cache.save("k", SENTENCES, EMBEDDINGS)
  monkeypatch.setattr(sqlite3, "connect", small)
  cache.save("k", [str(i) for i in range(500)], np.ones([500, 4], np.float32))
  assert len(logged) == 1 and "full" in logged[0]
  loaded, cached = cache.load("k", SENTENCES, 4)
  assert cached.all()
  np.testing.assert_array_equal(loaded, EMBEDDINGS)  # as before


def test_a_locked_file_is_kept(cache, logged, monkeypatch):
  """Another program may read the cache for longer than this one waits."""
  path, content = _saved(cache)
  monkeypatch.setattr(cache_lib, "_WAIT_SECONDS", 0.01)
  with contextlib.closing(sqlite3.connect(path)) as other:
    other.execute("begin exclusive")
    assert not cache.load("k", SENTENCES, 4)[1].any()
    assert len(logged) == 1 and path.read_bytes() == content
    other.rollback()
  assert cache.load("k", SENTENCES, 4)[1].all()


def test_a_row_that_was_changed_is_computed_again(cache):
  """A bit that a disk has lost changes no embedding."""
  path, _ = _saved(cache)
  with contextlib.closing(sqlite3.connect(path)) as database, database:
    (value,) = database.execute("select value from rows limit 1").fetchone()
    changed = bytes([value[0] ^ 1]) + value[1:]
    database.execute("update rows set value = ? where value = ?", (changed, value))
  loaded, cached = cache.load("k", SENTENCES, 4)
  assert cached.sum() == len(SENTENCES) - 1
  np.testing.assert_array_equal(loaded[cached], EMBEDDINGS[cached])


# Program that writes and reads the same file as a second process at the same time, and prints errors.
_WRITER = """
import sys
import numpy as np
from absl import logging
from bert_flow_tf.encoder.cache import EmbeddingCache
logging.warning = lambda text, *values: print(text % values)
cache, rng = EmbeddingCache(sys.argv[1]), np.random.default_rng(0)
cache.folder.joinpath(f"ready{sys.argv[2]}").touch()
while not all(cache.folder.joinpath(f"ready{i}").exists() for i in range(2)):
  pass
for turn in range(int(sys.argv[3])):
  sentences, rows = [f"{turn} {i}" for i in range(50)], rng.normal(size=[50, 64]).astype(np.float32)
  cache.save("k", sentences, rows)
  loaded, cached = cache.load("k", sentences, 64)
  if not cached.all() or not np.array_equal(loaded, rows):
    print(f"turn {turn}: {cached.sum()} cached")
"""


def _writers(cache, turns):
  """Starts two processes that write the same file."""
  commands = [[sys.executable, "-c", _WRITER, str(cache.folder), str(i), str(turns)] for i in range(2)]
  pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": REPO}
  return [subprocess.Popen(command, **pipes) for command in commands]


def test_processes_that_write_the_same_file_at_once(cache):
  runs = _writers(cache, 30)
  assert [run.communicate()[0] for run in runs] == ["", ""]
  assert [run.returncode for run in runs] == [0, 0]
  assert cache.load("k", [f"{turn} {i}" for turn in range(30) for i in range(50)], 64)[1].all()


def test_a_killed_writer_leaves_a_sound_file(cache, logged):
  runs = _writers(cache, 10**6)
  while not cache.load("k", ["5 49"], 64)[1].all():
    time.sleep(0.01)
  for run in runs:
    run.send_signal(signal.SIGKILL)
    run.communicate()
  assert cache.load("k", [f"{turn} {i}" for turn in range(5) for i in range(50)], 64)[1].all()
  cache.save("k", ["new"], np.ones([1, 64], np.float32))
  assert cache.load("k", ["new"], 64)[1].all() and logged == []


TEXTS = ["A man is eating food.", "Two dogs run.", "", "A woman plays the guitar on a stage!"]


def test_cache_is_used_only_for_the_same_settings(mini, tmp_path, monkeypatch):
  sentences = [*TEXTS, *TEXTS]
  cache = EmbeddingCache(tmp_path / "cache")
  first = mini.encode(sentences, cache=cache)
  np.testing.assert_array_equal(first[4:], mini.encode(TEXTS))
  assert len(list(cache.folder.iterdir())) == 1
  np.testing.assert_array_equal(mini.encode(sentences, cache=str(cache.folder)), first)
  monkeypatch.setattr(mini, "embed_ids", forbidden)
  np.testing.assert_array_equal(mini.encode(sentences, cache=cache), first)
  np.testing.assert_array_equal(mini.encode(TEXTS[2:0:-1], cache=cache), first[2:0:-1])
  assert mini.encode([], cache=cache).shape == (0, 256)
  others = [{"sentence_embedding_type": "avg"}, {"max_seq_length": 32}]
  for changed in others:
    with pytest.raises(AssertionError, match="computed"):
      mini.encode(sentences, cache=cache, **changed)
  monkeypatch.setattr(mini.tokenizer, "checksum", "another")
  with pytest.raises(AssertionError, match="computed"):
    mini.encode(sentences, cache=cache)


def test_a_run_that_reads_all_from_the_cache_warns_of_unknown_text_too(tmp_path, caplog):
  for _ in range(2):
    caplog.clear()
    SentenceEncoder.from_pretrained("mini").encode(["我喜欢。", "我不喜欢。"], cache=tmp_path)
    assert any("[UNK]" in record.getMessage() for record in caplog.records)


def forbidden(*unused):
  raise AssertionError("computed again")


@pytest.fixture
def embedded(mini, monkeypatch):
  """Returns the list of chunks that reach the tokenizer, of at most 4 sentences."""
  chunks, tokenizer = [], mini.tokenizer

  class Spy:
    def __call__(self, sentences, max_seq_length):
      chunks.append(list(sentences))
      return tokenizer(sentences, max_seq_length)

    def __getattr__(self, name):
      return getattr(tokenizer, name)

  monkeypatch.setattr(mini, "tokenizer", Spy())
  monkeypatch.setattr(text_encoder, "CHUNK_SENTENCES", 4)
  return chunks


def test_cached_sentences_are_not_embedded_again(mini, tmp_path, embedded):
  texts = [f"{word} {'very ' * length}long" for length, word in enumerate("abcdefghijk")]
  mini.encode(texts[:3], cache=tmp_path)
  sentences = [*texts[::-1], texts[1]]
  first = mini.encode(sentences, cache=tmp_path, batch_size=3)
  assert embedded == [texts[:3], texts[10:6:-1], texts[6:2:-1]]
  again = mini.encode(sentences, cache=tmp_path)
  assert again.tobytes() == first.tobytes() and len(embedded) == 3
  uncached = mini.encode(sentences)
  assert len(embedded) == 6
  np.testing.assert_allclose(first, uncached, atol=2e-6)


def test_killed_run_keeps_the_complete_chunks(mini, tmp_path, embedded, monkeypatch):
  texts = [f"sentence {i}" for i in range(10)]
  embed = mini.embed_ids

  def die(*arguments):
    if len(embedded) == 3:
      raise KeyboardInterrupt
    return embed(*arguments)

  with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
    patch.setattr(mini, "embed_ids", die)
    mini.encode(texts, cache=tmp_path)
  first = mini.encode(texts, cache=tmp_path)
  assert embedded[2:] == [texts[8:], texts[8:]]
  np.testing.assert_allclose(first, mini.encode(texts), atol=2e-6)


def test_cache_distinguishes_models_with_the_same_weights(tmp_path):
  """Heads and activation change every embedding, but no weight."""
  configs = [{}, {"num_attention_heads": 2}, {"hidden_act": "relu"}, {"layer_norm_eps": 1e-2}]
  embeddings, keys = [], set()
  for i, config in enumerate(configs):
    encoder = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path / str(i), config={**tiny.CONFIG, **config}))
    embeddings.append(tiny.embed(encoder, ["a dog"]))
    keys.add(encoder.fingerprint([]))
  assert len(keys) == 4
  assert all(np.abs(embeddings[0] - other).max() > 1e-4 for other in embeddings[1:])


def test_another_version_of_the_computation_or_of_a_package_has_another_key(tmp_path, monkeypatch):
  encoder = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path))
  keys = {encoder.fingerprint([])}
  with monkeypatch.context() as patch:
    patch.setattr(text_encoder, "_COMPUTATION", text_encoder._COMPUTATION + 1)
    keys.add(encoder.fingerprint([]))
  version = importlib.metadata.version
  for changed in ("tensorflow", "tokenizers"):
    with monkeypatch.context() as patch:
      versions = {changed: "0.1"}
      patch.setattr(importlib.metadata, "version", lambda name, known=versions: known.get(name) or version(name))
      keys.add(encoder.fingerprint([]))
  assert len(keys) == 4 and encoder.fingerprint([]) in keys


def test_key_depends_on_settings_texts_and_their_order():
  key = EmbeddingCache.key
  base = key({"a": 1, "b": 2}, ["x", "y"])
  assert base == key({"b": 2, "a": 1}, ("x", "y"))
  others = [key({"a": 1}, ["x", "y"]), key({"a": 1, "b": 3}, ["x", "y"]), key({"a": 1, "b": 2})]
  others += [
    key({"a": 1, "b": 2}, texts) for texts in (["y", "x"], ["xy"], ["x", "y", ""], ["", "xy"], ["x\ud800", "y"])
  ]
  assert len({base, *others}) == 9
