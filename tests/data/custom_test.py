"""data/custom.py: users' own files as a task and as a corpus."""

import csv
import gzip
import itertools
import re
import subprocess
import sys

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
def test_pair_up_uses_each_sentence(sentences):
  pairs = pair_up(sentences)
  assert len(pairs) == (len(sentences) + 1) // 2 and np.isnan(pairs.scores).all()
  both = [*pairs.sentences_a, *pairs.sentences_b]
  assert both[: len(sentences)] == sentences and both[len(sentences) :] == ["a"] * (len(sentences) % 2)


@pytest.mark.parametrize("packed", [False, True])
def test_single_sentences_are_for_fitting(file, packed):
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
  with pytest.raises(DataError) as raised:
    data.fitting_pairs(use_full=False)
  assert raised.value.argument == "use_full_for_training"


def test_the_score_may_be_the_last_column(file):
  pairs = load_task("custom", data_dir=file("a cat\ta dog\t3.5\n1\t2\t0\n")).splits["test"]
  assert (
    pairs.scores.tolist() == [3.5, 0] and pairs.sentences_a == ("a cat", "1") and pairs.sentences_b == ("a dog", "2")
  )
  mixed = load_task("custom", data_dir=file("1984\ta book\t3.5\na man\ta guy\t4.2\n")).splits["test"]
  assert mixed.scores.tolist() == [3.5, 4.2] and mixed.sentences_a == ("1984", "a man")
  with_both = load_task("custom", data_dir=file("1\tx\t2\n2\ty\t3\n")).splits["test"]
  assert with_both.scores.tolist() == [1, 2] and with_both.sentences_b == ("2", "3")


@pytest.mark.parametrize(
  ("content", "line"),
  [
    ("a\tb\nc\n", 2),
    ("a\nb\n\nc\td\n", 4),
    ("sentence1\tsentence2\na\tb\tc\n", 2),
    ("a\tb\tc\td\na\tb\tc\td\n", 1),
    ("a\tb\n\nc\td\n", 2),
    ("1\ta\tb\nhigh\tc\td\n", 2),
    ("1\ta\tb\n\tc\td\n", 2),
    ("nan\ta\tb\n", 1),
    ("1e308\ta\tb\n-1e308\tc\td\n", 1),
    ("a\tb\tc\n", 1),
    ("a\tb\t1\nc\td\thigh\n", 2),
    ("score\tsentence1\tsentence2\n", None),
    ("", None),
    ("\n \n\n", None),
    (b"a\n\xff\n", 2),
    (b"a\0b\n", 1),
    ("a\rb\r", 1),
    (gzip.compress(b"a\tb\nc\td\n", mtime=0)[:-3], None),
    (gzip.compress(b"a\tb\nc\n", mtime=0), 2),
  ],
)
def test_an_error_names_the_file_and_the_line(file, content, line):
  path = file(content)
  with pytest.raises(DataError) as raised:
    load_task("custom", data_dir=path)
  where = f"data_dir: {path}, line {line}: " if line else f"data_dir: {path} "
  assert str(raised.value).startswith(where) and "\n" not in str(raised.value)


def test_a_header_chooses_the_columns(file, caplog):
  scored = "id\tgenre\tsentence1\tsentence2\tscore\n7\tnews\ta\tb\t3\n8\tnews\tc\td\t4.5\n"
  pairs = load_task("custom", data_dir=file(scored)).splits["test"]
  assert (pairs.sentences_a, pairs.sentences_b, pairs.scores.tolist()) == (("a", "c"), ("b", "d"), [3, 4.5])
  assert "2 columns not read: id, genre" in caplog.text
  sick = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\n1\ta\tb\t4\n"
  assert load_task("custom", data_dir=file(sick)).splits["test"].scores.tolist() == [4]
  caplog.clear()
  unscored = load_task("custom", data_dir=file("id\tsentence1\tsentence2\tlabel\n1\ta\tb\tyes\n")).splits["train"]
  assert unscored.sentences_b == ("b",) and "2 columns not read: id, label" in caplog.text
  for header in ("label\tsentence", "id\tText"):
    content = f"{header}\n0\ta\n1\tb\n"
    assert load_task("custom", data_dir=file(content)).splits["train"].sentences_a == ("a",)
    assert read_corpus(file(content)).sentences_b == ("b",)


