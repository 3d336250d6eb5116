"""Tokenization: sentences to token ids, by vocab.txt and tokenizer_config.json of a BERT's folder."""

import functools
import hashlib
import io
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tokenizers
from absl import logging

from bert_flow_tf.data.pairs import check_sentences
from bert_flow_tf.encoder.checkpoints.files import (
  CONFIG,
  MAX_INPUT_CHARS_PER_WORD,
  MAX_OF_GOOGLE,
  TOKENIZER_CONFIG,
  TOKENIZERS,
  VOCAB_TXT,
  EncoderFiles,
  log_letter_case,
  lower_case_of_google,
)
from bert_flow_tf.encoder.settings import MAX_CHARS_PER_WORD
from bert_flow_tf.encoder.text.added_tokens import KEY as _ADDED
from bert_flow_tf.encoder.text.added_tokens import add_tokens, read_added_tokens
from bert_flow_tf.encoder.text.keras_hub_text import differing
from bert_flow_tf.encoder.text.pieces import Pieces, WordPieces
from bert_flow_tf.encoder.text.sentence_piece import (
  BYTE_FALLBACK,
  CONTROL,
  EXACT_SCORES,
  USER_DEFINED,
  PieceReader,
  exact_backend,
)
from bert_flow_tf.encoder.text.vocabulary_files import word_piece_backend
from bert_flow_tf.encoder.transformer.architectures import ARCHITECTURES, BERT
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.checks import is_integer, is_text
from bert_flow_tf.io.files import Json

_SWITCHES = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
# Settings of the tokenizers of other encoders.
_OTHER_SWITCHES = ("add_prefix_space", "keep_accents", BYTE_FALLBACK, EXACT_SCORES)
_MAX_CHARS = "max_input_chars_per_word"
SPECIALS = dict(ARCHITECTURES[BERT].specials)
# {key of tokenizer_config.json: (whether a value that is not null is allowed, what is expected)}
_EXPECTED: dict[str, tuple[Callable[[Any], bool], str]] = {
  "tokenizer_class": (lambda value: is_text(value) and value in TOKENIZERS, "BertTokenizer"),
  _MAX_CHARS: (
    lambda value: is_integer(value, 1) and value <= MAX_CHARS_PER_WORD,
    f"an integer from 1 to {MAX_CHARS_PER_WORD}",
  ),
  **dict.fromkeys((*_SWITCHES, *_OTHER_SWITCHES), (lambda value: isinstance(value, bool), "true or false")),
  **dict.fromkeys(
    (CONTROL, USER_DEFINED), (lambda value: isinstance(value, list) and all(map(is_text, value)), "a list of pieces")
  ),
  **dict.fromkeys(SPECIALS, (is_text, "a word piece")),
}
_SURROGATE = re.compile("[\ud800-\udfff]")
# Limits of one call of the tokenizer, whose own records of a million characters take about 100 MB.
_CHUNK_SENTENCES = 1024
_CHUNK_CHARACTERS = 1_000_000
_UNKNOWN_SHARE, _CUT_SHARE = 0.1, 0.01


