"""Tests of hugging_face.py and of the transformer: values against NumPy, heads, halves, the vocabulary's length."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.errors import EncoderError
from tests.encoder import tiny
from tests.encoder.tiny import IDS, MASK

pytestmark = pytest.mark.packages

SAVED = "model.safetensors"


@pytest.mark.parametrize("kind", ["pt", "bare", "tf", "h5", "shards", "bfloat16", "float16"])
def test_forward_is_bert_in_numpy(tmp_path, kind):
  weights = tiny.random_weights()
  stored = weights
  if kind == "bare":  # of a model without a head
    stored = {name.removeprefix("bert."): value for name, value in weights.items()}
  elif kind.endswith("float16"):
    stored = {name: tf.cast(value, kind).numpy() for name, value in weights.items()}
    weights = {name: value.astype(np.float32) for name, value in stored.items()}
  tiny.save_tiny(tmp_path, stored, kind=kind if kind in ("tf", "h5", "shards") else "pt")
  encoder = SentenceEncoder.from_pretrained(tmp_path)
  if kind == "shards":
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 3
  assert (tmp_path / "tf_model.h5").exists() == (kind == "h5")
  states, pooled = encoder.bert(tf.constant(IDS), tf.constant(MASK))
  expected, expected_pooled = tiny.numpy_bert(weights, IDS, MASK)
  assert len(states) == len(expected) == 4
  for state, reference in zip(states, expected, strict=True):
    np.testing.assert_allclose(state[MASK == 1], reference[MASK == 1], atol=2e-5)
  np.testing.assert_allclose(pooled, expected_pooled, atol=2e-5)
  assert all(weight.dtype == tf.float32 for weight in encoder.bert.weights)
  static = SentenceEncoder.from_pretrained(f"static:{tmp_path}", token_weights="uniform")
  np.testing.assert_array_equal(static.bert.word_embeddings, weights["bert.embeddings.word_embeddings.weight"])
  assert static.is_static and static.count_params() == 24 * 12 and static.num_hidden_layers == 0


@pytest.mark.parametrize("prefix", ["module.bert.", "auto_model.", "0.auto_model."])
def test_names_of_what_holds_the_model_do_not_count(tmp_path, prefix):
  """DataParallel and sentence-transformers' Transformer save such names."""
  weights = tiny.random_weights()
  expected = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path / "plain", weights)).weights_checksum
  renamed = {name.replace("bert.", prefix, 1): value for name, value in weights.items()}
  assert SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path / "held", renamed)).weights_checksum == expected


def test_quantized_weights_are_named(tmp_path):
  weights = tiny.random_weights()
  name = "bert.encoder.layer.1.output.dense.weight"
  weights[name] = weights[name].astype(np.int8)
  with pytest.raises(EncoderError, match=rf"{name} has the type I8"):
    SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path, weights))


def test_many_encoders_in_a_process_are_no_reason_for_a_warning(tmp_path, caplog):
  """TensorFlow warns of retracing from the fifth function at one place on."""
  folder = tiny.save_tiny(tmp_path)
  for _ in range(6):
    SentenceEncoder.from_pretrained(folder).encode(["a dog", "cat"])
  assert "retracing" not in caplog.text


@pytest.mark.parametrize("act", ["gelu", "gelu_new"])
def test_hidden_states_equal_tfbertmodels(tmp_path, act):
  """Padded as in transformers, and packed without padding: the states of tokens are the same."""
  config, weights = {**tiny.CONFIG, "hidden_act": act}, tiny.random_weights()
  expected = tiny.tf_model(weights, config)(input_ids=IDS, attention_mask=MASK, output_hidden_states=True)
  encoder = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path, weights, config))
  for packed in (False, True):
    states, pooled = encoder.bert(tf.constant(IDS), tf.constant(MASK), packed=packed)
    for state, reference in zip(states, expected.hidden_states, strict=True):
      np.testing.assert_allclose(state[MASK == 1], reference[MASK == 1], atol=1e-5)
    np.testing.assert_allclose(pooled, expected.pooler_output, atol=1e-5)


def test_heads_are_ignored_silently_and_a_missing_pooler_is_known(tmp_path, capfd):
  folder = tiny.save_tiny(tmp_path, tiny.random_weights(pooler=False, head=True))
  encoder = SentenceEncoder.from_pretrained(folder)
  assert not encoder.has_pooler
  assert encoder.bert(tf.constant(IDS), tf.constant(MASK))[1] is None
  again = SentenceEncoder.from_pretrained(folder)
  assert again.weights_checksum == encoder.weights_checksum  # no random weight takes part
  assert not any("pooler" in weight.name for weight in encoder.bert.weights)
  printed = "".join(capfd.readouterr())
  assert "cls.predictions" not in printed and "newly initialized" not in printed


def test_a_vocabulary_that_was_cut_off_is_named(tmp_path, caplog):
  folder = tiny.save_tiny(tmp_path / "tiny")
  lines = tiny.VOCABULARY + [f"word{i}" for i in range(tiny.CONFIG["vocab_size"] - len(tiny.VOCABULARY))]
  for count, warned in ((24, False), (22, False), (12, True)):
    (folder / "vocab.txt").write_text("\n".join(lines[:count]) + "\n")
    with caplog.at_level("WARNING"):
      SentenceEncoder.from_pretrained(str(folder))
    assert (f"{count} word pieces for 24 word embeddings" in caplog.text) == warned
  (folder / "vocab.txt").write_text("\n".join(lines[:3]) + "\n")  # an eighth
  with pytest.raises(EncoderError, match=r"vocab\.txt: 3 "):
    SentenceEncoder.from_pretrained(str(folder))


def test_every_activation_of_the_files_has_an_identity(tmp_path):
  for name in ("gelu", "quick_gelu", "silu", "swish"):
    folder = tiny.save_tiny(tmp_path / name, config={**tiny.CONFIG, "hidden_act": name})
    assert SentenceEncoder.from_pretrained(folder).identity().settings.hidden_act == name
