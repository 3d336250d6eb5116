"""token_weights.py and frequency.py: weights against counts in plain Python; models with weights."""

import copy
import dataclasses
import gzip
import math

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceModel, load_task
from bert_flow_tf.encoder.identity import EncoderIdentity, save_identity
from bert_flow_tf.encoder.loading import load_encoder
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.text.frequency import (
  PACKAGED,
  count_frequencies,
  packaged_frequencies,
  read_frequencies,
)
from bert_flow_tf.encoder.text.token_weights import make_token_weights, parse_token_weights
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer
from bert_flow_tf.errors import ConfigError, DataError, EncoderError
from tests.encoder import tiny
from tests.testing import rejected

TEXT = ["A dog runs 7 miles.", "The dog and the cat sleep.", "", "Dogs, cats!", "Is it a dog?", "dog dog dog"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  path = tmp_path_factory.mktemp("corpus") / "text.txt"
  path.write_text("\n".join(TEXT) + "\n")
  return path


@pytest.fixture(scope="module")
def weighted(corpus):
  return SentenceEncoder.from_pretrained("mini", token_weights="idf-1.5", frequency_corpus=corpus)


def counted(tokenizer):
  """Returns {piece: number of sentences of TEXT that have it}."""
  sets = [{tokenizer.vocab[i] for i in tokenizer([text])[0]} for text in TEXT if text]
  return {piece: sum(piece in pieces for pieces in sets) for piece in set().union(*sets)}


def test_counts_of_a_file(mini, corpus, tmp_path, caplog):
  frequencies, total = count_frequencies(corpus, mini.tokenizer)
  expected = counted(mini.tokenizer)
  assert total == 5
  assert {mini.tokenizer.vocab[i]: n for i, n in enumerate(frequencies) if n} == expected
  packed = tmp_path / "text.gz"
  packed.write_bytes(gzip.compress(corpus.read_bytes()))
  np.testing.assert_array_equal(count_frequencies(packed, mini.tokenizer)[0], frequencies)
  assert "read as sentences" not in caplog.text
  (tmp_path / "text.jsonl").write_text('{"text": "A dog."}\n')
  count_frequencies(tmp_path / "text.jsonl", mini.tokenizer)
  assert "the lines of a jsonl are read as sentences" in caplog.text


def test_weights_by_their_definition(mini, weighted):
  counts, vocab = counted(mini.tokenizer), mini.tokenizer.vocab
  table = weighted.token_weights.table
  for piece in ("dog", "a", "it", "paris", "7"):
    count = 0 if "7" in piece else counts.get(piece, 0)
    expected = math.log(6 / (count + 1)) ** 1.5
    assert table[vocab.index(piece)] == pytest.approx(expected, rel=1e-6)
  for piece in ("##7", "19", "20"):
    assert table[vocab.index(piece)] == pytest.approx(0.1 * math.log(6) ** 1.5, rel=1e-6)
  for piece in ("[CLS]", "[SEP]", "[PAD]", "[MASK]", ".", ",", "!", "$", "##?"):
    assert piece not in vocab or table[vocab.index(piece)] == 0


def test_sentences_with_years_are_no_cone():
  """The recipe, static, fitted on sentences of which few have a number: nothing but a year is common to these."""
  years = [
    "The bridge was opened in 1931.",
    "She won the first of her three titles in 1987.",
    "A treaty of 1748 ended the war.",
    "an American baseball player (1931-1997)",
    "in orbit from 1973 to 1979",
    "The novel appeared in 1862 and was soon forgotten.",
    "Between 1995 and 2004 the population doubled.",
    "The oldest oak of the park fell in the storm of 1990.",
  ]
  model = SentenceModel.from_pretrained("static:mini").fit(load_task("sample").all_pairs(), "soft-whitening")
  cosines = np.array([model.similarity([text] * len(years), years) for text in years])
  assert cosines[~np.eye(len(years), dtype=bool)].mean() < 0.1
  assert model.similarity(["A dog ran 7 miles."], ["A dog ran 8 miles."]) < 0.95  # other numbers count


# Sentences that differ in a number alone, whose pieces are years, parts of numbers, or 15 to 20.
NUMBERS = [
  ("It was written in 1984.", "It was written in 1985."),
  ("Order 4711 was shipped to Berlin.", "Order 4712 was shipped to Berlin."),
  ("Order 4711 was shipped to Berlin.", "Order 4799 was shipped to Berlin."),
  ("Call 030 1234567.", "Call 030 1234568."),
  ("DE89370400440532013000", "DE89370400440532013001"),
  ("The invoice is over 1,250.00 dollars.", "The invoice is over 1,260.00 dollars."),
  ("She is 15 years old.", "She is 20 years old."),
  ("1748", "1749"),
  ("room 101 " + "of the long report " * 20, "room 102 " + "of the long report " * 20),
]


@pytest.mark.parametrize(("recipe", "calibrations"), [("fast", ("none", "soft-whitening")), ("recommended", ("none",))])
def test_numbers_are_read(recipe, calibrations):
  model = SentenceModel.from_pretrained("mini", recipe=recipe)
  a, b = zip(*NUMBERS, strict=True)
  for calibration in calibrations:
    if calibration != "none":
      model.fit(load_task("sample").splits["dev"].sentences_a, calibration, show_progress=False)
    assert (model.similarity(a, b) < 1 - 1e-5).all()
    # As search and dedupe compare: products of float32 rows of length 1.
    rows_a, rows_b = (model.encode(texts, normalize_embeddings=True) for texts in (a, b))
    assert (np.sum(rows_a * rows_b, axis=1) < 1 - 1e-5).all()


def test_identities_of_earlier_releases_have_no_weight_of_numbers(corpus):
  """They hold no `number_weight`: the encoder that they load has the weights of their release, 0 for years."""
  settings = {"token_weights": "idf", "frequency_corpus": corpus}
  now = SentenceEncoder.from_pretrained("mini", **settings)
  vocab = now.tokenizer.vocab
  of_years = [vocab.index(piece) for piece in ("15", "19", "20", *(f"##{digit}" for digit in range(10)))]
  assert (now.token_weights.table[of_years] > 0).all()
  old = SentenceEncoder.from_pretrained("mini", **settings, number_weight=0)
  values = old.identity("mix").to_dict()
  del values["number_weight"]
  released = EncoderIdentity.from_dict(values, "model.npz")
  loaded = load_encoder(released.loading_settings())
  assert (loaded.token_weights.table[of_years] == 0).all() and not released.differences(loaded.identity("mix"))
  others = np.setdiff1d(np.arange(len(vocab)), np.flatnonzero(now.token_weights.table != loaded.token_weights.table))
  np.testing.assert_array_equal(loaded.token_weights.table[others], now.token_weights.table[others])
  with pytest.raises(EncoderError, match="number_weight=0"):
    released.check_same(now.identity("mix"), "model.npz")


def test_packaged_table_covers_the_vocabulary(mini):
  frequencies, total = packaged_frequencies(mini.tokenizer)
  vocab = mini.tokenizer.vocab
  assert total == 507272 and frequencies.max() <= total
  with gzip.open(PACKAGED, "rt", encoding="utf-8") as file:
    words = dict(line.rstrip("\n").split("\t") for line in file)
  # "dog" is a part of no other word's pieces than "Dog" and "DOG".
  assert frequencies[vocab.index("dog")] >= int(words["dog"]) + int(words["Dog"])
  order = [frequencies[vocab.index(word)] for word in ("the", "man", "dog", "guitar")]
  assert order == sorted(order, reverse=True)


@pytest.mark.parametrize("pooling", ["avg", "word-rows", "mix"])
def test_embeddings_against_numpy(mini, weighted, pooling):
  sentences = ["A dog runs, and cats sleep.", "Dogs!", "?!", "", "a"]
  hidden = mini.bert
  words = hidden.word_embeddings.numpy().astype(np.float64)
  words /= np.linalg.norm(words, axis=1, keepdims=True)
  actual = tiny.embed(weighted, sentences, pooling)
  for row, ids in zip(actual, mini.tokenizer(sentences), strict=True):
    weights = weighted.token_weights.table[ids].astype(np.float64)
    weights = weights if weights.any() else np.ones(len(ids))
    last = hidden(tf.constant([ids]), tf.ones([1, len(ids)], tf.int32))[0][-1].numpy()[0]
    of_words, of_blocks = (np.average(rows, axis=0, weights=weights) for rows in (words[ids], last))
    mix = 0.6 * of_words / np.linalg.norm(of_words) + 0.4 * of_blocks / np.linalg.norm(of_blocks)
    expected = {"avg": of_blocks, "word-rows": of_words, "mix": mix}[pooling]
    np.testing.assert_allclose(row, expected, atol=2e-5)


GERMAN = [
  "der mann liest nicht in dem zug",
  "das kind und der hund sind nicht in dem garten",
  "die katze ist nicht in dem haus",
]


@pytest.fixture(scope="module")
def german_tokenizer(tmp_path_factory):
  """The word pieces of `mini`, of which some are German words."""
  vocab = SentenceEncoder.from_pretrained("mini").tokenizer.vocab
  words = sorted({word for text in GERMAN for word in text.split()}.difference(vocab))
  path = tmp_path_factory.mktemp("german") / "vocab.txt"
  path.write_text("\n".join([*vocab[: -len(words)], *words]), encoding="utf-8")
  return SentenceTokenizer(path)


def warnings_of(caplog, weights, tokenizer, *calls):
  """Returns the warnings of texts that are judged in some calls, by a copy of the weights."""
  caplog.clear()
  weights = copy.deepcopy(weights)
  for texts in calls:
    weights.warn_of_text(tokenizer(texts))
  return [record.getMessage() for record in caplog.records if "frequency_corpus" in record.getMessage()]


def test_text_of_another_language_than_the_packaged_table(german_tokenizer, tmp_path, caplog):
  path = tmp_path / "de.txt"
  path.write_text("\n".join(GERMAN))
  tokenizer, weights = german_tokenizer, make_token_weights("idf", german_tokenizer)
  for calls, count in (([GERMAN * 2], 1), ([[text] for text in GERMAN * 3], 1), ([GERMAN, GERMAN * 2, GERMAN], 1)):
    assert len(warnings_of(caplog, weights, tokenizer, *calls)) == count
  # Short lists, English, names and products in it, numbers, unknown text, and frequencies of such text.
  english = load_task("sample").splits["test"].sentences_a
  lists = [
    ["Anna Huber", "Max Moser"] * 30,
    ["Galaxy S21 5G 128 GB black for home and office", "USB-C cable 2 m, white"] * 9,
  ]
  for texts in (GERMAN[:1], english, english[:8], *lists, ["4711 4712 4713 20 1984"] * 20, ["\u4f60\u597d"] * 50, []):
    assert not warnings_of(caplog, weights, tokenizer, texts)
  assert not warnings_of(caplog, make_token_weights("idf", tokenizer, path), tokenizer, GERMAN * 9)


def test_encode_judges_its_text(mini, german_tokenizer, tmp_path, caplog):
  """Also of a cache."""
  weights = make_token_weights("idf", german_tokenizer)
  for _ in range(2):
    encoder = SentenceEncoder(mini.loaded, german_tokenizer, copy.deepcopy(weights))
    caplog.clear()
    encoder.encode(GERMAN + [f"{text} und {text}" for text in GERMAN], "word-rows", cache=tmp_path)
    assert "frequency_corpus" in caplog.text


def test_uniform_is_the_default_and_changes_no_key(mini, weighted):
  assert mini.token_weights is None and make_token_weights("uniform", mini.tokenizer) is None
  identity = mini.identity("avg")
  assert identity.settings.token_weights == identity.deciding()["token_weights"] == "uniform"
  assert mini.fingerprint(["a"], "avg") != weighted.fingerprint(["a"], "avg")
  assert [parse_token_weights(name) for name in ("uniform", "idf", "idf-1", "idf-0.5")] == [0, 0.75, 1, 0.5]


def test_a_saved_model_counts_the_file_again(weighted, corpus, tmp_path):
  model = SentenceModel(weighted, sentence_embedding_type="avg")
  model.fit([text for text in TEXT if text] * 2, "sn").save(tmp_path / "sn")
  again = SentenceModel.load(tmp_path / "sn")
  np.testing.assert_array_equal(again.encode(TEXT), model.encode(TEXT))
  with pytest.raises(EncoderError, match=r"token_weights idf-1\.5"):
    SentenceModel.load(tmp_path / "sn", token_weights="uniform", frequency_corpus=None)
  before = corpus.read_text()
  corpus.write_text(before + "one more dog\n")
  try:
    with pytest.raises(EncoderError, match=r"frequency_corpus=.*text\.txt"):
      SentenceModel.load(tmp_path / "sn")
  finally:
    corpus.write_text(before)


def test_a_saved_model_finds_its_file_from_another_working_folder(tmp_path, monkeypatch):
  """Another file of the same name is not counted; a file that is gone is named with what mends it."""
  for place, text in {"here": "a dog\n", "there": "a cat\n"}.items():
    (tmp_path / place).mkdir()
    (tmp_path / place / "counts.txt").write_text(text)
  monkeypatch.chdir(tmp_path / "here")
  settings = {"token_weights": "idf", "frequency_corpus": "counts.txt"}
  model = SentenceModel.from_pretrained("static:mini", **settings)
  model.save(tmp_path / "saved")
  monkeypatch.chdir(tmp_path / "there")
  again = SentenceModel.load(tmp_path / "saved")
  assert again.identity.settings.frequency_corpus == str(tmp_path / "here/counts.txt")
  np.testing.assert_array_equal(again.encode(["a dog", "a cat"]), model.encode(["a dog", "a cat"]))
  (tmp_path / "here/counts.txt").rename(tmp_path / "moved.txt")
  with rejected(EncoderError, "folder", match=f"{tmp_path / 'here/counts.txt'} does not exist.*frequency_corpus=FILE"):
    SentenceModel.load(tmp_path / "saved")
  moved = SentenceModel.load(tmp_path / "saved", frequency_corpus=tmp_path / "moved.txt")
  np.testing.assert_array_equal(moved.encode(["a dog"]), model.encode(["a dog"]))
  with rejected(ConfigError, "frequency_corpus"):
    SentenceModel.load(tmp_path / "saved", frequency_corpus="no/file")


def test_a_saved_relative_path_of_an_earlier_release_is_read(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "counts.txt").write_text("a dog\n")
  model = SentenceModel.from_pretrained("static:mini", token_weights="idf", frequency_corpus="counts.txt")
  settings = dataclasses.replace(model.identity.settings, frequency_corpus="counts.txt")
  save_identity(dataclasses.replace(model.identity, settings=settings).to_dict(), tmp_path / "saved")
  assert SentenceModel.load(tmp_path / "saved").identity == model.identity


@pytest.mark.parametrize(
  ("arguments", "argument"),
  [
    ({"token_weights": "tfidf"}, "token_weights"),
    ({"token_weights": "idf-0"}, "token_weights"),
    ({"token_weights": "idf-"}, "token_weights"),
    ({"frequency_corpus": "no/file"}, "frequency_corpus"),
    ({"number_weight": 0.5}, "number_weight"),
    ({"token_weights": "idf", "number_weight": 1.5}, "number_weight"),
    ({"token_weights": "idf", "frequency_corpus": "no/file"}, "frequency_corpus"),
  ],
)
def test_wrong_arguments(arguments, argument):
  with rejected(ConfigError, argument):
    SentenceEncoder.from_pretrained("mini", **arguments)


COUNTS = "of\t20\nthe\t30\n\nNew York\t2\nThe 4\ncat   1\nof\t5\n \u00e9t\u00e9 7 \n"


def _file(tmp_path, text, name="counts.txt"):
  path = tmp_path / name
  path.write_bytes(text.encode() if isinstance(text, str) else text)
  return path


@pytest.mark.parametrize("pack", [str.encode, lambda text: gzip.compress(text.encode())])
def test_reads_tabs_and_spaces(tmp_path, pack):
  path = _file(tmp_path, pack(COUNTS))
  assert read_frequencies(path) == {"of": 25, "the": 30, "New York": 2, "The": 4, "cat": 1, "\u00e9t\u00e9": 7}
  lower = read_frequencies(path, lower_case=True)
  assert lower["the"] == 34 and "The" not in lower


MALFORMED = ["the", "the\t", "\t5", " 5", "the -5", "the 5.0", "the 1_5", "5 the", "the\t\u0665", f"the {'9' * 5000}"]


@pytest.mark.parametrize("line", MALFORMED)
def test_a_malformed_line(tmp_path, line):
  path = _file(tmp_path, f"of 3\n{line}\nto 2\n")
  with pytest.raises(DataError, match=r"counts\.txt, line 2: "):
    read_frequencies(path)


def test_a_file_without_words(tmp_path):
  with pytest.raises(DataError, match=r"counts\.txt"):
    read_frequencies(_file(tmp_path, "\n\n"))
  with pytest.raises(DataError, match="none"):
    read_frequencies(tmp_path / "none")
  with pytest.raises(DataError, match=r"counts\.txt.*line 2"):
    read_frequencies(_file(tmp_path, b"of 3\n\xff 2\n"))


def test_a_vocabulary_with_repeated_lines(tmp_path, corpus):
  # The later one counts, so ids go beyond the number of pieces.
  (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "dog", "dog", "cat"]))
  tokenizer = SentenceTokenizer(tmp_path / "vocab.txt")
  for weights in (make_token_weights("idf", tokenizer), make_token_weights("idf", tokenizer, corpus)):
    assert weights.table.shape == (8,) and weights.table[7] > 0
