"""data/table.py, data/files/source.py and the readers of STS files: formats and malformed files."""

import math

import numpy as np
import pytest

from bert_flow_tf.data.semeval import read_sts
from bert_flow_tf.data.stsb import read_benchmark
from bert_flow_tf.data.table import Gold, TaskTable
from bert_flow_tf.errors import DataError

LINE = b"genre\tfile\tyear\tid\t2.5\tA man.\tA woman.\n"


def _stsb(score="2.5", first="A man.", second="A woman."):
  return f"genre\tfile\tyear\tid\t{score}\t{first}\t{second}\n".encode()


def _file(tmp_path, content):
  path = tmp_path / "pairs.csv"
  path.write_bytes(content)
  return path


@pytest.mark.parametrize(
  ("content", "first", "second", "scores"),
  [
    (
      _stsb("0", '"Not closed', 'He said "yes".') + LINE,
      ['"Not closed', "A man."],
      ['He said "yes".', "A woman."],
      [0, 2.5],
    ),
    (_stsb("5", " b ", '"').rstrip(b"\n") + b"\tsource\tother\n", [" b "], ['"'], [5]),
    (_stsb(first="", second=""), [""], [""], [2.5]),
    (_stsb(first="") + _stsb(first="\ufeffa"), ["", "\ufeffa"], ["A woman."] * 2, [2.5] * 2),
    (b"\xef\xbb\xbf" + LINE.replace(b"\n", b"\r\n") + b"\n  \n", ["A man."], ["A woman."], [2.5]),
  ],
)
def test_variants_of_the_benchmarks_format(tmp_path, content, first, second, scores):
  pairs = read_benchmark(_file(tmp_path, content))
  assert [*pairs.sentences_a] == first and [*pairs.sentences_b] == second and pairs.scores.tolist() == scores


@pytest.mark.parametrize(
  ("content", "message"),
  [
    (LINE + b"a\tb\tc\n", "line 2: 3 columns, expected at least 7"),
    (b"lone text\n", "line 1: 1 column, expected at least 7"),
    (LINE + _stsb("high"), "line 2: the score is 'high', expected a number from 0 to 5"),
    (LINE * 2 + _stsb("nan"), "line 3: the score is 'nan', expected a number from 0 to 5"),
    (_stsb("1.234,5"), "line 1: the score is '1.234,5', expected a number with a decimal point from 0 to 5"),
    (LINE + _stsb("5.001"), "line 2: the score is '5.001', expected a number from 0 to 5"),
    (LINE + _stsb("-1"), "line 2: the score is '-1', expected a number from 0 to 5"),
    (b"", "is empty; "),
    (b"\xef\xbb\xbf", "is empty; "),
  ],
)
def test_malformed_files_of_the_benchmark(tmp_path, content, message):
  path = _file(tmp_path, content)
  with pytest.raises(DataError) as raised:
    read_benchmark(path)
  text = str(raised.value)
  assert text.startswith(str(path)) and message in text and "\n" not in text


def _sts(tmp_path, sentences, gold):
  (tmp_path / "input").write_bytes(sentences)
  (tmp_path / "gs").write_bytes(gold)
  return read_sts(tmp_path / "input", tmp_path / "gs")


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n\n"])
def test_sts_reads_two_files(tmp_path, end):
  pairs = _sts(tmp_path, b'"a\t"b"\nc\td\thttp://source\nlone\t\ne\tf' + end, b"4.250\n\n0\n \n" + end)
  assert pairs.sentences_a == ('"a', "c", "lone", "e") and pairs.sentences_b == ('"b"', "d", "", "f")
  np.testing.assert_array_equal(pairs.scores, [4.25, math.nan, 0, math.nan])


@pytest.mark.parametrize(
  ("sentences", "gold", "message"),
  [
    (b"a\tb\nc d\n", b"1\n2\n", "input, line 2: 1 column, expected 2 sentences, separated by a tab"),
    (b"a\tb\n\nc\td\n", b"1\n\n2\n", "input, line 2: the line is empty"),
    (b"a\tb\nc\td\n", b"1\n", "gs has 1 line, "),
    (b"a\tb\n", b"1\n2\n", "gs has 2 lines, "),
    (b"a\tb\nc\td\n", b"\n5.5\n", "gs, line 2: the score is '5.5', expected a number from 0 to 5"),
    (b"a\tb\n", b"x\n", "gs, line 1: the score is 'x'"),
    (b"a\tb\n", b"\xff\n", "gs, line 1: byte 0xff"),
    (b"", b"", "input is empty; "),
  ],
)
def test_sts_rejects(tmp_path, sentences, gold, message):
  with pytest.raises(DataError) as raised:
    _sts(tmp_path, sentences, gold)
  assert str(raised.value).startswith(f"{tmp_path}/{message}")


def test_a_table_may_have_short_and_long_lines_and_a_few_bad_labels(tmp_path):
  table = TaskTable("a table", Gold("label", {"yes": 1.0, "no": 0.0}), ("left", "right"), (1, 2, 3))
  content = b'id\tleft\tright\tlabel\n1\t"a\tb"\tyes\n2\tc\td\tno\n'
  pairs, number = table.read(_file(tmp_path, content + b"cut\n\n \tshort\tx\n3\te\tf\tyes\tmore\n"))
  assert pairs.sentences_a == ('"a', "c", "e") and pairs.scores.tolist() == [1, 0, 1] and number == 2
  good = content + b"3\te\tf\tyes\n" * 1000
  pairs, number = table.read(_file(tmp_path, good + b"4\tg\th\tmaybe\n"))
  assert len(pairs) == 1002 and number == 1
  with pytest.raises(DataError, match="line 1004: the label is 'maybe'"):
    table.read(_file(tmp_path, good + b"4\tg\th\tmaybe\n" * 2))
