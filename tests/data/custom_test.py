import gzip
import itertools

import numpy as np
import pytest

from bert_flow_tf.data.custom import pair_up, read_corpus
from bert_flow_tf.data.tasks import find_task, load_task
from bert_flow_tf.errors import ConfigError, DataError


@pytest.fixture
def file(tmp_path):
  def make(content, name="mine.tsv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path

  return make


@pytest.mark.parametrize("sentences", [["a"], ["a", "b"], ["a", "b", "c"], list("abcdefg")])
def test_every_lone_sentence_is_in_a_pair(sentences):
  pairs = pair_up(sentences)
  assert len(pairs) == (len(sentences) + 1) // 2 and np.isnan(pairs.scores).all()
  both = [*pairs.sentences_a, *pairs.sentences_b]
  assert both[: len(sentences)] == sentences and both[len(sentences) :] == ["a"] * (len(sentences) % 2)


@pytest.mark.parametrize("packed", [False, True])
def test_sentences_alone_are_for_fitting(file, packed):
  content = b'\n One sentence.\n\n\nAnother, "so".\nword\nlast'
  path = file(gzip.compress(content) if packed else content, "text.txt.gz" if packed else "text.txt")
  data = load_task("custom", data_dir=path)
  assert data.spec.eval_split is None and data.spec.name == "custom"
  assert data.source == f"4 sentences of {path}"
  for use_full in (True, False):
    pairs = data.fitting_pairs(use_full)
    assert pairs.sentences_a == (" One sentence.", 'Another, "so".') and pairs.sentences_b == ("word", "last")


@pytest.mark.parametrize("header", ["", "sentence1\tsentence2\n", "Sentence2\tSENTENCE1\r\n"])
def test_pairs_are_for_fitting(file, header):
  data = load_task("custom", data_dir=file(f'{header}a\t"b\nc\t\n'))
  pairs = data.fitting_pairs(True)
  first, second = (("a", "c"), ('"b', ""))
  assert (pairs.sentences_a, pairs.sentences_b) == ((second, first) if header.startswith("S") else (first, second))
  assert data.spec.eval_split is None and np.isnan(pairs.scores).all() and "2 pairs without scores" in data.source


@pytest.mark.parametrize("names", [None, *itertools.permutations(["score", "sentence1", "sentence2"])])
def test_scored_pairs_are_evaluated(file, names):
  rows = [("-3", "a", "b"), ("12.5", "c", "d"), ("0", "1", "")]
  order = names or ("score", "sentence1", "sentence2")
  place = [("score", "sentence1", "sentence2").index(name) for name in order]
  table = [order] * (names is not None) + [[row[i] for i in place] for row in rows]
  data = load_task("CUSTOM", data_dir=file("".join("\t".join(row) + "\n" for row in table)))
  pairs = data.splits[data.spec.eval_split]
  assert pairs.scores.tolist() == [-3, 12.5, 0] and data.spec.scale == (-3, 12.5)
  assert pairs.sentences_a == ("a", "c", "1") and pairs.sentences_b == ("b", "d", "")
  assert find_task("custom").eval_split is None
  with pytest.raises(DataError, match="custom has no train split"):
    data.fitting_pairs(use_full=False)


def test_the_score_may_stand_last(file):
  pairs = load_task("custom", data_dir=file("a cat\ta dog\t3.5\n1\t2\t0\n")).splits["test"]
  assert (
    pairs.scores.tolist() == [3.5, 0] and pairs.sentences_a == ("a cat", "1") and pairs.sentences_b == ("a dog", "2")
  )
  mixed = load_task("custom", data_dir=file("1984\ta book\t3.5\na man\ta guy\t4.2\n")).splits["test"]
  assert mixed.scores.tolist() == [3.5, 4.2] and mixed.sentences_a == ("1984", "a man")
  with_both = load_task("custom", data_dir=file("1\tx\t2\n2\ty\t3\n")).splits["test"]
  assert with_both.scores.tolist() == [1, 2] and with_both.sentences_b == ("2", "3")


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("a\tb\nc\n", ", line 2: 1 column, expected 2 as in the lines before"),
    ("a\nb\n\nc\td\n", ", line 4: 2 columns, expected 1 as in the lines before"),
    ("sentence1\tsentence2\na\tb\tc\n", ", line 2: 3 columns, expected 2 as in the lines before"),
    ("a\tb\tc\td\na\tb\tc\td\n", ", line 1: 4 columns, expected 1 (a sentence), 2 (sentence1, sentence2) or 3 (score,"),
    (
      "id\tsentence1\tsentence2\n1\ta\tb\n",
      ", line 1: the header names a column id; beside the sentences' expected score",
    ),
    ("a\tb\n\nc\td\n", ", line 2: the line is empty; expected 2 columns"),
    ("1\ta\tb\nhigh\tc\td\n", ", line 2: the score is 'high', expected a number"),
    ("1\ta\tb\n\tc\td\n", ", line 2: the score is '', expected a number"),
    ("nan\ta\tb\n", ", line 1: the score is 'nan', expected a number"),
    ("a\tb\tc\n", ", line 1: the score is 'a', expected a number, in the first column or in the last; with other"),
    ("a\tb\t1\nc\td\thigh\n", ", line 2: the score is 'high', expected a number"),
    ("score\tsentence1\tsentence2\n", " is empty: no sentence in it"),
    ("", " is empty: no sentence in it"),
    ("\n \n\n", " is empty: no sentence in it"),
    (b"a\n\xff\n", ", line 2: byte 0xff at position 1"),
    (b"a\0b\n", ", line 1: a NUL byte"),
    ("a\rb\r", ", line 1: a carriage return inside the line"),
    (gzip.compress(b"a\tb\nc\td\n", mtime=0)[:-3], " cannot be unpacked ("),
    (gzip.compress(b"a\tb\nc\n", mtime=0), ", line 2: 1 column, expected 2"),
  ],
)
def test_a_malformed_file_is_named_with_the_line(file, content, message):
  path = file(content)
  with pytest.raises(DataError) as caught:
    load_task("custom", data_dir=path)
  assert str(caught.value).startswith(f"{path}{message}") and "\n" not in str(caught.value)


