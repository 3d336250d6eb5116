"""Sentences as averages of word vectors (model `glove:FILE`), the first row of the paper's Table 2."""

import dataclasses
import functools
import gzip
import hashlib
import os
import unicodedata
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.data.pairs import check_sentences
from bert_flow_tf.encoder.cache import EmbeddingCache
from bert_flow_tf.encoder.pooling import Pooling
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.checks import is_integer
from bert_flow_tf.progress import Progress

# The only pooling.
AVERAGE = Pooling("avg", "words", (), 0)
# Prefix of a model's name that stands for a file of word vectors.
PREFIX = "glove:"

_GZIP_MAGIC, _ZIP_MAGIC, _BOM = b"\x1f\x8b", b"PK\x03\x04", b"\xef\xbb\xbf"
_REPORT = 5000  # lines between two reports of progress


@dataclasses.dataclass(frozen=True)
class WordIdentity:
  """Identity of averaged word vectors: their file, the pooling and the largest number of words."""

  name: str
  weights_sha256: str
  sentence_embedding_type: str
  max_seq_length: int | None = None
  low_dim: int | None = None

  def pooling_arguments(self) -> dict[str, Any]:
    """Returns sentence_embedding_type and max_seq_length as the encoder's methods take them."""
    return {"sentence_embedding_type": self.sentence_embedding_type, "max_seq_length": self.max_seq_length}

  def to_dict(self) -> dict[str, Any]:
    """Returns JSON values."""
    return dataclasses.asdict(self)


