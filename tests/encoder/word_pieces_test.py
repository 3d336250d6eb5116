"""encoder/tokenizer.py: the ids of whole texts, as transformers cuts them, from those of their words."""

import concurrent.futures
import random
import unicodedata

import pytest
import transformers

from bert_flow_tf.encoder import tokenizer as word_pieces
from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from tests.testing import REPO

VOCABULARY = REPO / "bert_flow_tf" / "encoder" / "pretrained" / "mini" / "vocab.txt"
_CHARACTERS = [chr(code) for code in range(0x30000) if not 0xD800 <= code < 0xE000]
_MARKS = [character for character in _CHARACTERS if unicodedata.combining(character)]
_SPACES = " " * 8 + "\t\n\u00a0\u2003\u3000\u200b\u00ad\u0085\u2028"
_LETTERS = "abcdefABC.,-'[]#éÅßΣσςİ中文가각ﬁ½"


def odd_texts(count):
  """Returns texts of letters, marks and spaces of all kinds, the same ones in each run."""
  choose = random.Random(0)
  kinds = (_SPACES, _LETTERS, _LETTERS, _MARKS, _CHARACTERS)
  return ["".join(choose.choice(choose.choice(kinds)) for _ in range(choose.randrange(40))) for _ in range(count)]


def cut_whole(texts, most, **settings):
  """Returns the ids that transformers gives for whole texts."""
  tokenizer = transformers.BertTokenizerFast(vocab_file=str(VOCABULARY), split_special_tokens=True, **settings)
  return tokenizer(texts, truncation=True, max_length=most, return_attention_mask=False)["input_ids"]


@pytest.mark.parametrize(
  "settings", [{}, {"do_lower_case": False}, {"strip_accents": False}, {"tokenize_chinese_chars": False}]
)
def test_words_give_the_ids_of_the_whole_text(settings):
  texts = odd_texts(3000)
  ids = SentenceTokenizer(VOCABULARY, **settings)(texts, 20)
  assert [row.tolist() for row in ids] == cut_whole(texts, 20, **settings)


def test_words_are_forgotten_when_they_are_too_many(monkeypatch):
  monkeypatch.setattr(word_pieces, "_CHARACTERS", 5000)
  texts = [f"number {i} of {'x' * i}" for i in range(3000)]
  tokenizer = SentenceTokenizer(VOCABULARY)
  for start in range(0, 3000, 200):
    chosen = texts[start : start + 200]
    assert [row.tolist() for row in tokenizer(chosen)] == cut_whole(chosen, 64)
    assert sum(map(len, tokenizer._pieces._known)) <= 5000 + sum(map(len, chosen))


def test_several_threads(monkeypatch):
  monkeypatch.setattr(word_pieces, "_CHARACTERS", 2000)
  texts = odd_texts(1000)
  expected, pieces = cut_whole(texts, 64), SentenceTokenizer(VOCABULARY)
  with concurrent.futures.ThreadPoolExecutor(4) as threads:
    results = list(threads.map(lambda start: pieces(texts[start : start + 50]), list(range(0, 1000, 50)) * 4))
  assert [row.tolist() for result in results for row in result] == expected * 4
