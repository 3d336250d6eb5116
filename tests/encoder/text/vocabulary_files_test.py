"""Tests of vocabulary_files.py: checksums that calibrations of release 0.1.0 have, and ids."""

import json
import pickle
import sys

import numpy as np
import pytest

from bert_flow_tf.encoder import user_model
from bert_flow_tf.encoder.text.folder import load_tokenizer
from bert_flow_tf.encoder.text.unread import unread
from bert_flow_tf.encoder.text.word_piece import pad_batch
from bert_flow_tf.errors import EncoderError
from tests.encoder.text.odd_text import odd_texts
from tests.testing import golden_encoder

pytestmark = pytest.mark.packages

SENTENCEPIECE = {"xlm-roberta": "sentencepiece.bpe.model", "albert": "spiece.model", "deberta-v2": "spm.model"}
SENTENCEPIECE["camembert"] = "sentencepiece.bpe.model"
# Every kind of line: an empty and a repeated one, white space that is no line break, and no line break at the end.
ODD_LINES = ["x\u2028y", "\u3000b", "tab\t", "", "the", "\x85", "É", "##É", "last"]
# {encoder: checksum of its tokenizer}, with release 0.1.0 and transformers 4.53.3
CHECKSUMS = {
  "bert": "9ea499b20b8d511f4ab2c64c80e6e94c97185dd970c1344f7974f57540743155",
  "mpnet": "e75f4f9575287cc6ce901f9799dc47179e83bf7c2122de5c16e0f12272d1c6f5",
  "distilbert": "ada45adffe271418f92ce938f58de664707c98db6ac328e9730709941ee35a88",
  "electra": "ada45adffe271418f92ce938f58de664707c98db6ac328e9730709941ee35a88",
  "roberta": "97befe17a4df9be56552f8ae665e1fb8961bc05134e7387ec2d0a0ad0da941f9",
  "xlm-roberta": "b3d730c8c1107aa2bf69026e9aa303134370720a95a076d4e9dddcce19d4affc",
  "albert": "e4652cd753eabbaba3bdc066f8f389d1278c9f70301f4f0b07ccbff31d486847",
}


def model_of(name):
  """Returns the vocabulary in an encoder's tokenizer.json; ELECTRA's for BERT, XLM-R's for CamemBERT."""
  folder = {"bert": "electra", "camembert": "xlm-roberta"}.get(name, name)
  return json.loads((golden_encoder(folder) / "tokenizer.json").read_text())["model"]


def write_folder(folder, added=()):
  """Writes vocabulary files of the encoder that the folder is named after, with lines added to vocab.txt."""
  folder.mkdir(parents=True)
  name, model = folder.name, model_of(folder.name)
  (folder / "config.json").write_text(json.dumps({"model_type": name}))
  if name in SENTENCEPIECE:
    (folder / SENTENCEPIECE[name]).write_bytes(sentencepiece_file(name, model["vocab"]))
  elif name == "roberta":
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]))
  else:
    (folder / "vocab.txt").write_text("\r\n".join([*model["vocab"], *added]), encoding="utf-8", newline="")
  return folder


def sentencepiece_file(name, vocabulary, has_bytes=False):
  """Returns a file of SentencePiece, with a piece that is never cut and two whose score ALBERT's tokenizer lowers."""
  protobuf = pytest.importorskip("transformers.utils.sentencepiece_model_pb2_new")
  model = protobuf.ModelProto()
  model.trainer_spec.model_type = 1
  model.normalizer_spec.escape_whitespaces = model.normalizer_spec.add_dummy_prefix = True
  model.normalizer_spec.remove_extra_whitespaces = True
  specials = {
    "albert": ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"],
    "deberta-v2": ["[PAD]", "[CLS]", "[SEP]", "[UNK]"],
  }.get(name, ["<unk>", "<s>", "</s>"])
  unknown = "[UNK]" if name == "deberta-v2" else "<unk>"
  for piece in specials:
    model.pieces.add(piece=piece, type=2 if piece == unknown else 3)
  for piece, score in vocabulary[5:]:
    model.pieces.add(piece=piece, score=score, type=1)
  for piece in ("7,", "\u25817,"):
    model.pieces.add(piece=piece, score=-5.0, type=1)
  model.pieces.add(piece="<sep>", type=4)
  if has_bytes:
    model.trainer_spec.byte_fallback = True
    for value in range(256):
      model.pieces.add(piece=f"<0x{value:02X}>", type=6)
  model.trainer_spec.unk_id = specials.index(unknown)
  return model.SerializeToString()