class WordVectors:
  """Encoder of sentences as averages of word vectors, with the interface of `SentenceEncoder`.

      words = wanted_words(sentences)                        # saves memory: the file has up to 2 million words
      encoder = WordVectors.from_file("glove.840B.300d.txt", words)
      embeddings = encoder.encode(sentences)                 # float32 [n, 300]

  A sentence without a known word is a zero vector, whose cosine is NaN; SentEval replaces it by 0. `vectors` are
  float32 [words, dim]; `weights_checksum` is that of the uncompressed text, whichever words are wanted.
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
    """Reads vectors in the text format of GloVe or word2vec ("count dim" in the first line), plain or gzipped.

    The last dim fields of a line, separated by single spaces, are the vector; the rest is the word, which may contain
    spaces (GloVe 840B). Of a repeated word the first vector is used. Only `wanted` words are kept; None keeps all, at 4
    bytes for each number.
    """
    kept = None
    if wanted is not None:
      kept = frozenset(map(_utf8, wanted))
    path = os.fspath(path)
    rows, vectors, checksum = _read(path, kept, show_progress is not False)
    logging.info("%s: %d word vectors of %d dimensions read", path, *vectors.shape)
    return cls(vectors, rows, f"{PREFIX}{path}", checksum)

  def pooling(self, sentence_embedding_type: str | Pooling | None = None) -> Pooling:
    """Returns the pooling; ConfigError unless it is "avg" or None, as word vectors have no layers."""
    if sentence_embedding_type not in (None, "avg", AVERAGE):
      raise ConfigError(
        f"sentence_embedding_type={sentence_embedding_type}: expected avg; word vectors ({self.name}) have no layers",
        argument="sentence_embedding_type",
      )
    return AVERAGE

  def dim(self, sentence_embedding_type: str | Pooling | None = None) -> int:
    """Returns the size of the embeddings."""
    self.pooling(sentence_embedding_type)
    return self.vectors.shape[1]

  def encode(
    self,
    sentences: Sequence[str],
    sentence_embedding_type: str | Pooling | None = None,
    max_seq_length: int | None = None,
    batch_size: int | None = None,
    show_progress: bool | None = None,
    cache: Any = None,
  ) -> np.ndarray:
    """Returns averages of the vectors of each sentence's words, float32 [n, dim]; zeros without a known word.

    A word is looked up in lower case, then as it is written; words without a vector do not count. Of a sentence, the
    first `max_seq_length` words are used. The other arguments are not: an average is computed faster than read.
    """
    del batch_size, show_progress, cache
    sentences = check_sentences(sentences)
    embeddings = np.zeros([len(sentences), self.dim(sentence_embedding_type)], np.float32)
    if max_seq_length is not None and not is_integer(max_seq_length, 1):
      message = f"max_seq_length={max_seq_length}: expected a positive number of words, or None"
      raise ConfigError(message, argument="max_seq_length")
    # Sentences without a known word stay zero, and are logged together.
    unknown = []
    for position, sentence in enumerate(sentences):
      rows = []
      for word in split_words(sentence)[:max_seq_length]:
        row = self._rows.get(_utf8(word.lower()), self._rows.get(_utf8(word)))
        if row is not None:
          rows.append(row)
      if rows:
        embeddings[position] = self.vectors[rows].mean(axis=0, dtype=np.float64)
      else:
        unknown.append(sentence)
    if unknown:
      logging.warning(
        "%s: %d of %d sentences have no word with a vector and are zero, first %r",
        self.name,
        len(unknown),
        len(sentences),
        unknown[0][:60],
      )
    return embeddings

  def identity(
    self, sentence_embedding_type: str | None = None, max_seq_length: int | None = None, low_dim: int | None = None
  ) -> WordIdentity:
    """Returns the identity of its embeddings, as `SentenceModel` reads it."""
    pooling = self.pooling(sentence_embedding_type)
    return WordIdentity(self.name, self.weights_checksum, pooling.name, max_seq_length, low_dim)

  def fingerprint(
    self,
    sentences: Sequence[str],
    sentence_embedding_type: str | Pooling | None = None,
    max_seq_length: int | None = None,
  ) -> str:
    """Returns the hexadecimal SHA-256 of everything that decides the result of `encode` for the same arguments."""
    dim = self.dim(sentence_embedding_type)
    settings = {"weights": self.weights_checksum, "pooling": "words", "max_seq_length": max_seq_length, "dim": dim}
    return EmbeddingCache.key(settings, sentences)


def split_words(sentence: str) -> list[str]:
  """Returns the words of a sentence as written: split at white space, with each mark of punctuation as a word.

  This is BERT's basic tokenization without its lower-casing and stripping of accents: accents are composed (NFC). So
  "don't" is three words, each symbol and each CJK ideograph is a word, and invisible characters are dropped.
  """
  return "".join(map(_spaced, unicodedata.normalize("NFC", sentence))).split()


def wanted_words(sentences: Collection[str]) -> set[str]:
  """Returns every word that `encode` looks up for the sentences, as written and in lower case."""
  # Capitals can matter: "May" is looked up as "may" first, then as it is written.
  written = {word for sentence in check_sentences(sentences) for word in split_words(sentence)}
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
  first_parts = None
  if wanted is not None:
    first_parts = {word.partition(b" ")[0] for word in wanted}
  digest = hashlib.sha256()
  rows: dict[bytes, int] = {}
  numbers = bytearray()
  dim = words = 0
  expected_words = None
  for number, line in _lines(path, digest, show):
    if not dim:
      expected_words, dim = _header(line)
      if expected_words is not None:
        continue
    if not dim:
      raise _malformed(line, path, number, "a word and its numbers")
    if not line:
      continue
    words += 1
    if line.count(b" ") < dim:
      raise _malformed(line, path, number, f"a word and {dim} numbers")
    # Most lines of a large file are not wanted, so their numbers are not parsed.
    if first_parts is not None and line.partition(b" ")[0] not in first_parts:
      continue
    word, *values = line.rsplit(b" ", dim)
    vector = _vector(values)
    if vector is None:
      raise _malformed(line, path, number, f"a word and {dim} finite numbers")
    if word not in rows and (wanted is None or word in wanted):
      rows[word] = len(rows)
      numbers += vector.tobytes()
  if not words:
    raise EncoderError(f"{path}: no word vectors; expected lines of a word and its numbers")
  if expected_words not in (None, words):
    raise EncoderError(f"{path}: expected {expected_words} words, as in line 1, got {words}; copy the whole file")
  return rows, np.frombuffer(numbers, np.float32).reshape(-1, dim), digest.hexdigest()


def _lines(path: str, digest: Any, show: bool) -> Iterator[tuple[int, bytes]]:
  """Yields (number from 1, line without its end); word2vec ends lines with a space."""
  try:
    with open(path, "rb") as file, Progress(os.path.getsize(path), show, "reading word vectors", "byte") as progress:
      magic, done = file.peek(4)[:4], 0
      lines: Any = file
      if magic == _ZIP_MAGIC:
        raise EncoderError(f"{path}: expected a text file, plain or gzipped, got a zip archive; unzip it")
      if magic.startswith(_GZIP_MAGIC):
        lines = gzip.GzipFile(fileobj=file)
      for number, line in enumerate(lines, start=1):
        digest.update(line)
        if number % _REPORT == 0:
          progress.update(file.tell() - done)
          done = file.tell()
        if number == 1:
          line = line.removeprefix(_BOM)
        yield number, line.rstrip(b" \r\n")
      progress.update(file.tell() - done)
  except (gzip.BadGzipFile, zlib.error, EOFError) as error:
    raise EncoderError(f"{path}: cannot be unpacked ({error}); copy the whole file") from error
  except OSError as error:
    message = f"model={PREFIX}{path}: cannot be read ({error.strerror}); expected a file of word vectors"
    raise EncoderError(message, argument="model") from error


def _header(line: bytes) -> tuple[int | None, int]:
  """Returns the number of words and the dimension of word2vec's first line; (None, dimension) of another line."""
  fields = line.split(b" ")
  if len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit():
    return int(fields[0]), int(fields[1])
  # As many fields at the end as are numbers; the first one belongs to the word even if it is a number.
  dim = 0
  while dim < len(fields) - 1 and _vector(fields[-1 - dim : len(fields) - dim], finite=False) is not None:
    dim += 1
  return None, dim


def _vector(values: list[bytes], finite: bool = True) -> np.ndarray | None:
  """Returns float32 numbers; None if a value is no number, or not finite."""
  try:
    with np.errstate(over="ignore"):
      vector = np.array(list(map(float, values))).astype(np.float32)
  except ValueError:
    return None
  if finite and not np.isfinite(vector).all():
    return None
  return vector


def _malformed(line: bytes, path: str, number: int, expected: str) -> EncoderError:
  """Returns the error of a line, which shows the line's beginning."""
  fields, beginning = line.count(b" ") + 1, line[:40].decode("utf-8", "replace")
  return EncoderError(
    f"{path}, line {number}: expected {expected}, separated by single spaces, got {fields} fields, {beginning!r}...; "
    "use the complete file in the text format of GloVe or word2vec, not the binary format"
  )
