"""data/readers.py: formats and malformed files."""

import csv
import errno
import math
import pathlib

import numpy as np
import pytest

from bert_flow_tf.data.readers import label_reader, read_scored_tsv, read_sts, read_stsbenchmark, read_table
from bert_flow_tf.errors import DataError
from tests.testing import shared

SCALE = (0.0, 5.0)
LINE = b"genre\tfile\tyear\tid\t2.5\tA man.\tA woman.\n"
HEADER = b"score\tsentence1\tsentence2\n"


def _stsb(score="2.5", first="A man.", second="A woman."):
  return f"genre\tfile\tyear\tid\t{score}\t{first}\t{second}\n".encode()


def _file(tmp_path, content):
  path = tmp_path / "pairs.csv"
  path.write_bytes(content)
  return path


@pytest.mark.parametrize(("split", "count"), [("train", 5749), ("dev", 1500), ("test", 1379)])
def test_the_real_files_row_by_row(split, count):
  path = shared(f"data/STS/STSBenchmark/sts-{split}.csv")
  pairs = read_stsbenchmark(path, SCALE)
  with open(path, encoding="utf-8", newline="\n") as file:
    rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
  assert len(pairs) == len(rows) == count
  assert pairs.sentences_a == tuple(row[5] for row in rows)
  assert pairs.sentences_b == tuple(row[6] for row in rows)
  assert pairs.scores.tolist() == [float(row[4]) for row in rows]
  assert any('"' in sentence for sentence in pairs.sentences_a)


# As `cut -f5 sts-*.csv | awk '{s+=$1} END {printf "%.3f", s}'` prints it.
@pytest.mark.parametrize(("split", "total"), [("train", 15528.043), ("dev", 3545.861), ("test", 3596.317)])
def test_the_sums_of_the_real_scores(split, total):
  scores = read_stsbenchmark(shared(f"data/STS/STSBenchmark/sts-{split}.csv"), SCALE).scores
  assert scores.sum() == pytest.approx(total, abs=1e-3)
  assert scores.min() == 0 and scores.max() == 5


def test_quotation_marks_are_text_and_further_columns_are_ignored(tmp_path):
  content = _stsb("0", '"Not closed', 'He said "yes".') + _stsb("5", " b ", '"').rstrip(b"\n") + b"\tsource\tother\n"
  pairs = read_stsbenchmark(_file(tmp_path, content), SCALE)
  assert pairs.sentences_a == ('"Not closed', " b ")
  assert pairs.sentences_b == ('He said "yes".', '"')
  assert pairs.scores.tolist() == [0, 5]


def test_an_empty_sentence_is_a_sentence(tmp_path):
  pairs = read_stsbenchmark(_file(tmp_path, _stsb(first="", second="")), SCALE)
  assert (pairs.sentences_a, pairs.sentences_b) == (("",), ("",))
  assert read_scored_tsv(_file(tmp_path, HEADER + b"1\t\t\n"), SCALE).sentences_b == ("",)


@pytest.mark.parametrize(
  "content",
  [
    b"\xef\xbb\xbf" + LINE + LINE,
    (LINE + LINE).replace(b"\n", b"\r\n"),
    (LINE + LINE)[:-1],
    LINE + LINE + b"\n\n  \n",
    LINE + LINE + b"\r\n\r\n",
  ],
  ids=["BOM", "CRLF", "no last line break", "empty lines at the end", "empty CRLF lines at the end"],
)
def test_accepts_variants_of_the_format(tmp_path, content):
  pairs = read_stsbenchmark(_file(tmp_path, content), SCALE)
  assert pairs.sentences_a == ("A man.", "A man.") and pairs.sentences_b == ("A woman.", "A woman.")
  assert pairs.scores.tolist() == [2.5, 2.5]


def test_a_bom_is_removed_only_at_the_start(tmp_path):
  # ZERO WIDTH NO-BREAK SPACE elsewhere is text.
  assert read_stsbenchmark(_file(tmp_path, LINE + _stsb(first="\ufeffa")), SCALE).sentences_a[1] == "\ufeffa"
  with pytest.raises(DataError, match="line 2: the score is"):
    read_scored_tsv(_file(tmp_path, HEADER + "\ufeff1\ta\tb\n".encode()), SCALE)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_only_a_line_feed_ends_a_line(tmp_path, separator):
  pairs = read_stsbenchmark(_file(tmp_path, _stsb(first=f"a{separator}b") + LINE), SCALE)
  assert pairs.sentences_a == (f"a{separator}b", "A man.")


