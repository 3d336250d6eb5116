"""Weights of tokens in the mean that makes an embedding, by `token_weights`; and the frequencies that decide them.

These are counted in files, or worked out from a packaged table. TensorFlow is imported only where it computes.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import pathlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_flow_tf.data.lines import FilePath, line_error, lines
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.progress import Progress

if TYPE_CHECKING:
  import tensorflow as tf

  from bert_flow_tf.encoder.tokenizer import SentenceTokenizer

UNIFORM = "uniform"
ALLOWED = "uniform, idf (= idf-0.75) or idf-ALPHA with 0 < ALPHA < 10"
_ALPHA = 0.75
_IDF = re.compile(r"idf(?:-([0-9](?:\.[0-9]{1,4})?))?", re.ASCII)
# Pieces of years, and the rest of numbers in several pieces. With a weight, they put all sentences with years into a
# cone: static:mini, mean cosine .39 of WordNet's glosses with a year, without it .05 (STS-B dev 77.55 and 77.51).
_OF_YEARS = re.compile(r"##[0-9]+|1[5-9]|20|1[0-9]{3}|20[0-9]{2}")
# Special tokens of BERT, and of vocabularies in the format of RoBERTa.
SPECIAL = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK|unused[0-9]+)\]|</?s>|<(pad|unk|mask|S|T)>")
# Lines between two reports of progress.
_REPORT_LINES = 1000
# Words of general English, as they are written, and the number of sentences that have them; see its README.md.
PACKAGED = pathlib.Path(__file__).parent.parent / "data" / "frequencies" / "english.tsv.gz"
# Row of the table with the number of sentences; not a word, as words have no punctuation or only that.
_SENTENCES = "(sentences)"
_CHUNK_SENTENCES = 4096
# Longer sentences are counted up to this number of word pieces.
_MAX_SEQ_LENGTH = 512


class TokenWeights:
  """Weight of each word piece, float32 [vocab_size]: ln((N + 1) / (df + 1))^ALPHA if df of N sentences have it.

  Rare words decide what a sentence says; as in Arora et al. 2017, "A Simple but Tough-to-Beat Baseline for Sentence
  Embeddings", up to the form. `frequency_corpus` is the file whose sentences were counted, None for the packaged table.
  `frequencies` are the df, float64 [vocab_size], and `total` is N.
  """

  def __init__(
    self,
    name: str,
    table: np.ndarray,
    frequency_corpus: str | None = None,
    frequencies: np.ndarray | None = None,
    total: int = 0,
  ) -> None:
    self.name, self.frequencies, self.total = name, frequencies, total
    self.table = np.asarray(table, np.float32)
    self.frequency_corpus = frequency_corpus

  @functools.cached_property
  def checksum(self) -> str:
    """SHA-256 of the table, in hexadecimal."""
    return hashlib.sha256(self.table.tobytes()).hexdigest()

  def of(self, ids: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the weights of ids and mask, int32 [batch, seq_len], as float32; 0 for padding."""
    import tensorflow as tf

    # A sentence whose pieces all have weight 0 gets equal weights.
    mask = tf.cast(mask, tf.float32)
    weights = tf.gather(tf.constant(self.table), ids) * mask
    return tf.where(tf.reduce_any(weights > 0, axis=1, keepdims=True), weights, mask)


def parse_token_weights(name: str) -> float:
  """Returns the ALPHA of a `token_weights`, 0 for uniform."""
  match = _IDF.fullmatch(name)
  alpha = 0.0
  if match:
    alpha = float(match[1] or _ALPHA)
  if not alpha and name != UNIFORM:
    raise ConfigError(f"token_weights={name}: expected {ALLOWED}", argument="token_weights")
  return alpha


def make_token_weights(
  name: str, tokenizer: SentenceTokenizer, frequency_corpus: str | os.PathLike | None = None
) -> TokenWeights | None:
  """Returns the weights of a `token_weights`, by a file of sentences or the packaged table; None for uniform."""
  alpha = parse_token_weights(name)
  if not alpha:
    if frequency_corpus is not None:
      raise ConfigError("frequency_corpus: only token_weights=idf uses it; give token_weights=idf", "frequency_corpus")
    return None
  if frequency_corpus is None:
    frequencies, total = packaged_frequencies(tokenizer)
  else:
    frequency_corpus = os.path.expanduser(os.fspath(frequency_corpus))
    try:
      frequencies, total = count_frequencies(frequency_corpus, tokenizer)
    except DataError as error:
      raise ConfigError(f"frequency_corpus={error}", argument="frequency_corpus") from error
  # [CLS], [SEP], punctuation and years say nothing; how common a number is says nothing about how much it means.
  silent = [row for row in tokenizer.special_ids if row is not None]
  for row, piece in enumerate(tokenizer.words):
    text = piece.removeprefix("##")
    if any(map(str.isdigit, text)):
      frequencies[row] = 0
    if is_punctuation(text) or _OF_YEARS.fullmatch(piece):
      silent.append(row)
  table = np.log((total + 1) / (frequencies + 1)) ** alpha
  table[silent] = 0
  return TokenWeights(f"idf-{alpha:g}", table, frequency_corpus, frequencies, total)


