"""Ids of graphs of WordPiece, byte-level BPE and unigram against ids of `tokenizers`, on odd and hostile text."""

import importlib.util
import random
import types

import numpy as np
import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from bert_flow_tf.encoder.text.sentence_piece import PieceReader
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer, repair_surrogates
from tests.encoder.text.odd_text import odd_texts
from tests.testing import golden_encoder

if importlib.util.find_spec("tensorflow_text") is None:
  pytest.skip("tensorflow_text is not installed: pip install '.[serving]'", allow_module_level=True)

import tensorflow as tf

from bert_flow_tf.encoder.graph.normalizers import NoGraphForm
from bert_flow_tf.encoder.graph.tokenizer import GraphTokenizer

pytestmark = pytest.mark.packages

FOLDERS = ["roberta", "xlm-roberta", "albert", "mpnet", "distilbert", "modernbert", "deberta-v2"]
BERT_SPECIALS = ["[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]"]
SPECIALS = ["<s>", "</s>", "<pad>", "<mask>", "<unk>"]
COUNTS = [2000, pytest.param(20_000, marks=pytest.mark.slow)]
ANY_BYTE = pre_tokenizers.ByteLevel.alphabet()
TWO_BLANKS = normalizers.Replace(tokenizers.Regex(" {2,}"), " ")
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


def graph_of(tokenizer, max_seq_length=64, specials=SPECIALS):
  """Returns a function, texts -> (ids, lengths), of a tokenizer of `tokenizers`."""
  special_ids = [tokenizer.token_to_id(token) for token in specials[:4]]
  reader = PieceReader(tokenizer)
  wrapped = types.SimpleNamespace(reader=reader, special_ids=special_ids, prompt="", characters_per_token=None)
  graph = GraphTokenizer(wrapped, max_seq_length)
  return tf.function(graph.__call__, [tf.TensorSpec([None], tf.string)], autograph=False)


def check(tokenizer, texts, max_seq_length=64, specials=SPECIALS):
  """Compares ids with ids of the library; special tokens and truncation are added here."""
  tokenizer.encode_special_tokens = True
  tokenizer.no_truncation()
  tokenizer.no_padding()
  tokenize = graph_of(tokenizer, max_seq_length, specials)
  cls_id, sep_id, pad_id = (tokenizer.token_to_id(token) for token in specials[:3])
  wrong = []
  for start in range(0, len(texts), 2000):
    part = texts[start : start + 2000]
    ids, lengths = tokenize(tf.constant([text.encode() for text in part]))
    encodings = tokenizer.encode_batch_fast(part, add_special_tokens=False)
    for text, row, length, encoding in zip(part, ids.numpy(), lengths.numpy(), encodings, strict=True):
      expected = [cls_id, *encoding.ids[: max_seq_length - 2], sep_id]
      if row[:length].tolist() != expected or np.any(row[length:] != pad_id):
        wrong.append(text)
  assert wrong == []


def trained(model, trainer, normalizer=None, pre_tokenizer=None):
  """Returns a tokenizer of `tokenizers` that was trained on odd text of few letters."""
  tokenizer = tokenizers.Tokenizer(model)
  tokenizer.pre_tokenizer = pre_tokenizer
  texts = ["".join([c for c in text if ord(c) < 0x500 or c in "東京한국어😀"]) for text in odd_texts(1000, seed=1)]
  tokenizer.train_from_iterator(texts, trainer)
  if normalizer is not None:
    tokenizer.normalizer = normalizer
  return tokenizer


def bpe_of(size, alphabet=ANY_BYTE, normalizer=None, unknown=None, **settings):
  """Returns a trained byte-level BPE tokenizer."""
  trainer = trainers.BpeTrainer(
    vocab_size=size, special_tokens=SPECIALS, initial_alphabet=alphabet, limit_alphabet=300, show_progress=False
  )
  if not alphabet:
    trainer.limit_alphabet = 100
  return trained(models.BPE(unk_token=unknown), trainer, normalizer, pre_tokenizers.ByteLevel(**settings))


def unigram_of(size, normalizer=None, pre_tokenizer=None):
  """Returns a trained unigram tokenizer."""
  trainer = trainers.UnigramTrainer(
    vocab_size=size, special_tokens=SPECIALS, unk_token=SPECIALS[-1], show_progress=False, n_sub_iterations=1
  )
  return trained(models.Unigram(), trainer, normalizer, pre_tokenizer or pre_tokenizers.Metaspace())


def charsmap_of(replaced):
  """Returns a precompiled map of SentencePiece: {characters: text} as a Darts trie, 256 units for each prefix."""
  texts, units, nodes = b"", {0: 256 << 10}, {b"": 256}
  for key, text in replaced.items():
    content = key.encode()
    for length, label in enumerate(content, 1):
      place = nodes[content[: length - 1]] ^ label
      node = nodes.setdefault(content[:length], 256 * (len(nodes) + 1))
      units[place] = units.get(place, 0) & 1 << 8 | label | (place ^ node) << 10
    units[place] |= 1 << 8
    units[node] = len(texts)
    texts += text.encode() + b"\0"
  array = np.zeros(256 * (len(nodes) + 1), "<u4")
  array[list(units)] = list(units.values())
  return np.array([array.nbytes], "<u4").tobytes() + array.tobytes() + texts


