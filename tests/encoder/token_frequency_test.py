"""encoder/token_frequency.py: files of counts, counting, ranks of a vocabulary."""

import gzip

import numpy as np
import pytest

from bert_flow_tf.encoder import token_frequency
from bert_flow_tf.encoder.token_frequency import count_words, rank_vocabulary, read_frequencies
from bert_flow_tf.errors import DataError

COUNTS = "of\t20\nthe\t30\n\nNew York\t2\nThe 4\ncat   1\nof\t5\n \u00e9t\u00e9 7 \n"


def _file(tmp_path, text, name="counts.txt"):
  path = tmp_path / name
  path.write_bytes(text.encode() if isinstance(text, str) else text)
  return path


@pytest.mark.parametrize("pack", [str.encode, lambda text: gzip.compress(text.encode())])
def test_reads_tabs_and_spaces(tmp_path, pack):
  path = _file(tmp_path, pack(COUNTS))
  assert read_frequencies(path) == {"of": 25, "the": 30, "New York": 2, "The": 4, "cat": 1, "\u00e9t\u00e9": 7}
  lower = read_frequencies(path, lower_case=True)
  assert lower["the"] == 34 and "The" not in lower


MALFORMED = ["the", "the\t", "\t5", " 5", "the -5", "the 5.0", "the 1_5", "5 the", "the\t\u0665", f"the {'9' * 5000}"]


@pytest.mark.parametrize("line", MALFORMED)
def test_a_malformed_line(tmp_path, line):
  path = _file(tmp_path, f"of 3\n{line}\nto 2\n")
  with pytest.raises(DataError) as raised:
    read_frequencies(path)
  assert str(raised.value).startswith(f"{path}, line 2: the line is {line[:60]!r}")


def test_a_file_without_words(tmp_path):
  with pytest.raises(DataError, match="has no words"):
    read_frequencies(_file(tmp_path, "\n\n"))
  with pytest.raises(DataError, match="does not exist"):
    read_frequencies(tmp_path / "none")
  with pytest.raises(DataError, match=r"line 2: byte 0xff"):
    read_frequencies(_file(tmp_path, b"of 3\n\xff 2\n"))


@pytest.mark.parametrize("packed", [False, True])
def test_counts_words(tmp_path, monkeypatch, packed):
  shown = []
  monkeypatch.setattr(token_frequency, "_REPORT_LINES", 2)
  monkeypatch.setattr(token_frequency.Progress, "update", lambda self, count: shown.append(count))
  text = b"a b a\n\nb c\nc c\r\n"
  path = _file(tmp_path, gzip.compress(text) if packed else text)
  assert count_words(path, str.split) == {"a": 2, "b": 2, "c": 3}
  assert sum(shown) == 3 and len(shown) > 1


def test_a_corpus_that_cannot_be_counted(tmp_path):
  with pytest.raises(DataError, match="has no words"):
    count_words(_file(tmp_path, "\n"), str.split)
  path = _file(tmp_path, "a b\n" * 100_000)

  def split(line):
    if path.stat().st_size > 9:  # A pipe is empty at the second reading; here the file is truncated.
      path.write_text("a b\n")
    return line.split()

  with pytest.raises(DataError, match="100000 lines"):
    count_words(path, split)


def test_a_damaged_file_is_reported_before_the_work(tmp_path):
  path = _file(tmp_path, gzip.compress(b"a b\n" * 1000)[:-4])
  called = []
  with pytest.raises(DataError, match="cannot be unpacked"):
    count_words(path, called.append)
  assert not called


VOCAB = ["[PAD]", "[unused7]", "[UNK]", "the", "cat", "##s", "[", "of", "[unused]", "<s>", "dog"]


def test_ranks_by_token():
  counts = {"[PAD]": 99, "[unused7]": 99, "[UNK]": 99, "<s>": 99, "cat": 3, "##s": 3, "the": 8, "zebra": 50, "dog": 0}
  order = rank_vocabulary(VOCAB, counts)
  assert order.dtype == np.int64 and order.tolist() == [3, 4, 5]
  assert rank_vocabulary(VOCAB, {**counts, "[unused]": 9, "[": 4}).tolist() == [8, 3, 6, 4, 5]


def test_ranks_by_row():
  assert rank_vocabulary(VOCAB, {0: 9, np.int64(7): 2, 10: 2, 3: 5}).tolist() == [3, 7, 10]


@pytest.mark.parametrize("counts", [{"Cat": 3}, {}, {"[PAD]": 1}, {"cat": 0}])
def test_no_word_of_the_vocabulary_has_a_count(counts):
  with pytest.raises(DataError, match=f"{len(counts)} counted words"):
    rank_vocabulary(VOCAB, counts)
