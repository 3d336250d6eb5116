"""Tokenizers of the folders of encoders: tokenizer.json, or the vocabulary files that transformers makes it of."""

import functools
import hashlib
import json
import pathlib
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import tokenizers
import transformers
from transformers.convert_slow_tokenizer import SLOW_TO_FAST_CONVERTERS

from bert_flow_tf.encoder.architectures import ARCHITECTURES, Architecture
from bert_flow_tf.encoder.hugging_face import VOCABULARIES, read_json
from bert_flow_tf.encoder.tokenizer import SPECIALS, SentenceTokenizer, WordPieces, read_tokenizer_config
from bert_flow_tf.errors import ConfigError, EncoderError, one_line
from bert_flow_tf.io.checks import is_integer

WORDPIECE, BYTE_BPE, UNIGRAM = "WordPiece", "byte-level BPE", "unigram"
_SPACE = "\u2581"  # SentencePiece's mark of a word's first piece
# {key of tokenizer_config.json: that of a BertNormalizer}
_NORMALIZER = {
  "do_lower_case": "lowercase",
  "strip_accents": "strip_accents",
  "tokenize_chinese_chars": "handle_chinese_chars",
}
_MOST = "max_input_chars_per_word"
# Special tokens without which no batch can be made.
_NEEDED = ("cls_token", "sep_token", "pad_token")
# Of a Japanese tokenizer's tokenizer_config.json, which its ids depend on.
_OF_WORDS = ("do_lower_case", "word_tokenizer_type", "subword_tokenizer_type", "mecab_kwargs", "sudachi_kwargs")


