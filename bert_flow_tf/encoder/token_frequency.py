"""Frequencies of words and word pieces: counted in files, or worked out from a packaged table."""

import pathlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.data.lines import FilePath, lines
from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import Progress

# Special tokens of BERT, and of vocabularies in the format of RoBERTa.
_SPECIAL = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK|unused[0-9]+)\]|</?s>|<(pad|unk|mask|S|T)>")
# Lines between two reports of progress.
_REPORT_LINES = 1000


def read_frequencies(path: FilePath, lower_case: bool = False) -> dict[str, int]:
  """Reads a file of `word<TAB>count` or `word count` lines in any order, plain or gzipped.

  The count follows the last tab, or the last space of a line without tabs, so a word may contain spaces. Empty lines
  are skipped; the counts of a repeated word are added.

  Args:
    path: the file.
    lower_case: whether words are lower-cased before their counts are added, for an uncased vocabulary.

  Raises:
    DataError: the file is missing, unreadable, without words, or a line is malformed.
  """
  counts = Counter()
  for number, line in lines(path, empty="skip"):
    word, _, count = line.strip(" ").rpartition("\t" if "\t" in line else " ")
    word, count = word.strip(" "), count.strip(" ")
    # int() also reads "1_5", the digits of other scripts, and numbers beyond any count.
    if not word or not (count.isascii() and count.isdigit() and len(count) <= 18):
      raise DataError(
        f"{path}, line {number}: the line is {line[:60]!r}; expected a word, a tab or space, and its count, an integer"
      )
    counts[word.lower() if lower_case else word] += int(count)
  if not counts:
    raise DataError(f"{path} has no words; expected lines of a word, a tab or space, and its count")
  return dict(counts)


def count_words(path: FilePath, split: Callable[[str], Iterable[str]]) -> dict[str, int]:
  """Counts the words of a text corpus, plain or gzipped, line by line; only the counts are kept in memory.

  Args:
    path: a text file in UTF-8; empty lines are skipped. It is read twice: first to count its lines, so that a damaged
      file is reported early.
    split: line -> its words.

  Returns:
    {word: count}.

  Raises:
    DataError: the file is missing, unreadable, not text, without words, or changes between the two readings.
  """
  total = sum(1 for _ in lines(path, empty="skip"))
  counts, done = Counter(), 0
  with Progress(total, what="counting words", unit="line") as progress:
    for _, line in lines(path, empty="skip"):
      counts.update(split(line))
      done += 1
      if done % _REPORT_LINES == 0:
        progress.update(_REPORT_LINES)
    progress.update(done % _REPORT_LINES)
  if done != total:
    raise DataError(
      f"{path} had {total} lines, and {done} when it was read again; expected a file that does not change"
    )
  if not counts:
    raise DataError(f"{path} has no words; expected a text file")
  return dict(counts)


def rank_vocabulary(vocab: Sequence[str], counts: Mapping[Any, int]) -> np.ndarray:
  """Returns the rows of a vocabulary by decreasing frequency, int64 [ranked].

  Special tokens ([PAD], [UNK], [CLS], [SEP], [MASK], [unusedN], <s> and similar) and words without a count are left
  out. Words with the same count keep the vocabulary's order. Counts of words that are not in the vocabulary are
  ignored: a list of whole words has no counts for the pieces "##s" and "##ing".

  Args:
    vocab: token of each row.
    counts: {token: count} or {row: count}.

  Raises:
    DataError: no word of the vocabulary has a count.
  """
  frequencies = np.array(
    [0 if _SPECIAL.fullmatch(token) else counts.get(token, counts.get(row, 0)) for row, token in enumerate(vocab)],
    np.float64,
  )
  order = np.argsort(-frequencies, kind="stable")[: np.count_nonzero(frequencies)]
  if not order.size:
    raise DataError(
      f"none of the {len(counts)} counted words is among the {len(vocab)} of the vocabulary; the words of an uncased "
      "vocabulary must be in lower case"
    )
  return order


# Words of general English, as they are written, and the number of sentences that have them; see its README.md.
PACKAGED = pathlib.Path(__file__).parent.parent / "data" / "frequencies" / "english.tsv.gz"
# Row of the table with the number of sentences; not a word, as words have no punctuation or only that.
_SENTENCES = "(sentences)"
_CHUNK_SENTENCES = 4096
# Longer sentences are counted up to this number of word pieces.
_MAX_SEQ_LENGTH = 512


def packaged_frequencies(tokenizer: SentenceTokenizer) -> tuple[np.ndarray, int]:
  """Works out document frequencies from the packaged table of English words, for any vocabulary.

  The document frequency of a word piece is the sum of those of the words that contain it: exact for a whole word, and
  too large for a part of words by the sentences that have two such words.

  Args:
    tokenizer: cuts the words into word pieces.

  Returns:
    Number of sentences with each word piece, float64 [vocab_size], and number of all sentences.
  """
  words = read_frequencies(PACKAGED)
  total = words.pop(_SENTENCES)
  word, piece = _pieces(tokenizer(words, _MAX_SEQ_LENGTH, warn=False))
  counts = np.fromiter(words.values(), np.float64)[word]
  return np.minimum(np.bincount(piece, counts, tokenizer.vocab_size), total), total


def count_frequencies(path: FilePath, tokenizer: SentenceTokenizer) -> tuple[np.ndarray, int]:
  """Counts the sentences of a text file, plain or gzipped, that have each word piece; memory is bounded.

  Args:
    path: a sentence per line, in UTF-8; empty lines are skipped.
    tokenizer: cuts the sentences into word pieces.

  Returns:
    Number of sentences with each word piece, float64 [vocab_size], and number of all sentences.

  Raises:
    DataError: the file is missing, unreadable, not text, or without sentences.
  """
  frequencies, total, chunk = np.zeros(tokenizer.vocab_size), 0, []

  def add():
    _, piece = _pieces(tokenizer(chunk, _MAX_SEQ_LENGTH))
    frequencies[:] += np.bincount(piece, minlength=tokenizer.vocab_size)
    progress.update(len(chunk))
    chunk.clear()

  with Progress(sum(1 for _ in lines(path, empty="skip")), what="counting word pieces", unit="line") as progress:
    for _, sentence in lines(path, empty="skip"):
      chunk.append(sentence)
      total += 1
      if len(chunk) == _CHUNK_SENTENCES:
        add()
    if chunk:
      add()
  if not total:
    raise DataError(f"{path} has no sentences; expected a text file with a sentence per line")
  return frequencies, total


def _pieces(ids):
  """Returns the distinct word pieces of texts: numbers of the texts, and ids of the pieces, int64 [n] each."""
  text = np.repeat(np.arange(len(ids)), [len(row) for row in ids])
  piece = np.concatenate(ids)
  size = int(piece.max()) + 1
  return np.divmod(np.unique(text * size + piece), size)
