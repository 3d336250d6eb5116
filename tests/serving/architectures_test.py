"""Encoders of other architectures as SavedModels: text in, the vectors of Python out."""

import json
import shutil

import numpy as np
import pytest

from tests.serving import exported  # isort: skip
import tensorflow as tf  # isort: skip

from bert_flow_tf import SentenceModel
from bert_flow_tf.encoder.tokenizer import pad_batch
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.serving.export import export_model
from tests.encoder.odd_text import odd_texts
from tests.testing import SHARED

FOLDERS = SHARED / "golden_encoders"
if not FOLDERS.is_dir():
  pytest.skip("../shared/golden_encoders is not there", allow_module_level=True)


def close(actual, expected):
  np.testing.assert_allclose(actual, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["roberta", "xlm-roberta", "mpnet", "distilbert", "electra", "albert"])
def test_served_as_in_python(tmp_path, name):
  model = SentenceModel.from_pretrained(str(FOLDERS / name)).fit(exported.TEXTS + odd_texts(300), "soft-whitening")
  signatures = tf.saved_model.load(str(export_model(model, tmp_path))).signatures
  texts = [*exported.TEXTS, *odd_texts(500, seed=7), "a" * 200_000]
  answer = signatures["embed_pooled"](text=tf.constant(texts))["pooled"].numpy()
  # In a long run the first pieces can follow from its end, which the graph does not read.
  close(answer, model.embed([text[: 64 * 1024] for text in texts]))
  pairs = (exported.TEXTS, exported.TEXTS[::-1])
  score = signatures["similarity"](text_a=tf.constant(pairs[0]), text_b=tf.constant(pairs[1]))["score"].numpy()
  close(score, model.similarity(*pairs))
  ids = model.encoder.tokenizer(exported.TEXTS)
  inputs = {"ids": tf.constant(pad_batch(ids)[0]), "lengths": tf.constant([len(row) for row in ids])}
  close(signatures["embed_ids"](**inputs)["embedding"].numpy(), model.encode(exported.TEXTS))


def test_ids_alone_where_the_tokenizer_has_no_graph_form(tmp_path, caplog):
  folder = shutil.copytree(FOLDERS / "xlm-roberta", tmp_path / "encoder")
  tokenizer = json.loads((folder / "tokenizer.json").read_text())
  tokenizer["normalizer"] = {"type": "Replace", "pattern": {"Regex": "[0-9]+"}, "content": "0"}
  (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
  model = SentenceModel.from_pretrained(str(folder)).fit(exported.TEXTS, "whitening-4")
  with pytest.raises(EncoderError, match="no form as a TensorFlow graph: its normalizer replaces the pattern"):
    model.as_function()
  version = export_model(model, tmp_path / "served")
  assert "the served model has embed_ids and no signature of text" in caplog.text
  contents = json.loads((version / "assets.extra/metadata.json").read_text())
  assert list(contents["signatures"]) == ["embed_ids", "embed_ids_fixed"]
  assert "signatures of text" in contents["without"][-1]
  loaded = tf.saved_model.load(str(version))
  ids = model.encoder.tokenizer(exported.TEXTS)
  ids, lengths = tf.constant(pad_batch(ids)[0]), tf.constant([len(row) for row in ids])
  expected = model.encode(exported.TEXTS)
  close(loaded.signatures["embed_ids"](ids=ids, lengths=lengths)["embedding"].numpy(), expected)
  close(loaded(ids, lengths).numpy(), expected)
  # A Keras layer tokenizes in Python then.
  layer = model.encoder.as_layer()
  close(layer(exported.TEXTS).numpy(), model.encoder.encode(exported.TEXTS))