class SentenceTokenizer:
  """BERT's WordPiece tokenizer for single sentences: [CLS] tokens [SEP]; the base of the tokenizers of other encoders.

  `settings` are do_lower_case, strip_accents (None: if do_lower_case), tokenize_chinese_chars and
  max_input_chars_per_word; `specials` {"cls_token": "[CLS]", ...}; `special_ids` the ids of [CLS], [SEP], [PAD] and
  [MASK]; `backend` is the `tokenizers.Tokenizer` of the folder, `reader` the one for text. `spaced` is True if a word's
  first piece has the space before it, as in byte-level BPE, so that a text's first word can have other pieces. `prompt`
  is text that is put before each sentence.
  """

  spaced = False
  prompt = ""
  # Settings of KerasHub's tokenizer, of whose other tokens a warning tells; empty for other vocabularies.
  keras_hub: Json = {}  # noqa: RUF012 (never changed)
  # Characters of a text that are read per token; None for all.
  characters_per_token: int | None = None
  _names_all_rows = True

  def __init__(
    self,
    vocab_file: str | os.PathLike,
    do_lower_case: bool = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
    max_input_chars_per_word: int = MAX_INPUT_CHARS_PER_WORD,
    added_tokens_decoder: Mapping[str, Mapping[str, Any]] | None = None,
    content: bytes | None = None,
    **specials: str,
  ) -> None:
    """Reads a vocab.txt, unless its content is given; `specials` are special tokens with other names: cls_token="<s>".

    `added_tokens_decoder` has the tokens that are no line of it, as tokenizer_config.json: {id: {"content": ...}}.
    """
    self.settings: Json = {
      "do_lower_case": bool(do_lower_case),
      "strip_accents": strip_accents,
      "tokenize_chinese_chars": tokenize_chinese_chars,
    }
    self.specials = SPECIALS | specials
    self.vocab_file = pathlib.Path(vocab_file)
    try:
      if content is None:
        content = self.vocab_file.read_bytes()
      pieces = _lines(content)
    except (OSError, UnicodeDecodeError) as error:
      raise EncoderError(f"{vocab_file}: cannot be read ({error}); expected one word piece per line") from error
    missing = [token for token in self.specials.values() if token not in pieces]
    if missing:
      raise EncoderError(f"{vocab_file}: no line is {', '.join(missing)}; use the vocab.txt of the model's training")
    self._content = content  # the file may be deleted later
    self.settings[_MAX_CHARS] = max_input_chars_per_word
    backend = word_piece_backend(pieces, self.specials, ARCHITECTURES[BERT])
    backend.model.max_input_chars_per_word = max_input_chars_per_word
    backend.normalizer = tokenizers.normalizers.BertNormalizer(
      lowercase=bool(do_lower_case), strip_accents=strip_accents, handle_chinese_chars=tokenize_chinese_chars
    )
    added = add_tokens(backend, added_tokens_decoder or {}, self.specials, self.vocab_file)
    if added:
      self.settings[_ADDED] = added
    self._use(backend, Pieces if added else WordPieces, PieceReader(backend))

  def _use(self, backend: tokenizers.Tokenizer, pieces: Any, reader: PieceReader) -> None:
    """Makes the attributes that follow from the backend and `specials`; `pieces` is a class like `WordPieces`."""
    self.backend, self.reader = backend, reader
    # "[MASK]" and similar text in a sentence is text ("[", "mask", "]"), as in Google's tokenization.py.
    backend.encode_special_tokens = reader.backend.encode_special_tokens = True
    ids: Json = {name: self.ids.get(token) for name, token in self.specials.items()}
    self.pad_id, self.mask_id, self._unk_id = ids["pad_token"], ids["mask_token"], ids["unk_token"]
    self.special_ids = (ids["cls_token"], ids["sep_token"], self.pad_id, self.mask_id)
    self._pieces = pieces(reader, *self.special_ids[:2])
    self._warned = self._warned_of_cut = False

  def __getstate__(self) -> dict[str, Any]:
    """Returns the state with definitions of the backends, whose own pickles lose digits of scores."""
    definition = self.backend.to_str()
    of_reader = definition if self.reader.backend is self.backend else self.reader.backend.to_str()
    state = {"backend": definition, "reader": (of_reader, *self.reader[1:]), "_pieces": type(self._pieces)}
    return vars(self) | state

  def __setstate__(self, state: dict[str, Any]) -> None:
    """Restores the state; `encode_special_tokens` is in no definition of a backend."""
    vars(self).update(state)
    of_reader, *rest = state["reader"]
    backend = self.backend = exact_backend(state["backend"])
    if of_reader != state["backend"]:
      backend = exact_backend(of_reader)
    self.reader = PieceReader(backend, *rest)
    self.backend.encode_special_tokens = backend.encode_special_tokens = True
    self._pieces = state["_pieces"](self.reader, *self.special_ids[:2])

  @classmethod
  def from_vocab_txt(cls, files: EncoderFiles, name: str | None, overrides: Json) -> "SentenceTokenizer":
    """Loads the tokenizer of a folder with a vocab.txt; for the arguments see `load_tokenizer`."""
    google_vocabulary = overrides.get("vocab_file")
    vocab_name = pathlib.Path(google_vocabulary or VOCAB_TXT).name
    vocab_file, content = files.path(vocab_name), None
    if files.has(vocab_name):
      content = files.content(vocab_name)
    config = check_tokenizer_config(files, TOKENIZER_CONFIG)
    settings = {key: config[key] for key in (*_SWITCHES, _MAX_CHARS, *SPECIALS) if config.get(key) not in (None, "")}
    settings[_ADDED] = read_added_tokens(files)
    for key, value in overrides.items():
      if value is not None and key in _EXPECTED:
        settings[key] = value
    # transformers and Google's code have different defaults for values that the files leave out.
    is_hugging_face = files.has(CONFIG)
    if not is_hugging_face:
      settings.setdefault(_MAX_CHARS, MAX_OF_GOOGLE)
    if "do_lower_case" not in settings:
      if google_vocabulary or (files.has("bert_config.json") and not is_hugging_face):
        settings["do_lower_case"] = lower_case_of_google(vocab_file, content)
      else:
        name = str(name or files.folder.resolve().name).lower()
        settings["do_lower_case"] = "cased" not in name.replace("uncased", "")
        log_letter_case(files.folder, settings["do_lower_case"], f"by the name '{name}'")
    return cls(vocab_file, content=content, **settings)

  @property
  def unknown_id(self) -> int | None:
    """Id of what is in no vocabulary, [UNK]; None if there is no such token."""
    return self._unk_id

  @property
  def do_lower_case(self) -> bool:
    """True if text is lower-cased."""
    return self.settings["do_lower_case"]

  def with_prompt(self, prompt: str) -> "SentenceTokenizer":
    """Returns a tokenizer that puts a prompt before each sentence."""
    tokenizer = object.__new__(type(self))  # on the same backends, which `copy.copy` would read again
    vars(tokenizer).update(vars(self))
    vars(tokenizer).pop("checksum", None)
    tokenizer.prompt = prompt
    return tokenizer

  def __call__(self, sentences: Iterable[str], max_seq_length: int = 64, warn: bool = True) -> list[np.ndarray]:
    """Returns token ids of sentences with [CLS] and [SEP], int32 arrays [seq_len], of at most max_seq_length."""
    sentences = list(map(repair_surrogates, check_sentences(sentences)))
    if self.prompt:
      sentences = [self.prompt + sentence for sentence in sentences]
    if self.characters_per_token is not None:
      limit = self.characters_per_token * (int(max_seq_length) - 2)
      sentences = [sentence[:limit] for sentence in sentences]
    ids, cut = [], 0
    for chunk in text_chunks(sentences):
      ids_of_chunk, cut_of_chunk = self._pieces(chunk, int(max_seq_length) - 2)
      ids += ids_of_chunk
      cut += cut_of_chunk
    if warn and ids:
      self._warn_of_text(ids, cut, max_seq_length)
      self._warn_of_keras_hub(sentences)
    return ids

  def warn_of_text(self, sentences: Sequence[str], max_seq_length: int) -> list[np.ndarray]:
    """Logs the tokenizer's warnings for a sample of cached sentences, and returns the token ids of the sample."""
    return self(sentences[:: 1 + len(sentences) // _CHUNK_SENTENCES], max_seq_length)

  def _warn_of_text(self, ids, cut, max_seq_length):
    """Logs warnings, once each, if more than a tenth of the word pieces are [UNK], or a hundredth is cut off."""
    pieces = sum(map(len, ids)) - 2 * len(ids)
    if cut > _CUT_SHARE * (pieces + cut) and not self._warned_of_cut:
      self._warned_of_cut = True
      share = 100 * cut / (pieces + cut)
      mend = "give a larger max_seq_length, as far as the encoder has positions, or split long texts"
      logging.warning(
        "%.0f%% of the text is beyond max_seq_length=%d tokens and not read; %s", share, max_seq_length, mend
      )
    unknown = 0
    if self._unk_id is not None:
      unknown = int(np.count_nonzero(np.concatenate(ids) == self._unk_id))
    if unknown > _UNKNOWN_SHARE * pieces and not self._warned:
      self._warned = True
      logging.warning(
        "%.0f%% of the word pieces are %s: the encoder's vocabulary does not know this text, and different sentences "
        "can get the same embedding; use an encoder that was trained on text in this language",
        100 * unknown / pieces,
        self.specials["unk_token"],
      )

  def _warn_of_keras_hub(self, sentences):
    """Logs how many sentences have other tokens in KerasHub, if the vocabulary is a preset's."""
    if not self.keras_hub:
      return
    others = differing(self.keras_hub, self, sentences)
    if others:
      logging.warning(
        "KerasHub's tokenizer gives other tokens to %d of %d texts, first %r: it joins words at no-break spaces, "
        "splits them at control characters, and folds compatibility forms; their embeddings are not KerasHub's",
        len(others),
        len(sentences),
        others[0][:60],
      )

  def files(self) -> dict[str, bytes]:
    """Returns {name: content} of the files of its vocabulary in an encoder's folder."""
    return {"vocab.txt": self._content}

  def definition(self, max_seq_length: int, texts: Sequence[str]) -> str | None:
    """Returns a tokenizer.json with which the package tokenizers adds the special tokens, cuts off, and pads batches.

    The prompt is not in it. Text like "[MASK]" is text after `encode_special_tokens = True`, which no file holds.

    Args:
      max_seq_length: largest number of tokens.
      texts: some texts; None is returned if their tokens would be others.
    """
    if self.reader.byte_ids is not None:
      return None
    # The reader of text, which finds no special tokens in it.
    backend = tokenizers.Tokenizer.from_str(self.reader.backend.to_str())
    first, last = (self.specials[name] for name in ("cls_token", "sep_token"))
    backend.post_processor = tokenizers.processors.TemplateProcessing(
      # Lists, as a string would be split at the spaces of a special token.
      single=[f"{first}:0", "$A:0", f"{last}:0"],
      pair=[f"{first}:0", "$A:0", f"{last}:0", "$B:1", f"{last}:1"],
      special_tokens=[(first, self.special_ids[0]), (last, self.special_ids[1])],
    )
    backend.enable_truncation(max_seq_length)
    definition = backend.to_str()
    found = [encoding.ids for encoding in tokenizers.Tokenizer.from_str(definition).encode_batch(list(texts))]
    if found != [ids.tolist() for ids in self.with_prompt("")(texts, max_seq_length, warn=False)]:
      return None
    backend.enable_padding(pad_id=self.pad_id, pad_token=self.specials["pad_token"])
    return backend.to_str()

  def check_ids(self, vocab_size: int) -> None:
    """Raises an EncoderError if a token has no word embedding in a model with `vocab_size` of them."""
    largest = len(self.vocab) - 1
    if largest >= vocab_size:
      raise EncoderError(
        f"{self.vocab_file}: token {self.vocab[largest]!r} has the id {largest}, and the model has {vocab_size} word "
        "embeddings; use the tokenizer of this model"
      )
    # Some models have unused rows up to a multiple of 8, for speed.
    unnamed = vocab_size - self.vocab_size
    if self._names_all_rows and unnamed > 0 and vocab_size % 8:
      raise EncoderError(
        f"{self.vocab_file}: {self.vocab_size} word pieces and added tokens for {vocab_size} word embeddings, and "
        f"nothing names the other {unnamed}; save the tokenizer with which the model was trained into this folder"
      )

  @functools.cached_property
  def ids(self) -> dict[str, int]:
    """{word piece: its id}."""
    return self.backend.get_vocab(with_added_tokens=True)

  @functools.cached_property
  def vocab(self) -> list[str]:
    """Word pieces in the order of their ids; "" for a line of vocab.txt that is repeated later."""
    pieces = [""] * (max(self.ids.values()) + 1)
    for piece, row in self.ids.items():
      pieces[row] = piece
    return pieces

  @property
  def vocab_size(self) -> int:
    """Number of rows that word embeddings need: 1 + the largest id."""
    return len(self.vocab)

  @property
  def words(self) -> list[str]:
    """`vocab` in BERT's notation: "word" for a piece that begins a word, "##ing" for one that continues it."""
    return self.vocab

  @functools.cached_property
  def checksum(self) -> str:
    """SHA-256 of the vocabulary, the settings and the prompt, in hexadecimal."""
    vocabulary = sorted(self.ids.items(), key=lambda item: item[1])
    return self._checksum_of(vocabulary, self.settings, self.specials)

  def _checksum_of(self, *values):
    """Returns the SHA-256 of JSON values and of the prompt, if there is one."""
    if self.prompt:
      values = (*values, self.prompt)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def check_tokenizer_config(files: EncoderFiles, name: str, any_class: bool = False) -> Json:
  """Returns the checked content of a tokenizer_config.json, of BERT's or any class; empty if the file is missing."""
  path, config = files.path(name), dict(files.json(name))
  for key in SPECIALS:
    if isinstance(config.get(key), dict):
      config[key] = config[key].get("content")
  for key, (is_allowed, expected) in _EXPECTED.items():
    value = config.get(key)
    if value is not None and not is_allowed(value) and not (any_class and key == "tokenizer_class"):
      raise EncoderError(f"{path}: {key} is {repr(value)[:60]}, expected {expected}")
  return config


def _lines(content):
  """Returns the lines of a vocabulary."""
  return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8").read().split("\n")


def repair_surrogates(sentence: str) -> str:
  """Returns text with surrogate pairs joined and unpaired surrogates replaced by U+FFFD, which BERT removes."""
  if sentence.isascii() or not _SURROGATE.search(sentence):
    return sentence
  return sentence.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def pad_batch(ids: Sequence[np.ndarray], pad_id: int = 0) -> tuple[np.ndarray, np.ndarray]:
  """Returns ids of arrays [seq_len], padded to the longest, and mask (1 for tokens), int32 [batch, seq_len]."""
  lengths = np.fromiter(map(len, ids), np.int64, len(ids))
  mask = (np.arange(lengths.max()) < lengths[:, np.newaxis]).astype(np.int32)
  padded = np.full(mask.shape, pad_id, np.int32)
  padded[mask == 1] = np.concatenate(ids)
  return padded, mask


def text_chunks(sentences: list[str]) -> Iterator[list[str]]:
  """Yields lists of consecutive sentences with a bounded number and total length."""
  chunk: list[str] = []
  characters = 0
  for sentence in sentences:
    chunk.append(sentence)
    characters += len(sentence)
    if len(chunk) == _CHUNK_SENTENCES or characters >= _CHUNK_CHARACTERS:
      yield chunk
      chunk, characters = [], 0
  if chunk:
    yield chunk
