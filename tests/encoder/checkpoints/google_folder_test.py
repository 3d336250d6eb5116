"""Tests of Google's TensorFlow 1 folders: values against NumPy, names, choice of a checkpoint."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.encoder.checkpoints.tf1 import find_prefix
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.tf1.write import write_config
from tests.encoder import tiny
from tests.encoder.checkpoints import tf1_files
from tests.encoder.tiny import IDS, MASK
from tests.testing import rejected

KEY = "bert/encoder/layer_1/attention/self/key/bias"


def test_hidden_states_equal_numpys(tmp_path):
  """The checkpoint comes from TensorFlow 1's Saver, with the heads of Google's checkpoints."""
  weights = tiny.random_weights()
  variables = {**tf1_files.google_variables(weights), **tf1_files.pretraining_heads()}
  google = tf1_files.write_google(tmp_path / "google", variables, write=tf1_files.write_checkpoint)
  config = {**tiny.CONFIG, "hidden_act": "gelu_new"}
  hugging_face = tiny.save_tiny(tmp_path / "hf", weights, config)
  encoder = SentenceEncoder.from_pretrained(str(google))
  states, pooled = encoder.bert(tf.constant(IDS), tf.constant(MASK))
  expected, expected_pooled = tiny.numpy_bert(weights, IDS, MASK, config)
  assert len(states) == len(expected) == 4
  for state, reference in zip(states, expected, strict=True):
    np.testing.assert_allclose(state[MASK == 1], reference[MASK == 1], atol=2e-5)
  np.testing.assert_allclose(pooled, expected_pooled, atol=2e-5)
  other = SentenceEncoder.from_pretrained(str(hugging_face))
  assert (encoder.weights_checksum, encoder.deciding_settings) == (other.weights_checksum, other.deciding_settings)
  assert encoder.has_pooler
  words = SentenceEncoder.from_pretrained(f"static:{google}", token_weights="uniform").bert.word_embeddings
  np.testing.assert_array_equal(words, variables["bert/embeddings/word_embeddings"])
  for name, array in encoder.tf1_variables().items():
    assert array.tobytes() == variables[name].tobytes(), name


def test_a_prefix_is_a_model_too(tmp_path):
  variables = tf1_files.google_variables()
  folder = tf1_files.write_google(tmp_path / "google", variables)
  tf1_files.write_quickly(folder / "model.ckpt-9", {**variables, KEY: variables[KEY] + 1})
  encoder = SentenceEncoder.from_pretrained(f"{folder}/model.ckpt-9")
  np.testing.assert_array_equal(encoder.tf1_variables()[KEY], variables[KEY] + 1)


def test_a_vocabulary_of_any_name(tmp_path):
  """It may be in another folder; an encoder that is saved has it as vocab.txt."""
  folder = tf1_files.write_google(tmp_path / "model", tf1_files.google_variables())
  expected = SentenceEncoder.from_pretrained(str(folder))
  (folder / "vocab.txt").rename(tmp_path / "pieces-of-words")
  encoder = SentenceEncoder.from_pretrained(str(folder), vocab_file=str(tmp_path / "pieces-of-words"))
  assert encoder.tokenizer_checksum == expected.tokenizer_checksum
  save_encoder(encoder, tmp_path / "saved")
  write_config(tmp_path / "written", encoder)
  for vocabulary in (tmp_path / "saved/vocab.txt", tmp_path / "written/vocab.txt"):
    assert vocabulary.read_bytes() == (tmp_path / "pieces-of-words").read_bytes()
  with rejected(ConfigError, "vocab_file"):
    SentenceEncoder.from_pretrained(str(folder), vocab_file=str(tmp_path / "absent"))


def test_gelu_is_googles_unless_an_activation_is_given(tmp_path):
  """Google's modeling.py computes the tanh form for "gelu"; a Hugging Face folder keeps its own, the erf form."""
  weights = tiny.random_weights()
  google = tf1_files.write_google(tmp_path / "google", tf1_files.google_variables(weights))
  hugging_face = tiny.save_tiny(tmp_path / "hf", weights)
  expected = {
    form: tiny.numpy_bert(weights, IDS, MASK, {**tiny.CONFIG, "hidden_act": form})[0][-1]
    for form in ("gelu", "gelu_new")
  }
  assert np.abs(expected["gelu"] - expected["gelu_new"])[MASK == 1].max() > 2e-4
  for folder, given, form in (
    (google, None, "gelu_new"),
    (google, "gelu", "gelu"),
    (hugging_face, None, "gelu"),
    (hugging_face, "gelu_new", "gelu_new"),
  ):
    encoder = SentenceEncoder.from_pretrained(str(folder), hidden_act=given)
    assert encoder.deciding_settings["hidden_act"] == form
    np.testing.assert_allclose(
      encoder.bert(tf.constant(IDS), tf.constant(MASK))[0][-1][MASK == 1], expected[form][MASK == 1], atol=2e-5
    )
  with rejected(ConfigError, "hidden_act"):
    SentenceEncoder.from_pretrained(str(google), hidden_act="gulu")
  (google / "bert_config.json").rename(google / "config.json")
  (google / "config.json").write_text(json.dumps(tiny.CONFIG))
  assert SentenceEncoder.from_pretrained(str(google)).deciding_settings["hidden_act"] == "gelu"