MAP = charsmap_of(
  {"\n": " ", "\t": " ", "\r": "", "\u3000": " ", "ﬁ": "fi", "™": "TM", "e\u0301": "é", "a\u0308": "ä"}
  | {
    "か\u3099": "が",
    "\u200b": "",
    "\u0340": "\u0300",
    "\u0344": "\u0308\u0301",
    "A\u030a": "Å",
    "½": "1/2",
    "\uff11": "1",
  }
)


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize("name", FOLDERS)
def test_golden_encoders(name, n):
  folder = golden_encoder(name)
  tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
  specials = dict.fromkeys(["distilbert", "modernbert", "deberta-v2"], BERT_SPECIALS)
  specials["albert"] = ["[CLS]", "[SEP]", "<pad>", "[MASK]"]
  check(tokenizer, odd_texts(n), specials=specials.get(name, SPECIALS))


@pytest.mark.parametrize(
  ("settings", "max_seq_length"),
  [
    ({"size": 900, "add_prefix_space": True, "normalizer": normalizers.NFKC()}, 64),
    ({"size": 300, "alphabet": [], "unknown": "<unk>", "add_prefix_space": False}, 16),
    ({"size": 600, "alphabet": [], "add_prefix_space": True, "use_regex": False}, 128),
  ],
)
def test_byte_level_bpe(settings, max_seq_length):
  # Marks and compatibility characters of versions of Unicode that TF Text knows and `tokenizers` may not know.
  newer = "\u07fd\u08d3\u1abf\u1df6\u0c3c\u32ff\ua7f2\U00010781\U000105c9\U00010d24"
  after_marks = [f"a\u0345{character}e\u0301 \u0345{character}" for character in newer]
  check(bpe_of(**settings), [*after_marks, *odd_texts(1000, seed=2)], max_seq_length)


