"""Document frequencies of word pieces: counted in a file, or worked out from a packaged table of words."""

import pathlib

import numpy as np

from bert_flow_tf.data.features import SentenceTokenizer
from bert_flow_tf.data.lines import FilePath, lines
from bert_flow_tf.data.word_frequency import read_frequencies
from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import Progress

# Words of general English, as they are written, and the number of sentences that have them; see its README.md.
PACKAGED = pathlib.Path(__file__).parent / "frequencies" / "english.tsv.gz"
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
