"""data/custom.py: users' own files as a task and as a corpus."""

import gzip
import itertools

import numpy as np
import pytest

from bert_flow_tf.data.custom import read_pairs
from bert_flow_tf.data.tasks import find_task, load_task
from bert_flow_tf.errors import ConfigError, DataError
from tests.testing import rejected


@pytest.fixture
def file(tmp_path):
  def make(content, name="mine.tsv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path

  return make


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("header", ["", "Sentence\n"])
def test_single_sentences_are_for_fitting(file, packed, header):
  content = header.encode() + b'\n One, sentence.\n\n\nAnother, "so".\nword\nlast'
  path = file(gzip.compress(content) if packed else content, "text.txt.gz" if packed else "text.txt")
  data = load_task("custom", data_dir=path)
  assert data.spec.eval_split is None and data.spec.name == "custom"
  assert data.source == f"4 sentences of {path}"
  for pairs in (data.fitting_pairs(True), data.fitting_pairs(False), read_pairs(path)[0]):
    assert pairs.sentences_a == (" One, sentence.", 'Another, "so".') and pairs.sentences_b == ("word", "last")


@pytest.mark.parametrize("header", ["", "sentence1\tsentence2\n", "Sentence2\tSENTENCE1\r\n"])
def test_pairs_are_for_fitting(file, header):
  path = file(f'{header}a\t"b\nc\t\n')
  data = load_task("custom", data_dir=path)
  expected = [("a", "c"), ('"b', "")]
  if header.startswith("S"):
    expected.reverse()
  for pairs in (data.fitting_pairs(True), read_pairs(path)[0]):
    assert [pairs.sentences_a, pairs.sentences_b] == expected and np.isnan(pairs.scores).all()
  assert data.spec.eval_split is None and "2 unscored pairs of" in data.source


NAMES = ("score", "sentence1", "sentence2")


@pytest.mark.parametrize(
  ("order", "header"),
  [
    (NAMES, False),
    (("sentence1", "sentence2", "score"), False),
    *((order, True) for order in itertools.permutations(NAMES)),
  ],
)
def test_scored_pairs_are_evaluated(file, order, header):
  rows = [("-3", "a", "b"), ("12.5", "c", "1984"), ("0", "1", "")]
  places = [NAMES.index(name) for name in order]
  table = [order] * header + [[row[place] for place in places] for row in rows]
  path = file("".join("\t".join(row) + "\n" for row in table))
  data = load_task("CUSTOM", data_dir=path)
  pairs = data.splits[data.spec.eval_split]
  assert pairs.scores.tolist() == [-3, 12.5, 0] and data.spec.scale == (-3, 12.5)
  assert pairs.sentences_a == ("a", "c", "1") and pairs.sentences_b == ("b", "1984", "")
  assert find_task("custom").eval_split is None and read_pairs(path)[0].scores.tolist() == [-3, 12.5, 0]
  with rejected(DataError, "use_full_for_training"):
    data.fitting_pairs(use_full=False)


def test_a_header_chooses_the_columns(file, caplog):
  scored = "id\tgenre\tsentence1\tsentence2\tscore\n7\tnews\ta\tb\t3\n8\tnews\tc\td\t4.5\n"
  pairs = load_task("custom", data_dir=file(scored)).splits["test"]
  assert (pairs.sentences_a, pairs.sentences_b, pairs.scores.tolist()) == (("a", "c"), ("b", "d"), [3, 4.5])
  assert "2 columns not read: id, genre" in caplog.text
  pairs = load_task("custom", data_dir=file("label\tsentence\n0\ta\n1\tb\n")).splits["train"]
  assert (pairs.sentences_a, pairs.sentences_b) == (("a",), ("b",))


EXPECTED = "expected 1 column (a sentence), 2 (sentence1, sentence2) or 3 (sentence1, sentence2, score), separated by"


@pytest.mark.parametrize(
  ("content", "place", "message"),
  [
    ("a\tb\nc\n", ", line 2: ", "1 column, expected 2"),
    ("a\nb\n\nc\td\n", ", line 4: ", "2 columns, expected 1"),
    ("a\tb\tc\td\na\tb\tc\td\n", ", line 1: ", EXPECTED),
    ("a\tb\n\nc\td\n", ", line 2: ", "the line is empty"),
    ("1\ta\tb\nhigh\tc\td\n", ", line 2: ", "the score is 'high'"),
    ("nan\ta\tb\n", ", line 1: ", "the score is 'nan'"),
    ("1e308\ta\tb\n-1e308\tc\td\n", ", line 1: ", "the score is '1e308', expected a number from -1e+30 to 1e+30"),
    ("a\tb\tc\n", ", line 1: ", "the score is 'a'"),
    ("a\tb\t1\nc\td\t1_5\n", ", line 2: ", "the score is '1_5'"),
    ("a\tb\t1,5\n", ", line 1: ", "the score is '1,5', expected a number with a decimal point"),
    ("0\ta\n1\tb\n", ": ", EXPECTED),
    ("sentence1,sentence2,score\na,b,1\n", ", line 1: ", EXPECTED),
    ('{"sentence1": "a"}\n{"sentence1": "c"}\n', ", line 1: ", EXPECTED),
    ("score\tsentence1\tsentence2\n", " is empty", ""),
    ("", " is empty", ""),
    ("\n \n\n", " is empty", ""),
    (b"a\n\xff\n", ", line 2: ", "not UTF-8"),
    (gzip.compress(b"a\tb\nc\td\n", mtime=0)[:-3], " cannot be unpacked", ""),
    (gzip.compress(b"a\tb\nc\n", mtime=0), ", line 2: ", ""),
  ],
)
def test_an_error_names_the_file_and_the_line(file, content, place, message):
  path = file(content)
  with pytest.raises(DataError) as raised:
    load_task("custom", data_dir=path)
  text = str(raised.value)
  assert text.startswith(f"data_dir: {path}{place}") and message in text and "\n" not in text
  with pytest.raises(DataError) as raised:
    read_pairs(path)
  assert str(raised.value).startswith(f"{path}{place}")


@pytest.mark.parametrize("name", ["mine.csv", "mine.JSONL", "mine.parquet", "mine.csv.gz"])
def test_lines_of_another_format_are_no_sentences(file, name):
  with pytest.raises(DataError, match=r"line 1: the line is .*without a tab; expected 1 column"):
    read_pairs(file('{"text": "a"}\n{"text": "b"}\n', name))
  assert len(read_pairs(file("a\tb\n", name))[0]) == 1


@pytest.mark.parametrize(
  ("scores", "expected"),
  [
    (["2.5", "", "-1"], [2.5, np.nan, np.nan]),
    (["-1", "-1"], [np.nan, np.nan]),
    (["-1", "0", "1"], [-1, 0, 1]),
    (["-1", "-2", "3"], [-1, -2, 3]),
  ],
)
def test_pairs_without_a_score(file, scores, expected, caplog):
  path = file("".join(f"{score}\ta\tb\n" for score in ["score", *scores]).replace("a\tb", "sentence1\tsentence2", 1))
  np.testing.assert_array_equal(read_pairs(path)[0].scores, expected)
  for said, is_so in (("of -1 taken as missing", np.isnan(expected).any()), ("1 score of -1 count", scores[-1] == "1")):
    assert (said in caplog.text) == is_so
  data = load_task("custom", path)
  assert data.spec.eval_split == (None if np.isnan(expected).all() else "test")


def test_the_first_score_may_be_empty(file):
  for content in ("a\tb\t\nc\td\t2.5\n", "\ta\tb\n2.5\tc\td\n"):
    pairs = read_pairs(file(content))[0]
    assert pairs.sentences_a == ("a", "c") and pairs.scores[1] == 2.5 and np.isnan(pairs.scores[0])


def test_a_file_is_required(tmp_path):
  with rejected(ConfigError, "data_dir"):
    load_task("custom")
  for path in (tmp_path, tmp_path / "none.txt"):
    with pytest.raises(DataError, match=str(path)):
      load_task("custom", data_dir=path)
