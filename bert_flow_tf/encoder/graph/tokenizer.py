"""Tokenizers as TensorFlow graphs, with the same ids as in Python.

WordPiece consists of core operations and two of TF Text that stock servers have: NormalizeUTF8 (NFD) and FastWordpiece.
FastWordpiece's own normalizer and word splitter are off: they fold compatibility characters and split at control
characters, which BertNormalizer does not. Ids may differ for characters whose decomposition or lower case is newer
than the Unicode version of `tokenizers` or of the server's ICU.
"""

import functools
import itertools
import json
import re
import unicodedata
from typing import Any

import tensorflow as tf
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from bert_flow_tf.encoder.graph.models import BytePairs, Unigram
from bert_flow_tf.encoder.graph.normalizers import (
  SEPARATOR,
  NoGraphForm,
  class_of_codes,
  normalizer_of,
  split,
  splitter_of,
)
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer
from bert_flow_tf.errors import ConfigError, EncoderError, install_command
from bert_flow_tf.io.files import Json

# FastWordpiece counts bytes; a character has up to 4 in UTF-8.
_BYTES = 4
_PRIVATE, _PRIVATE_ADDED = 0xF0000, 0x100000
# {binary digit: a byte that UTF-8 does not have}
_BITS = {"0": 0xFD, "1": 0xFE}
# Bytes of a text that are read per token of max_seq_length, or the bytes of the longest word if they are more. Normal
# text needs fewer.
BYTES_PER_TOKEN = 1024
# {setting of a model in tokenizer.json: allowed values}
_SETTINGS = {
  "dropout": (None, 0, 0.0),
  "continuing_subword_prefix": (None, ""),
  "end_of_word_suffix": (None, ""),
  "fuse_unk": (False,),
  "byte_fallback": (False,),
  "ignore_merges": (False,),
}


