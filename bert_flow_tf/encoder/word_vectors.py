"""`--model=glove:FILE`: a sentence as the average of its words' vectors, the first row of the paper's Table 2."""

import dataclasses
import functools
import hashlib
import os
import unicodedata

import numpy as np
from absl import logging

from bert_flow_tf.encoder.cache import EmbeddingCache
from bert_flow_tf.encoder.word_vector_file import read_vectors
from bert_flow_tf.errors import ConfigError, DataError, EncoderError
from bert_flow_tf.progress import Progress

# What a `--model` value that names a file of word vectors begins with.
PREFIX = "glove:"

_REPORT = 5000  # sentences between two reports of progress


@dataclasses.dataclass(frozen=True)
class WordAverage:
  """The one pooling of word vectors; `encoder.pooling.Pooling` so far as a runner reads it."""

  name: str = "avg"

  def describe(self):
    """One line for the log."""
    return "avg: average of word vectors, over the words that have one"


class WordVectors:
  """Sentences as averages of word vectors, with the face of `SentenceEncoder`.

      words = wanted_words(sentences)                        # saves memory: the file holds up to 2 million words
      encoder = WordVectors.from_file("glove.840B.300d.txt", words)
      embeddings = encoder.encode(sentences)                 # float32 [n, 300]

  A sentence without a known word is a zero vector, and `cosine_similarity` of it is NaN, which `correlation` refuses.
  SentEval takes such a similarity for 0 (its `nan_to_num`):

      similarities = np.where(a.any(axis=1) & b.any(axis=1), cosine_similarity(a, b), 0.0)

  Attributes:
    name: the `--model` value.
    weights_checksum: hexadecimal sha256 of the file's text, unpacked; the same whichever words were read.
    vectors: float32 [words, dim].
  """

  def __init__(self, vectors, rows, name, weights_checksum, wanted=None):
    """Takes what `from_file` read: `rows` is {word in UTF-8: row}, `wanted` the words looked for, None for all."""
    self.vectors = vectors
    self.name = name
    self.weights_checksum = weights_checksum
    self._rows = rows
    self._wanted = wanted

  @classmethod
  def from_file(cls, path, wanted=None, show_progress=None):
    """Reads vectors in the text format of GloVe or word2vec ("count dim" in the first line), perhaps gzipped.

    The last dim fields of a line, at single spaces, are the vector; what is before is the word, which may hold spaces
    (GloVe 840B). Of words that come twice the first counts.

    Args:
      path: the file.
      wanted: words to keep, see `wanted_words`; None keeps all, 4 bytes a number.
      show_progress: a bar on a terminal, else a line in the log every ten seconds; neither if False.

    Raises:
      DataError: `wanted` is not a set or list of str.
      EncoderError: the file is missing, unreadable or malformed.
    """
    if wanted is not None:
      wanted = frozenset(_utf8(word) for word in _checked(wanted, "wanted word"))
    path, digest = os.fspath(path), hashlib.sha256()
    if not path:
      raise EncoderError(f"--model={PREFIX} names no file, expected a file of word vectors: --model={PREFIX}FILE.")
    rows, vectors = read_vectors(path, wanted, digest, show_progress is not False)
    logging.info("%s: %d word vectors of %d dimensions read", path, *vectors.shape)
    return cls(vectors, rows, f"{PREFIX}{path}", digest.hexdigest(), wanted)

  def pooling(self, sentence_embedding_type=None):
    """The WordAverage for `avg` or None.

    Raises:
      ConfigError: another value, which asks for layers that word vectors do not have.
    """
    if sentence_embedding_type not in (None, "avg", WordAverage()):
      raise ConfigError(
        f"sentence_embedding_type={sentence_embedding_type}: word vectors ({self.name}) have no layers; allowed: avg."
      )
    return WordAverage()

  def dim(self, sentence_embedding_type=None, low_dim=None):
    """Size of the embeddings; what `pooling` refuses, and a low_dim, is a ConfigError."""
    self.pooling(sentence_embedding_type)
    if low_dim is not None:
      raise ConfigError(f"low_dim={low_dim}: not for word vectors ({self.name}); leave it out.")
    return self.vectors.shape[1]

  def encode(
    self,
    sentences,
    sentence_embedding_type=None,
    max_seq_length=None,
    batch_size=None,
    low_dim=None,
    show_progress=None,
    cache=None,
  ):
    """Averages the vectors of each sentence's words, a repeated word as often as it stands there.

    A word is looked up in lower case, then as it is written; words without a vector do not count. How many sentences
    have no vector at all is logged once a call.

    Args:
      sentences: list of str.
      sentence_embedding_type: "avg" or None.
      max_seq_length: int, the most words of a sentence that are read; None for all.
      batch_size: not used; for the face's sake, as a runner passes it.
      low_dim: None.
      show_progress: a bar on a terminal, else a line in the log every ten seconds; neither if False.
      cache: not used: averages are made sooner than read.

    Returns:
      float32 array of shape [n, dim]; zeros for a sentence without a known word.

    Raises:
      DataError: `sentences` is a lone str, or an element is not a str.
      ConfigError: an argument is not allowed.
      EncoderError: a word is not among those that `from_file` was told to look for.
    """
    del batch_size, cache
    sentences, dim = _checked(sentences, "sentence"), self.dim(sentence_embedding_type, low_dim)
    _check_max_seq_length(max_seq_length)
    embeddings, unknown = np.zeros([len(sentences), dim], np.float32), []
    with Progress(len(sentences), show_progress is not False) as progress:
      for start in range(0, len(sentences), _REPORT):
        for place, sentence in enumerate(sentences[start : start + _REPORT], start):
          found = [row for word in split_words(sentence)[:max_seq_length] if (row := self._row(word)) is not None]
          if found:
            embeddings[place] = self.vectors[found].mean(axis=0, dtype=np.float64)
          else:
            unknown.append(place)
        progress.update(min(_REPORT, len(sentences) - start))
    if unknown:
      logging.warning(
        "%s: %d of %d sentences have no word with a vector and are zero, the first is sentence %d (counted from 0): %r",
        *(self.name, len(unknown), len(sentences), unknown[0], sentences[unknown[0]][:60]),
      )
    return embeddings

  def fingerprint(self, sentences, sentence_embedding_type=None, max_seq_length=None, low_dim=None):
    """Hexadecimal sha256 of everything that decides what `encode` gives for the same arguments."""
    dim = self.dim(sentence_embedding_type, low_dim)
    _check_max_seq_length(max_seq_length)
    most = None if max_seq_length is None else int(max_seq_length)
    settings = {"weights": self.weights_checksum, "pooling": "words", "max_seq_length": most, "dim": dim}
    return EmbeddingCache.key(settings, sentences)

  def _row(self, word):
    """Row of a word's vector, or None."""
    lower, written = _utf8(word.lower()), _utf8(word)
    if self._wanted is not None and not {lower, written} <= self._wanted:
      raise EncoderError(
        f"{self.name}: the word {word!r} was not looked for when the file was read, expected one of "
        f"{len(self._wanted)} wanted words: read the file with wanted_words of all sentences."
      )
    return self._rows.get(lower, self._rows.get(written))