class FolderTokenizer(SentenceTokenizer):
  """Tokenizer of a folder for single sentences, with its own special tokens: <s> tokens </s>.

  `kind` is `WORDPIECE`, `BYTE_BPE` or `UNIGRAM`; `settings` has do_lower_case, and all of BERT's if the normalizer, the
  splitter of words and the model are BERT's. As for BERT, text like "</s>" in a sentence is text.
  """

  def __init__(self, backend: tokenizers.Tokenizer, specials: dict[str, str], path: pathlib.Path) -> None:
    """Uses a tokenizer that was read from `path`, without its own truncation and padding."""
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    self.vocab_file, self.specials = path, specials
    content = json.loads(backend.to_str())
    normalizer, model = content["normalizer"] or {}, content["model"]
    before = content["pre_tokenizer"] or {}
    self.spaced = "ByteLevel" in json.dumps(before)
    self.kind = WORDPIECE
    if model["type"] != WORDPIECE:
      self.kind = BYTE_BPE if self.spaced else UNIGRAM
    lower = bool(normalizer.get("lowercase")) or '"Lowercase"' in json.dumps(normalizer)
    self.settings: dict[str, Any] = {"do_lower_case": lower}
    if before.get("type") == "ByteLevel":
      self.settings["add_prefix_space"] = before["add_prefix_space"]
    special = set(specials.values())
    others = [token for token in content["added_tokens"] if not token["special"] and token["content"] not in special]
    pieces: Any = Pieces
    if (normalizer.get("type"), before.get("type"), self.kind) == ("BertNormalizer", "BertPreTokenizer", WORDPIECE):
      for name, key in _NORMALIZER.items():
        self.settings[name] = normalizer[key]
      self.settings[_MOST] = model[_MOST]
      if not others:
        pieces = WordPieces
    missing = [specials[key] for key in _NEEDED if backend.token_to_id(specials[key]) is None]
    if missing:
      raise EncoderError(f"{path}: no token is {', '.join(missing)}; use the tokenizer of the model's training")
    self._use(backend, pieces)

  @classmethod
  def of_folder(cls, folder: pathlib.Path, chosen: dict[str, Any]) -> "FolderTokenizer":
    """Loads the tokenizer of a folder with a config.json; `chosen` replaces settings of its files."""
    row = ARCHITECTURES[read_json(folder / "config.json")["model_type"]]
    config = _config(folder)
    path = _find(folder, row)
    try:
      backend = _read(path, row, config)
    except Exception as error:  # tokenizers raises Exception, transformers errors of many classes
      raise EncoderError(f"{path}: cannot be read as a tokenizer ({one_line(error)}); download it again") from error
    specials = {}
    for key, default in row.specials.items():
      specials[key] = config.get(key) or default
    _set_normalizer(backend, config, chosen, path)
    return cls(backend, specials, path)

  def files(self) -> dict[str, bytes]:
    """Returns {name: content} of the files of its vocabulary in an encoder's folder."""
    return {"tokenizer.json": self.backend.to_str(pretty=True).encode()}

  @functools.cached_property
  def words(self) -> list[str]:
    """`vocab` in BERT's notation: "word" for a piece that begins a word, "##ing" for one that continues it."""
    if self.kind == WORDPIECE:
      return self.vocab
    special = set(self.specials.values())
    decoder = tokenizers.decoders.ByteLevel()
    words = []
    for piece in self.vocab:
      if piece in special:
        words.append(piece)
        continue
      text = piece.replace(_SPACE, " ")
      if self.spaced:
        text = decoder.decode([piece])
      if text.startswith(" "):
        words.append(text.strip())
      else:
        words.append(f"##{text}")
    return words

  @functools.cached_property
  def checksum(self) -> str:
    """SHA-256 of the tokenizer and its special tokens, in hexadecimal."""
    content = json.dumps([self.backend.to_str(), self.specials], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


class Pieces:
  """Pieces of texts between the first and the last token; see `WordPieces`."""

  def __init__(self, tokenizer: tokenizers.Tokenizer, cls_id: int, sep_id: int) -> None:
    self._tokenizer, self._cls_id, self._sep_id = tokenizer, cls_id, sep_id

  def __call__(self, texts: Sequence[str], most: int) -> tuple[list[np.ndarray], int]:
    """Returns int32 arrays [seq_len] of at most `most` pieces and the two tokens, and how many pieces are cut off."""
    rows, cut = [], 0
    for ids in self._ids(texts):
      cut += max(len(ids) - most, 0)
      rows.append(np.array([self._cls_id, *ids[:most], self._sep_id], np.int32))
    return rows, cut

  def _ids(self, texts):
    """Returns the ids of all pieces of each text."""
    encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


class JapaneseTokenizer(SentenceTokenizer):
  """Tokenizer of a folder whose tokenizer_class is BertJapaneseTokenizer: words by MeCab, Sudachi or Juman++."""

  def __init__(self, folder: pathlib.Path, chosen: dict[str, Any]) -> None:
    """Loads it; of `chosen`, do_lower_case replaces the files' setting."""
    options = {}
    if chosen.get("do_lower_case") is not None:
      options["do_lower_case"] = chosen["do_lower_case"]
    try:
      words = transformers.BertJapaneseTokenizer.from_pretrained(str(folder), **options)
    except Exception as error:  # of the packages that find words
      mend = "its words need packages: pip install fugashi unidic-lite ipadic, or sudachipy"
      raise EncoderError(f"{folder}: no Japanese tokenizer ({one_line(error)}); {mend}") from error
    if words.subword_tokenizer_type == "sentencepiece":
      raise EncoderError(f"{folder}: subword_tokenizer_type is 'sentencepiece', expected 'wordpiece' or 'character'")
    specials: dict[str, Any] = {name: str(getattr(words, name)) for name in SPECIALS}
    super().__init__(folder / "vocab.txt", words.do_lower_case, **specials)
    self.words_by = words.word_tokenizer_type
    self.settings = {name: getattr(words, name, None) for name in _OF_WORDS}
    self.settings["tokenizer_class"] = type(words).__name__  # for a folder that it is written into
    self._pieces = _JapanesePieces(words, *self.special_ids[:2])


class _JapanesePieces(Pieces):
  def _ids(self, texts):
    tokens = [self._tokenizer.tokenize(text, split_special_tokens=True) for text in texts]
    return map(self._tokenizer.convert_tokens_to_ids, tokens)


def _find(folder, row):
  """Returns the path of the first file that a tokenizer of the architecture reads."""
  readable = row.class_of("{}TokenizerFast").vocab_files_names.values()
  available = [name for name in VOCABULARIES if (folder / name).is_file()]
  for name in available:
    if name in readable:
      return folder / name
  expected = " or ".join(name for name in VOCABULARIES if name in readable)
  raise EncoderError(f"{folder}: {available[0]} is no vocabulary of a {row.name}; expected {expected}")


def _config(folder):
  """Returns tokenizer_config.json over special_tokens_map.json; a special token is a str."""
  names = ("special_tokens_map.json", "tokenizer_config.json")
  first, second = (read_tokenizer_config(folder / name, any_class=True) for name in names)
  return first | second


def _read(path: pathlib.Path, row: Architecture, config: dict[str, Any]) -> tokenizers.Tokenizer:
  """Returns the tokenizer of a file; transformers makes it of other files than tokenizer.json."""
  if path.name == "tokenizer.json":
    return tokenizers.Tokenizer.from_file(str(path))
  options = {}
  for key in (*_NORMALIZER, *row.specials, "add_prefix_space", "keep_accents"):
    if config.get(key) is not None:
      options[key] = config[key]
  if path.suffix == ".model":
    return _of_sentencepiece(path, row, options)
  if path.name == "vocab.json":
    merges = path.with_name("merges.txt")
    if not merges.is_file():
      raise EncoderError(f"no {merges.name} next to it")
    options["merges_file"] = str(merges)
  return row.class_of("{}TokenizerFast")(vocab_file=str(path), **options).backend_tokenizer


def _of_sentencepiece(path, row, options):
  """Returns the tokenizer for a file of SentencePiece; its package is not needed."""
  ids: dict[str, int] = {}
  slow = types.SimpleNamespace(
    vocab_file=str(path),
    do_lower_case=options.get("do_lower_case", True),
    keep_accents=options.get("keep_accents", False),
    convert_tokens_to_ids=lambda token: ids.get(token, 0),
  )
  converter = SLOW_TO_FAST_CONVERTERS[f"{row.name}Tokenizer"](slow)
  # Only the template of two sentences reads the ids of special tokens, which the vocabulary has by now.
  pieces = [piece for piece, _ in converter.vocab(converter.proto)]
  ids |= {piece: row_of for row_of, piece in enumerate(pieces)}
  return converter.converted()


def _set_normalizer(backend, config, chosen, path):
  """Sets the values of the normalizer and the limit of a word that the files or the user give explicitly."""
  is_bert = type(backend.normalizer) is tokenizers.normalizers.BertNormalizer
  for name, key in _NORMALIZER.items():
    value = chosen.get(name)
    if value is not None and not is_bert:
      raise ConfigError(f"{name}={value}: {path} has no BERT normalizer that could use it; leave it out", name)
    if value is None:
      value = config.get(name)
    if value is not None and is_bert:
      setattr(backend.normalizer, key, value)
  if is_integer(chosen.get(_MOST), 1):
    if type(backend.model) is not tokenizers.models.WordPiece:
      raise ConfigError(f"{_MOST}={chosen[_MOST]}: {path} has no WordPiece that could use it; leave it out", _MOST)
    backend.model.max_input_chars_per_word = chosen[_MOST]
  # As in transformers, tokenizer.json alone does not decide it.
  if type(backend.pre_tokenizer) is tokenizers.pre_tokenizers.ByteLevel:
    backend.pre_tokenizer.add_prefix_space = bool(config.get("add_prefix_space"))