def test_long_words_are_googles_unless_a_limit_is_given(tmp_path):
  """Google's tokenization.py cuts words of up to 200 characters, transformers of up to 100."""
  google, hugging_face = tf1_files.write_google(tmp_path / "uncased"), tiny.save_tiny(tmp_path / "hf")
  checksums = {}
  cases = ((google, None, 200), (hugging_face, None, 100), (google, 100, 100), (hugging_face, 7, 7))
  for folder, given, limit in cases:
    encoder = SentenceEncoder.from_pretrained(str(folder), max_input_chars_per_word=given)
    whole, unknown = encoder.tokenizer(["dog" + "s" * (limit + more - 3) for more in (0, 1)], 500)
    assert 1 not in whole and unknown.tolist() == [2, 1, 3]
    checksums[folder, limit] = encoder.tokenizer.checksum
    assert encoder.identity("avg").settings.max_input_chars_per_word == limit
  assert checksums[google, 100] == checksums[hugging_face, 100] and len(set(checksums.values())) == 3
  with rejected(ConfigError, "max_input_chars_per_word"):
    SentenceEncoder.from_pretrained(str(google), max_input_chars_per_word=0)


def test_half_precision_is_loaded_exactly(tmp_path):
  halves = {name: array.astype(np.float16) for name, array in tf1_files.google_variables().items()}
  loaded = SentenceEncoder.from_pretrained(str(tf1_files.write_google(tmp_path, halves))).tf1_variables()
  assert all(np.array_equal(array, halves[name]) and array.dtype == np.float32 for name, array in loaded.items())


def test_googles_defaults_are_used(tmp_path):
  """bert_config.json without type_vocab_size means 16 token types; transformers' default is 2."""
  variables = tf1_files.google_variables()
  table = "bert/embeddings/token_type_embeddings"
  variables[table] = np.concatenate([variables[table]] * 8)
  config = {key: value for key, value in tf1_files.GOOGLE_CONFIG.items() if key != "type_vocab_size"}
  encoder = SentenceEncoder.from_pretrained(tf1_files.write_google(tmp_path, variables, config))
  assert encoder.bert.config.type_vocab_size == 16


def test_choice_of_a_checkpoint_in_a_folder(tmp_path):
  small = {"x": np.zeros(2, np.float32)}
  for name in ("model.ckpt-1", "model.ckpt-20"):
    tf1_files.write_quickly(tmp_path / name, small)
  with pytest.raises(EncoderError, match=r"model.ckpt-1, model.ckpt-20"):
    find_prefix(tmp_path)
  (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model.ckpt-20"\n')
  assert find_prefix(tmp_path) == str(tmp_path / "model.ckpt-20")
  (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
  with pytest.raises(EncoderError, match=r"model\.ckpt-20"):
    find_prefix(tmp_path)
  tf1_files.write_quickly(tmp_path / "bert_model.ckpt", small)
  assert find_prefix(tmp_path) == str(tmp_path / "bert_model.ckpt")
  for end in ("", ".index", ".data-00000-of-00001", ".meta"):
    assert find_prefix(f"{tmp_path}/model.ckpt-1{end}") == str(tmp_path / "model.ckpt-1")


def test_path_with_characters_of_a_pattern(tmp_path):
  folder = tf1_files.write_google(tmp_path / "copy [2]")
  with pytest.raises(EncoderError):
    SentenceEncoder.from_pretrained(str(folder))
  folder.rename(tmp_path / "zwölf Kopien")
  assert SentenceEncoder.from_pretrained(str(tmp_path / "zwölf Kopien")).has_pooler
