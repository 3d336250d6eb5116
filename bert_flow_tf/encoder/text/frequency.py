"""Frequencies of words and word pieces: counted in files, or worked out from a packaged table."""

import functools
import itertools
import pathlib
import re
import typing
from collections import Counter
from collections.abc import Iterator

import numpy as np
from absl import logging

from bert_flow_tf.data.files.formats import kind_of
from bert_flow_tf.data.files.input_format import CSV, JSONL
from bert_flow_tf.data.files.source import FilePath, line_error, lines
from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import Progress

if typing.TYPE_CHECKING:
  from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer

# Special tokens of BERT, and of vocabularies in the format of RoBERTa.
SPECIAL = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK|unused[0-9]+)\]|</?s>|<(pad|unk|mask|S|T)>")
# Lines between two reports of progress.
_REPORT_LINES = 1000
# Words of general English, as they are written, and the number of sentences that have them; see its README.md.
PACKAGED = pathlib.Path(__file__).parents[2] / "data" / "frequencies" / "english.tsv.gz"
# Row of the table with the number of sentences; not a word, as words have no punctuation or only that.
_SENTENCES = "(sentences)"
_CHUNK_SENTENCES = 4096
# Longer sentences are counted up to this number of word pieces.
_MAX_SEQ_LENGTH = 512


def read_frequencies(path: FilePath, lower_case: bool = False) -> dict[str, int]:
  """Returns {word: count} of a file of `word<TAB>count` or `word count` lines in any order, plain or gzipped.

  A word may contain spaces. Counts of a repeated word are added, with `lower_case` the counts of all its spellings.
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
  if not counts:
    raise DataError(f"{path} has no words; expected lines of a word, a tab or space, and its count")
  return dict(counts)


def lines_with_progress(path: FilePath, work: str) -> Iterator[str]:
  """Yields the lines of a text file that are not empty; shows progress."""
  kind = kind_of(str(path))
  if kind in (CSV, JSONL):
    message = "%s: the lines of a %s are read as sentences, with the names of its columns; expected a sentence per line"
    logging.warning(message, path, kind)
  # Read twice, first to count its lines, so that a damaged file is reported early.
  total = sum(1 for _ in lines(path, empty="skip"))
  done = 0
  with Progress(total, work=work, unit="line") as progress:
    for _, line in lines(path, empty="skip"):
      yield line
      done += 1
      if done % _REPORT_LINES == 0:
        progress.update(_REPORT_LINES)
    progress.update(done % _REPORT_LINES)


def packaged_frequencies(tokenizer: "SentenceTokenizer") -> tuple[np.ndarray, int]:
  """Returns the number of sentences with each word piece, float64 [vocab_size], and of all, in general English."""
  # A word piece has the sum of the sentences of the words that contain it: exact for a whole word, and too large for a
  # part of words by the sentences that have two of these words.
  words, sentences, total = _packaged()
  frequencies = np.zeros(tokenizer.vocab_size)
  for before in ("", " ")[: 1 + tokenizer.spaced]:  # a word at the beginning of a text, and after a space
    word, piece = _pieces(tokenizer([before + word for word in words], _MAX_SEQ_LENGTH, warn=False))
    frequencies += np.bincount(piece, sentences[word], tokenizer.vocab_size)
  return np.minimum(frequencies, total), total


@functools.cache
def _packaged():
  """Returns the words of the packaged table, the number of sentences with each, float64 [n], and of all."""
  counts = read_frequencies(PACKAGED)
  total = counts.pop(_SENTENCES)
  return list(counts), np.fromiter(counts.values(), np.float64), total


def count_frequencies(path: FilePath, tokenizer: "SentenceTokenizer") -> tuple[np.ndarray, int]:
  """Returns the number of sentences of a text file with each word piece, float64 [vocab_size], and of all."""
  frequencies = np.zeros(tokenizer.vocab_size)
  total = 0
  sentences = lines_with_progress(path, "counting word pieces")
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
