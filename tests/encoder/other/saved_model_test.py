"""SavedModels of other programs as encoders: TensorFlow 2 and Keras, against NumPy."""

import hashlib
import pickle
import shutil

import numpy as np
import pytest

from bert_flow_tf import SentenceModel
from bert_flow_tf.encoder.other import saved_model
from bert_flow_tf.encoder.transformer.number_formats import int8_error
from bert_flow_tf.errors import BertFlowError, ConfigError, EncoderError
from tests.encoder.other import saved_models
from tests.testing import rejected

import tensorflow as tf  # isort: skip

TEXTS = ["A man is eating", "no dog", "the woman plays guitar zzz", "no", "a" + " " * 4000 + "dog", "A man is eating"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
  """Returns a function that writes a SavedModel once: name of a writer, its arguments -> folder."""
  written = {}

  def write(writer, **arguments):
    key = (writer, str(arguments))
    if key not in written:
      folder = tmp_path_factory.mktemp("saved") / "text"
      written[key] = getattr(saved_models, writer)(folder, **arguments)
    return written[key]

  return write


KINDS = {
  "call": {"writer": "write_callable"},
  "signature": {"writer": "write_signatures", "serving_default": ["vector"]},
  "keras": {"writer": "write_keras"},
  "keras of columns": {"writer": "write_keras", "shape": (1,)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_embeds_as_numpy_does(folders, kind):
  model = SentenceModel.from_pretrained(f"saved_model:{folders(**KINDS[kind])}")
  np.testing.assert_allclose(model.encode(TEXTS), saved_models.expected(TEXTS, 6), rtol=1e-5, atol=1e-5)
  assert model.encode([]).shape == (0, 6)


def test_a_named_output_is_taken(folders):
  folder = folders("write_signatures", embed=["first", "second"], other=["third"])
  expected = saved_models.expected(TEXTS, 6)
  for output, factor in (("first", 1), ("second", 2), ("other:third", 1)):
    model = SentenceModel.from_pretrained(f"saved_model:{folder}", saved_model_output=output)
    np.testing.assert_allclose(model.encode(TEXTS), factor * expected, atol=1e-5)
  with rejected(ConfigError, "saved_model_output", match="first, second"):
    SentenceModel.from_pretrained(f"saved_model:{folder}")
  with rejected(ConfigError, "saved_model_output", match="first"):
    SentenceModel.from_pretrained(f"saved_model:{folder}", saved_model_output="fourth")


def test_identity_is_the_content_of_the_files(folders, tmp_path):
  folder = folders("write_callable")
  model = SentenceModel.from_pretrained(f"saved_model:{folder}")
  model.fit([*saved_models.sentences(), ""], "whitening")
  model.save(tmp_path / "model")
  loaded = SentenceModel.load(tmp_path / "model")
  np.testing.assert_array_equal(loaded.encode(TEXTS), model.encode(TEXTS))

  moved = shutil.copytree(folder, tmp_path / "moved")
  again = SentenceModel.load(tmp_path / "model", model=f"saved_model:{moved}")
  np.testing.assert_array_equal(again.encode(TEXTS), model.encode(TEXTS))
  (asset,) = (moved / "assets").iterdir()
  asset.write_text(asset.read_text(encoding="utf-8").replace("dog", "cat"), encoding="utf-8")
  with pytest.raises(EncoderError, match="weights_sha256"):
    SentenceModel.load(tmp_path / "model", model=f"saved_model:{moved}")


def test_the_identity_of_models_that_0_1_saved(folders):
  """Names and contents of the files, a line each: models that 0.1 saved find their encoder again."""
  folder = folders("write_callable")
  encoder = SentenceModel.from_pretrained(f"saved_model:{folder}").encoder
  files = [path for path in folder.rglob("*") if path.is_file() and path.name != "fingerprint.pb"]
  lines = [f"{path.relative_to(folder).as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in files]
  assert encoder.weights_checksum == hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
  assert encoder.encode([]).shape == (0, encoder.hidden_size)


def test_a_pickle_is_read_in_another_working_directory(folders, tmp_path, monkeypatch):
  folder = folders("write_callable")
  monkeypatch.chdir(folder.parent)
  model = SentenceModel.from_pretrained(f"saved_model:{folder.name}")
  content = pickle.dumps(model)
  monkeypatch.chdir(tmp_path)
  np.testing.assert_array_equal(pickle.loads(content).encode(TEXTS), model.encode(TEXTS))


def test_a_pickle_of_files_that_have_changed_is_an_error(folders, tmp_path):
  shutil.copytree(folders("write_callable"), tmp_path / "model")
  content = pickle.dumps(SentenceModel.from_pretrained(f"saved_model:{tmp_path / 'model'}"))
  (tmp_path / "model/assets").mkdir(exist_ok=True)
  (tmp_path / "model/assets/words.txt").write_text("other")
  with rejected(EncoderError, "model", match="have changed"):
    pickle.loads(content)


def test_cached_vectors_are_read(folders, tmp_path):
  name = f"saved_model:{folders('write_callable')}"
  first = SentenceModel.from_pretrained(name, cache=tmp_path).encode(TEXTS)
  model = SentenceModel.from_pretrained(name, cache=tmp_path)
  model.encoder.of_text = None  # not called for what is cached
  np.testing.assert_array_equal(model.encode(TEXTS), first)


def test_flow_and_auto_are_fitted(folders):
  model = SentenceModel.from_pretrained(f"saved_model:{folders('write_callable', dim=8)}")
  model.fit(saved_models.sentences(), "auto")
  assert set(model.choice.agreement) == {"whitening", "soft-whitening", "soft-whitening-0.2"}
  model.fit(saved_models.sentences(), "flow", num_train_epochs=0.5)
  assert np.isfinite(model.encode(TEXTS)).all()
  graph = model.as_function()
  np.testing.assert_allclose(graph(tf.constant(TEXTS)), model.encode(TEXTS), atol=1e-4)


def test_what_needs_tokens_is_rejected(folders):
  settings = {"precision": "bfloat16", "token_weights": "idf", "sentence_embedding_type": "avg", "max_seq_length": 64}
  settings |= {"hidden_act": "gelu", "revision": "main", "max_input_chars_per_word": 5, "strip_accents": True}
  settings |= {"frequency_corpus": "corpus.txt", "vocab_file": "vocab.txt"}
  for name, value in settings.items():
    with rejected(BertFlowError, name):
      SentenceModel.from_pretrained(f"saved_model:{folders('write_callable')}", **{name: value})
  model = SentenceModel.from_pretrained(f"saved_model:{folders('write_callable')}")
  with rejected(EncoderError, "model"):
    model.fit(saved_models.sentences(), "flow", encoder_dropout=True)
  with rejected(EncoderError, "model"):
    model.encoder.as_layer()
  with rejected(ConfigError, "saved_model_output"):
    SentenceModel.from_pretrained("mini", saved_model_output="vector")


def _length(texts):
  return tf.cast(tf.strings.length(texts), tf.float32)[:, tf.newaxis]


def _broken(folder, tmp_path):
  """Yields folders of no use, each with a part of the expected message."""
  empty = tmp_path / "empty"
  empty.mkdir()
  yield empty, "no saved_model.pb"
  yield tmp_path / "absent", "no such folder"
  file = tmp_path / "model.keras"
  file.write_bytes(b"PK")
  yield file, "this is a file"
  (tmp_path / "versions").mkdir()
  shutil.copytree(folder, tmp_path / "versions" / "3")
  yield tmp_path / "versions", "name one of its folders: 3"
  for number, pattern in enumerate(("saved_model.pb", "variables/*data*", "variables/*.index", "assets/*")):
    damaged = shutil.copytree(folder, tmp_path / f"damaged{number}")
    (path,) = damaged.glob(pattern)
    content = path.read_bytes()
    if number == 0:
      path.write_bytes(content[: len(content) // 2])
    else:
      path.unlink()
    yield damaged, "cannot be loaded"
  numbers, single_text = tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.string)
  functions = {
    "numbers": (lambda x: x * 2, "no function of strings", numbers),
    "lengths": (tf.strings.length, "output_0 int32 .None,."),
    "tokens": (lambda x: tf.zeros([tf.size(x), 4, 3]), "from strings .n. to vectors"),
    "one": (lambda x: tf.zeros([1, 3]), "expected .2, dim."),
    "scalar": (lambda x: tf.zeros([3]), "does not take strings", single_text),
    "batch": (lambda x: _length(x) - tf.reduce_mean(_length(x)), "the other texts"),
    "chance": (lambda x: tf.random.normal([tf.size(x), 3]), "or on chance"),
    "examples": (saved_models.parse_examples, "fails on plain text"),
  }
  for name, (function, expected, *spec) in functions.items():
    yield saved_models.write_function(tmp_path / name, function, *spec), expected


def test_an_export_in_int8_is_rejected_where_nothing_computes_it(folders, tmp_path, monkeypatch):
  """Before the model is loaded."""

  def largest_of_kernels():
    raise int8_error("none here")

  monkeypatch.setattr(saved_model, "largest_of_kernels", largest_of_kernels)
  monkeypatch.setattr(saved_model, "_load", None)
  folder = shutil.copytree(folders("write_callable"), tmp_path / "exported")
  (folder / "assets.extra").mkdir()
  (folder / "assets.extra" / "metadata.json").write_text('{"encoder": {"precision": "int8"}}')
  with rejected(EncoderError, "model", match="^model=saved_model:.*/exported: exported in int8, which needs"):
    SentenceModel.from_pretrained(f"saved_model:{folder}")


def test_bad_folders_get_one_sentence(folders, tmp_path):
  for folder, expected in _broken(folders("write_callable"), tmp_path):
    with pytest.raises(EncoderError, match=expected) as caught:
      SentenceModel.from_pretrained(f"saved_model:{folder}")
    assert str(caught.value).startswith(f"model=saved_model:{folder}: "), caught.value
    assert "\n" not in str(caught.value)


def test_a_graph_of_tensorflow_1_is_rejected(folders):
  with rejected(EncoderError, "model", match="TensorFlow 1"):
    SentenceModel.from_pretrained(f"saved_model:{folders('write_tf1')}")


def test_an_empty_text_is_a_row(folders):
  model = SentenceModel.from_pretrained(f"saved_model:{folders('write_callable')}")
  np.testing.assert_array_equal(model.encode(["no", ""])[1], np.zeros(6))


def without_empty(texts):
  lengths = tf.strings.length(texts)
  return tf.cast(lengths[lengths > 0], tf.float32)[:, tf.newaxis]


def only_short(texts):
  with tf.control_dependencies([tf.debugging.assert_less(tf.strings.length(texts), 20)]):
    return tf.ones([tf.size(texts), 2])


@pytest.mark.parametrize(
  ("function", "texts", "part"),
  [
    (without_empty, ["no", ""], "vector for each text"),
    (only_short, ["no", "a very long text, too long"], "a very long"),
  ],
)
def test_a_text_without_a_vector_is_an_error(tmp_path, function, texts, part):
  folder = saved_models.write_function(tmp_path / "text", function)
  with pytest.raises(EncoderError, match=part):
    SentenceModel.from_pretrained(f"saved_model:{folder}").encode(texts)


def test_a_batch_without_texts(tmp_path):
  """A served model may get one; some SavedModels fail without a row."""

  def of_some_texts(texts):
    with tf.control_dependencies([tf.debugging.assert_positive(tf.size(texts))]):
      return tf.ones([tf.size(texts), 2])

  model = SentenceModel.from_pretrained(f"saved_model:{saved_models.write_function(tmp_path / 'some', of_some_texts)}")
  assert model.as_function()(tf.constant([], tf.string)).shape == (0, 2)