@pytest.mark.parametrize("n", COUNTS)
def test_added_tokens_of_modernbert(n):
  """Runs of blanks and names with bars, as in the published tokenizer."""
  tokenizer = tokenizers.Tokenizer.from_file(str(golden_encoder("modernbert") / "tokenizer.json"))
  blanks = [" " * count for count in range(2, 25)]
  names = ["|||IP_ADDRESS|||", "|||EMAIL_ADDRESS|||", "<|padding|>"]
  tokenizer.add_tokens([tokenizers.AddedToken(token, normalized=True) for token in names + blanks])
  runs = [text.replace(" ", " " * (1 + number % 60)) for number, text in enumerate(odd_texts(n // 4, seed=3))]
  around = [f"{text[:9]}|||IP_ADDRESS|||{text[9:]} <|padding|>" for text in odd_texts(n // 4, seed=4)]
  check(tokenizer, ["  ", "a  b", " " * 60, "x\n   y", *runs, *around, *odd_texts(n // 2)], specials=BERT_SPECIALS)


def test_merges_whose_piece_has_an_older_pair():
  # "abc" is made by two merges, and its pair with "ab" is older than the second.
  merges = [("b", "c"), ("a", "bc"), ("abc", "ab"), ("a", "b"), ("ab", "c"), ("c", "c"), ("cc", "cc")]
  pieces = [*SPECIALS, *sorted(ANY_BYTE), "bc", "abc", "ab", "abcab", "cc", "cccc"]
  model = models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[*merges[1:], merges[0]])
  tokenizer = tokenizers.Tokenizer(model)
  tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  rng = np.random.default_rng(0)
  check(tokenizer, ["".join(rng.choice([*"abc"], rng.integers(1, 30))) for _ in range(1000)])


@pytest.mark.parametrize(
  ("steps", "pre_tokenizer", "max_seq_length"),
  [
    ([normalizers.Precompiled(MAP), normalizers.Strip(left=False), TWO_BLANKS], None, 64),
    ([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Precompiled(MAP)], None, 9),
    ([normalizers.Nmt(), normalizers.NFC()], pre_tokenizers.Metaspace(split=False), 64),
    ([], pre_tokenizers.Metaspace(prepend_scheme="never"), 64),
    (
      [normalizers.Replace("``", '"'), normalizers.NFKC()],
      pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
      64,
    ),
  ],
)
def test_unigram(steps, pre_tokenizer, max_seq_length):
  tokenizer = unigram_of(1400, normalizers.Sequence(steps), pre_tokenizer)
  check(tokenizer, odd_texts(1000, seed=3), max_seq_length)


@pytest.fixture(scope="module")
def byte_pairs_and_unigram():
  """Returns two tokenizers, each with its graph of at most 32 tokens."""
  return [(tokenizer, graph_of(tokenizer, 32)) for tokenizer in (bpe_of(900), unigram_of(1400))]


def test_invalid_utf8(byte_pairs_and_unigram):
  rows = [b"caf\xe9 is \xff\xfe open", b"\xed\xa0\x80 lone", b"\xf0\x9f\x98", b"\xc0\x80\xe2\x28\xa1"]
  for tokenizer, graph in byte_pairs_and_unigram:
    ids, lengths = graph(tf.constant(rows))
    for row, text, length in zip(ids.numpy(), rows, lengths.numpy(), strict=True):
      assert row[1 : length - 1].tolist() == tokenizer.encode(text.decode(errors="replace")).ids


def test_no_texts(byte_pairs_and_unigram):
  for _, graph in byte_pairs_and_unigram:
    ids, lengths = graph(tf.constant([], tf.string))
    assert ids.shape[0] == 0 and lengths.shape == (0,)


def test_a_megabyte(byte_pairs_and_unigram):
  """Only the first 1,024 bytes per token are read, and their ids are right."""
  texts = ["a" * 1_000_000, "ab\u00e9x" * 250_000, "a " * 500_000, "字😀" * 150_000]
  for tokenizer, graph in byte_pairs_and_unigram:
    ids, _ = graph(tf.constant(texts))
    for row, text in zip(ids.numpy(), texts, strict=True):
      read = text.encode()[: 32 * 1024].decode(errors="replace")
      assert row[1:-1].tolist() == tokenizer.encode(read).ids[:30]


def unigram_of_specials(normalizer=None, pre_tokenizer=None):
  """Returns a unigram tokenizer of special tokens alone."""
  tokenizer = tokenizers.Tokenizer(models.Unigram([(token, 0.0) for token in SPECIALS], len(SPECIALS) - 1))
  if normalizer is not None:
    tokenizer.normalizer = normalizer
  tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.Metaspace()
  return tokenizer


def test_no_graph_form():
  added, fallback = bpe_of(600), bpe_of(600)
  added.add_tokens(["new"])
  fallback.model.byte_fallback = True
  without_form = {
    "new": added,
    "byte_fallback": fallback,
    r"\[a-c\]": unigram_of_specials(normalizers.Replace(tokenizers.Regex("[a-c]+"), "")),
    "Whitespace": unigram_of_specials(None, pre_tokenizers.Whitespace()),
    "prepend_scheme=first": unigram_of_specials(None, pre_tokenizers.Metaspace(prepend_scheme="first")),
  }
  for named, tokenizer in without_form.items():
    with pytest.raises(NoGraphForm, match=named):
      graph_of(tokenizer)


def word_pieces_of(folder, characters, **settings):
  """Returns a tokenizer that knows each of the characters, so that a difference in normalization changes the ids."""
  # An empty and a repeated line take part in the numbers.
  pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "", "dog", "dog"]
  pieces += [prefix + character for character in sorted(characters) for prefix in ("", "##")]
  (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
  return SentenceTokenizer(folder / "vocab.txt", **settings).backend


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize("lower", [True, False])
def test_bert_of_other_languages(tmp_path, lower, n):
  """Pieces of one character of many scripts, as Chinese and multilingual BERT have."""
  characters = {
    chr(code) for first, last in ((0x21, 0x700), (0x900, 0xE80), (0x3040, 0x3100)) for code in range(first, last)
  }
  characters |= {chr(code) for code in (*range(0x4E00, 0x9FFF, 3), *range(0xAC00, 0xD7A4, 7))}
  tokenizer = word_pieces_of(tmp_path, characters, do_lower_case=lower, strip_accents=lower)
  check(tokenizer, odd_texts(n, seed=4), specials=BERT_SPECIALS)


@pytest.mark.parametrize(
  "settings",
  [
    {},
    {"do_lower_case": False},
    {"strip_accents": False, "max_input_chars_per_word": 200},
    {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
  ],
)
def test_bert_under_every_setting(tmp_path, settings):
  characters = {chr(code) for code in (*range(0x21, 0x600), *range(0x1E00, 0x2300), *range(0x4E00, 0x4E40))}
  characters |= {"ﬁ", "Å", "Σ", "ς", "İ", "한", "\u1112", "東", "\uf900", "👍"}
  tokenizer = word_pieces_of(tmp_path, characters, **settings)
  # Controls, spaces, marks and ideographs of several blocks; of an old Unicode, Python's or no version punctuation.
  others = "\t\x00\xad\u200b\u3000\u0301\u0327\u0345\u20d0\ufffd\ue000\U0001d167\U000111c9\U0002a6df\U0003134a"
  rng = random.Random(0)
  drawn = ["".join(rng.choices([*sorted(characters), *others], k=30)) for _ in range(700)]
  check(tokenizer, [*map(repair_surrogates, HOSTILE), *odd_texts(700), *drawn], specials=BERT_SPECIALS)