class GraphTokenizer:
  """Tokenizer inside a graph: [CLS] tokens [SEP], padded on the right to the longest sentence of the batch.

  Bytes that are not UTF-8 are U+FFFD, which BERT drops. The graph reads at most 1,024 bytes per token of
  `max_seq_length`, which bounds the memory of hostile texts.

  Raises:
    NoGraphForm: the tokenizer can only be computed in Python.
  """

  def __init__(self, tokenizer: SentenceTokenizer, max_seq_length: int = 64):
    try:
      import tensorflow_text  # noqa: F401 (an optional package)
    except ImportError as error:
      message = f"text in a graph needs tensorflow-text ({error}): {install_command('serving')}"
      raise ConfigError(message, "tensorflow_text") from error

    self.max_seq_length, self._prompt = int(max_seq_length), tokenizer.prompt
    self.cls_id, self.sep_id, self.pad_id, _ = tokenizer.special_ids
    self._characters_per_token = tokenizer.characters_per_token
    reader = tokenizer.reader
    definition = json.loads(reader.backend.to_str())
    others = [token for token in definition["added_tokens"] if not token["special"]]
    form = WordPiece if definition["model"]["type"] == "WordPiece" else AddedTokens
    if others and not form.has_form(definition, others):
      raise NoGraphForm(f"it has added tokens ({', '.join(token['content'] for token in others[:3])})")
    if form is WordPiece:
      self._model: Any = WordPiece(definition, others)
    else:
      self._model = _Composed(definition, others, reader.byte_ids)

  def __call__(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """UTF-8 texts string [n] -> ids int32 [n, seq_len] and numbers of tokens int32 [n], [CLS] and [SEP] included."""
    max_pieces = self.max_seq_length - 2
    if self._prompt:
      texts = tf.strings.join([self._prompt, texts])
    texts = tf.strings.substr(texts, 0, self._model.bytes_per_token * self.max_seq_length)
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    if self._characters_per_token is not None:
      texts = tf.strings.substr(texts, 0, self._characters_per_token * max_pieces, unit="UTF8_CHAR")
    pieces = self._model(texts, max_pieces)
    lengths = tf.cast(tf.minimum(pieces.row_lengths(), max_pieces), tf.int32) + 2
    ids = tf.pad(pieces.to_tensor(self.pad_id)[:, :max_pieces], [[0, 0], [1, 1]], constant_values=self.pad_id)
    position = tf.range(tf.shape(ids)[1])
    ids = tf.where(position == lengths[:, tf.newaxis] - 1, self.sep_id, ids)
    ids = tf.where(position >= lengths[:, tf.newaxis], self.pad_id, ids)
    return tf.where(position == 0, self.cls_id, ids), lengths


class _Composed:
  """Byte-level BPE or unigram: the steps of the normalizer and the splitter, and the model for distinct words."""

  bytes_per_token = BYTES_PER_TOKEN

  def __init__(self, definition: Json, added_tokens: list[Json], byte_ids: list[int] | None) -> None:
    model = definition["model"]
    kind, splitter = model["type"], definition["pre_tokenizer"] or {}
    for name, allowed in _SETTINGS.items():
      if model.get(name, allowed[0]) not in allowed:
        raise NoGraphForm(f"its {kind} has {name}={model[name]}")
    self._normalize = normalizer_of(definition["normalizer"])
    self._split = splitter_of(splitter)
    if kind == "BPE" and splitter["type"] == "ByteLevel":
      self._pieces: Any = BytePairs(model)
    elif kind == "Unigram" and splitter["type"] != "ByteLevel" and model["unk_id"] is not None:
      self._pieces = Unigram(model, byte_ids)
    else:
      raise NoGraphForm(f"its model is {kind} after {splitter['type']}")
    if added_tokens:
      added = AddedTokens(added_tokens, self._pieces)
      self._split = [added.separate, *self._split]
      self._pieces = added

  def __call__(self, texts: tf.Tensor, max_pieces: int) -> tf.RaggedTensor:
    """Texts string [n] -> ids int32 [n, (pieces)], of the first `max_pieces` words."""
    for step in self._normalize:
      texts = step(texts)
    texts = tf.strings.substr(texts, 0, self._pieces.characters_per_token * (max_pieces + 2), unit="UTF8_CHAR")
    for step in self._split:
      texts = step(texts)
    words = split(texts)[:, :max_pieces]
    distinct, places = tf.unique(words.flat_values)
    pieces = self._pieces(distinct).with_row_splits_dtype(tf.int64)
    return words.with_flat_values(tf.gather(pieces, places)).merge_dims(1, 2)


def _is_plain(token):
  """Returns whether an added token is found wherever it stands, without the space around it."""
  return not (token["lstrip"] or token["rstrip"] or token["single_word"])


def _escaped(text):
  """Returns the regular expression of RE2 for a text."""
  return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


class AddedTokens:
  """Tokens of byte-level BPE that are no pieces, as ModernBERT's runs of blanks: found first, and never split.

  While text is split, each is a word of bytes that UTF-8 does not have, which spell its number.
  """

  def __init__(self, tokens: list[Json], pieces: BytePairs) -> None:
    # The longest come first, as in `tokenizers`.
    tokens = sorted(tokens, key=lambda token: -len(token["content"]))
    codes = [bytes(_BITS[digit] for digit in f"{number:b}") for number in range(len(tokens))]
    self._patterns = [_escaped(token["content"]) for token in tokens]
    self._codes = codes
    ids = tf.constant([token["id"] for token in tokens], tf.int32)
    self._ids = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(codes, ids), -1)
    self._pieces = pieces
    self.characters_per_token = max(pieces.characters_per_token, *(2 * len(token["content"]) for token in tokens))

  @staticmethod
  def has_form(definition: Json, tokens: list[Json]) -> bool:
    """Returns whether the tokens of a byte-level BPE are found in normalized text, wherever they stand."""
    before = definition["pre_tokenizer"] or {}
    if definition["model"]["type"] != "BPE" or before.get("type") != "ByteLevel" or before["add_prefix_space"]:
      return False
    is_normalized = [token["normalized"] or definition["normalizer"] is None for token in tokens]
    return all(map(_is_plain, tokens)) and all(is_normalized)

  def separate(self, texts: tf.Tensor) -> tf.Tensor:
    """Replaces each added token by a separate code word: string [n] -> string [n]."""
    for pattern, code in zip(self._patterns, self._codes, strict=True):
      texts = tf.strings.regex_replace(texts, pattern, SEPARATOR + code + SEPARATOR)
    return texts

  def __call__(self, words: tf.Tensor) -> tf.RaggedTensor:
    """Words string [n] -> ids int32 [n, (pieces)]."""
    ids = self._ids.lookup(words)
    is_added = ids >= 0
    pieces = self._pieces(tf.where(is_added, "", words))
    added = tf.RaggedTensor.from_row_lengths(ids[is_added], tf.cast(is_added, pieces.row_splits.dtype))
    return tf.concat([pieces, added], axis=1)


