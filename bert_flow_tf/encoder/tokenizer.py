"""Tokenization: sentences to BERT's token ids."""

import functools
import hashlib
import itertools
import json
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tokenizers
import transformers
from absl import logging

from bert_flow_tf.data.pairs import check_sentences
from bert_flow_tf.encoder.tokenizer_settings import MAX_INPUT_CHARS_PER_WORD, SPECIALS, read_settings
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.checks import is_integer

_SURROGATE = re.compile("[\ud800-\udfff]")
# Limits of one call of the tokenizer, whose own records of a million characters take about 100 MB.
_CHUNK_SENTENCES = 1024
_CHUNK_CHARACTERS = 1_000_000
_UNKNOWN_SHARE = 0.1


class SentenceTokenizer:
  """BERT's WordPiece tokenizer for single sentences: [CLS] tokens [SEP].

  Only vocab.txt and tokenizer_config.json are read: a tokenizer.json may have its own truncation and padding.
  "[MASK]", "[SEP]" and similar text in a sentence is tokenized as text ("[", "mask", "]"), as by Google's
  tokenization.py. Unpaired surrogates, which cannot be encoded, become U+FFFD, which BERT's clean-up removes like
  control characters; a pair of surrogates becomes the character that it encodes.

  Attributes:
    do_lower_case: whether text is lower-cased and, unless strip_accents is False, stripped of accents.
    max_input_chars_per_word: largest number of characters of a word that does not become [UNK].
    pad_id: id of [PAD].
    mask_id: id of [MASK].
    special_ids: ids of [CLS], [SEP], [PAD] and [MASK].
    vocab_size: number of word pieces.
  """

  def __init__(
    self,
    vocab_file: str | os.PathLike,
    do_lower_case: bool = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
    max_input_chars_per_word: int = MAX_INPUT_CHARS_PER_WORD,
    **specials: str,
  ) -> None:
    """Reads a vocabulary.

    Args:
      vocab_file: path of vocab.txt.
      do_lower_case: see the attribute.
      strip_accents: whether accents are removed; None to remove them if do_lower_case.
      tokenize_chinese_chars: whether each Chinese character is a word.
      max_input_chars_per_word: largest number of characters of a word that is cut into word pieces; a longer one
        becomes [UNK].
      **specials: special tokens with other names (`cls_token="<s>"`).

    Raises:
      ConfigError: max_input_chars_per_word is not a positive integer.
      EncoderError: vocab.txt cannot be read, or lacks a special token.
    """
    if not is_integer(max_input_chars_per_word, 1):
      argument = "max_input_chars_per_word"
      raise ConfigError(f"{argument}={max_input_chars_per_word}: expected a positive integer", argument)
    specials = {**SPECIALS, **specials}
    try:
      pieces = pathlib.Path(vocab_file).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
      raise EncoderError(f"{vocab_file}: cannot be read ({error}); expected one word piece per line") from error
    missing = [token for token in specials.values() if token not in pieces]
    if missing:
      raise EncoderError(
        f"{vocab_file}: none of the {len(pieces)} lines is {', '.join(missing)}; expected a BERT vocabulary: use the "
        "vocab.txt that the model was trained with"
      )
    self.do_lower_case = bool(do_lower_case)
    self.max_input_chars_per_word = int(max_input_chars_per_word)
    self._settings = [self.do_lower_case, strip_accents, tokenize_chinese_chars, sorted(specials.items())]
    self._tokenizer = transformers.BertTokenizerFast(
      vocab_file=str(vocab_file),
      do_lower_case=self.do_lower_case,
      strip_accents=strip_accents,
      tokenize_chinese_chars=tokenize_chinese_chars,
      split_special_tokens=True,
      **specials,
    )
    self._tokenizer.backend_tokenizer.model.max_input_chars_per_word = self.max_input_chars_per_word
    self.pad_id, self.mask_id = self._tokenizer.pad_token_id, self._tokenizer.mask_token_id
    self.special_ids = (self._tokenizer.cls_token_id, self._tokenizer.sep_token_id, self.pad_id, self.mask_id)
    self._pieces = WordPieces(
      self._tokenizer.backend_tokenizer, self._tokenizer.cls_token_id, self._tokenizer.sep_token_id
    )
    self.vocab_size = len(self._tokenizer)
    self._warned = False

  @classmethod
  def from_pretrained(
    cls, folder: str | os.PathLike, name: str | None = None, max_input_chars_per_word: int | None = None
  ) -> "SentenceTokenizer":
    """Loads the tokenizer of a Hugging Face folder, or of Google's.

    If tokenizer_config.json is missing or has no `do_lower_case`, `guess_lower_case` guesses it.

    Args:
      folder: folder with vocab.txt and, optionally, tokenizer_config.json.
      name: the model's name, if it is not the folder's name, as in a snapshot of the hub.
      max_input_chars_per_word: see the class; None for the one in tokenizer_config.json, else 100 in folders with a
        config.json, as in transformers, and 200 in others, as in Google's code.

    Raises:
      ConfigError: max_input_chars_per_word is not a positive integer.
      EncoderError: a file is missing or damaged, or describes a tokenizer that is not BERT's.
    """
    return cls(pathlib.Path(folder) / "vocab.txt", **read_settings(folder, name, max_input_chars_per_word))

  def __call__(self, sentences: Iterable[str], max_seq_length: int = 64, warn: bool = True) -> list[np.ndarray]:
    """Tokenizes sentences, each separately.

    Args:
      sentences: strings.
      max_seq_length: maximum number of tokens, including [CLS] and [SEP]; longer sentences are truncated.
      warn: whether to log a warning, once, if more than a tenth of the word pieces are [UNK].

    Returns:
      List of int32 arrays of shape [seq_len], 2 <= seq_len <= max_seq_length.

    Raises:
      DataError: an element is not a str.
    """
    sentences = [repair_surrogates(sentence) for sentence in check_sentences(sentences)]
    ids = []
    for chunk in _chunks(sentences):
      ids += self._pieces(chunk, int(max_seq_length) - 2)
    if warn:
      self._warn_of_unknown_text(ids)
    return ids

  def warn_of_unknown_text(self, sentences: Sequence[str]) -> None:
    """Logs the warning of `__call__` for sentences whose embeddings are known, by a sample of them."""
    self(sentences[:: 1 + len(sentences) // _CHUNK_SENTENCES])

  def _warn_of_unknown_text(self, ids):
    """Logs a warning, once, if more than a tenth of the word pieces are [UNK]."""
    pieces = sum(len(row) - 2 for row in ids)
    unknown = int(np.count_nonzero(np.concatenate(ids) == self._tokenizer.unk_token_id)) if ids else 0
    if unknown > _UNKNOWN_SHARE * pieces and not self._warned:
      self._warned = True
      logging.warning(
        "%.0f%% of the word pieces are %s: the encoder's vocabulary does not know this text, and different sentences "
        "can get the same embedding; use an encoder that was trained on such text",
        100 * unknown / pieces,
        self._tokenizer.unk_token,
      )

  def save(self, file: str | os.PathLike) -> None:
    """Writes a tokenizer.json, which the package `tokenizers` reads."""
    self._tokenizer.backend_tokenizer.save(str(file))

  @functools.cached_property
  def vocab(self) -> list[str]:
    """Word pieces in the order of their ids; "" for a line of vocab.txt that is repeated later."""
    pieces = {row: piece for piece, row in self._tokenizer.get_vocab().items()}
    return [pieces.get(row, "") for row in range(max(pieces) + 1)]

  @functools.cached_property
  def checksum(self) -> str:
    """SHA-256 of the vocabulary and the settings, in hexadecimal."""
    vocabulary = sorted(self._tokenizer.get_vocab().items(), key=lambda item: item[1])
    settings, limit = self._settings, self.max_input_chars_per_word
    if limit != MAX_INPUT_CHARS_PER_WORD:  # the only one in older folders, whose checksums stay valid
      settings = [*settings, limit]
    return hashlib.sha256(json.dumps([vocabulary, settings]).encode()).hexdigest()


def repair_surrogates(sentence: str) -> str:
  """Returns text with surrogate pairs joined and unpaired surrogates replaced by U+FFFD."""
  if sentence.isascii() or not _SURROGATE.search(sentence):
    return sentence
  return sentence.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def pad_batch(ids: Sequence[np.ndarray], pad_id: int = 0) -> tuple[np.ndarray, np.ndarray]:
  """Pads token ids to the longest sentence of a batch.

  Args:
    ids: non-empty list of int32 arrays of shape [seq_len], of different lengths.
    pad_id: id of [PAD].

  Returns:
    ids and mask (1 for tokens, 0 for padding), int32 arrays of shape [batch, seq_len].
  """
  lengths = np.array([len(row) for row in ids])
  mask = (np.arange(lengths.max()) < lengths[:, np.newaxis]).astype(np.int32)
  padded = np.full(mask.shape, pad_id, np.int32)
  padded[mask == 1] = np.concatenate(ids)
  return padded, mask


def _chunks(sentences: list[str]) -> Iterator[list[str]]:
  """Yields lists of consecutive sentences with a bounded number and total length."""
  chunk, characters = [], 0
  for sentence in sentences:
    chunk.append(sentence)
    characters += len(sentence)
    if len(chunk) == _CHUNK_SENTENCES or characters >= _CHUNK_CHARACTERS:
      yield chunk
      chunk, characters = [], 0
  if chunk:
    yield chunk


# Total length of the remembered words, of which about 100,000 take 20 MB.
_CHARACTERS = 1_000_000
# Between the words of two texts; a text's own line breaks are spaces to BERT.
_END = "\n"
_SEP, _CLS = -1, -2  # in the place of the ids
# Every punctuation mark is a word; with those that occur most apart, fewer words are distinct.
_MARKS = ".,'\"-"


class WordPieces:
  """Word pieces of texts, between [CLS] and [SEP].

  BERT's normalizer and its splitter treat the text on each side of a space or an ASCII punctuation mark separately. So
  the word pieces of a text are those of its parts, one after the other, and natural text repeats its parts: to look
  them up takes a tenth of the time of cutting them.

  Args:
    tokenizer: a BERT tokenizer that neither truncates nor pads.
    cls_id: id of [CLS].
    sep_id: id of [SEP].
  """

  def __init__(self, tokenizer: tokenizers.Tokenizer, cls_id: int, sep_id: int) -> None:
    self._tokenizer, self._cls_id, self._sep_id = tokenizer, cls_id, sep_id
    self._known: dict[str, list[int]] = {}
    self._size = 0

  def __call__(self, texts: Sequence[str], most: int) -> list[np.ndarray]:
    """Returns [CLS], the ids of the first `most` word pieces, and [SEP] of each text, int32 arrays [seq_len].

    Several threads may call it.
    """
    if not texts:
      return []
    joined = f" {_END} ".join([text.replace(_END, " ") for text in texts])
    for mark in _MARKS:
      joined = joined.replace(mark, f" {mark} ")
    words = joined.split(" ")
    find = self._pieces(words).__getitem__
    numbers = itertools.chain([_CLS], itertools.chain.from_iterable(map(find, words)), [_SEP])
    ids = np.fromiter(numbers, np.int32)
    ends = np.flatnonzero(ids == _SEP) + 1
    lengths = np.diff(ends, prepend=0)
    if lengths.max() > most + 2:
      position = np.arange(len(ids)) - np.repeat(ends - lengths, lengths)
      ids = ids[(position <= most) | (ids == _SEP)]
      lengths = np.minimum(lengths, most + 2)
      ends = np.cumsum(lengths)
    ids[ends - lengths], ids[ends - 1] = self._cls_id, self._sep_id
    return [ids[start:end] for start, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True)]

  def _pieces(self, words):
    """Returns {word: ids of its word pieces}, with the words and possibly others."""
    known = self._known
    if not known or self._size > _CHARACTERS:
      # Another thread may still read the old one.
      self._known = known = {_END: [_SEP, _CLS]}
      self._size = 0
    missing = [word for word in set(words) if word not in known]
    encodings = self._tokenizer.encode_batch_fast(missing, add_special_tokens=False)
    known.update((word, encoding.ids) for word, encoding in zip(missing, encodings, strict=True))
    self._size += sum(map(len, missing))
    return known
