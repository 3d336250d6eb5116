"""Encoders of every kind and their calibrations as SavedModels: text or ids in, the vectors of Python out."""

import functools
import json
import shutil

import numpy as np
import pytest

from tests.serving import exported  # isort: skip
import tensorflow as tf  # isort: skip

from bert_flow_tf import SentenceModel
from bert_flow_tf.encoder.text.word_piece import pad_batch
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.evaluation.metrics import cosine_similarity
from bert_flow_tf.serving.export import export_model
from bert_flow_tf.serving.metadata import card
from bert_flow_tf.serving.served_model import ServedModel
from bert_flow_tf.serving.settings import METADATA
from tests.encoder.other import saved_models
from tests.encoder.text.odd_text import odd_texts
from tests.testing import edit_json, golden_encoder, rejected, run_python

pytestmark = pytest.mark.packages

TEXTS = exported.TEXTS
close = functools.partial(exported.close, tolerance=1e-4)
ARCHITECTURES = ("roberta", "xlm-roberta", "mpnet", "distilbert", "electra", "albert", "modernbert", "deberta-v2")
CASES = [
  ("static:mini", "soft-whitening"),
  ("static:mini", "soft-whitening+characters"),
  ("mini", "characters-96"),
  *((name, "soft-whitening") for name in ARCHITECTURES),
]


def in_ids(model):
  """Returns the texts as ids and numbers of tokens."""
  rows = model.encoder.tokenizer(TEXTS, 64)
  return tf.constant(pad_batch(rows, model.encoder.tokenizer.pad_id)[0]), tf.constant([len(row) for row in rows])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "calibration"), CASES)
def test_served_as_in_python(tmp_path, name, calibration):
  folder = str(golden_encoder(name)) if name in ARCHITECTURES else name
  model = SentenceModel.from_pretrained(folder, max_seq_length=64).fit(TEXTS + odd_texts(300), calibration)
  version = export_model(model, tmp_path / "served")
  loaded = tf.saved_model.load(str(version))
  texts = [*TEXTS, *odd_texts(500, seed=7), "a" * 200_000]
  # A model of characters alone serves no embeddings.
  assert ("embed_pooled" in loaded.signatures) == (model.calibration is not None)
  signature = "serving_default" if model.calibration is None else "embed_pooled"
  (answer,) = loaded.signatures[signature](text=tf.constant(texts)).values()
  # In a long run the first pieces can follow from its end, which the graph does not read.
  close(answer.numpy(), model.encode([text[: 64 * 1024] for text in texts], calibrated=model.calibration is None))
  expected = model.encode(TEXTS)
  close(loaded(tf.constant(TEXTS)).numpy(), expected)
  close(loaded.signatures["serving_default"](text=tf.constant(TEXTS))["embedding"].numpy(), expected)
  score = loaded.signatures["similarity"](text_a=tf.constant(TEXTS), text_b=tf.constant(TEXTS[::-1]))["score"].numpy()
  close(score, np.nan_to_num(cosine_similarity(expected, expected[::-1])))
  ids, lengths = in_ids(model)
  close(loaded.signatures["embed_ids"](ids=ids, lengths=lengths)["embedding"].numpy(), expected)
  if name not in ARCHITECTURES:
    # The matrix and the table are stored once; of an encoder that has no use, nothing is.
    size = sum(path.stat().st_size for path in (version / "variables").iterdir())
    table = 4 * model.encoder.tokenizer.vocab_size * (model.characters.dim if model.characters else 0)
    rows = 4 * model.encoder.bert.word_embeddings.numpy().size if "static" in name else 0
    assert table + rows <= size < 1.05 * (table + rows)


