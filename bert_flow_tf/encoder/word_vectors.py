"""Sentences as averages of word vectors (model `glove:FILE`), the first row of the paper's Table 2."""

import dataclasses
import functools
import hashlib
import os
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.data.pairs import check_sentences
from bert_flow_tf.encoder.cache import EmbeddingCache
from bert_flow_tf.encoder.word_vector_file import read_vectors
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.checks import is_integer
from bert_flow_tf.progress import Progress

# Prefix of a model's name that stands for a file of word vectors.
PREFIX = "glove:"

_REPORT = 5000  # sentences between two reports of progress


@dataclasses.dataclass(frozen=True)
class WordAverage:
  """Pooling of word vectors, with the attributes of `encoder.pooling.Pooling` that models read."""

  name: str = "avg"
  kind: str = "words"
  shares: tuple[float, ...] = ()

  def describe(self) -> str:
    """Returns a line for the log."""
    return "avg: average of word vectors, over the words that have one"


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

  A sentence without a known word is a zero vector, whose `cosine_similarity` is NaN, which `correlation` rejects.
  SentEval replaces such a similarity by 0 (its `nan_to_num`):

      similarities = np.where(a.any(axis=1) & b.any(axis=1), cosine_similarity(a, b), 0.0)

  Attributes:
    name: PREFIX and the file's path.
    weights_checksum: hexadecimal SHA-256 of the uncompressed text; it does not depend on the wanted words.
    vectors: float32 array of shape [words, dim].
  """

  def __init__(
    self,
    vectors: np.ndarray,
    rows: Mapping[bytes, int],
    name: str,
    weights_checksum: str,
    wanted: Collection[bytes] | None = None,
  ) -> None:
    """Stores the content of a file: `rows` is {word in UTF-8: row}, `wanted` the words that were kept, None for all."""
    self.vectors = vectors
    self.name = name
    self.weights_checksum = weights_checksum
    self._rows = rows
    self._wanted = wanted

  @classmethod
  def from_file(
    cls, path: str | os.PathLike, wanted: Collection[str] | None = None, show_progress: bool | None = None
  ) -> "WordVectors":
    """Reads vectors in the text format of GloVe or word2vec ("count dim" in the first line), plain or gzipped.

    The last dim fields of a line, separated by single spaces, are the vector; the rest is the word, which may contain
    spaces (GloVe 840B). Of a repeated word the first vector is used.

    Args:
      path: the file.
      wanted: words to keep, see `wanted_words`; None keeps all, at 4 bytes for each number.
      show_progress: False to show neither a bar on a terminal nor lines in the log.

    Raises:
      DataError: `wanted` is not a set or list of str.
      EncoderError: the file is missing, unreadable or malformed.
    """
    kept = None if wanted is None else frozenset(map(_utf8, check_sentences(wanted, "wanted")))
    path, digest = os.fspath(path), hashlib.sha256()
    if not path:
      raise EncoderError(f"model={PREFIX}: expected a file of word vectors, {PREFIX}FILE", argument="model")
    rows, vectors = read_vectors(path, kept, digest, show_progress is not False)
    logging.info("%s: %d word vectors of %d dimensions read", path, *vectors.shape)
    return cls(vectors, rows, f"{PREFIX}{path}", digest.hexdigest(), kept)

  def pooling(self, sentence_embedding_type: str | WordAverage | None = None) -> WordAverage:
    """Returns the pooling.

    Raises:
      ConfigError: sentence_embedding_type is neither "avg" nor None; word vectors have no layers.
    """
    if sentence_embedding_type not in (None, "avg", WordAverage()):
      raise ConfigError(
        f"sentence_embedding_type={sentence_embedding_type}: expected avg; word vectors ({self.name}) have no layers",
        argument="sentence_embedding_type",
      )
    return WordAverage()

  def identity(
    self, sentence_embedding_type: str | None = None, max_seq_length: int | None = None, low_dim: int | None = None
  ) -> "WordIdentity":
    """Returns the identity of its embeddings, as `SentenceModel` reads it."""
    pooling = self.pooling(sentence_embedding_type)
    return WordIdentity(self.name, self.weights_checksum, pooling.name, max_seq_length, low_dim)

  def dim(self, sentence_embedding_type: str | WordAverage | None = None) -> int:
    """Returns the size of the embeddings.

    Raises:
      ConfigError: sentence_embedding_type is neither "avg" nor None.
    """
    self.pooling(sentence_embedding_type)
    return self.vectors.shape[1]

  def encode(
    self,
    sentences: Sequence[str],
    sentence_embedding_type: str | WordAverage | None = None,
    max_seq_length: int | None = None,
    batch_size: int | None = None,
    show_progress: bool | None = None,
    cache: Any = None,
  ) -> np.ndarray:
    """Averages the vectors of each sentence's words; a repeated word counts as often as it occurs.

    A word is looked up in lower case, then as it is written; words without a vector do not count. The number of
    sentences without any known word is logged.

    Args:
      sentences: list of str.
      sentence_embedding_type: "avg" or None.
      max_seq_length: largest number of words of a sentence; the rest is ignored. None for no limit.
      batch_size: not used; for `SentenceEncoder`'s interface.
      show_progress: False to show neither a bar on a terminal nor lines in the log.
      cache: not used: an average is computed faster than it is read.

    Returns:
      float32 array of shape [n, dim]; zeros for a sentence without a known word.

    Raises:
      DataError: `sentences` is a single str, or an element is not a str.
      ConfigError: an argument is not allowed.
      EncoderError: a word is not among the `wanted` words of `from_file`.
    """
    del batch_size, cache
    sentences, dim = check_sentences(sentences), self.dim(sentence_embedding_type)
    _check_max_seq_length(max_seq_length)
    embeddings, unknown = np.zeros([len(sentences), dim], np.float32), []
    with Progress(len(sentences), show_progress is not False) as progress:
      for start in range(0, len(sentences), _REPORT):
        for position, sentence in enumerate(sentences[start : start + _REPORT], start):
          rows = [row for word in split_words(sentence)[:max_seq_length] if (row := self._row(word)) is not None]
          if rows:
            embeddings[position] = self.vectors[rows].mean(axis=0, dtype=np.float64)
          else:
            unknown.append(position)
        progress.update(min(_REPORT, len(sentences) - start))
    if unknown:
      logging.warning(
        "%s: %d of %d sentences have no word with a vector and are zero, first sentence %d (counted from 0): %r",
        *(self.name, len(unknown), len(sentences), unknown[0], sentences[unknown[0]][:60]),
      )
    return embeddings

  def fingerprint(
    self,
    sentences: Sequence[str],
    sentence_embedding_type: str | WordAverage | None = None,
    max_seq_length: int | None = None,
  ) -> str:
    """Returns the hexadecimal SHA-256 of everything that decides the result of `encode` for the same arguments."""
    dim = self.dim(sentence_embedding_type)
    _check_max_seq_length(max_seq_length)
    length = None if max_seq_length is None else int(max_seq_length)
    settings = {"weights": self.weights_checksum, "pooling": "words", "max_seq_length": length, "dim": dim}
    return EmbeddingCache.key(settings, sentences)

  def _row(self, word):
    """Returns the row of a word's vector, or None."""
    lower, written = _utf8(word.lower()), _utf8(word)
    if self._wanted is not None and not {lower, written} <= self._wanted:
      raise EncoderError(
        f"{self.name}: the word {word!r} is not among the {len(self._wanted)} wanted words; read the file with "
        "wanted_words of all sentences"
      )
    return self._rows.get(lower, self._rows.get(written))


def split_words(sentence: str) -> list[str]:
  """Splits a sentence into words as written: at white space, with each mark of punctuation as a word.

  This is BERT's basic tokenization without its lower-casing and stripping of accents: accents are composed (NFC). So
  "don't" is three words, each symbol and each CJK ideograph is a word, and invisible characters are dropped.
  """
  return "".join(map(_spaced, unicodedata.normalize("NFC", sentence))).split()


def wanted_words(sentences: Sequence[str]) -> set[str]:
  """Returns every word that `encode` looks up for the sentences, as written and in lower case."""
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
  is_word = category[0] in "PS" or unicodedata.name(character, "").startswith("CJK UNIFIED IDEOGRAPH")
  return f" {character} " if is_word else character


def _check_max_seq_length(max_seq_length):
  if max_seq_length is not None and not is_integer(max_seq_length, 1):
    raise ConfigError(
      f"max_seq_length={max_seq_length}: expected a positive number of words, or None", argument="max_seq_length"
    )


def _utf8(word):
  """Returns the bytes of a word in a file."""
  return word.encode("utf-8", "surrogatepass")