@pytest.mark.parametrize("name", CHECKSUMS)
def test_checksums_of_the_first_release(tmp_path, monkeypatch, name):
  folder = write_folder(tmp_path / name, ODD_LINES)
  if name not in SENTENCEPIECE:
    monkeypatch.setitem(sys.modules, "transformers", None)  # so its import is an error
  assert load_tokenizer(folder).checksum == CHECKSUMS[name]


@pytest.mark.parametrize("name", ["mpnet", "distilbert", "electra", "roberta"])
def test_ids_by_tokenizer_json_are_equal(tmp_path, name):
  expected, ours = load_tokenizer(golden_encoder(name)), load_tokenizer(write_folder(tmp_path / name))
  reference = np.load(golden_encoder(name) / "reference.npz")
  ids, _ = pad_batch(ours(reference["sentences"].tolist(), 64), ours.pad_id)
  np.testing.assert_array_equal(ids, reference["ids"])
  texts = odd_texts(300)
  assert [row.tolist() for row in ours(texts)] == [row.tolist() for row in expected(texts)]


@pytest.mark.parametrize("name", SENTENCEPIECE)
def test_ids_of_sentencepiece_are_equal(tmp_path, name):
  """The ids of TensorFlow Text, which runs SentencePiece itself."""
  text = pytest.importorskip("tensorflow_text")
  folder = write_folder(tmp_path / name)
  content = (folder / SENTENCEPIECE[name]).read_bytes()
  sentences = ["a man is playing a guitar", "two dogs run", "well-known", "  spaced   out"]
  theirs = text.SentencepieceTokenizer(content).tokenize(sentences).to_list()
  offset = {"xlm-roberta": 1, "camembert": 4}.get(name, 0)  # as fairseq's special tokens come first
  ids = load_tokenizer(folder)(sentences)
  assert [row[1:-1].tolist() for row in ids] == [[i + offset for i in row] for row in theirs]


SYMBOLS = ["</s> <s> <mask> <pad>", "[CLS] [SEP][MASK]", "a<pad>man", "<unk>", "a <sep> man<sep>man", "<s>NOTUSED"]
UNKNOWN = ["a \u00b5 man", "\u6771\u4eac<sep>\U0001f600\u6771", "<0x41>", "a<0xC2><0xB5>"]


def of_sentencepiece(name, folder, sentences):
  """Returns the ids that SentencePiece itself gives, as part of TensorFlow Text, with the offsets of fairseq."""
  text = pytest.importorskip("tensorflow_text")
  content = (folder / SENTENCEPIECE[name]).read_bytes()
  offset = {"xlm-roberta": 1, "camembert": 4}.get(name, 0)
  rows = text.SentencepieceTokenizer(content).tokenize(sentences).to_list()
  return [[3 if offset and number == 0 else number + offset for number in row] for row in rows]


def in_graph(tokenizer, sentences):
  import tensorflow as tf

  from bert_flow_tf.encoder.graph.tokenizer import GraphTokenizer

  ids, lengths = GraphTokenizer(tokenizer)(tf.constant(sentences))
  return [row[:length].tolist() for row, length in zip(ids.numpy(), lengths.numpy(), strict=True)]