def test_a_file_has_to_be_named(tmp_path):
  with pytest.raises(ConfigError) as caught:
    load_task("custom")
  assert caught.value.argument == "data_dir"
  with pytest.raises(DataError, match="is a folder; expected a text file"):
    load_task("custom", data_dir=tmp_path)
  with pytest.raises(DataError, match=r"none\.txt does not exist"):
    load_task("custom", data_dir=tmp_path / "none.txt")


@pytest.mark.parametrize(
  ("content", "first", "second"),
  [
    ("a\n\nb\nc\nd\n", "ab", "cd"),
    ("a\tb\nc\td\n", "ac", "bd"),
    ("1.5\ta\tb\n2\tc\td\n", "ac", "bd"),
    ("a\tb\t1\t\nc\td\t\t\n", "ac", "bd"),
    ("index\tx\ty\n0\ta\tb\n1\tc\td\n", "ac", "bd"),
    ("label\tsentence2\tsentence1\tx\nno\tb\ta\ty\nno\td\tc\tz\n", "ac", "bd"),
    ("pair_ID\tsentence_A\tsentence_B\tx\n1\ta\tb\tNEUTRAL\n2\tc\td\tNEUTRAL\n", "ac", "bd"),
    ("index\tquestion\tsentence\tlabel\n0\ta\tb\tno\n1\tc\td\tno\n", "ac", "bd"),
    ("a\tb\tc\nd\t\tf\n", "adb", "cfa"),
    ("0\ta\n1\tb\n", "a", "b"),
  ],
)
def test_any_file_is_a_corpus(file, content, first, second):
  pairs = read_corpus(file(content))
  assert ("".join(pairs.sentences_a), "".join(pairs.sentences_b)) == (first, second)
  assert np.isnan(pairs.scores).all()


def test_labels_are_no_sentences(file):
  lines = [f"a {i}\tb {i}\t{('yes', 'no')[i % 2]}\tgroup {i % 3}\n" for i in range(400)]
  pairs = read_corpus(file("".join(lines)))
  assert pairs.sentences_a == tuple(f"a {i}" for i in range(400)) and pairs.sentences_b[-1] == "b 399"


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("1\n2\n", "has no sentences: 1 column of numbers or of nothing"),
    ("a\tb\nc\n", "line 2: 1 column, expected 2 as in the lines before"),
    ("", "is empty: no sentence in it"),
  ],
)
def test_a_corpus_without_sentences(file, content, message):
  with pytest.raises(DataError, match=message):
    read_corpus(file(content))
