"""A static encoder and its calibration as one SavedModel: text in, vector out."""

import numpy as np
import pytest

from tests.serving import exported  # isort: skip
import tensorflow as tf  # isort: skip

from bert_flow_tf import SentenceModel
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.serving.export import export_model
from bert_flow_tf.serving.served_model import ServedModel

pytestmark = pytest.mark.slow


def test_a_small_model_answers_text_with_the_vectors_of_encode(tmp_path):
  model = SentenceModel.from_pretrained("static:mini").fit(exported.TEXTS, "soft-whitening")
  folder = export_model(model, tmp_path / "served")
  signatures = tf.saved_model.load(str(folder)).signatures
  answer = signatures["serving_default"](text=tf.constant(exported.TEXTS))["embedding"].numpy()
  expected = model.encode(exported.TEXTS)
  np.testing.assert_allclose(answer, expected, atol=1e-4 * np.abs(expected).max())
  pooled = signatures["embed_pooled"](text=tf.constant(exported.TEXTS))["pooled"].numpy()
  np.testing.assert_allclose(pooled, model.embed(exported.TEXTS), atol=1e-5)
  # Whole texts are read, however many short ones are in the same request.
  texts = ["a dog " * 300 + "runs", *["a short text"] * 300, "", "word " * 3000]
  answer = signatures["embed_pooled"](text=tf.constant(texts))["pooled"].numpy()
  np.testing.assert_allclose(answer, model.embed(texts), atol=1e-5)
  # The longest text of any input decides how many rows are computed at once.
  short, long = tf.constant(["a"]), tf.constant(["word " * 3000])
  served = ServedModel(model, normalize=False)
  assert served._rows_of((short, long)).numpy() == served._rows_of((long, short)).numpy() == 1
  sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
  # The matrix is stored once.
  matrix = 4 * model.encoder.bert.word_embeddings().size
  assert matrix <= sum(size for path, size in sizes.items() if path.parent.name == "variables") < 1.05 * matrix


@pytest.mark.parametrize(
  ("name", "calibration"), [("static:mini", "soft-whitening+characters"), ("mini", "characters-96")]
)
def test_characters_are_served_as_they_are_encoded(tmp_path, name, calibration):
  model = SentenceModel.from_pretrained(name).fit(exported.TEXTS, calibration)
  with pytest.raises(ConfigError, match="takes characters of sentences, which vectors do not have"):
    export_model(model.calibration, tmp_path / "served")
  folder = export_model(model, tmp_path / "served")
  signatures = tf.saved_model.load(str(folder)).signatures
  text, expected = tf.constant(exported.TEXTS), model.encode(exported.TEXTS)
  answer = signatures["serving_default"](text=text)["embedding"].numpy()
  np.testing.assert_allclose(answer, expected, atol=1e-5 * np.abs(expected).max())
  pooled = signatures["embed_pooled"](text=text)["pooled"].numpy()
  np.testing.assert_allclose(pooled, model.embed(exported.TEXTS), atol=1e-5)
  reusable = tf.saved_model.load(str(folder))
  np.testing.assert_allclose(reusable(text).numpy(), expected, atol=1e-5 * np.abs(expected).max())
  # The table is stored once; of an encoder that has no use, nothing is.
  size = sum(path.stat().st_size for path in (folder / "variables").iterdir())
  table = 4 * model.encoder.tokenizer.vocab_size * model.calibration.characters
  rows = 4 * model.encoder.bert.word_embeddings().size if "static" in name else 0
  assert table + rows <= size < 1.05 * (table + rows)
