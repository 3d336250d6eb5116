"""Rows of a vocabulary sorted by frequency, for Table 1."""

import os
import re
import typing
from collections import Counter

import numpy as np

from bert_flow_tf.encoder import token_frequency

if typing.TYPE_CHECKING:
  from bert_flow_tf.encoder.tokenizer import SentenceTokenizer

# BERT's tokenizer always splits at these characters, so that counting words one by one gives the same pieces.
_WORD = re.compile(r"[^ \t\r\n]+")
_UNLIMITED = 1 << 30


def ranks_of_file(path: str | os.PathLike, tokenizer: "SentenceTokenizer") -> np.ndarray:
  """Returns the rows of the vocabulary by decreasing frequency, int64 [ranked], from a file of words and counts.

  Raises:
    DataError: the file cannot be read, or has no word of the vocabulary.
  """
  counts = token_frequency.read_frequencies(path, tokenizer.do_lower_case)
  return token_frequency.rank_vocabulary(tokenizer.vocab, counts)


def ranks_of_corpus(path: str | os.PathLike, tokenizer: "SentenceTokenizer") -> np.ndarray:
  """Returns the same from a text, plain or gzipped, of which each distinct word is tokenized once.

  Raises:
    DataError: the text cannot be read, or has no word of the vocabulary.
  """
  words = token_frequency.count_words(path, _WORD.findall)
  counts = Counter()
  for pieces, count in zip(tokenizer(list(words), _UNLIMITED), words.values(), strict=True):
    for piece in pieces.tolist():
      counts[piece] += count
  return token_frequency.rank_vocabulary(tokenizer.vocab, counts)