@pytest.mark.parametrize(
  ("content", "message"),
  [
    (LINE + b"a\tb\tc\n", "line 2: 3 columns, expected at least 7"),
    (b"lone text\n", "line 1: 1 column, expected at least 7"),
    (LINE + _stsb("high"), "line 2: the score is 'high', expected a number from 0 to 5"),
    (LINE + _stsb(""), "line 2: the score is '', expected a number from 0 to 5"),
    (LINE * 2 + _stsb("nan"), "line 3: the score is 'nan', expected a number from 0 to 5"),
    (_stsb("inf"), "line 1: the score is 'inf', expected a number from 0 to 5"),
    (_stsb("1_0"), "line 1: the score is '1_0', expected a number from 0 to 5"),
    (_stsb("1,5"), "line 1: the score is '1,5', expected a number from 0 to 5"),
    (LINE + _stsb("5.001"), "line 2: the score 5.001 is outside the scale, expected a number from 0 to 5"),
    (LINE + _stsb("-1"), "line 2: the score -1 is outside the scale, expected a number from 0 to 5"),
    (
      LINE + _stsb(first="caf\xe9").decode().encode("latin-1"),
      "line 2: byte 0xe9 at position 27 of the line is not UTF-8",
    ),
    (LINE.decode().encode("utf-16"), "line 1: "),
    (LINE + _stsb(second="a\0b"), "line 2: a NUL byte"),
    ((LINE + LINE).replace(b"\n", b"\r"), "line 1: a carriage return inside the line"),
    (LINE + b"\n" + LINE, "line 2: the line is empty"),
    (b"", "is empty; "),
    (b"\n\n", "is empty; "),
    (b"\xef\xbb\xbf", "is empty; "),
  ],
)
def test_rejects_malformed_files(tmp_path, content, message):
  path = _file(tmp_path, content)
  with pytest.raises(DataError) as raised:
    read_stsbenchmark(path, SCALE)
  text = str(raised.value)
  assert text.startswith(str(path)) and message in text and "\n" not in text


@pytest.mark.parametrize("reader", [read_stsbenchmark, read_scored_tsv])
def test_rejects_unreadable_files(tmp_path, reader, monkeypatch):
  with pytest.raises(DataError, match=r"nowhere\.csv does not exist; expected a text file"):
    reader(tmp_path / "nowhere.csv", SCALE)
  path = _file(tmp_path, HEADER)
  with pytest.raises(DataError, match=r"below\.csv does not exist"):
    reader(path / "below.csv", SCALE)
  with pytest.raises(DataError, match="is a folder; expected a text file"):
    reader(tmp_path, SCALE)
  with pytest.raises(DataError, match="cannot be read: File name too long"):
    reader(tmp_path / ("x" * 300), SCALE)

  def denied(self, *_):
    raise PermissionError(errno.EACCES, "Permission denied", str(self))

  # Mode 000 does not stop root, the user of many test machines.
  monkeypatch.setattr(pathlib.Path, "open", denied)
  with pytest.raises(DataError, match=r"pairs\.csv cannot be read: Permission denied"):
    reader(path, SCALE)


def test_scored_tsv(tmp_path):
  content = HEADER + '4.2\tA "quoted" word\tB\n0\tc\td\u2028e'.encode()
  pairs = read_scored_tsv(_file(tmp_path, content), SCALE)
  assert pairs.sentences_a == ('A "quoted" word', "c") and pairs.sentences_b == ("B", "d\u2028e")
  np.testing.assert_array_equal(pairs.scores, [4.2, 0.0])


@pytest.mark.parametrize(
  ("content", "message"),
  [
    (b"1\ta\tb\n", r"line 1: the header is '1\\ta\\tb', expected 'score\\tsentence1\\tsentence2'"),
    (HEADER, "is empty; "),
    (HEADER + b"1\ta\n", "line 2: 2 columns, expected 3"),
    (HEADER + b"1\ta\tb\n1\ta\tb\tc\n", "line 3: 4 columns, expected 3"),
    (HEADER + b"9\ta\tb\n", "line 2: the score 9 is outside the scale, expected a number from 0 to 5"),
  ],
)
def test_scored_tsv_rejects(tmp_path, content, message):
  path = _file(tmp_path, content)
  with pytest.raises(DataError, match=message) as raised:
    read_scored_tsv(path, SCALE)
  assert str(raised.value).startswith(str(path))


def test_the_scale_is_an_argument(tmp_path):
  assert read_stsbenchmark(_file(tmp_path, _stsb("-3")), (-4.0, 0.0)).scores.tolist() == [-3]
  with pytest.raises(DataError, match="expected a number from -4 to 0"):
    read_stsbenchmark(_file(tmp_path, _stsb("1")), (-4.0, 0.0))


def _sts(tmp_path, sentences, gold):
  (tmp_path / "input").write_bytes(sentences)
  (tmp_path / "gs").write_bytes(gold)
  return read_sts(tmp_path / "input", tmp_path / "gs", SCALE)


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
    (b"a\tb\nc\td\n", b"\n5.5\n", "gs, line 2: the score 5.5 is outside the scale, expected a number from 0 to 5"),
    (b"a\tb\n", b"x\n", "gs, line 1: the score is 'x'"),
    (b"a\tb\n", b"\xff\n", "gs, line 1: byte 0xff"),
    (b"", b"", "input is empty; "),
  ],
)
def test_sts_rejects(tmp_path, sentences, gold, message):
  with pytest.raises(DataError) as raised:
    _sts(tmp_path, sentences, gold)
  assert str(raised.value).startswith(f"{tmp_path}/{message}")


