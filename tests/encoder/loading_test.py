"""loading.py: which files are opened, by Python's audit events, and the encoder of a fit in another folder."""

import collections
import contextlib
import os
import shutil
import sys

import numpy as np
import pytest

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.encoder.saving import save_encoder
from tests.encoder import tiny
from tests.encoder.checkpoints import declared_test, tf1_files
from tests.encoder.other import static_model_test

TEXTS = ["a dog.", "a cat.", "dogs", "a b"]
_watched = []  # a hook cannot be removed


def _count(event, arguments):
  if event == "open" and _watched and isinstance(arguments[0], str | bytes | os.PathLike):
    folder, counts = _watched[-1]
    path = os.fsdecode(arguments[0])
    if path.startswith(f"{folder}{os.sep}") and os.path.isfile(path):
      counts[os.path.relpath(path, folder)] += 1


sys.addaudithook(_count)


@contextlib.contextmanager
def opened_in(folder):
  """Yields {file: number of times that it was opened} of a folder."""
  _watched.append((folder, collections.Counter()))
  try:
    yield _watched[-1][1]
  finally:
    _watched.pop()


def nested(folder):
  tiny.save_tiny(folder / "0_Transformer")
  modules = (("0_Transformer", declared_test.TRANSFORMER), ("1_Pooling", declared_test.POOLING))
  declared_test.declare(folder, declared_test.modes("mean_tokens"), modules, prompts={"query": "a "})
  return folder


def without_length(folder):
  """Writes a folder whose tokenizer_config.json declares the length."""
  declared_test.declare(tiny.save_tiny(folder), declared_test.modes("mean_tokens"), length=None)
  return folder


def saved(folder):
  """Writes a folder with checksums of its files."""
  save_encoder(SentenceEncoder.from_pretrained(tiny.save_tiny(folder.with_name("before"))), folder)
  return folder


def saved_with_declaration(folder):
  save_encoder(SentenceEncoder.from_pretrained(nested(folder.with_name("before"))), folder)
  return folder


FOLDERS = {
  "transformers": (tiny.save_tiny, {"config.json", "tokenizer_config.json", "vocab.txt"}),
  "sentence-transformers": (
    nested,
    {"modules.json", "config_sentence_transformers.json", "1_Pooling/config.json", "0_Transformer/vocab.txt"},
  ),
  "sentence-transformers 6": (without_length, {"modules.json", "tokenizer_config.json", "vocab.txt"}),
  "with checksums": (saved, {"config.json", "tokenizer_config.json", "vocab.txt", "model.safetensors"}),
  "with checksums of a declaration": (saved_with_declaration, {"modules.json", "1_Pooling/config.json", "vocab.txt"}),
  "google": (tf1_files.write_google, {"bert_config.json", "vocab.txt"}),
  "model2vec": (static_model_test.save, {"config.json"}),
  "StaticEmbedding": (static_model_test.save_static_embedding, {"modules.json", "config_sentence_transformers.json"}),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_each_file_is_opened_once(name, tmp_path):
  """Readers of other packages, in C++ and Rust, are not seen: they open the weights, and each tokenizer.json."""
  write, expected = FOLDERS[name]
  folder = write(tmp_path / "encoder")
  prefix = "static:" if write.__module__ == static_model_test.__name__ else ""
  with opened_in(folder) as counts:
    SentenceModel.from_pretrained(f"{prefix}{folder}", max_seq_length=9)
  assert expected <= counts.keys()
  assert set(counts.values()) == {1}, counts


@pytest.mark.parametrize("settings", [{}, {"hidden_act": "relu", "strip_accents": False, "prompt": "a "}])
def test_a_named_encoder_of_the_fit_is_loaded_once_with_its_settings(settings, tmp_path):
  folder = tiny.save_tiny(tmp_path / "encoder")
  model = SentenceModel.from_pretrained(str(folder), max_seq_length=9, **settings).fit(TEXTS, "soft-whitening")
  model.save(tmp_path / "model")
  copy = shutil.copytree(folder, tmp_path / "copy")
  with opened_in(copy) as counts:
    loaded = SentenceModel.load(tmp_path / "model", model=str(copy))
  assert set(counts.values()) == {1}
  assert loaded.identity.deciding() == model.identity.deciding()
  np.testing.assert_array_equal(loaded.encode(TEXTS), model.encode(TEXTS))


def _word_vectors(folder):
  folder.mkdir()
  (folder / "words.txt").write_text("dog 1 0 2\ncat 0 1 1\ndogs 2 2 0\nb 1 1 0\n")
  return folder


@pytest.mark.parametrize(
  ("write", "name", "settings"),
  [
    (tiny.save_tiny, "static:{}", {"token_weights": "uniform", "prompt": "a "}),
    (static_model_test.save, "static:{}", {"prompt": "a "}),
    (_word_vectors, "glove:{}/words.txt", {}),
  ],
)
def test_a_named_encoder_of_the_fit_of_another_kind(write, name, settings, tmp_path):
  folder = write(tmp_path / "encoder")
  model = SentenceModel.from_pretrained(name.format(folder), **settings).fit(["dog", "cat b", "dogs b"], "mean")
  model.save(tmp_path / "model")
  folder.rename(tmp_path / "moved")
  with opened_in(tmp_path / "moved") as counts:
    loaded = SentenceModel.load(tmp_path / "model", model=name.format(tmp_path / "moved"))
  assert set(counts.values()) <= {1}
  assert loaded.identity.deciding() == model.identity.deciding()
  np.testing.assert_array_equal(loaded.encode(TEXTS), model.encode(TEXTS))


def test_another_encoder_has_its_own_settings(tmp_path):
  model = SentenceModel.from_pretrained(str(tiny.save_tiny(tmp_path / "encoder")), max_seq_length=9, hidden_act="relu")
  model.fit(TEXTS, "soft-whitening").save(tmp_path / "model")
  other = tiny.save_tiny(tmp_path / "other", tiny.random_weights(seed=1))
  loaded = SentenceModel.load(tmp_path / "model", model=str(other), allow_other_encoder=True)
  assert loaded.identity.settings.hidden_act == "gelu" and loaded.max_seq_length == 9
