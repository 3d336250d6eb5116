"""Word vectors: averages by hand, variants of the file format, and the vectors as an encoder like the others."""

import contextlib
import gzip
import hashlib
import sqlite3

import numpy as np
import pytest

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.encoder.other.word_vectors import WordVectors, split_words, wanted_words
from bert_flow_tf.errors import BertFlowError, EncoderError
from bert_flow_tf.serving.export import export_model
from tests.testing import rejected

GLOVE = "the 1 2 3\ncat 0.5 -1e-1 0\nParis 7 7 7\n. . . 4 4 4\ncat 9 9 9\nat x@y.z 8 8 8\ncaf\u00e9 0 0 6\n, 2 0 0\n"


def _file(tmp_path, content=GLOVE, name="vectors.txt"):
  path = tmp_path / name
  path.write_bytes(content.encode() if isinstance(content, str) else content)
  return path


def _read(tmp_path, content=GLOVE, wanted=None):
  return WordVectors.from_file(_file(tmp_path, content), wanted, show_progress=False)


def _encode(vectors, *sentences, **arguments):
  return vectors.encode(list(sentences), **arguments)


def test_averages_by_hand(tmp_path):
  vectors = _read(tmp_path)
  embeddings = _encode(vectors, "The cat", "the, THE zebra", "Paris", "PARIS", "at", "Caf\u00e9 cafe\u0301", "")
  expected = [[0.75, 0.95, 1.5], [4 / 3, 4 / 3, 2], [7, 7, 7], [0, 0, 0], [0, 0, 0], [0, 0, 6], [0, 0, 0]]
  assert embeddings.dtype == np.float32
  np.testing.assert_allclose(embeddings, expected, rtol=1e-6)
  assert _encode(vectors, "zebra the cat", max_seq_length=2).tolist() == [[1, 2, 3]]
  assert vectors.name == f"glove:{tmp_path / 'vectors.txt'}"
  assert _encode(vectors).shape == (0, 3)
  # Lower case has priority.
  vectors = _read(tmp_path, "May 1 1\nmay 2 2\nJune 3 3\n")
  assert _encode(vectors, "May", "June", "june")[:, 0].tolist() == [2, 3, 0]


def test_only_wanted_words_are_kept(tmp_path):
  sentences = ["The cat at Paris ...", "CAF\u00c9"]
  whole, part = _read(tmp_path), _read(tmp_path, wanted=wanted_words(sentences))
  assert len(whole.vectors) == 7 and len(part.vectors) == 4  # the, cat, Paris, caf\u00e9; not "at x@y.z" nor ". . ."
  np.testing.assert_array_equal(_encode(part, *sentences), _encode(whole, *sentences))
  text_sha256 = hashlib.sha256(GLOVE.encode()).hexdigest()
  assert part.weights_checksum == whole.weights_checksum == text_sha256


@pytest.mark.parametrize(
  ("content", "words"),
  [
    (GLOVE.replace("\n", "\r\n"), 7),
    (GLOVE.replace("\n", " \n"), 7),
    (GLOVE.rstrip() + "\n\n", 7),
    (f"8 3\n{GLOVE}", 7),  # of word2vec
    (b"the 1 2 3\ncat 0.5 -.1 0\n\xff\xfe 1 1 1\n\xc2\x85 1 1 1\n\xe2\x80\xa8 1 1 1\n", 5),
    ("the 1 2 3\ncat .5 -0.10 0e0\n1 1 1 1\nnan 1 1 1\nweb 2.0 1 1 1\n  1 1 1\n", 6),
  ],
)
def test_variants_of_the_format(tmp_path, content, words):
  vectors = _read(tmp_path, content)
  assert vectors.vectors.shape == (words, 3) and vectors.vectors.dtype == np.float32
  np.testing.assert_allclose(_encode(vectors, "the", "cat"), [[1, 2, 3], [0.5, -0.1, 0]], rtol=1e-6)


@pytest.mark.parametrize(
  ("content", "expected"),
  [
    ("the 1 2 3\ncat 1 2\n", "line 2: .*cat 1 2"),
    ("the 1 2 3\ncat 1 2 x\n", "line 2"),
    ("the 1 2 3\ncat 1  2 3\n", "line 2"),
    ("the 1 2 3\ncat 1 2 nan\n", "line 2"),
    ("the 1 2 3\ncat 1 2 1e39\n", "line 2"),
    ("the 1 2 3\n3 2\n", "line 2"),
    ("the\n", "line 1"),
    ("the cat\n", "line 1"),
    ("the\t1\t2\n", "line 1"),
    (GLOVE.replace("\n", "\r"), "line 1: a carriage return"),
    (b"3 4\nthe \x00\x01\x02\ncat ", "vectors.txt: is a binary file of word2vec; .* binary=False"),
    (f"8 3\n{GLOVE}".replace("\n", "\r"), "line 1: a carriage return"),
    (b"2 3\nthe \x00\r\x80?\x01\x02\x03\x04", "is a binary file of word2vec"),
    ("", "vectors.txt: "),
    ("8 3\n", "vectors.txt: no word vectors"),
    ("\n\n", "line 1"),
    (b"PK\x03\x04zip", "line 1"),
    (gzip.compress(GLOVE.encode(), mtime=0), "line 1"),
  ],
)
@pytest.mark.parametrize("wanted", [None, {"cat"}])
def test_malformed_files(tmp_path, content, expected, wanted):
  with pytest.raises(EncoderError, match=expected) as error:
    _read(tmp_path, content, wanted)
  assert "vectors.txt" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("wanted", [None, {"cat"}])