def is_punctuation(piece):
  """Returns whether all characters of a word piece are punctuation, as BERT's tokenizer defines it."""
  return all(
    unicodedata.category(character).startswith("P") or (character.isascii() and not character.isalnum())
    for character in piece
  )


def read_frequencies(path: FilePath, lower_case: bool = False) -> dict[str, int]:
  """Returns {word: count} of a file of `word<TAB>count` or `word count` lines in any order, plain or gzipped.

  A word may contain spaces. Counts of a repeated word are added, with `lower_case` those of its spellings, too.
  """
  counts: Counter[str] = Counter()
  for number, line in lines(path, empty="skip"):
    separator = " "
    if "\t" in line:
      separator = "\t"
    word, _, count = line.strip(" ").rpartition(separator)
    word, count = word.strip(" "), count.strip(" ")
    # int() also reads "1_5", the digits of other scripts, and numbers beyond any count.
    if not word or not (count.isascii() and count.isdigit() and len(count) <= 18):
      raise line_error(path, number, f"the line is {line[:60]!r}; expected a word, a tab or space, and its count")
    if lower_case:
      word = word.lower()
    counts[word] += int(count)
  return _words(counts, path, "expected lines of a word, a tab or space, and its count")


def count_words(path: FilePath, split: Callable[[str], Iterable[str]]) -> dict[str, int]:
  """Returns {word: count} of a text file, plain or gzipped; `split` gives the words of a line."""
  counts: Counter[str] = Counter()
  for line in _with_progress(path, "counting words"):
    counts.update(split(line))
  return _words(counts, path, "expected a text file")


def _words(counts, path, expected):
  """Returns the counts as a dict; DataError if there are none."""
  if not counts:
    raise DataError(f"{path} has no words; {expected}")
  return dict(counts)


def _with_progress(path, what):
  """Yields the lines of a text file that are not empty."""
  # Read twice, first to count its lines, so that a damaged file is reported early.
  total = sum(1 for _ in lines(path, empty="skip"))
  done = 0
  with Progress(total, work=what, unit="line") as progress:
    for _, line in lines(path, empty="skip"):
      yield line
      done += 1
      if done % _REPORT_LINES == 0:
        progress.update(_REPORT_LINES)
    progress.update(done % _REPORT_LINES)


def rank_vocabulary(vocab: Sequence[str], counts: Mapping[Any, int]) -> np.ndarray:
  """Returns the rows of a vocabulary by decreasing frequency, int64 [ranked], by {token: count} or {row: count}.

  Special tokens and words without a count are left out; words with the same count keep the vocabulary's order.
  """
  frequencies = np.zeros(len(vocab))
  for row, token in enumerate(vocab):
    if not SPECIAL.fullmatch(token):
      frequencies[row] = counts.get(token, counts.get(row, 0))
  order = np.argsort(-frequencies, kind="stable")[: np.count_nonzero(frequencies)]
  if not order.size:
    raise DataError(
      f"none of the {len(counts)} counted words is among the {len(vocab)} of the vocabulary; the words of an uncased "
      "vocabulary must be in lower case"
    )
  return order


def packaged_frequencies(tokenizer: SentenceTokenizer) -> tuple[np.ndarray, int]:
  """Returns the number of sentences with each word piece, float64 [vocab_size], and that of all, in general English."""
  # A word piece has the sum of the sentences of the words that contain it: exact for a whole word, and too large for a
  # part of words by the sentences that have two such words.
  words = read_frequencies(PACKAGED)
  total = words.pop(_SENTENCES)
  frequencies = np.zeros(tokenizer.vocab_size)
  for before in ("", " ")[: 1 + tokenizer.spaced]:  # a word at the beginning of a text, and after a space
    word, piece = _pieces(tokenizer([before + word for word in words], _MAX_SEQ_LENGTH, warn=False))
    counts = np.fromiter(words.values(), np.float64)[word]
    frequencies += np.bincount(piece, counts, tokenizer.vocab_size)
  return np.minimum(frequencies, total), total


def count_frequencies(path: FilePath, tokenizer: SentenceTokenizer) -> tuple[np.ndarray, int]:
  """Returns the number of sentences of a text file with each word piece, float64 [vocab_size], and that of all."""
  frequencies = np.zeros(tokenizer.vocab_size)
  total = 0
  sentences = _with_progress(path, "counting word pieces")
  while chunk := list(itertools.islice(sentences, _CHUNK_SENTENCES)):
    _, piece = _pieces(tokenizer(chunk, _MAX_SEQ_LENGTH))
    frequencies += np.bincount(piece, minlength=tokenizer.vocab_size)
    total += len(chunk)
  if not total:
    raise DataError(f"{path} has no sentences; expected a text file with a sentence per line")
  return frequencies, total


def _pieces(ids):
  """Returns the distinct word pieces of texts: numbers of the texts, and ids of the pieces, int64 [n] each."""
  text = np.repeat(np.arange(len(ids)), list(map(len, ids)))
  piece = np.concatenate(ids)
  size = int(piece.max()) + 1
  return np.divmod(np.unique(text * size + piece), size)