@pytest.mark.slow
def test_whole_texts_are_read_by_a_static_encoder(tmp_path):
  model = SentenceModel.from_pretrained("static:mini").fit(TEXTS, "soft-whitening")
  signatures = tf.saved_model.load(str(export_model(model, tmp_path / "served"))).signatures
  # However many short ones are in the same request.
  texts = ["a dog " * 300 + "runs", *["a short text"] * 300, "", "word " * 3000]
  answer = signatures["embed_pooled"](text=tf.constant(texts))["pooled"].numpy()
  np.testing.assert_allclose(answer, model.encode(texts, calibrated=False), atol=1e-5)
  # The longest text of any input decides how many rows are computed at once.
  short, long = tf.constant(["a"]), tf.constant(["word " * 3000])
  served = ServedModel(model, normalize=False)
  assert served._rows_of((short, long)).numpy() == served._rows_of((long, short)).numpy() == 1


def test_ids_alone_where_the_tokenizer_has_no_graph_form(tmp_path, caplog):
  folder = shutil.copytree(golden_encoder("xlm-roberta"), tmp_path / "encoder")
  digits = {"type": "Replace", "pattern": {"Regex": "[0-9]+"}, "content": "0"}
  edit_json(folder / "tokenizer.json", normalizer=digits)
  model = SentenceModel.from_pretrained(str(folder)).fit(TEXTS, "whitening-4")
  with rejected(EncoderError, None):
    model.as_function()
  version = export_model(model, tmp_path / "served")
  assert "the served model has embed_ids and no signature of text" in caplog.text
  contents = json.loads((version / "assets.extra/metadata.json").read_text())
  assert list(contents["signatures"]) == ["embed_ids", "embed_ids_fixed"]
  assert "signatures of text" in contents["without"][-1]
  loaded = tf.saved_model.load(str(version))
  ids, lengths = in_ids(model)
  expected = model.encode(TEXTS)
  close(loaded.signatures["embed_ids"](ids=ids, lengths=lengths)["embedding"].numpy(), expected)
  close(loaded(ids, lengths).numpy(), expected)
  # A Keras layer tokenizes in Python then.
  close(model.encoder.as_layer()(TEXTS).numpy(), model.encoder.encode(TEXTS))


# A process without this package, in which the folder of the SavedModel does not exist any more.
_PROGRAM = """
import json, sys
import tensorflow as tf
loaded = tf.saved_model.load(sys.argv[1])
texts = tf.constant(json.loads(sys.argv[2]))
scores = loaded.signatures["similarity"](text_a=texts, text_b=tf.roll(texts, 1, 0))["score"]
empty = list(loaded(tf.constant([], tf.string)).shape)
print(json.dumps([loaded(texts).numpy().tolist(), scores.numpy().tolist(), empty, sorted(loaded.signatures)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
  ("writer", "arguments", "calibration"),
  [
    ("write_callable", {"dim": 8}, "flow"),
    ("write_keras", {}, "whitening"),
  ],
)
def test_one_served_model_holds_encoder_and_calibration(tmp_path, writer, arguments, calibration):
  texts = ["A man is eating", "no dog", "the woman plays guitar zzz", "a " * 300]
  folder = getattr(saved_models, writer)(tmp_path / "text", **arguments)
  model = SentenceModel.from_pretrained(f"saved_model:{folder}")
  model.fit(saved_models.sentences(), calibration)
  expected, scores = model.encode(texts), model.similarity(texts, texts[-1:] + texts[:-1])
  version = export_model(model, tmp_path / "served")
  shutil.rmtree(folder)
  (tmp_path / "words_0.txt").unlink(missing_ok=True)

  output = run_python("-c", _PROGRAM, version, json.dumps(texts))
  answer, answered_scores, empty, signatures = json.loads(output.splitlines()[-1])
  close(answer, expected)
  np.testing.assert_allclose(answered_scores, scores, atol=1e-4)
  assert empty == [0, model.output_dim]
  flow = ["inverse", "log_prob"] if calibration == "flow" else []
  assert signatures == sorted(["serving_default", "similarity", "embed_pooled", "embed_examples", *flow])
  contents = json.loads((version / METADATA).read_text(encoding="utf-8"))
  assert contents["encoder"]["name"] == "text" and "tokens of a sentence" not in card(contents)

  # The export is a SavedModel that can be an encoder.
  again = SentenceModel.from_pretrained(f"saved_model:{version}")
  close(again.encode(texts), expected)
