"""Ids of the graph against those of BertTokenizerFast, on real and on unusual text."""

import random

import pytest
import tensorflow as tf

from bert_flow_tf.encoder.graph_tokenizer import GraphTokenizer
from bert_flow_tf.encoder.tokenizer import SentenceTokenizer, repair_surrogates
from tests.encoder import graph_models_test  # skips without tensorflow_text
from tests.encoder.odd_text import odd_texts
from tests.testing import REPO, SHARED, shared

MINI = REPO / "bert_flow_tf" / "encoder" / "pretrained" / "mini"
HOSTILE = [
  "",
  " \t\r\n\x0b\x0c\x85\xa0\u3000",
  "\x00a\x00b",
  "[MASK] [CLS]x[SEP] [PAD][UNK]",
  "ΟΔΟΣ ΣΑΣ Σ",
  "İstanbul I \u0131 ﬁ Ǆ ß ẞ",
  "e\u0301\u0327 \u1e09 \u0344 ﷽",
  "東京タワー 한국어 \uf900 \U0002b820 \U0002b920",
  "a\ufffdb\u200bc\ufeffd\U000e0001e\ue000f",
  "don't—stop… «now» ‽ ⸺ \u166d \U000111c9 $+<=>^`|~",
  " ".join(["x" * 100, "x" * 101, "é" * 100, "é" * 101, "字" * 150, "ж" * 34, "\U0001d4b3" * 100]),
  " ".join(["x" * 200, "x" * 201, "字" * 200]),
  "\ud83d\ude00 \ud83d alone \udc00",
  "👩‍👩‍👧‍👦 👍🏽 🇩🇪",
  "word " * 500,
  "a" * 100_000,
  "字" * 40_000,
  "a😀 " * 40_000,
  "##s ##x # # s",
]


def check(tokenizer, sentences, max_seq_length=64):
  specials = [tokenizer.specials[f"{name}_token"] for name in ("cls", "sep", "pad", "mask")]
  graph_models_test.check(tokenizer.backend, list(map(repair_surrogates, sentences)), max_seq_length, specials)


def vocabulary_of(folder, characters):
  """Writes a vocabulary with each of the characters, so that a difference in normalization changes the ids."""
  pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "", "dog", "dog"]
  pieces += [prefix + character for character in characters for prefix in ("", "##")]
  (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
  return folder / "vocab.txt"


@pytest.mark.parametrize("max_seq_length", [3, 64])
def test_hostile_strings(max_seq_length):
  check(SentenceTokenizer.from_pretrained(MINI), HOSTILE, max_seq_length)


@pytest.mark.parametrize(
  "settings",
  [
    {},
    {"do_lower_case": False},
    {"strip_accents": False, "max_input_chars_per_word": 200},
    {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
  ],
)
def test_random_strings_under_every_setting(tmp_path, settings):
  characters = [chr(code) for code in (*range(0x21, 0x600), *range(0x1E00, 0x2300), *range(0x4E00, 0x4E40))]
  characters += ["ﬁ", "Å", "Σ", "ς", "İ", "한", "\u1112", "東", "\uf900", "👍"]
  tokenizer = SentenceTokenizer(vocabulary_of(tmp_path, characters), **settings)
  rng = random.Random(0)
  # Controls, spaces, marks and ideographs of several blocks; of an old Unicode, Python's or no version punctuation.
  characters += "\t\x00\xad\u200b\u3000\u0301\u0327\u0345\u20d0\ufffd\ue000\U0001d167\U000111c9\U0002a6df\U0003134a"
  check(tokenizer, [*HOSTILE, *odd_texts(1500), *("".join(rng.choices(characters, k=30)) for _ in range(1500))])


@pytest.mark.parametrize("limit", [1, 100, 200])
def test_long_words(tmp_path, limit):
  tokenizer = SentenceTokenizer(vocabulary_of(tmp_path, ["x", "é"]), False, max_input_chars_per_word=limit)
  words = [character * (limit + more) for character in "xé" for more in (-1, 0, 1)]
  check(tokenizer, words, max_seq_length=300)
  assert [row.tolist() == [2, 1, 3] for row in tokenizer(words, 300)] == [False, False, True] * 2


def test_no_sentences():
  tokenizer = SentenceTokenizer.from_pretrained(MINI)
  ids, lengths = GraphTokenizer(tokenizer)(tf.constant([], tf.string))
  assert ids.shape[0] == 0 and lengths.shape == (0,)


def test_renamed_special_tokens(tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("<pad>\n[UNK]\n<s>\n[SEP]\n[MASK]\na\n")
  tokenizer = SentenceTokenizer(path, cls_token="<s>", pad_token="<pad>")
  check(tokenizer, ["a b", "<s> a"])


@pytest.mark.slow
def test_every_sentence_of_shared_data():
  data = shared("data")
  texts = set()
  for path in sorted(data.rglob("*")):
    if path.suffix in (".tsv", ".txt", ".csv"):
      for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        texts.update(line.rstrip("\r").split("\t"))
  assert len(texts) > 100_000
  models = SHARED / "models" / "minilm-l6-mlm"
  check(SentenceTokenizer.from_pretrained(models if models.is_dir() else MINI), sorted(texts))
