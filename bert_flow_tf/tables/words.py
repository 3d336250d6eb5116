"""Rows of a vocabulary by how often a corpus has them, for Table 1."""

import re
from collections import Counter

from bert_flow_tf.data import word_frequency

# What BERT's tokenizer splits at whatever stands there; it never joins what is on both sides.
_WORD = re.compile(r"[^ \t\r\n]+")
_WHOLE = 1 << 30


def ranks_of_file(path, tokenizer):
  """Rows of the vocabulary in falling frequency, int64 [ranked], from a file of words and counts.

  Raises:
    DataError: what `read_frequencies` and `rank_vocabulary` refuse.
  """
  counts = word_frequency.read_frequencies(path, tokenizer.do_lower_case)
  return word_frequency.rank_vocabulary(tokenizer.vocab, counts)


def ranks_of_corpus(path, tokenizer):
  """The same from a text, of which each distinct word is tokenized once.

  Args:
    path: the text, plain or gzipped.
    tokenizer: a `SentenceTokenizer`.

  Raises:
    DataError: what `count_words` and `rank_vocabulary` refuse.
  """
  words = word_frequency.count_words(path, _WORD.findall)
  counts = Counter()
  for pieces, count in zip(tokenizer(list(words), _WHOLE), words.values(), strict=True):
    for piece in pieces.tolist():
      counts[piece] += count
  return word_frequency.rank_vocabulary(tokenizer.vocab, counts)
