"""tables/word_ranks.py: words of a text counted, and the rows of a vocabulary by frequency."""

import gzip

import numpy as np
import pytest

from bert_flow_tf.encoder.text import frequency
from bert_flow_tf.errors import DataError
from bert_flow_tf.tables.word_ranks import count_words, rank_vocabulary
from tests.testing import rejected


def _file(tmp_path, content):
  path = tmp_path / "corpus.txt"
  path.write_bytes(content)
  return path


@pytest.mark.parametrize("packed", [False, True])
def test_counts_words(tmp_path, monkeypatch, packed):
  shown = []
  monkeypatch.setattr(frequency, "_REPORT_LINES", 2)
  monkeypatch.setattr(frequency.Progress, "update", lambda self, count: shown.append(count))
  text = b"a b a\n\nb c\nc c\r\n"
  path = _file(tmp_path, gzip.compress(text) if packed else text)
  assert count_words(path, str.split) == {"a": 2, "b": 2, "c": 3}
  assert sum(shown) == 3 and len(shown) > 1


def test_a_corpus_that_cannot_be_counted_is_reported_before_the_work(tmp_path):
  with pytest.raises(DataError, match=r"corpus\.txt"):
    count_words(_file(tmp_path, b"\n"), str.split)
  path = _file(tmp_path, gzip.compress(b"a b\n" * 1000)[:-4])
  called = []
  with pytest.raises(DataError, match=r"corpus\.txt"):
    count_words(path, called.append)
  assert not called


VOCAB = ["[PAD]", "[unused7]", "[UNK]", "the", "cat", "##s", "[", "of", "[unused]", "<s>", "dog"]


def test_ranks_by_token_or_by_row():
  counts = {"[PAD]": 99, "[unused7]": 99, "[UNK]": 99, "<s>": 99, "cat": 3, "##s": 3, "the": 8, "zebra": 50, "dog": 0}
  order = rank_vocabulary(VOCAB, counts)
  assert order.dtype == np.int64 and order.tolist() == [3, 4, 5]
  assert rank_vocabulary(VOCAB, {**counts, "[unused]": 9, "[": 4}).tolist() == [8, 3, 6, 4, 5]
  assert rank_vocabulary(VOCAB, {0: 9, np.int64(7): 2, 10: 2, 3: 5}).tolist() == [3, 7, 10]


@pytest.mark.parametrize("counts", [{"Cat": 3}, {}, {"[PAD]": 1}, {"cat": 0}])
def test_no_word_of_the_vocabulary_has_a_count(counts):
  with rejected(DataError, None):
    rank_vocabulary(VOCAB, counts)
