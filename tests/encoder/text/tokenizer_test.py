"""Tests of word_piece.py: token ids, also of unusual text."""

import concurrent.futures
import json

import numpy as np
import pytest
import transformers

from bert_flow_tf.encoder.checkpoints.files import lower_case_of_google
from bert_flow_tf.encoder.text import pieces as pieces_lib
from bert_flow_tf.encoder.text.folder import load_tokenizer
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer
from bert_flow_tf.errors import EncoderError
from tests.encoder import tiny
from tests.encoder.text.odd_text import odd_texts
from tests.testing import REPO, edit_json, rejected, shared

pytestmark = pytest.mark.packages

MINI = REPO / "bert_flow_tf" / "encoder" / "pretrained" / "mini"
_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*_SPECIALS, "[", "]", "mask", "sep", "a", "b", "dog", "##s", "Dog", "e", "."]


@pytest.fixture(scope="module")
def mini():
  return load_tokenizer(MINI)


@pytest.fixture
def folder(tmp_path):
  """Returns a function that writes a tiny vocabulary and a tokenizer_config.json, and returns their folder."""

  def make(config=None, pieces=PIECES, name="some"):
    path = tmp_path / name
    path.mkdir()
    (path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    if config is not None:
      (path / "tokenizer_config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return path

  return make


def pieces(tokenizer, sentence, max_seq_length=64):
  (ids,) = tokenizer([sentence], max_seq_length)
  assert ids.dtype == np.int32 and ids.ndim == 1
  return [PIECES[i] for i in ids]


def test_ids(folder):
  tokenizer = load_tokenizer(folder({"do_lower_case": True}))
  assert pieces(tokenizer, "A Dogs.") == ["[CLS]", "a", "dog", "##s", ".", "[SEP]"]
  assert pieces(tokenizer, "b é zebra") == ["[CLS]", "b", "e", "[UNK]", "[SEP]"]
  assert pieces(tokenizer, "a b a b", 4) == ["[CLS]", "a", "b", "[SEP]"]
  assert pieces(tokenizer, "a b a b", 3) == ["[CLS]", "a", "[SEP]"]
  assert pieces(tokenizer, "") == pieces(tokenizer, " \t\n") == ["[CLS]", "[SEP]"]
  assert tokenizer([]) == []
  assert (tokenizer.pad_id, tokenizer.vocab_size) == (0, len(PIECES))


def test_special_tokens_in_the_text_are_text(folder):
  tokenizer = load_tokenizer(folder({}))
  spelled = ["[CLS]", "[", "mask", "]", "a", "[", "sep", "]", "[SEP]"]
  assert pieces(tokenizer, "[MASK] a [SEP]") == spelled
  for token in ("[CLS]", "[PAD]", "[UNK]", "x[MASK]y"):
    assert not set(tokenizer([token])[0][1:-1]) & {0, 2, 3, 4}


@pytest.mark.parametrize(
  ("config", "name", "lower"),
  [
    ({"do_lower_case": True}, "bert-base-cased", True),
    ({"do_lower_case": False}, "bert-base-uncased", False),
    ({}, "bert-base-cased", False),
    ({}, "bert-base-uncased", True),
    (None, "Bert-Base-Cased", False),
    (None, "whatever", True),
  ],
)
def test_lower_case_by_config_else_by_name(folder, config, name, lower):
  tokenizer = load_tokenizer(folder(config, name=name))
  assert tokenizer.do_lower_case is lower
  assert pieces(tokenizer, "Dog")[1:-1] == ["dog" if lower else "Dog"]
  # A model of the hub has a name that is not its folder's.
  assert load_tokenizer(folder(config, name="0123abcd"), name).do_lower_case is lower


def test_checksum_depends_on_vocabulary_and_settings(folder):
  lower = {"do_lower_case": True}
  folders = [folder(lower, name="1"), folder(lower, name="2"), folder({"do_lower_case": False}, name="3")]
  folders.append(folder({"strip_accents": False}, name="4"))
  folders.append(folder(lower, [*PIECES[:-2], *PIECES[:-3:-1]], name="5"))
  first, same, *others = [load_tokenizer(path).checksum for path in folders]
  assert first == same and len({first, *others}) == 4


def test_renamed_special_tokens(folder):
  renamed = [*PIECES[:2], "<s>", *PIECES[3:]]
  tokenizer = load_tokenizer(folder({"cls_token": {"content": "<s>"}}, renamed))
  assert tokenizer(["a"])[0].tolist() == [2, 9, 3]


@pytest.mark.parametrize(
  ("sentence", "like"),
  [
    ("a\0dog", "adog"),
    ("a\x01\x02\x7f\u200b\ufeffb", "ab"),
    ("dog\ud83d", "dog"),
    ("\ude00dog", "dog"),
    ("do\ud83dg", "dog"),
    ("\ud83d\ud83d\ude00 dog", "😀 dog"),
    ("\ude00\ud83d", ""),
    ("a\u2028b\xa0dog", "a b dog"),
  ],
)
def test_invisible_and_broken_characters(mini, sentence, like):
  (ids,), (expected,) = mini([sentence]), mini([like])
  np.testing.assert_array_equal(ids, expected)


@pytest.mark.parametrize("text", ["a" * 10**6, "dog " * 250_000, "é😀" * 500_000, "\0" * 10**6, "e" + "\u0301" * 10**6])
def test_a_million_characters(mini, text):
  (ids,) = mini([text], 64)
  assert 2 <= len(ids) <= 64 and (ids[0], ids[-1]) == tuple(mini([""])[0])


def test_text_that_the_vocabulary_does_not_know(caplog):
  tokenizer = load_tokenizer(MINI)
  tokenizer(["A man eats. \N{SNOWMAN}", "", "dogs " * 20])
  assert not caplog.records
  for _ in range(2):  # one warning a tokenizer
    tokenizer(["我喜欢这部电影。", "A man eats."])
  (record,) = caplog.records
  assert "[UNK]" in record.getMessage()


def test_text_that_is_cut_off(caplog):
  tokenizer = load_tokenizer(MINI)
  tokenizer(["a dog " * 31] * 99 + ["a dog " * 33])  # one of 100 sentences, by few words
  assert not caplog.records
  tokenizer(["a dog " * 62, "a dog"], warn=False)  # texts of the program, before the user's
  assert not caplog.records
  for _ in range(2):  # one warning a tokenizer
    tokenizer(["a dog " * 62, "a dog"])
  (record,) = caplog.records
  assert "49%" in record.getMessage() and "max_seq_length=64" in record.getMessage()


@pytest.mark.parametrize(
  ("config", "vocabulary", "message"),
  [
    ("{", PIECES, "tokenizer_config.json: "),
    ({"do_lower_case": "false"}, PIECES, "do_lower_case"),
    ({"strip_accents": 1}, PIECES, "strip_accents"),
    ({"max_input_chars_per_word": 0}, PIECES, "max_input_chars_per_word"),
    ({"max_input_chars_per_word": "9"}, PIECES, "max_input_chars_per_word"),
    ({"cls_token": 5}, PIECES, "cls_token"),
    ({"cls_token": {"content": []}}, PIECES, "cls_token"),
    ([], PIECES, "tokenizer_config.json: "),
    ({"tokenizer_class": "RobertaTokenizer"}, PIECES, "RobertaTokenizer"),
    ({}, [], r"vocab.txt: .*\[UNK\], \[SEP\]"),
    ({}, [piece for piece in PIECES if piece != "[CLS]"], r"vocab.txt: .*\[CLS\]"),
  ],
)
def test_malformed_files(folder, config, vocabulary, message):
  with pytest.raises(EncoderError, match=message):
    load_tokenizer(folder(config, vocabulary))


def test_tokenizer_json_is_ignored(folder):
  path = folder({"do_lower_case": True})
  reference = load_tokenizer(path)(["A dog " * 50], 64)[0]
  other = transformers.BertTokenizerFast(str(path / "vocab.txt"))
  other.backend_tokenizer.enable_truncation(8)
  other.backend_tokenizer.save(str(path / "tokenizer.json"))
  np.testing.assert_array_equal(load_tokenizer(path)(["A dog " * 50], 64)[0], reference)


def test_same_as_the_slow_python_tokenizer_on_real_sentences():
  """Compares with transformers' slow BertTokenizer, which is based on Google's tokenization.py."""
  folder = shared("models/minilm-l6-mlm")
  rows = shared("data/STS/STSBenchmark/sts-test.csv").read_text(encoding="utf-8").splitlines()
  sentences = [row.split("\t")[5] for row in rows]
  slow = transformers.BertTokenizer(str(folder / "vocab.txt"))
  expected = [slow.encode(sentence, truncation=True, max_length=64) for sentence in sentences]
  assert [ids.tolist() for ids in load_tokenizer(folder)(sentences, 64)] == expected


def cut_whole(texts, max_tokens, **settings):
  """Returns the ids that transformers gives for whole texts."""
  tokenizer = transformers.BertTokenizerFast(str(MINI / "vocab.txt"), split_special_tokens=True, **settings)
  return tokenizer(texts, truncation=True, max_length=max_tokens, return_attention_mask=False)["input_ids"]


@pytest.mark.parametrize(
  "settings", [{}, {"do_lower_case": False}, {"strip_accents": False}, {"tokenize_chinese_chars": False}]
)
def test_words_give_the_ids_of_the_whole_text(settings):
  texts = odd_texts(3000)
  ids = SentenceTokenizer(MINI / "vocab.txt", **settings)(texts, 20)
  assert [row.tolist() for row in ids] == cut_whole(texts, 20, **settings)


def test_words_are_forgotten_when_they_are_too_many(monkeypatch):
  monkeypatch.setattr(pieces_lib, "_CHARACTERS", 5000)
  texts = [f"number {i} of {'x' * i}" for i in range(600)]
  tokenizer = SentenceTokenizer(MINI / "vocab.txt")
  for start in range(0, 600, 50):
    batch = texts[start : start + 50]
    assert [row.tolist() for row in tokenizer(batch)] == cut_whole(batch, 64)
    assert sum(map(len, tokenizer._pieces._known)) <= 5000 + sum(map(len, batch))


def test_several_threads(monkeypatch):
  monkeypatch.setattr(pieces_lib, "_CHARACTERS", 2000)
  texts = odd_texts(1000)
  expected, pieces = cut_whole(texts, 64), SentenceTokenizer(MINI / "vocab.txt")
  with concurrent.futures.ThreadPoolExecutor(4) as threads:
    results = list(threads.map(lambda start: pieces(texts[start : start + 50]), list(range(0, 1000, 50)) * 4))
  assert [row.tolist() for result in results for row in result] == expected * 4


LOWER = [*_SPECIALS, "[unused1]", "[Z]", "dog", "##s", "é"]
MIXED = [*LOWER, "##S"]


@pytest.mark.parametrize(
  ("name", "pieces", "lower"),
  [
    ("uncased_L-12_H-768_A-12", LOWER, True),
    ("cased_L-12_H-768_A-12", MIXED, False),
    ("multi_cased_L-12", LOWER, False),
    ("wwm_Uncased_L-24", MIXED, True),
    ("chinese_L-12", LOWER, True),
    ("whatever", MIXED, False),
  ],
)
def test_folders_of_google_by_name_or_by_pieces(tmp_path, name, pieces, lower):
  folder = tmp_path / "cased" / name  # The parent folder's name is ignored.
  folder.mkdir(parents=True)
  (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
  assert lower_case_of_google(folder / "vocab.txt", None) is lower
  (folder / "bert_config.json").write_text("{}")
  assert load_tokenizer(folder, str(folder)).do_lower_case is lower
  (folder / "tokenizer_config.json").write_text(f'{{"do_lower_case": {str(not lower).lower()}}}')
  assert load_tokenizer(folder, str(folder)).do_lower_case is not lower


def test_a_japanese_tokenizer_is_rejected(tmp_path):
  folder = tiny.save_tiny(tmp_path)
  for name in ("tokenizer_config.json", "config.json"):
    edit_json(folder / name, tokenizer_class="BertJapaneseTokenizer")
    with pytest.raises(EncoderError, match=f"{name}: .*BertJapaneseTokenizer"):
      load_tokenizer(folder)


def test_added_tokens_have_the_rows_of_their_ids(tmp_path):
  """In the order of numbers: 100 is behind 99."""
  pieces = [*tiny.VOCABULARY, *(f"word{number}" for number in range(99 - len(tiny.VOCABULARY)))]
  (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
  added = {"100": {"content": "yak", "lstrip": True}, "99": {"content": "gnu"}}
  tokenizer = SentenceTokenizer(tmp_path / "vocab.txt", added_tokens_decoder=added)
  assert tokenizer(["a gnu yak"])[0].tolist() == [2, 8, 99, 100, 3]
  known = tokenizer.backend.get_added_tokens_decoder()
  assert known[100].lstrip and not known[99].lstrip
  plain = SentenceTokenizer(tmp_path / "vocab.txt", added_tokens_decoder=added | {"100": {"content": "yak"}})
  assert plain.checksum != tokenizer.checksum
  for wrong in ({"101": {"content": "yak"}}, {"99": {"content": "gnu"}, "7": {"content": "yak"}}):
    with rejected(EncoderError, None, match="the next one"):
      SentenceTokenizer(tmp_path / "vocab.txt", added_tokens_decoder=wrong)