def split_words(sentence):
  """Words in the order of a sentence, as written: split at white space, each mark of punctuation a word of its own.

  As BERT's basic tokenisation, which also lower-cases and strips accents; here accents stay, composed (NFC). So "don't"
  is three words. Symbols and CJK ideographs stand alone, invisible characters are dropped.
  """
  return "".join(map(_spaced, unicodedata.normalize("NFC", sentence))).split()


def wanted_words(sentences):
  """Every word that `encode` looks up for these sentences: a set of str, as written and in lower case."""
  written = {word for sentence in _checked(sentences, "sentence") for word in split_words(sentence)}
  return written | {word.lower() for word in written}


@functools.cache
def _spaced(character):
  """A character as the splitting of words needs it."""
  category = unicodedata.category(character)
  if character.isspace():
    return " "
  if category in ("Cc", "Cf"):
    return ""
  alone = category[0] in "PS" or unicodedata.name(character, "").startswith("CJK UNIFIED IDEOGRAPH")
  return f" {character} " if alone else character


def _check_max_seq_length(max_seq_length):
  """Raises ConfigError unless it is None or a whole number from 1."""
  whole = isinstance(max_seq_length, int | np.integer) and not isinstance(max_seq_length, bool)
  if max_seq_length is not None and (not whole or max_seq_length < 1):
    raise ConfigError(f"max_seq_length={max_seq_length!r}: expected None or a whole number of words from 1.")


def _checked(texts, what):
  """Texts as a list of str."""
  if isinstance(texts, str | bytes):
    raise DataError(f"found a single {type(texts).__name__}, expected a list of {what}s: write [{what.split()[-1]}].")
  texts = list(texts)
  for position, text in enumerate(texts):
    if not isinstance(text, str):
      raise DataError(f"{what} {position} (counted from 0): found {repr(text)[:40]}, expected str.")
  return texts


def _utf8(word):
  """The bytes of a word as a file would hold it."""
  return word.encode("utf-8", "surrogatepass")
