"""SentenceEncoder.encode with a cache: what is cached is not embedded again; progress is shown."""

import numpy as np
import pytest
from absl import logging

from bert_flow_tf import SentenceEncoder, progress
from bert_flow_tf.encoder import sentence_encoder
from bert_flow_tf.encoder.cache import EmbeddingCache
from tests.encoder import tiny

SENTENCES = ["A man is eating food.", "Two dogs run.", "", "A woman plays the guitar on a stage!"]


def test_duplicates_are_encoded_once(mini, embedded):
  mini.encode(["b", "a", "b", "b", "a"])
  assert embedded == [["b", "a"]]


def test_cache_is_used_only_for_the_same_settings(mini, tmp_path, monkeypatch):
  sentences = [*SENTENCES, *SENTENCES]
  cache = EmbeddingCache(tmp_path / "cache")
  first = mini.encode(sentences, cache=cache)
  np.testing.assert_array_equal(first[4:], mini.encode(SENTENCES))
  assert len(list(cache.folder.iterdir())) == 1
  np.testing.assert_array_equal(mini.encode(sentences, cache=str(cache.folder)), first)
  monkeypatch.setattr(mini, "embed_ids", forbidden)
  np.testing.assert_array_equal(mini.encode(sentences, cache=cache), first)
  np.testing.assert_array_equal(mini.encode(SENTENCES[2:0:-1], cache=cache), first[2:0:-1])
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
  monkeypatch.setattr(sentence_encoder, "CHUNK_SENTENCES", 4)
  return chunks


def test_cached_sentences_are_not_embedded_again(mini, tmp_path, embedded, monkeypatch):
  texts = [f"{word} {'very ' * length}long" for length, word in enumerate("abcdefghijk")]
  mini.encode(texts[:3], cache=tmp_path)
  lines = []
  monkeypatch.setattr(progress, "LOG_SECONDS", 0)
  monkeypatch.setattr(logging, "info", lambda text, *values: lines.append(text % values))
  sentences = [*texts[::-1], texts[1]]
  first = mini.encode(sentences, cache=tmp_path, batch_size=3)
  assert embedded == [texts[:3], texts[10:6:-1], texts[6:2:-1]]
  counts = [int(line.split()[1]) for line in lines if line.startswith("embedding:")]
  assert counts == [6, 7, 10, 11] and lines[0].startswith("Embeddings of 3 of 11 sentences read")
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
  embeddings = []
  for i, config in enumerate(configs):
    encoder = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path / str(i), config={**tiny.CONFIG, **config}))
    embeddings.append(encoder.encode(["a dog"], max_seq_length=16, cache=tmp_path / "cache"))
  assert len(list((tmp_path / "cache").iterdir())) == 4
  assert all(np.abs(embeddings[0] - other).max() > 1e-4 for other in embeddings[1:])


def test_damaged_cache_is_computed_again(mini, tmp_path):
  cache = EmbeddingCache(tmp_path)
  first = mini.encode(SENTENCES, cache=cache)
  (file,) = tmp_path.iterdir()
  content = file.read_bytes()
  file.write_bytes(content[: len(content) // 2])
  for _ in range(2):
    np.testing.assert_array_equal(mini.encode(SENTENCES, cache=cache), first)


def test_progress_is_logged_without_a_terminal(mini, monkeypatch, capfd):
  lines = []
  monkeypatch.setattr(progress, "LOG_SECONDS", 0)
  monkeypatch.setattr(logging, "info", lambda text, *values: lines.append(text % values))
  mini.encode(["a", "b", "c"], batch_size=2)
  assert lines == ["embedding: 2 of 3 sentences", "embedding: 3 of 3 sentences"]
  mini.encode(["a", "b", "c"], batch_size=2, show_progress=False)
  assert len(lines) == 2
  assert "embedding:" not in capfd.readouterr().err


def test_progress_is_a_bar_on_a_terminal(mini, monkeypatch, capfd):
  monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
  mini.encode(["a", "b", "c"], batch_size=2)
  assert "embedding:" in capfd.readouterr().err
  mini.encode(["a", "b", "c"], batch_size=2, show_progress=False)
  assert "embedding:" not in capfd.readouterr().err
