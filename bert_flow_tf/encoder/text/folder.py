"""Tokenizers of the folders of encoders: tokenizer.json, or vocabulary files."""

import functools
import json
import os
import pathlib
from typing import Any

import tokenizers

from bert_flow_tf.encoder.checkpoints.files import TOKENIZER_CONFIG, VOCABULARIES, EncoderFiles
from bert_flow_tf.encoder.text.added_tokens import add_tokens, read_added_tokens
from bert_flow_tf.encoder.text.pieces import Pieces, WordPieces
from bert_flow_tf.encoder.text.sentence_piece import (
  BYTE_FALLBACK,
  CONTROL,
  EXACT_SCORES,
  USER_DEFINED,
  PieceReader,
  exact_backend,
  unigram_reader,
)
from bert_flow_tf.encoder.text.vocabulary_files import check_backend, read_vocabulary
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer, check_tokenizer_config
from bert_flow_tf.errors import ConfigError, EncoderError, one_line
from bert_flow_tf.io.files import Json

WORDPIECE, BYTE_BPE, UNIGRAM = "WordPiece", "byte-level BPE", "unigram"
_SPACE = "\u2581"  # SentencePiece's mark of a word's first piece
# {key of tokenizer_config.json: key of a BertNormalizer}
_NORMALIZER = {
  "do_lower_case": "lowercase",
  "strip_accents": "strip_accents",
  "tokenize_chinese_chars": "handle_chinese_chars",
}
_MAX_CHARS = "max_input_chars_per_word"
_SPECIALS_MAP = "special_tokens_map.json"
# Special tokens without which no batch can be made.
_NEEDED = ("cls_token", "sep_token", "pad_token")


def load_tokenizer(
  folder: str | os.PathLike | EncoderFiles, name: str | None = None, overrides: Json | None = None
) -> SentenceTokenizer:
  """Returns the tokenizer of an encoder's folder.

  Args:
    folder: the folder or its files.
    name: name of the model, if it is not the folder's, as in a snapshot of the hub; it can decide the letter case.
    overrides: settings in place of the files', if they are not None. `vocab_file` in it has the name of the
      vocabulary in the folder, if that is not vocab.txt.

  Raises:
    EncoderError: a file of the tokenizer is missing or damaged.
  """
  overrides = overrides or {}
  files: Any = folder
  if not isinstance(folder, EncoderFiles):
    files = EncoderFiles(pathlib.Path(folder))
  tokenizer: SentenceTokenizer
  if overrides.get("vocab_file") is None and not files.reads_vocab_txt:
    tokenizer = FolderTokenizer.of_files(files, overrides)
  else:
    tokenizer = SentenceTokenizer.from_vocab_txt(files, name, overrides)
  tokenizer.prompt, tokenizer.keras_hub = overrides.get("prompt") or "", files.keras_hub
  return tokenizer