@pytest.mark.parametrize("has_bytes", [False, True])
@pytest.mark.parametrize("name", SENTENCEPIECE)
def test_symbols_in_text_have_the_pieces_of_sentencepiece(tmp_path, name, has_bytes):
  folder = write_folder(tmp_path / name)
  (folder / SENTENCEPIECE[name]).write_bytes(sentencepiece_file(name, model_of(name)["vocab"], has_bytes))
  if name == "albert":  # whose tokenizer lower-cases texts before SentencePiece
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false, "keep_accents": true}')
  texts = [*SYMBOLS, *UNKNOWN, "a man is playing a guitar"]
  expected = of_sentencepiece(name, folder, texts)
  tokenizer = load_tokenizer(folder)
  assert [row[1:-1].tolist() for row in tokenizer(texts)] == expected
  assert tokenizer.pad_id not in np.concatenate(expected)  # which would move the positions of XLM-R
  assert (tokenizer.unknown_id in np.concatenate(expected)) != has_bytes
  again = tmp_path / "again" / name
  again.mkdir(parents=True)
  user_model._write_tokenizer(tokenizer, again)
  (again / "config.json").write_bytes((folder / "config.json").read_bytes())
  for other in (load_tokenizer(again), pickle.loads(pickle.dumps(tokenizer))):
    assert [row[1:-1].tolist() for row in other(texts)] == expected
  assert [row[1:-1] for row in in_graph(tokenizer, texts)] == expected
  rests = unread(tokenizer, ["a \u00b5 man", "a man"], 64, None)
  assert rests == ["", ""] if has_bytes else ["\u00b5", ""]


@pytest.mark.parametrize("name", ["xlm-roberta", "albert", "deberta-v2"])
def test_special_tokens_of_a_tokenizer_json_are_text(name):
  """transformers finds them, also with split_special_tokens, in a unigram vocabulary alone."""
  tokenizer = load_tokenizer(golden_encoder(name))
  specials = sorted(tokenizer.specials.values())
  for text in (" ".join(specials), "a".join(specials), "a<pad>man"):
    assert not {*tokenizer.special_ids}.intersection(tokenizer([text])[0][1:-1].tolist())
  plain = tokenizer.backend
  texts = ["a man is playing a guitar", "  two dogs run ", *odd_texts(200)]
  texts = [text for text in texts if not any(token in text for token in specials)]
  expected = [encoding.ids for encoding in plain.encode_batch(texts, add_special_tokens=False)]
  assert [row[1:-1].tolist() for row in tokenizer(texts, 4000)] == expected


def test_symbols_of_a_damaged_tokenizer_config(tmp_path):
  folder = write_folder(tmp_path / "albert")
  (folder / "tokenizer_config.json").write_text('{"user_defined_symbols": "<sep>"}')
  with pytest.raises(EncoderError, match="user_defined_symbols is '<sep>', expected a list"):
    load_tokenizer(folder)


