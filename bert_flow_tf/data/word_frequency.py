"""Words by frequency: from a file of counts or from a corpus to the rows of a vocabulary (the paper's Table 1)."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.data.lines import FilePath, lines
from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import Progress

# Tokens that stand for no text: BERT's, and those of vocabularies made the way of RoBERTa's.
_SPECIAL = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK|unused[0-9]+)\]|</?s>|<(pad|unk|mask|S|T)>")
# Lines between two reports of progress.
_REPORT = 1000


def read_frequencies(path: FilePath, lower_case: bool = False) -> dict[str, int]:
  """Reads a file of `word<TAB>count` or `word count` lines in any order, perhaps gzipped.

  The count is what follows the last tab, or the last space of a line without tabs, so a word may hold spaces. Empty
  lines are skipped; a word that comes again has the sum of its counts.

  Args:
    path: the file.
    lower_case: whether words are lower-cased and those that then are the same added up, for an uncased vocabulary.

  Raises:
    DataError: the file is missing, unreadable, without words, or a line is malformed.
  """
  counts = Counter()
  for number, line in lines(path, empty="skip"):
    word, _, count = line.strip(" ").rpartition("\t" if "\t" in line else " ")
    word, count = word.strip(" "), count.strip(" ")
    # int() reads "1_5" and other scripts' digits; nothing is counted beyond 10^18.
    if not word or not (count.isascii() and count.isdigit() and len(count) <= 18):
      raise DataError(
        f"{path}, line {number}: found {line[:60]!r}, expected a word, a tab or space, and its count as a whole number"
      )
    counts[word.lower() if lower_case else word] += int(count)
  if not counts:
    raise DataError(f"{path} has no words, expected lines of a word, a tab or space, and its count")
  return dict(counts)


def count_words(
  path: FilePath, split: Callable[[str], Iterable[Hashable]], show_progress: bool | None = None
) -> dict[Hashable, int]:
  """Counts the word pieces of a text corpus, perhaps gzipped, line by line; memory holds the counts alone.

  Args:
    path: a text file in UTF-8; empty lines are skipped. It is read twice: first to count its lines, so that damage is
      found before the long part.
    split: from a line to its tokens or vocabulary ids.
    show_progress: a bar on a terminal, else a line in the log every ten seconds; neither if False.

  Returns:
    {token or id: count}.

  Raises:
    DataError: the file is missing, unreadable, not text, without words, or changes meanwhile (a pipe does).
  """
  total = sum(1 for _ in lines(path, empty="skip"))
  counts, done = Counter(), 0
  with Progress(total, show_progress is not False, "counting words", "line") as progress:
    for _, line in lines(path, empty="skip"):
      counts.update(split(line))
      done += 1
      if done % _REPORT == 0:
        progress.update(_REPORT)
    progress.update(done % _REPORT)
  if done != total:
    raise DataError(f"{path}: {total} lines at first and {done} when read again, expected a file that does not change")
  if not counts:
    raise DataError(f"{path} has no words, expected a text file")
  return dict(counts)


def rank_vocabulary(vocab: Sequence[str], counts: Mapping[Any, int], specials: Iterable[str] = ()) -> np.ndarray:
  """Rows of a vocabulary in falling frequency.

  Left out are special tokens ([PAD], [UNK], [CLS], [SEP], [MASK], [unusedN], <s> and the like) and words without a
  count or with the count 0. Words of the same count keep the vocabulary's order. Counts of words that the vocabulary
  does not hold are ignored: a list of whole words says nothing of the pieces "##s" and "##ing".

  Args:
    vocab: token of each row.
    counts: {token: count}, or {row: count}.
    specials: further tokens to leave out.

  Returns:
    int64 [ranked].

  Raises:
    DataError: the keys are neither all tokens nor all rows of the vocabulary, a count is negative, or no word is left.
  """
  if isinstance(vocab, Mapping):
    raise DataError("the vocabulary is a mapping, expected the tokens in the order of their rows")
  by_token = _keyed_by_token(counts, len(vocab))
  negative = next((word for word, count in counts.items() if not count >= 0), None)
  if negative is not None:
    raise DataError(f"the word {negative!r} has the count {counts[negative]}, expected 0 or more")
  specials = frozenset(specials)
  found = np.array([counts.get(token if by_token else row, 0) for row, token in enumerate(vocab)], np.float64)
  for row, token in enumerate(vocab):
    if token in specials or _SPECIAL.fullmatch(token):
      found[row] = 0
  order = np.argsort(-found, kind="stable")[: np.count_nonzero(found)]
  if not order.size:
    raise DataError(
      f"none of {len(counts)} counted words is among the {len(vocab)} of the vocabulary, expected some: for an uncased "
      "vocabulary the words must be in lower case"
    )
  return order


def _keyed_by_token(counts, vocab_size):
  """Whether counts are keyed by tokens (True) or by rows of the vocabulary (False)."""
  tokens = sum(isinstance(key, str) for key in counts)
  if tokens == len(counts):
    return True
  strange = next((k for k in counts if isinstance(k, bool | np.bool_) or not isinstance(k, int | np.integer)), None)
  if tokens or strange is not None:
    raise DataError("counts keyed by a mixture, or by neither tokens nor whole numbers; expected all str or all int")
  outside = next((key for key in counts if not 0 <= key < vocab_size), None)
  if outside is not None:
    raise DataError(f"a count of row {outside}, expected 0 to {vocab_size - 1}, the rows of the vocabulary")
  return False
