"""encoder/characters.py: the string match of sentences against its definition, word piece by word piece."""

import hashlib
import itertools
import math

import numpy as np
import pytest

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.encoder.text import frequency
from bert_flow_tf.encoder.text.characters import CharacterTable
from bert_flow_tf.encoder.text.token_weights import make_token_weights
from bert_flow_tf.errors import BertFlowError, EncoderError
from bert_flow_tf.evaluation.controls import string_matches
from bert_flow_tf.training.calibrate import fit_calibration
from tests.testing import REPO, golden_encoder, rejected

TEXTS = [
  "A man is playing a guitar.",
  "Somebody plays the guitars",
  "In 1999, 3 unbelievable storms!",
  "unbelievably stormy weather",
  "...",
  "",
]
OTHERS = ["unbelievable storms, in 1999", "the storm is unbelievable", "a guitar", "das Café in 東京", "ein Café"]
A, B = TEXTS[:3], TEXTS[1:4]


@pytest.fixture(scope="module")
def static():
  """Returns the packaged encoder without its transformer; its characters are counted once."""
  return SentenceEncoder.from_pretrained("static:mini")


@pytest.fixture(scope="module")
def model(static):
  return SentenceModel(static).fit(TEXTS, "soft-whitening+characters")


def by_definition(tokenizer, sizes):
  """Returns {piece: {n-gram: value}} of C_v by the formulas, and {piece: a_v}."""
  frequencies, total = frequency.packaged_frequencies(tokenizer)
  df = {p: 0 if any(c.isdigit() for c in p) else frequencies[i] for i, p in enumerate(tokenizer.vocab)}
  words = {
    p: p[2:] if p.startswith("##") else "<" + p for p in df if not p.startswith("[") and any(map(str.isalnum, p))
  }
  has = {p: {w} | {w[i : i + n] for n in sizes for i in range(len(w) - n + 1)} for p, w in words.items()}
  sums = {}
  for piece, ngrams in has.items():
    for ngram in ngrams:
      sums[ngram] = sums.get(ngram, 0) + df[piece]

  def idf(count):
    return math.log((total + 1) / (min(count, total) + 1)) ** 0.75

  rows = {}
  for piece, ngrams in has.items():
    row = {ngram: idf(sums[ngram]) for ngram in ngrams}
    length = math.sqrt(sum(value**2 for value in row.values()))
    rows[piece] = {ngram: value / length for ngram, value in row.items()}
  return rows, {piece: idf(df[piece]) for piece in rows}


def characters_of(text, tokenizer, rows, weights):
  total = {}
  for number in tokenizer([text])[0]:
    piece = tokenizer.vocab[number]
    for ngram, value in rows.get(piece, {}).items():
      total[ngram] = total.get(ngram, 0) + weights[piece] * value
  return total


def cosine(a, b):
  lengths = [math.sqrt(sum(value**2 for value in side.values())) for side in (a, b)]
  return sum(a[ngram] * b.get(ngram, 0) for ngram in a) / max(math.prod(lengths), 1e-30)


@pytest.mark.parametrize(("name", "sizes"), [("characters", (3, 4, 5)), ("tf-idf of word pieces", ())])
def test_string_matches_follow_the_definition(model, name, sizes):
  tokenizer = model.encoder.tokenizer
  rows, weights = by_definition(tokenizer, sizes)
  sides = [characters_of(text, tokenizer, rows, weights) for text in TEXTS]
  expected = [cosine(a, b) for a, b in itertools.pairwise(sides)]
  assert expected[0] > 0 and expected[3] == expected[4] == 0
  np.testing.assert_allclose(string_matches(model.encoder, TEXTS[:-1], TEXTS[1:], 64)[name], expected, atol=1e-9)


def test_dense_rows_have_the_products_of_the_exact_ones(model):
  ids = model.encoder.tokenizer(TEXTS)
  table = model.encoder.characters
  exact = (table.exact(ids) @ table.exact(ids).T).toarray()
  dense = SentenceModel(model.encoder, characters=2048).encode(TEXTS)
  np.testing.assert_allclose(dense @ dense.T, exact, atol=0.08)
  assert not dense[4:].any()
  # The same signs everywhere, and the a shorter row is the start of a longer row.
  np.testing.assert_allclose(table.dense(100) * 10, table.dense(2048)[:, :100] * math.sqrt(2048), rtol=1e-4, atol=1e-5)
  again = CharacterTable(model.encoder.tokenizer, make_token_weights("idf", model.encoder.tokenizer))
  assert again.checksum == table.checksum and again.dense(8).tobytes() == table.dense(8).tobytes()


def test_signs_equal_the_signs_of_saved_vectors(static):
  """Vectors that a user has stored are compared with new ones: both need the same random signs."""
  model = SentenceModel(static).fit([], "characters-64")
  digest = hashlib.sha256(np.signbit(model.encode(["guitar"])).tobytes()).hexdigest()
  assert digest == (REPO / "tests/golden/formats/1/characters.sha256").read_text().strip()