def add_tokens(folder, *tokens):
  """Writes tokens behind a folder's vocabulary, as transformers 4 does; returns {token: its id}."""
  first = load_tokenizer(folder).vocab_size
  ids = {token: first + number for number, token in enumerate(tokens)}
  (folder / "added_tokens.json").write_text(json.dumps(ids))
  settings = {"lstrip": False, "rstrip": False, "single_word": False}
  decoder = {}
  for token, number in ids.items():
    special = token.startswith("[")
    decoder[str(number)] = {"content": token, "special": special, "normalized": not special, **settings}
  (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": decoder}))
  return ids


ADDED = ("ZyX-omab", "new york", "[E1]")
AROUND = ["zyx-omab", "a ZYX-OMAB, zyx-omabs", "in New York.", "newyork new  york", "[E1] the [E2] [MASK]", "e1 [e1]"]


@pytest.mark.parametrize("name", ["bert", "roberta", "mpnet"])
@pytest.mark.parametrize("has_decoder", [True, False])
def test_added_tokens_have_the_ids_of_transformers(tmp_path, name, has_decoder):
  transformers = pytest.importorskip("transformers")
  folder = write_folder(tmp_path / name)
  before = load_tokenizer(folder)
  ids = add_tokens(folder, *ADDED)
  kinds = {"bert": "BertTokenizerFast", "roberta": "RobertaTokenizerFast", "mpnet": "MPNetTokenizerFast"}
  theirs = getattr(transformers, kinds[name]).from_pretrained(str(folder))
  if not has_decoder:
    (folder / "tokenizer_config.json").unlink()
  tokenizer = load_tokenizer(folder)
  assert before.checksum != tokenizer.checksum and tokenizer.vocab_size == before.vocab_size + 3
  for text in AROUND:
    if has_decoder or "[" not in text:  # the old file does not say which token is special
      expected = theirs(text.replace("[MASK]", "mask"))["input_ids"]
      assert tokenizer([text.replace("[MASK]", "mask")])[0].tolist() == expected, text
  assert ids["[E1]"] in tokenizer(["the[E1]the"])[0] and tokenizer.mask_id not in tokenizer(["[MASK]"])[0]
  again = tmp_path / "again" / name
  again.mkdir(parents=True)
  user_model._write_tokenizer(tokenizer, again)
  (again / "config.json").write_bytes((folder / "config.json").read_bytes())
  assert load_tokenizer(again)(AROUND)[0].tolist() == tokenizer(AROUND)[0].tolist()


def test_added_tokens_in_a_graph(tmp_path):
  tf = pytest.importorskip("tensorflow")
  pytest.importorskip("tensorflow_text")
  from bert_flow_tf.encoder.graph.normalizers import NoGraphForm
  from bert_flow_tf.encoder.graph.tokenizer import GraphTokenizer

  folder = write_folder(tmp_path / "bert")
  add_tokens(folder, *ADDED[:2])
  tokenizer = load_tokenizer(folder)
  texts = [*AROUND, *odd_texts(200), *(f"{text}ZyX-omab{text}" for text in odd_texts(50))]
  ids, lengths = GraphTokenizer(tokenizer)(tf.constant(texts))
  found = [row[:length].tolist() for row, length in zip(ids.numpy(), lengths.numpy(), strict=True)]
  assert found == [row.tolist() for row in tokenizer(texts)]
  other = write_folder(tmp_path / "other" / "bert")
  add_tokens(other, *ADDED)  # [E1] is found in text that is not normalized yet
  with pytest.raises(NoGraphForm):
    GraphTokenizer(load_tokenizer(other))


@pytest.mark.parametrize("added", [{"x": 3}, {"x": "y"}, {"x": 10**6}, {"x": None}])
def test_damaged_added_tokens(tmp_path, added):
  folder = write_folder(tmp_path / "bert")
  (folder / "added_tokens.json").write_text(json.dumps(added))
  with pytest.raises(EncoderError, match="added_tokens"):
    load_tokenizer(folder)


def test_rows_that_nothing_names(tmp_path):
  tokenizer = load_tokenizer(write_folder(tmp_path / "bert"))
  size = tokenizer.vocab_size
  for allowed in (size, -(-size // 8) * 8):
    tokenizer.check_ids(allowed)
  with pytest.raises(EncoderError, match=f"{size} .*{8 * size + 1} word embeddings"):
    tokenizer.check_ids(8 * size + 1)


@pytest.mark.parametrize(
  ("name", "file", "content", "message"),
  [
    ("roberta", "merges.txt", None, r"vocab\.json: .*merges\.txt"),
    ("roberta", "merges.txt", "#version: 0.2\na b c\n", r"vocab\.json: "),
    ("roberta", "vocab.json", "{", r"vocab\.json: "),
    ("roberta", "vocab.json", "[]", r"vocab\.json: "),
    ("electra", "vocab.txt", "", r"vocab\.txt: .*\[UNK\]"),
    ("albert", "spiece.model", "", r"spiece\.model: "),
    ("albert", "spiece.model", "\x0a\xff", r"spiece\.model: "),
  ],
)
def test_damaged_files(tmp_path, name, file, content, message):
  path = write_folder(tmp_path / name) / file
  path.unlink()
  if content is not None:
    path.write_bytes(content.encode("latin-1"))
  with pytest.raises(EncoderError, match=message):
    load_tokenizer(path.parent)
