"""Words of a vocabulary by their frequency, for Table 1."""

import collections
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.data.files.source import FilePath
from bert_flow_tf.encoder.text.frequency import SPECIAL, lines_with_progress, read_frequencies
from bert_flow_tf.errors import DataError
from bert_flow_tf.tables.request import TableArguments
from bert_flow_tf.tables.workbench import Workbench

# BERT's tokenizer always splits at these characters, so that counting words one by one gives the same pieces.
_WORD = re.compile(r"[^ \t\r\n]+")
_UNLIMITED = 1 << 30


def vocabulary_ranks(bench: Workbench, arguments: TableArguments) -> np.ndarray | list[int]:
  """Returns the rows of the vocabulary by decreasing frequency; the counts of a corpus are stored."""
  tokenizer = bench.encoder.tokenizer
  if arguments.frequency_file:
    counts = read_frequencies(os.path.expanduser(arguments.frequency_file), tokenizer.do_lower_case)
    return rank_vocabulary(tokenizer.words, counts)
  path = os.path.expanduser(arguments.corpus)

  def compute():
    # Each distinct word of the text is tokenized once.
    words = count_words(path, _WORD.findall)
    counts = collections.Counter()
    for pieces, count in zip(tokenizer(list(words), _UNLIMITED), words.values(), strict=True):
      for piece in pieces.tolist():
        counts[piece] += count
    return rank_vocabulary(tokenizer.words, counts).tolist()

  with open(path, "rb") as file:
    digest = hashlib.file_digest(file, "sha256").hexdigest()
  return bench.store.kept({"kind": "ranks", "tokenizer": tokenizer.checksum, "corpus": digest}, compute)


def count_words(path: FilePath, split: Callable[[str], Iterable[str]]) -> dict[str, int]:
  """Returns {word: count} of a text file, plain or gzipped; `split` gives the words of a line."""
  counts: collections.Counter[str] = collections.Counter()
  for line in lines_with_progress(path, "counting words"):
    counts.update(split(line))
  if not counts:
    raise DataError(f"{path} has no words; expected a text file")
  return dict(counts)


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
