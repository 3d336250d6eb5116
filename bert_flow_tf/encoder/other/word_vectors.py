"""Word vectors of a file and averages of them, without TensorFlow."""

import functools
import hashlib
import os
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.data.files.source import carriage_return
from bert_flow_tf.encoder.kinds import WORD_VECTORS
from bert_flow_tf.encoder.pooling import Pooling
from bert_flow_tf.encoder.text.unread import is_silent
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.files import check_path
from bert_flow_tf.progress import Progress

AVERAGE = Pooling("avg", "words", (), 0)

# First line of a text file of word2vec: the numbers of words and of dimensions.
_HEADER = re.compile(rb"\d+ \d+")
# First line of a file of floret: buckets, dimensions, lengths of pieces, hashes, seed, and marks of a word's ends.
_FLORET = re.compile(rb"\d+ \d+ \d+ \d+ \d+ \d+ \S+ \S+")
_SQLITE = b"SQLite format 3\0"
_TEXT_OF_WORD2VEC = "KeyedVectors.load_word2vec_format(FILE, binary=True).save_word2vec_format(OUTPUT, binary=False)"
_REPORT = 5000  # lines between two reports of progress


class WordVectors:
  """Word vectors of a file, and averages of them.

  `vectors` are float32 [words, dim]; `weights_checksum` is the checksum of the text, whichever words are wanted.
  """

  def __init__(self, vectors: np.ndarray, rows: Mapping[bytes, int], name: str, weights_checksum: str) -> None:
    """Stores the content of a file: `rows` is {word in UTF-8: row}."""
    self.vectors = vectors
    self.name = name
    self.weights_checksum = weights_checksum
    self._rows = rows

  @classmethod
  def from_file(
    cls, path: str | os.PathLike, wanted: Collection[str] | None = None, show_progress: bool | None = None
  ) -> "WordVectors":
    """Reads `wanted` words, or all, of a text file of GloVe or word2vec."""
    # The last fields of a line are the vector, as many as the first line has. The rest is the word: some words of GloVe
    # 840B contain spaces. If a word is repeated, its first vector is used.
    wanted_bytes = None
    if wanted is not None:
      wanted_bytes = frozenset(map(_utf8, wanted))
    path = os.fspath(path)
    rows, vectors, checksum = _read(path, wanted_bytes, show_progress is not False)
    logging.info("%s: %d word vectors of %d dimensions read", path, *vectors.shape)
    return cls(vectors, rows, f"{WORD_VECTORS.prefix}{path}", checksum)

  def encode(self, sentences: Sequence[str], max_seq_length: int | None = None) -> np.ndarray:
    """Returns averages of the vectors of each sentence's first words, float32 [n, dim]; zeros without a known word."""
    # A word is looked up in lower case, then as it is written; words without a vector do not count.
    embeddings = np.zeros([len(sentences), self.vectors.shape[1]], np.float32)
    # Sentences without a known word stay zero, and are logged together.
    unknown = []
    for position, (rows, _) in enumerate(self.split(sentences, max_seq_length)):
      if rows:
        embeddings[position] = self.vectors[rows].mean(axis=0, dtype=np.float64)
      else:
        unknown.append(sentences[position])
    if unknown:
      counts = f"{len(unknown)} of {len(sentences)} sentences"
      logging.warning("%s: %s have no word with a vector and are zero, first %r", self.name, counts, unknown[0][:60])
    return embeddings

  def split(self, sentences: Sequence[str], max_seq_length: int | None) -> Iterator[tuple[list[int], list[str]]]:
    """Yields the rows of each sentence's first words, and its unknown and cut-off words, without punctuation."""
    for sentence in sentences:
      rows, others = [], []
      words = split_words(sentence)
      for word in words[:max_seq_length]:
        row = self._rows.get(_utf8(word.lower()), self._rows.get(_utf8(word)))
        if row is not None:
          rows.append(row)
        else:
          others.append(word)
      others += words[len(words[:max_seq_length]) :]
      yield rows, [word for word in others if not is_silent(word)]


def split_words(sentence: str) -> list[str]:
  """Returns the words of a sentence by BERT's basic tokenization, without its lower-casing and stripping of accents."""
  return "".join(map(_spaced, unicodedata.normalize("NFC", sentence))).split()


def wanted_words(sentences: Collection[str]) -> set[str]:
  """Returns every word that `encode` looks up for the sentences, as written and in lower case."""
  # Capitals can matter: "May" is looked up as "may" first, then as it is written.
  written = {word for sentence in sentences for word in split_words(sentence)}
  return written | {word.lower() for word in written}