TABLE = b'id\tleft\tright\tlabel\n1\t"a\tb"\tyes\n2\tc\td\tno\n'
LABEL = ("label", label_reader({"yes": 1.0, "no": 0.0}))


def test_table_is_read_by_the_names_of_its_columns(tmp_path):
  pairs, broken = read_table(_file(tmp_path, b"\xef\xbb\xbf" + TABLE.replace(b"\n", b"\r\n")), ("right", "left"), LABEL)
  assert pairs.sentences_a == ('b"', "d") and pairs.sentences_b == ('"a', "c")
  assert pairs.scores.tolist() == [1, 0] and broken == 0
  assert np.isnan(read_table(_file(tmp_path, TABLE), ("left", "right"))[0].scores).all()


@pytest.mark.parametrize(
  ("content", "message"),
  [
    (TABLE + b"3\te\tf\n", ", line 4: 3 columns, expected 4, separated by tabs (id, left, right, label)"),
    (TABLE + b"3\te\tf\tyes\tmore\n", ", line 4: 5 columns, expected 4"),
    (TABLE + b"3\te\tf\tmaybe\n", ", line 4: the label is 'maybe', expected yes or no"),
    (TABLE + b"3\te\tf\t-1\n", ", line 4: the label is '-1', expected yes or no"),
    (TABLE + b"\n" + TABLE, ", line 4: the line is empty"),
    (TABLE.replace(b"left", b"Left"), ", line 1: the column 'left' is not among 'id, Left, right, label'"),
    (TABLE.replace(b"label", b"left"), ", line 1: the column 'left' is twice among"),
    (TABLE.split(b"\n")[0], " is empty; "),
    (b"", " is empty; "),
  ],
)
def test_table_rejects(tmp_path, content, message):
  path = _file(tmp_path, content)
  with pytest.raises(DataError) as raised:
    read_table(path, ("left", "right"), LABEL)
  assert str(raised.value).startswith(f"{path}{message}")


PLACES = (1, 2, 3)


def test_table_of_the_published_code_may_have_short_and_long_lines(tmp_path):
  path = _file(tmp_path, TABLE + b"cut\n\n \tshort\n3\te\tf\tyes\tmore\n")
  pairs, number = read_table(path, ("left", "right"), LABEL, PLACES)
  assert pairs.sentences_a == ('"a', "c", "e") and pairs.scores.tolist() == [1, 0, 1] and number == 2
  with pytest.raises(DataError, match="line 4: 1 column, expected 4"):
    read_table(path, ("left", "right"), LABEL)
  spaces = _file(tmp_path, b"id\tleft\tright\tlabel\n1 a b yes\n2 c d no\n")
  with pytest.raises(DataError, match="all 2 lines after the header have too few columns; expected at least 4, sep"):
    read_table(spaces, ("left", "right"), LABEL, PLACES)


def test_table_of_the_published_code_may_have_a_few_bad_labels(tmp_path):
  good = TABLE + b"3\te\tf\tyes\n" * 1000
  pairs, number = read_table(_file(tmp_path, good + b"4\tg\th\tmaybe\n"), ("left", "right"), LABEL, PLACES)
  assert len(pairs) == 1002 and number == 1
  with pytest.raises(DataError, match="line 1004: the label is 'maybe'"):
    read_table(_file(tmp_path, good + b"4\tg\th\tmaybe\n" * 2), ("left", "right"), LABEL, PLACES)


def test_table_with_other_names_is_read_by_the_published_positions(tmp_path):
  other = TABLE.replace(b"left\tright\tlabel", b"x\ty\tz")
  pairs, number = read_table(_file(tmp_path, other), ("left", "right"), LABEL, (2, 1, -1))
  assert pairs.sentences_a == ('b"', "d") and pairs.scores.tolist() == [1, 0] and number == 0
  with pytest.raises(DataError, match="line 1: the column 'left' is not among 'id, x, right, label'"):
    read_table(_file(tmp_path, TABLE.replace(b"left", b"x")), ("left", "right"), LABEL, PLACES)
  with pytest.raises(DataError, match="line 1: the line is a pair; expected a header, such as left, right, label"):
    read_table(_file(tmp_path, TABLE.partition(b"\n")[2]), ("left", "right"), LABEL, PLACES)


def test_table_may_hide_its_labels(tmp_path):
  hidden = _file(tmp_path, b"id\tleft\tright\n1\ta\tb\n")
  assert np.isnan(read_table(hidden, ("left", "right"), LABEL, PLACES, hidden=True)[0].scores).all()
  with pytest.raises(DataError, match="line 1: the column 'label' is not among"):
    read_table(hidden, ("left", "right"), LABEL, PLACES)
  shown = read_table(_file(tmp_path, TABLE), ("left", "right"), LABEL, PLACES, hidden=True)
  assert shown[0].scores.tolist() == [1, 0]
