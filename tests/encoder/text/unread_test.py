"""What encoders do not read, against their own tokens: it tells texts with equal tokens apart."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.encoder.text.token_weights import TokenWeights
from bert_flow_tf.encoder.text.unread import is_silent
from tests.encoder.other import static_model_test
from tests.encoder.tiny import save_tiny

pytestmark = pytest.mark.packages
BRANDS = ["Case for phone 苹果", "Case for phone 华为"]
KNOWN = ["A man is eating.", "a MAN is  eating", "", " ", "?"]


@pytest.fixture(scope="module")
def static():
  return SentenceModel.from_pretrained("static:mini", token_weights="idf")


@pytest.fixture(scope="module")
def model():
  return SentenceModel.from_pretrained("mini")


def test_unknown_words_are_told_as_they_are_written(model, static):
  for each in (model, static):
    assert each.unread([*BRANDS, "feeling 😀 today", *KNOWN]) == ["苹 果", "华 为", "😀", *[""] * len(KNOWN)]
    assert each.unread([]) == [] and each.knows([]).shape == (0,)
    texts = ["A cat.", "婚礼", "婚礼 cat", "😀", "?", ""]
    assert each.knows(texts).tolist() == [True, False, True, False, True, False]
    assert each.knows(texts[:3]).dtype == bool


def test_the_rest_of_a_text_that_is_cut_off(model):
  short = SentenceModel(model.encoder, max_seq_length=12)
  text = "The parties have read  all of the terms that follow, and agree to be bound by them."
  (rest,) = short.unread([text])
  read = " ".join(text.split()).removesuffix(rest)
  assert rest and len(read) < len(" ".join(text.split()))
  # What is read has all tokens of the cut text.
  np.testing.assert_array_equal(*short.encoder.tokenizer([text, read], 12))
  assert len(short.encoder.tokenizer([read], 64)[0]) == 12
  # A mark behind the last token that is read says nothing.
  assert short.unread([f"{read}.", read]) == ["", ""]
  # A prompt takes tokens, and is no part of a text.
  with_prompt = SentenceModel(model.encoder.with_prompt("query 苹: "), max_seq_length=12)
  (longer,) = with_prompt.unread([text])
  assert longer.endswith(rest) and len(longer) > len(rest) and with_prompt.unread(["A dog"]) == [""]


def test_pieces_without_weight(static, monkeypatch):
  tokenizer, weights = static.encoder.tokenizer, static.encoder.token_weights
  table = weights.table.copy()
  table[tokenizer.ids["dog"]] = 0
  monkeypatch.setattr(weights, "table", table)
  assert static.unread(["A dog runs", "A cat runs", "a DOG."]) == ["dog", "", "DOG"]
  # Without any weight, all pieces are read.
  assert static.unread(["dog", "dog dog!"]) == ["", ""]
  # Punctuation has no weight and says nothing, but for some marks.
  assert static.unread(["No!", "(No) …", "C# code", "5% off", "-5 degrees", "x-5 degrees", "- 5"]) == [
    "",
    "",
    "#",
    "%",
    "-",
    "",
    "",
  ]
  assert [is_silent(mark) for mark in (".", "“", "$", "+", "&", "")] == [True, True, False, False, False, True]
  # Characters read all pieces, but no unknown ones; a transformer does, too.
  with_characters = static.with_calibration(None, characters=16)
  assert with_characters.unread(["A dog runs", "A 😀 runs"]) == ["", "😀"]
  assert not with_characters.knows(["😀"]).any()


def test_hidden_states_read_pieces_without_weight(tmp_path):
  encoder = SentenceEncoder.from_pretrained(save_tiny(tmp_path))
  table = np.ones(encoder.tokenizer.vocab_size)
  table[[encoder.tokenizer.ids["cat"], encoder.tokenizer.ids["##s"]]] = 0
  encoder.token_weights = TokenWeights("idf", table)
  assert encoder.unread(["a cats dog"], "avg") == [""]
  assert encoder.unread(["a cats dog"], "word-rows") == ["cat s"]
  assert encoder.unread(["a cats dog"], "word-rows", reads_all_pieces=True) == [""]


def bpe():
  """Tokenizer of words without a token for unknown letters, which vanish."""
  backend = Tokenizer(models.BPE({word: i for i, word in enumerate("abcdogtruns")} | {"z": 40}, []))
  backend.pre_tokenizer = pre_tokenizers.Whitespace()
  return backend


def test_tokenizers_of_folders(tmp_path):
  for name, backend in {"unigram": static_model_test.unigram(), "levels": static_model_test.word_level()}.items():
    static_model_test.save(tmp_path / name, backend=backend)
    model = SentenceModel.from_pretrained(f"static:{tmp_path / name}")
    assert model.unread(["a dog runs", "a 象 runs", "a 鼠 runs"]) == ["", "象", "鼠"], name
    assert model.knows(["a dog", "象"]).tolist() == [True, False]
  vocabulary = bpe().get_vocab_size()
  rows = np.ones([max(bpe().get_vocab().values()) + 1, 4], np.float32)
  assert vocabulary < len(rows)
  try:
    static_model_test.save(tmp_path / "bpe", {"embeddings": rows}, bpe())
    model = SentenceModel.from_pretrained(f"static:{tmp_path / 'bpe'}")
  except Exception as error:  # some versions of tokenizers fail on unknown letters
    pytest.skip(str(error))
  assert model.unread(["a dog", "a 象 dog", "鼠 a dog"]) == ["", "象", "鼠"] and model.knows(["a", "象"]).all()


def test_a_limit_of_characters(tmp_path):
  static_model_test.save(tmp_path / "model", max_length=2)
  model = SentenceModel.from_pretrained(f"static:{tmp_path / 'model'}")
  limit = model.encoder.tokenizer.characters_per_token * 2
  assert model.unread([("a " * 9)[:limit] + "dog", "a"])[0].endswith("dog")


def test_word_vectors(tmp_path):
  path = tmp_path / "vectors.txt"
  path.write_text("a 1 2\ndog 3 4\n", encoding="utf-8")
  model = SentenceModel.from_pretrained(f"glove:{path}", max_seq_length=3)
  assert model.unread(["a dog.", "a zebra, dog", "a dog a end"]) == ["", "zebra dog", "end"]
  assert model.knows(["a dog", "zebra", ""]).tolist() == [True, False, False]