def test_files_of_other_programs(tmp_path, wanted):
  vectors = np.random.default_rng(0).normal(size=(3, 50)).astype("<f4")
  # gensim ends no vector by a line feed, and the program word2vec each.
  for end in (b"", b"\n"):
    rows = [word + b" " + vector.tobytes() + end for word, vector in zip((b"a", b"cat", b"b"), vectors, strict=True)]
    with pytest.raises(EncoderError, match=r"vectors\.txt: is a binary file of word2vec; expected a text file"):
      _read(tmp_path, b"3 50\n" + b"".join(rows), wanted)
  with pytest.raises(EncoderError, match=r"vectors\.txt: is a file of floret, .*; expected a text file"):
    _read(tmp_path, "2 3 2 4 2 2166136261 < >\n0 1 2 3\n1 2 3 4\n", wanted)
  with contextlib.closing(sqlite3.connect(tmp_path / "a.magnitude")) as database:
    database.execute("CREATE TABLE magnitude (key TEXT, dim_0 INTEGER)")
    database.commit()
  with pytest.raises(EncoderError, match=r"a\.magnitude: is a database of SQLite, .*; expected a text file"):
    WordVectors.from_file(tmp_path / "a.magnitude", wanted)
  # A word may look like a first line of floret.
  assert _read(tmp_path, "2 3 2 4 2 2166136261 5 7\n0 1 2 3 4 5 6 7\n").vectors.shape == (2, 7)


@pytest.mark.parametrize("wanted", [None, {"cat"}])
def test_a_file_of_fewer_words_than_its_first_line_tells_of(tmp_path, caplog, wanted):
  with caplog.at_level("WARNING", logger="absl"):
    _read(tmp_path, f"8 3\n{GLOVE}\n", wanted)
    assert not caplog.records
    assert _read(tmp_path, f"9 3\n{GLOVE}", wanted).vectors.any()
  assert len(caplog.records) == 1 and "vectors.txt: its first line tells of 9 words, and the file has 8" in caplog.text


def test_files_that_cannot_be_read(tmp_path):
  for path in (tmp_path / "none.txt", tmp_path, ""):
    with rejected(EncoderError, "model", match=f"^model=glove:{path}: "):
      WordVectors.from_file(path)


def test_unknown_sentences_are_logged_once(tmp_path, caplog):
  vectors = _read(tmp_path)
  with caplog.at_level("WARNING", logger="absl"):
    embeddings = _encode(vectors, "the cat", "zebra", "yak", "")
  assert embeddings.any(axis=1).tolist() == [True, False, False, False]
  assert len(caplog.records) == 1 and "3 of 4 sentences" in caplog.text and "'zebra'" in caplog.text


@pytest.mark.parametrize(
  ("text", "words"),
  [
    ("Don't stop--now!", "Don ' t stop - - now !"),
    ("a_b $5 \u20ac6", "a _ b $ 5 \u20ac 6"),
    ("\u4f60\u597d world", "\u4f60 \u597d world"),
    ("zero\u200bwidth\u00a0gap\u2028line\ttab", "zerowidth gap line tab"),
    ("nai\u0308ve \u0939\u093f\u0928\u094d\u0926\u0940", "na\u00efve \u0939\u093f\u0928\u094d\u0926\u0940"),
    ("", ""),
  ],
)
def test_words_of_a_sentence(text, words):
  assert split_words(text) == words.split()


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
    with rejected(BertFlowError, *settings):
      SentenceEncoder.from_pretrained(name, **settings)
  model = SentenceModel.from_pretrained(name)
  with rejected(BertFlowError, "sentence_embedding_type"):
    model.encoder.pooling("cls")
  with rejected(BertFlowError, "max_seq_length"):
    model.encoder.encode(["a"], max_seq_length=0)
  with rejected(BertFlowError, "model"):
    model.as_function()
  with rejected(BertFlowError, "model"):
    export_model(model.fit(SENTENCES, "whitening-2"), tmp_path / "served")
  with rejected(BertFlowError, "model"):
    model.encoder.as_layer()
  with rejected(BertFlowError, "model", match=r"none\.txt"):
    SentenceEncoder.from_pretrained("glove:none.txt")