class FolderTokenizer(SentenceTokenizer):
  """Tokenizer of a folder for single sentences, with its own special tokens: <s> tokens </s>.

  `kind` is `WORDPIECE`, `BYTE_BPE` or `UNIGRAM`; `settings` has do_lower_case, and all of BERT's if the normalizer, the
  splitter of words and the model are BERT's. As for BERT, text like "</s>" in a sentence is text, also where it is a
  piece of the vocabulary. `symbols` are those of `sentence_piece.symbols_of`.
  """

  _names_all_rows = False  # some vocabularies have fewer pieces than the published models have rows

  def __init__(
    self, backend: tokenizers.Tokenizer, specials: dict[str, str], path: pathlib.Path, symbols: Json | None = None
  ) -> None:
    """Uses a tokenizer that was read from `path`, without its own truncation and padding."""
    backend.no_truncation()
    backend.no_padding()
    self.vocab_file, self.specials = path, specials
    content = json.loads(backend.to_str())
    normalizer, model = content["normalizer"] or {}, content["model"]
    before = content["pre_tokenizer"] or {}
    self.spaced = "ByteLevel" in json.dumps(before)
    self.kind = WORDPIECE
    if model["type"] != WORDPIECE:
      self.kind = BYTE_BPE if self.spaced else UNIGRAM
    lower = bool(normalizer.get("lowercase")) or '"Lowercase"' in json.dumps(normalizer)
    self.settings: Json = {"do_lower_case": lower}
    if before.get("type") == "ByteLevel":
      self.settings["add_prefix_space"] = before["add_prefix_space"]
    special = set(specials.values())
    others = [token for token in content["added_tokens"] if not token["special"] and token["content"] not in special]
    pieces: Any = Pieces
    if (normalizer.get("type"), before.get("type"), self.kind) == ("BertNormalizer", "BertPreTokenizer", WORDPIECE):
      for name, key in _NORMALIZER.items():
        self.settings[name] = normalizer[key]
      self.settings[_MAX_CHARS] = model[_MAX_CHARS]
      if not others:
        pieces = WordPieces
    reader = PieceReader(backend)
    if model["type"] == "Unigram":
      symbols = dict(symbols or {})
      control = [piece for piece in symbols.pop(CONTROL, ()) if piece not in special]
      if control:  # besides the special tokens, as in CamemBERT's vocabulary
        symbols[CONTROL] = control
      reader = unigram_reader(backend, content, special, symbols)
      self.settings |= symbols
      self.settings[EXACT_SCORES] = True  # `files` has all digits
    self._use(backend, pieces, reader)
    missing = [specials[key] for key in _NEEDED if specials[key] not in self.ids]
    if missing:
      raise EncoderError(f"{path}: no token is {', '.join(missing)}; use the tokenizer of the model's training")

  @classmethod
  def of_files(cls, files: EncoderFiles, overrides: Json) -> "FolderTokenizer":
    """Loads the tokenizer of a folder with a config.json; `overrides` replaces settings of its files."""
    config = _config(files)
    name = _find(files)
    path = files.path(name)
    try:
      if name == "tokenizer.json":
        # Checksums of folders that were not saved by this program are of the scores as `tokenizers` reads them.
        backend = tokenizers.Tokenizer.from_file(str(path))
        if config.get(EXACT_SCORES):
          backend = exact_backend(path.read_text(encoding="utf-8"))
        symbols = {key: config[key] for key in (CONTROL, USER_DEFINED, BYTE_FALLBACK) if config.get(key)}
      else:
        backend, symbols = read_vocabulary(name, files, config)
      check_backend(backend)
    except Exception as error:  # tokenizers raises Exception, conversions raise errors of many classes
      raise EncoderError(f"{path}: cannot be read as a tokenizer ({one_line(error)}); download it again") from error
    specials = {}
    for key, default in files.tokenizer_architecture.specials.items():
      specials[key] = config.get(key) or default
    if name != "tokenizer.json":  # which has them itself
      add_tokens(backend, read_added_tokens(files), specials, path)
    _set_normalizer(backend, config, overrides, path)
    return cls(backend, specials, path, symbols)

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
    """SHA-256 of the tokenizer, its special tokens and the prompt, in hexadecimal."""
    return self._checksum_of(self.backend.to_str(), self.specials)


def _find(files):
  """Returns the name of the first file that a tokenizer of the architecture reads."""
  readable = files.tokenizer_architecture.vocabularies
  available = [name for name in VOCABULARIES if files.has(name)]
  for name in available:
    if name in readable:
      return name
  expected = " or ".join(name for name in VOCABULARIES if name in readable)
  raise EncoderError(
    f"{files.folder}: {available[0]} is no vocabulary of a {files.architecture.name}; expected {expected}"
  )


def _config(files):
  """Returns tokenizer_config.json over special_tokens_map.json; a special token is a str."""
  first, second = (check_tokenizer_config(files, name, any_class=True) for name in (_SPECIALS_MAP, TOKENIZER_CONFIG))
  return first | second


def _set_normalizer(backend, config, overrides, path):
  """Sets the values of the normalizer and the limit of a word that the files or the user give explicitly."""
  is_bert = type(backend.normalizer) is tokenizers.normalizers.BertNormalizer
  for name, key in _NORMALIZER.items():
    value = overrides.get(name)
    if value is not None and not is_bert:
      raise ConfigError(f"{name}={value}: {path} has no BERT normalizer that could use it; leave it out", name)
    if value is None:
      value = config.get(name)
    if value is not None and is_bert:
      setattr(backend.normalizer, key, value)
  if overrides.get(_MAX_CHARS) is not None:
    if type(backend.model) is not tokenizers.models.WordPiece:
      raise ConfigError(
        f"{_MAX_CHARS}={overrides[_MAX_CHARS]}: {path} has no WordPiece that could use it; leave it out", _MAX_CHARS
      )
    backend.model.max_input_chars_per_word = overrides[_MAX_CHARS]
  # transformers takes add_prefix_space from tokenizer_config.json, not from tokenizer.json.
  if type(backend.pre_tokenizer) is tokenizers.pre_tokenizers.ByteLevel:
    backend.pre_tokenizer.add_prefix_space = bool(config.get("add_prefix_space"))