class WordPiece:
  """Words of BertNormalizer and BertPreTokenizer, and their pieces; added tokens are words of a private character."""

  @staticmethod
  def has_form(definition: Json, tokens: list[Json]) -> bool:
    """Returns whether added tokens are found in normalized text, wherever they stand."""
    return all(_is_plain(token) and token["normalized"] for token in tokens)

  def __init__(self, definition: Json, added_tokens: list[Json]) -> None:
    import tensorflow_text as text

    model, normalizer = definition["model"], definition["normalizer"] or {}
    types = (normalizer.get("type"), (definition["pre_tokenizer"] or {}).get("type"))
    if types != ("BertNormalizer", "BertPreTokenizer") or not normalizer["clean_text"]:
      raise NoGraphForm(f"its WordPiece follows {types[0]} and {types[1]}")
    # BERT drops private characters, so that no text has them. The longest tokens come first, as in `tokenizers`.
    normalize = BertNormalizer(
      normalizer["clean_text"], normalizer["handle_chinese_chars"], normalizer["strip_accents"], normalizer["lowercase"]
    ).normalize_str
    self._added: dict[str, str] = {}
    ids = dict(model["vocab"])
    for number, token in enumerate(sorted(added_tokens, key=lambda token: -len(token["content"]))):
      private = chr(_PRIVATE_ADDED + number)
      self._added[_escaped(normalize(token["content"]))] = private
      ids[private] = token["id"]
    vocabulary = _searchable(ids)
    self._max_characters = model["max_input_chars_per_word"]
    self.bytes_per_token = max(BYTES_PER_TOKEN, _BYTES * self._max_characters)
    self._lower = normalizer["lowercase"]
    self._strip = normalizer["strip_accents"]
    if self._strip is None:
      self._strip = self._lower
    self._ideographs = normalizer["handle_chinese_chars"]
    self._decompose = lambda texts: text.normalize_utf8(texts, "NFD")
    self._unknown = _absent_character(vocabulary)
    try:
      self._wordpiece = text.FastWordpieceTokenizer(
        vocabulary,
        suffix_indicator=model["continuing_subword_prefix"],
        max_bytes_per_word=_BYTES * self._max_characters,
        token_out_type=tf.int32,
        unknown_token=model["unk_token"],
        no_pretokenization=True,
      )
    except Exception as error:  # pybind turns the builder's status into RuntimeError or ValueError
      raise EncoderError(f"TF Text's FastWordpiece cannot search vocab.txt ({error})") from error

  def __call__(self, texts: tf.Tensor, max_pieces: int) -> tf.RaggedTensor:
    """Texts string [n] -> ids int32 [n, (pieces)], of the first `max_pieces` words."""
    # Every word has at least one token, so later words cannot fit. This bounds the work for long texts.
    words = tf.strings.split(self.words(texts))[:, :max_pieces]
    flat = words.flat_values
    long = tf.strings.length(flat, unit="UTF8_CHAR") > self._max_characters
    words = words.with_flat_values(tf.where(long, self._unknown, flat))
    return self._wordpiece.tokenize(words).merge_dims(1, 2)

  def words(self, texts: tf.Tensor) -> tf.Tensor:
    """Normalizes texts and separates their words by spaces: string [n] -> string [n].

    BertNormalizer and BertPreTokenizer have the same steps in the same order.
    """
    texts = _replace(texts, "dropped", "")
    texts = _replace(texts, "space", " ")
    if self._ideographs:
      texts = _replace(texts, "ideograph", r" \0 ")
    if self._strip:
      texts = _replace(self._decompose(texts), "mark", "")
    if self._lower:
      # ICU has a different lower case for the last sigma of a word, and for I in some locales; the tokenizer has not.
      texts = tf.strings.regex_replace(tf.strings.lower(texts), "\u03a3", "\u03c3")
      texts = tf.strings.lower(texts, encoding="utf-8")
    for pattern, private in self._added.items():
      texts = tf.strings.regex_replace(texts, pattern, f" {private} ")
    return _replace(texts, "punctuation", r" \0 ")


def _replace(texts, kind, replacement):
  return tf.strings.regex_replace(texts, f"[{_classes()[kind]}]", replacement)


@functools.cache
def _classes() -> dict[str, str]:
  """Returns {kind: inside of an RE2 class} of the characters that BERT's normalizer and splitter treat alike."""
  normalizer = BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=True, lowercase=False)
  clean = BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
  split_words = BertPreTokenizer().pre_tokenize_str
  # Surrogates are left out, because UTF-8 does not have them, and the planes 3 to 13, which are letters to BERT or
  # empty. A letter joins the characters, so that a single call classifies them all.
  planes = itertools.chain(range(0xD800), range(0xE000, 0x30000), range(0xE0000, 0x110000))
  characters = list(map(chr, planes))
  characters.remove("q")
  results = normalizer.normalize_str("q".join(characters)).split("q")
  codes: dict[str, list[int]] = {}
  for character, result in zip(characters, results, strict=True):
    if not result:
      kind = "mark" if clean.normalize_str(character) else "dropped"
    elif result == " ":
      kind = "space"
    elif result.startswith(" "):
      kind = "ideograph"
    elif unicodedata.category(character)[0] in "PSM" and len(split_words(f"a{character}a")) == 3:
      kind = "punctuation"
    else:
      continue
    codes.setdefault(kind, []).append(ord(character))
  return {kind: class_of_codes(codes_of_kind) for kind, codes_of_kind in codes.items()}


def _searchable(ids: dict[str, int]) -> list[str]:
  """Returns the pieces in the order of their ids, with unique placeholders for "" and for ids that no piece has."""
  # Placeholders are private characters, which are removed from text before the search. If a piece is repeated, its last
  # id is used.
  pieces = [f"{chr(_PRIVATE)}{number}" for number in range(max(ids.values()) + 1)]
  for piece, number in ids.items():
    if piece:
      pieces[number] = piece
  return pieces


def _absent_character(vocabulary: list[str]) -> str:
  """Returns a private character that no piece begins with, so that it becomes [UNK]."""
  first_characters = {piece[0] for piece in vocabulary}
  return next(chr(code) for code in range(_PRIVATE, _PRIVATE_ADDED) if chr(code) not in first_characters)