@functools.cache
def _spaced(character):
  """Returns a character with the spaces that separate it from its neighbors."""
  category = unicodedata.category(character)
  if character.isspace():
    return " "
  if category in ("Cc", "Cf"):
    return ""
  if category[0] in "PS" or unicodedata.name(character, "").startswith("CJK UNIFIED IDEOGRAPH"):
    return f" {character} "
  return character


def _utf8(word):
  """Returns the bytes of a word in a file."""
  return word.encode("utf-8", "surrogatepass")


def _read(path: str, wanted: frozenset[bytes] | None, show: bool) -> tuple[dict[bytes, int], np.ndarray, str]:
  """Returns {word in UTF-8: row}, vectors float32 [words, dim], and the SHA-256 of the text."""
  digest = hashlib.sha256()
  rows: dict[bytes, int] = {}
  numbers = bytearray()
  dim = count = 0
  expected = None  # number of words, by the first line
  for number, line in _lines(path, digest, show):
    if number == 1 and _HEADER.fullmatch(line):
      expected, dim = map(int, line.split())
      continue
    if dim and not line:
      continue
    count += 1
    # Most lines of a large file are not wanted, so their numbers are not parsed.
    if dim and line.count(b" ") >= dim and wanted is not None and line.partition(b" ")[0] not in wanted:
      continue
    dim = dim or line.count(b" ")
    word, *fields = line.rsplit(b" ", max(dim, 1))
    vector = _numbers(fields)
    if dim < 2 or vector is None or len(vector) != dim or not np.isfinite(vector).all():
      _check_kind(path, line if number == 1 else b"", expected is not None, line)
      if b"\r" in line:
        raise EncoderError(f"{path}, line {number}: {carriage_return()}")
      raise EncoderError(
        f"{path}, line {number}: expected a word and {dim or 'its'} finite numbers, separated by single spaces, "
        f"got {line[:40].decode('utf-8', 'replace')!r}...; use a text file of GloVe or word2vec, not binary or packed"
      )
    if wanted is not None and word not in wanted:
      continue
    if word not in rows:
      rows[word] = len(rows)
      numbers += vector.tobytes()
  if not count:
    raise EncoderError(f"{path}: no word vectors, expected lines of a word and its numbers; copy the whole file")
  if expected not in (None, count):
    message = "%s: its first line tells of %d words, and the file has %d; copy the whole file, or correct the line"
    logging.warning(message, path, expected, count)
  return rows, np.frombuffer(numbers, np.float32).reshape(-1, dim), digest.hexdigest()


def _check_kind(path: str, first: bytes, has_header: bool, line: bytes) -> None:
  """Raises an EncoderError for a file of Magnitude, floret or word2vec's binary form, by a line that is no vector.

  `first`: the line if it is the first one, else empty. `has_header`: whether the first line has word2vec's counts.
  """
  if first.startswith(_SQLITE):
    found = "is a database of SQLite, as a .magnitude file of pymagnitude is"
    mend = "convert the vectors that it was made of, or write each of its keys with its vector as a line"
  elif _FLORET.fullmatch(first):
    found = "is a file of floret, whose rows are hashed pieces of words, and not words"
    mend = "write the vector of each word that you need, as floret print-word-vectors MODEL < WORDS does"
  elif has_header and _is_binary(line):
    found, mend = "is a binary file of word2vec", f"gensim writes it as text: {_TEXT_OF_WORD2VEC}"
  else:
    return
  raise EncoderError(f"{path}: {found}; expected a text file of GloVe or word2vec; {mend}")


def _is_binary(line):
  """Returns whether a line is no text in UTF-8, or has other control characters than a tab and a carriage return."""
  try:
    text = line.decode("utf-8")
  except UnicodeDecodeError:
    return True
  return any(character < " " and character not in "\t\r" for character in text)


def _lines(path: str, digest: Any, show: bool) -> Iterator[tuple[int, bytes]]:
  """Yields (number from 1, line without its end)."""
  check_path(path, "model")
  try:
    with open(path, "rb") as file, Progress(os.path.getsize(path), show, "reading word vectors", "byte") as progress:
      done = 0
      for number, line in enumerate(file, start=1):
        digest.update(line)
        if number % _REPORT == 0:
          progress.update(file.tell() - done)
          done = file.tell()
        yield number, line.rstrip(b" \r\n")
      progress.update(file.tell() - done)
  except OSError as error:
    raise EncoderError(
      f"model={WORD_VECTORS.prefix}{path}: cannot be read ({error.strerror})", argument="model"
    ) from error


def _numbers(fields: list[bytes]) -> np.ndarray | None:
  """Returns fields as float32; None if any field is not a number."""
  try:
    with np.errstate(over="ignore"):
      return np.array(list(map(float, fields))).astype(np.float32)
  except ValueError:
    return None
