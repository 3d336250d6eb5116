"""token_vectors.py: word rows in the place of a BERT, against NumPy on the matrix in the files."""

import numpy as np
import pytest
from safetensors import safe_open

from bert_flow_tf import SentenceModel
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.encoder.checkpoints.source import find_source
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import BertFlowError, EncoderError
from tests.testing import rejected

TEXTS = ["A man is playing a guitar.", "the", "...", "A woman reads, and reads; a book?", "", "word " * 200]


@pytest.fixture(scope="module")
def static():
  return SentenceModel.from_pretrained("static:mini")


def rows_of_mini():
  """Returns the word embeddings in mini's file, float64 [vocab, hidden]."""
  with safe_open(find_source(EncoderSettings()).folder / "model.safetensors", "numpy") as weights:
    (name,) = [name for name in weights.keys() if name.endswith("word_embeddings.weight")]  # noqa: SIM118
    return weights.get_tensor(name).astype(np.float64)


def embedded(rows, model, sentences, length=65536):
  """Returns the weighted means of unit rows, with the model's tokens and weights of tokens."""
  rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
  means = []
  for ids in model.encoder.tokenizer(sentences, length):
    weights = model.encoder.token_weights.table[ids].astype(np.float64)
    means.append(np.average(rows[ids], axis=0, weights=weights if weights.any() else None))
  return np.array(means)


def test_embeddings_are_numpys(static):
  expected = embedded(rows_of_mini(), static, TEXTS)
  np.testing.assert_allclose(static.encode(TEXTS), expected, atol=1e-6)
  np.testing.assert_allclose(static.encode(TEXTS, batch_size=1), expected, atol=1e-6)
  assert static.identity.sentence_embedding_type == "word-rows" and static.identity.settings.token_weights == "idf-0.75"
  assert static.encoder.num_hidden_layers == 0 and static.dim == 256
  # Whole texts by default, not the first 64 tokens.
  assert np.abs(static.encode(["dog " * 64 + "cat"]) - static.encode(["dog " * 64])).max() > 1e-3


def test_a_calibrated_model_is_saved_and_loaded(static, tmp_path):
  sentences = [f"{a} {b} {c}" for a in ("the", "a") for b in ("dog", "cat", "man") for c in ("runs", "eats", "is")]
  model = SentenceModel(static.encoder, cache=tmp_path / "cache").fit(sentences, "soft-whitening")
  model.save(tmp_path / "model")
  loaded = SentenceModel.load(tmp_path / "model", cache=tmp_path / "cache")
  assert loaded.name == "static:mini+soft-whitening" and loaded.identity == model.identity
  np.testing.assert_array_equal(loaded.encode(sentences), model.encode(sentences))
  calibration = make_calibration("soft-whitening").fit(embedded(rows_of_mini(), static, sentences).astype(np.float32))
  expected = calibration.transform(model.encode(sentences, calibrated=False))
  np.testing.assert_allclose(loaded.encode(sentences), expected, atol=1e-3 * np.abs(expected).max())
  with pytest.raises(EncoderError, match="static:mini"):
    SentenceModel.load(tmp_path / "model", model="mini", sentence_embedding_type="avg", max_seq_length=64)


@pytest.mark.parametrize(
  ("arguments", "argument"),
  [
    ({"name": "static:"}, "model"),
    ({"name": "static:nothing"}, "model"),
    ({"name": "static:static:mini"}, "model"),
    ({"sentence_embedding_type": "avg"}, "sentence_embedding_type"),
    ({"sentence_embedding_type": "mix"}, "sentence_embedding_type"),
    ({"precision": "float16"}, "precision"),
    ({"hidden_act": "gelu"}, "hidden_act"),
    ({"max_seq_length": 2}, "max_seq_length"),
  ],
)
def test_rejections(arguments, argument):
  with rejected(BertFlowError, argument):
    SentenceModel.from_pretrained(**{"name": "static:mini", **arguments})


def test_it_is_no_bert(static):
  with rejected(EncoderError, "model"):
    static.encoder.tf1_variables()
  with rejected(EncoderError, "model", match="be trained"):
    static.encoder.check_has_transformer("be trained")


def test_the_name_of_its_pooling():
  named = [("static:mini", None, "word-rows"), ("static:mini", "avg", "avg"), ("mini", None, "avg-first-last")]
  for model, pooling, name in named:
    assert EncoderSettings(model=model, sentence_embedding_type=pooling).pooling_name == name