def test_characters_end_with_the_embedding(static):
  """Both read the first max_seq_length tokens, in encode, similarity and the graph."""
  model = SentenceModel(static, max_seq_length=6).fit(TEXTS, "mean+characters-64")
  cut, long = "a man is playing", "a man is playing a guitar on a stage"
  np.testing.assert_allclose(model.encode([long]), model.encode([cut]), atol=1e-6)
  np.testing.assert_allclose(model.similarity([long], [cut]), 1.0, atol=1e-6)
  np.testing.assert_allclose(model.as_function()(np.array([long.encode()])), model.encode([cut]), atol=1e-5)


def test_parts_of_characters_are_told_apart():
  """Byte-level pieces that are no whole character are strings of their own."""
  encoder = SentenceModel.from_pretrained(str(golden_encoder("roberta"))).encoder
  same, other = string_matches(encoder, ["東", "東"], ["東", "京"], 64)["characters"]
  assert same == 1.0 and other < 0.5


def test_the_similarity_is_the_mean_of_both_cosines(model, static):
  alone = SentenceModel(static).fit(TEXTS, "soft-whitening")
  match = string_matches(model.encoder, A, B, 64)["characters"]
  np.testing.assert_allclose(model.similarity(A, B), (alone.similarity(A, B) + match) / 2, atol=1e-6)
  assert model.similarity(TEXTS, TEXTS).tolist() == [1.0] * len(TEXTS)
  # encode has the dense characters, 1,024 of them.
  rows, dim = model.encode(A + B), alone.output_dim
  assert rows.shape == (6, dim + 1024) == (6, model.output_dim)
  halves = np.linalg.norm(rows[:, :dim], axis=1), np.linalg.norm(rows[:, dim:], axis=1)
  np.testing.assert_allclose(halves, np.ones((2, 6)), atol=1e-6)
  np.testing.assert_allclose(
    rows[:, :dim] @ rows[0, :dim],
    alone.encode(A + B, normalize_embeddings=True) @ (alone.encode(A[0], normalize_embeddings=True)),
    atol=1e-5,
  )


@pytest.mark.parametrize("name", ["soft-whitening+characters", "characters-64", "flow+characters-8"])
def test_saved_loaded_and_in_a_graph(static, tmp_path, name):
  settings = {"seed": 0, "num_train_epochs": 1} if "flow" in name else {}
  model = SentenceModel(static).fit(TEXTS * 40, name, **settings)
  assert model.calibration_name == name
  model.save(tmp_path)
  loaded = SentenceModel.load(tmp_path, model=static)
  np.testing.assert_array_equal(loaded.encode(TEXTS), model.encode(TEXTS))
  np.testing.assert_array_equal(loaded.similarity(A, B), model.similarity(A, B))
  answer = loaded.as_function()(np.array([text.encode() for text in TEXTS])).numpy()
  np.testing.assert_allclose(answer, model.encode(TEXTS), atol=1e-5 * np.abs(answer).max())


def test_characters_alone_need_no_pass_of_the_encoder(mini, monkeypatch):
  model = SentenceModel(mini).fit([], "characters")  # nor sentences of a fit
  monkeypatch.setattr(model.encoder, "encode", None)
  np.testing.assert_allclose(model.similarity(A, B), string_matches(model.encoder, A, B, 64)["characters"], atol=1e-12)
  assert model.encode(A).shape == (3, 1024) and model.as_function()(np.array([b"a dog"])).shape == (1, 1024)


def test_other_frequencies_are_rejected(tmp_path, model):
  model.save(tmp_path)
  corpus = tmp_path / "corpus.txt"
  corpus.write_text("A man is playing.\n")
  with rejected(EncoderError, "folder"):
    SentenceModel.load(tmp_path, frequency_corpus=str(corpus))


def test_auto_never_compares_views_of_characters(static):
  """Its score is itself close to a string match, and would prefer characters to better embeddings."""
  model = SentenceModel(static).fit(TEXTS * 10, "auto+characters")
  assert not any("characters" in name for name in model.choice.agreement)
  assert model.calibration_name == f"{model.choice.calibration.name}+characters"


@pytest.mark.parametrize("name", ["characters", "whitening+characters"])
def test_vectors_have_no_characters(name):
  with rejected(BertFlowError, "calibration"):
    fit_calibration(np.eye(3), name)


@pytest.mark.parametrize("name", ["roberta", "xlm-roberta", "albert", "mpnet", "modernbert", "deberta-v2"])
def test_pieces_of_other_vocabularies(name):
  """Parts of a word are found in any notation of word pieces."""
  encoder = SentenceEncoder.from_pretrained(str(golden_encoder(name)))
  pairs = [OTHERS[0], OTHERS[0], OTHERS[3]], [OTHERS[1], OTHERS[2], OTHERS[4]]
  matches = string_matches(encoder, *pairs, 64)["characters"]
  assert matches[0] > 0.2 and matches[1] < 0.05 and matches[2] > 0.2


@pytest.mark.parametrize("name", ["roberta", "mpnet"])
def test_pieces_of_other_vocabularies_in_a_graph(name):
  """Their special tokens have other ids than BERT's."""
  model = SentenceModel.from_pretrained(str(golden_encoder(name))).fit([], "characters-64")
  answer = model.as_function()(np.array([text.encode() for text in OTHERS])).numpy()
  np.testing.assert_allclose(answer, model.encode(OTHERS), atol=1e-5)
