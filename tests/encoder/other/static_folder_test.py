"""static_folder.py: a tokenizer.json of the tokens that text can have, against the tokenizer that it is of."""

import json

import numpy as np
import pytest
import tokenizers
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, trainers

from bert_flow_tf.encoder.other.static_folder import StaticTable as Table
from bert_flow_tf.encoder.other.static_folder import describe_table, text_tokenizer, write_static_model
from bert_flow_tf.encoder.text.folder import FolderTokenizer, load_tokenizer
from bert_flow_tf.errors import ConfigError
from tests.encoder import tiny
from tests.encoder.text import vocabulary_files_test as vocabularies
from tests.encoder.text.odd_text import odd_texts
from tests.testing import golden_encoder, rejected

pytestmark = pytest.mark.packages

ANGLES = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>", "unk_token": "<unk>"}
GOLDEN = ["distilbert", "mpnet", "roberta", "modernbert", "xlm-roberta", "albert", "deberta-v2"]
TEXTS = [
  "",
  " \t\r\n\u3000",
  "a dog\x00 runs\x85",
  "[CLS] a dog[SEP] [PAD][UNK] [MASK]",
  "</s> <s>a<unk> <pad><mask> cat",
  "[unused1] a [unused7]",
  "|||tag||| dogs  |||tag|||a",
  "?! ... --",
  "x" * 300,
  "a dog " * 1000,
  "東京 zebra \U0001f600é",
  *odd_texts(200),
]


def word_pieces(folder):
  tiny.save_tiny(folder)
  vocabulary = ["[unused1]", *tiny.VOCABULARY[:4], "[unused7]", *tiny.VOCABULARY[4:], "runs", "t", "##ag", "|"]
  (folder / "vocab.txt").write_text("\n".join(vocabulary))
  added = {str(len(vocabulary)): {"content": "|||tag|||"}}
  (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
  return load_tokenizer(folder)


def byte_pairs(folder):
  backend = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
  backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  alphabet = pre_tokenizers.ByteLevel.alphabet()
  special = [*ANGLES.values(), "[unused1]"]
  trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
  backend.train_from_iterator(["a dog runs", "dogs and a cat run", *odd_texts(50)], trainer)
  backend.add_tokens([AddedToken("|||tag|||", normalized=False), AddedToken("[unused7]", special=False)])
  return FolderTokenizer(backend, ANGLES, folder)


def unigram(folder, has_bytes=False):
  pieces = [(token, 0.0) for token in [*ANGLES.values(), "<sep>"]]
  pieces += [(piece, -2.0) for piece in ("▁a", "▁dog", "▁", "s", "▁<", ">", "d", "o", "g", "▁run")]
  if has_bytes:
    pieces += [(f"<0x{value:02X}>", 0.0) for value in range(256)]
  backend = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=4))
  backend.normalizer, backend.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
  backend.add_special_tokens(["<mask>"])
  backend.add_tokens(["|||tag|||"])
  symbols = {"user_defined_symbols": ["<sep>"], "byte_fallback": has_bytes}
  return FolderTokenizer(backend, ANGLES, folder, symbols)


def bytes_of_unigram(folder):
  return unigram(folder, has_bytes=True)


def check(tokenizer, texts=TEXTS):
  """Asserts that `tokenizers` reads text by the tokenizer.json as `tokenizer`; returns its tokens."""
  definition, rows = text_tokenizer(tokenizer)
  backend = tokenizers.Tokenizer.from_str(json.dumps(definition, ensure_ascii=False))
  ids = backend.get_vocab()
  assert sorted(ids.values()) == list(range(len(rows))) and len(set(rows)) == len(rows)
  expected = [row[1:-1].tolist() for row in tokenizer(texts, 10_000)]
  found = [rows[np.array(encoding.ids, int)].tolist() for encoding in backend.encode_batch(texts)]
  assert [text for text, *pair in zip(texts, expected, found, strict=True) if pair[0] != pair[1]] == []
  return set(ids)


@pytest.mark.parametrize("make", [word_pieces, byte_pairs, unigram, bytes_of_unigram])
def test_text_has_the_same_tokens_without_special_ones(tmp_path, make):
  tokenizer = make(tmp_path)
  texts = TEXTS
  if make is byte_pairs:  # whose [unused7] was found in text, and stands for nothing
    texts = [text for text in TEXTS if "[unused7]" not in text]
  tokens = check(tokenizer, texts)
  assert "|||tag|||" in tokens and not {"[unused1]", "[unused7]"} & tokens
  specials = {*tokenizer.specials.values()} - {tokenizer.specials["unk_token"]}
  assert not specials & tokens


def test_a_first_word_has_the_space_that_it_has_elsewhere(tmp_path):
  definition, _ = text_tokenizer(byte_pairs(tmp_path), spaced=True)
  backend = tokenizers.Tokenizer.from_str(json.dumps(definition))
  assert backend.encode("dog").ids == backend.encode(" dog").ids


@pytest.mark.parametrize("name", GOLDEN)
def test_tokenizers_of_real_encoders(name):
  tokens = check(load_tokenizer(golden_encoder(name)), [*TEXTS, *odd_texts(1000, seed=1)])
  assert len(tokens) > 1000


@pytest.mark.parametrize("name", ["bert", "camembert", *vocabularies.SENTENCEPIECE])
def test_vocabulary_files(tmp_path, name):
  check(load_tokenizer(vocabularies.write_folder(tmp_path / name)), [*TEXTS, *vocabularies.SYMBOLS])


def test_words_that_are_special_tokens_stay(tmp_path):
  """A vocabulary of words finds its special tokens in text, as its own program does."""
  backend = tokenizers.Tokenizer(models.WordLevel({"[UNK]": 0, "<s>": 1, "</s>": 2, "dog": 3}, unk_token="[UNK]"))
  backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
  specials = {**ANGLES, "pad_token": "<s>", "mask_token": "<s>", "unk_token": "[UNK]"}
  assert "<s>" in check(FolderTokenizer(backend, specials, tmp_path), ["<s> dog", "cat </s> <s>", "[UNK]"])


def table(rows, **values):
  backend = tokenizers.Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
  return Table(np.asarray(rows), json.loads(backend.to_str()), **values)


def test_numbers_that_a_type_does_not_have(tmp_path):
  rows = table([[0, 0], [1e5, 1], [1, 1]])
  with rejected(ConfigError, "dtype", match="1e.05"):
    write_static_model(tmp_path / "out", rows, "float16", "", "x")
  assert not list(tmp_path.iterdir())
  write_static_model(tmp_path / "out", rows, "int8", "", "x")
  assert describe_table(tmp_path / "out").startswith(f"{tmp_path / 'out'}: 3 tokens, 2 dimensions, int8, ")


def test_a_limit_of_tokens_is_in_both_files(tmp_path):
  write_static_model(tmp_path / "out", table(np.ones([3, 2]), max_length=7), "float32", "", "x")
  assert json.loads((tmp_path / "out/config.json").read_text())["max_length"] == 7
  assert tokenizers.Tokenizer.from_file(str(tmp_path / "out/tokenizer.json")).truncation["max_length"] == 7
