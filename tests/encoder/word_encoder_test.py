"""Tests of word_encoder.py: word vectors are loaded, calibrated, saved and rejected as other encoders are."""

import numpy as np
import pytest

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.encoder.word_vectors import WordVectors
from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.serving.export import export_model

WORDS = ("the", "cat", "dog", "sees", "a", "house", "Paris")
SENTENCES = ["the cat sees a dog", "a dog", "Paris", "the house sees the cat", "the dog", "a house"]


@pytest.fixture
def file(tmp_path):
  rng = np.random.default_rng(0)
  lines = [" ".join([word, *map(str, rng.normal(size=4).round(3))]) for word in WORDS]
  (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
  return tmp_path / "vectors.txt"


def test_it_is_an_encoder_like_the_others(file, tmp_path):
  model = SentenceModel.from_pretrained(f"glove:{file}")
  expected = WordVectors.from_file(file).encode(SENTENCES)
  np.testing.assert_array_equal(model.encode(SENTENCES), expected)
  np.testing.assert_array_equal(model.encoder.encode(SENTENCES, cache=tmp_path / "cache"), expected)
  assert (model.dim, model.encoder.count_params(), model.encoder.has_tokens) == (4, 28, False)
  np.testing.assert_array_equal(model.encoder.encode(["the cat dog"], max_seq_length=1), model.encode(["the"]))
  model.fit(SENTENCES, calibration="whitening")
  model.save(tmp_path / "saved")
  loaded = SentenceModel.load(tmp_path / "saved")
  np.testing.assert_allclose(loaded.encode(SENTENCES), model.encode(SENTENCES), atol=1e-6)
  file.write_text(file.read_text().replace("Paris", "London"))
  with pytest.raises(BertFlowError, match="weights_sha256"):
    SentenceModel.load(tmp_path / "saved")


def test_what_needs_tokens_is_rejected(file, tmp_path):
  name = f"glove:{file}"
  for settings in ({"precision": "bfloat16"}, {"token_weights": "idf"}, {"hidden_act": "relu"}):
    with pytest.raises(BertFlowError, match="is a file of word vectors; leave it out"):
      SentenceEncoder.from_pretrained(name, **settings)
  model = SentenceModel.from_pretrained(name)
  with pytest.raises(BertFlowError, match="leave it out"):
    model.encoder.pooling("cls")
  with pytest.raises(BertFlowError, match="a positive number of words"):
    model.encoder.encode(["a"], max_seq_length=0)
  with pytest.raises(BertFlowError, match="word vectors cannot be a part of a graph"):
    model.as_function()
  with pytest.raises(BertFlowError, match="word vectors cannot be a part of a graph"):
    export_model(model.fit(SENTENCES, "whitening-2"), tmp_path / "served")
  with pytest.raises(BertFlowError, match="word vectors cannot be a layer"):
    model.encoder.as_layer()
  with pytest.raises(BertFlowError, match=r"none\.txt: cannot be read"):
    SentenceEncoder.from_pretrained("glove:none.txt")