def test_numbers_are_no_sentences(file):
  with pytest.raises(DataError, match="the first of the 2 columns has only numbers"):
    load_task("custom", data_dir=file("0\ta\n1\tb\n"))


@pytest.mark.parametrize("header", [(), ("sentence1", "sentence2", "score")])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
def test_quoted_cells_are_what_was_quoted(tmp_path, header, quoting):
  rows = [("so", "b", 1.5), ('"Yes" he said', 'a 5" disk', 2.0), ("", '"', 3.0), ('"Yes"', "d, e", 4.0)]
  path = tmp_path / "quoted.tsv"
  with path.open("w", newline="") as out:
    csv.writer(out, "excel-tab", quoting=quoting).writerows([header, *rows] if header else rows)
  pairs = load_task("custom", data_dir=path).splits["test"]
  read = list(zip(pairs.sentences_a, pairs.sentences_b, pairs.scores.tolist(), strict=True))
  assert read == rows


def test_quotations_of_a_file_without_quoted_cells_stay(file):
  pairs = load_task("custom", data_dir=file('"Yes"\ta\n"No", he said\tb\n')).splits["train"]
  assert pairs.sentences_a == ('"Yes"', '"No", he said')


@pytest.mark.parametrize(
  ("content", "separator"),
  [
    ("sentence1,sentence2,score\na,b,1\n", ","),
    ('"a, b",c,3\nd,"e ""f""",4.5\n', ","),
    ("id,text\n1,a\n", ","),
    ("0,a\n1,b\n", ","),
    ('0,5;"a; b";c\n1;d, e;f\n2;g;h\n', ";"),
    ("text|id\na|1\n", "|"),
  ],
)
def test_other_separators_than_tabs_are_refused_and_the_conversion_works(file, tmp_path, content, separator):
  path = file(content, "mine.csv")
  with pytest.raises(DataError, match="s separate its columns") as raised:
    load_task("custom", data_dir=path)
  code = re.search('python -c "(.*)" <', str(raised.value))[1]
  with path.open() as source, (tmp_path / "mine.tsv").open("w") as target:
    subprocess.run([sys.executable, "-c", code], stdin=source, stdout=target, check=True)
  with path.open() as source, (tmp_path / "mine.tsv").open(newline="") as target:
    assert list(csv.reader(target, "excel-tab")) == list(csv.reader(source, delimiter=separator))


def test_json_lines_are_refused(file):
  with pytest.raises(DataError, match="JSON"):
    load_task("custom", data_dir=file('{"sentence1": "a"}\n{"sentence1": "c"}\n'))


def test_a_column_may_have_a_name(file):
  assert load_task("custom", data_dir=file("Sentence\na\nb\n")).splits["train"].sentences_a == ("a",)


@pytest.mark.parametrize(
  "content", ["Yes, I do.\nNo, not me.\n", "one, 2\n", "a, b, c\nd, 5\n", 'He said "a, b\nx, 5\n']
)
def test_sentences_with_commas_are_sentences(file, content):
  assert load_task("custom", data_dir=file(content)).spec.eval_split is None


def test_a_file_is_required(tmp_path):
  with pytest.raises(ConfigError) as raised:
    load_task("custom")
  assert raised.value.argument == "data_dir"
  for path in (tmp_path, tmp_path / "none.txt"):
    with pytest.raises(DataError, match=str(path)):
      load_task("custom", data_dir=path)


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
def test_corpora(file, content, first, second):
  pairs = read_corpus(file(content))
  assert ("".join(pairs.sentences_a), "".join(pairs.sentences_b)) == (first, second)
  assert np.isnan(pairs.scores).all()


def test_labels_are_not_sentences(file):
  lines = [f"a {i}\tb {i}\t{('yes', 'no')[i % 2]}\tgroup {i % 3}\n" for i in range(400)]
  pairs = read_corpus(file("".join(lines)))
  assert pairs.sentences_a == tuple(f"a {i}" for i in range(400)) and pairs.sentences_b[-1] == "b 399"


@pytest.mark.parametrize("content", ["1\n2\n", "a\tb\nc\n", ""])
def test_a_malformed_corpus(file, content):
  path = file(content)
  with pytest.raises(DataError, match=str(path)):
    read_corpus(path)
