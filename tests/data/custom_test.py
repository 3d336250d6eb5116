"""data/custom.py: users' own files as a task and as a corpus."""

import csv
import functools
import gzip
import itertools
import json

import numpy as np
import pytest

from bert_flow_tf.corpus.job import JobSettings
from bert_flow_tf.corpus.shard_plan import ShardReader, plan_shards
from bert_flow_tf.data.custom import read_custom_pairs
from bert_flow_tf.data.files.rows import read_pairs, read_sentences
from bert_flow_tf.data.tasks import find_task, load_task
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.serving import client
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
  for pairs in (data.fitting_pairs(True), data.fitting_pairs(False), read_custom_pairs(path)[0]):
    assert pairs.sentences_a == (" One, sentence.", 'Another, "so".') and pairs.sentences_b == ("word", "last")


@pytest.mark.parametrize("header", ["", "sentence1\tsentence2\n", "Sentence2\tSENTENCE1\r\n"])
def test_pairs_are_for_fitting(file, header):
  path = file(f'{header}a\t"b\nc\td\n')
  data = load_task("custom", data_dir=path)
  expected = [("a", "c"), ('"b', "d")]
  if header.startswith("S"):
    expected.reverse()
  for pairs in (data.fitting_pairs(True), read_custom_pairs(path)[0]):
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
  rows = [("-3", "a", "b"), ("12.5", "c", "1984"), ("0", "1", "d")]
  places = [NAMES.index(name) for name in order]
  table = [order] * header + [[row[place] for place in places] for row in rows]
  path = file("".join("\t".join(row) + "\n" for row in table))
  data = load_task("CUSTOM", data_dir=path)
  pairs = data.splits[data.spec.eval_split]
  assert pairs.scores.tolist() == [-3, 12.5, 0] and data.spec.scale == (-3, 12.5)
  assert pairs.sentences_a == ("a", "c", "1") and pairs.sentences_b == ("b", "1984", "d")
  assert find_task("custom").eval_split is None and read_custom_pairs(path)[0].scores.tolist() == [-3, 12.5, 0]
  with rejected(DataError, "use_full_for_training"):
    data.fitting_pairs(use_full=False)


def test_a_header_chooses_the_columns(file, caplog):
  scored = "id\tgenre\tsentence1\tsentence2\tscore\n7\tnews\ta\tb\t3\n8\tnews\tc\td\t4.5\n"
  pairs = load_task("custom", data_dir=file(scored)).splits["test"]
  assert (pairs.sentences_a, pairs.sentences_b, pairs.scores.tolist()) == (("a", "c"), ("b", "d"), [3, 4.5])
  assert "2 columns not read: id, genre" in caplog.text
  pairs = load_task("custom", data_dir=file("label\tsentence\n0\ta\n1\tb\n")).splits["train"]
  assert (pairs.sentences_a, pairs.sentences_b) == (("a",), ("b",))


@pytest.mark.parametrize(
  ("content", "place"),
  [
    ("a\tb\nc\n", "line 2"),
    ("a\tb\nc\td\te\n", "line 2"),
    ("a\tb\tc\td\na\tb\tc\td\n", "4 columns"),
    ("id\tfirst\tsecond\n1\ta\tb\n", "first line"),
    ("a\tb\n\nc\td\n", "line 2"),
    ("1\ta\tb\nhigh\tc\td\n", "line 2"),
    ("nan\ta\tb\n", "line 1"),
    ("1e308\ta\tb\n-1e308\tc\td\n", "line 1"),
    ("a\tb\tc\n", "line 1"),
    ("a\tb\t1\nc\td\t1_5\n", "line 2"),
    ("0\ta\n1\tb\n", "only numbers"),
    ("score\tsentence1\tsentence2\n", "a header and no records"),
    ("", "empty"),
    ("\n \n\n", "empty"),
    (b"a\n\xff\n", "line 2"),
    (gzip.compress(b"a\tb\nc\td\n", mtime=0)[:-3], "unpacked"),
    (gzip.compress(b"a\tb\nc\n", mtime=0), "line 2"),
  ],
)
def test_an_error_names_the_file_and_the_line(file, content, place):
  path = file(content)
  with rejected(DataError, "data_dir") as raised:
    load_task("custom", data_dir=path)
  assert str(path) in str(raised.value) and place in str(raised.value)


ROWS = [("a", "b, c", 3.5), ('d "e"', "f", None), ("", "g", 0)]


def write_tsv(path):
  path.write_text("sentence1\tsentence2\tscore\n" + "".join(f"{a}\t{b}\t{_shown(c)}\n" for a, b, c in ROWS))


def write_decimal_commas(path):
  lines = (f"{_shown(c).replace('.', ',')}\t{a}\t{b}\r\n" for a, b, c in ROWS)
  path.write_bytes("\ufeff".encode() + "".join(lines).encode())


def write_csv(path, opened=open):
  with opened(path, "wt", encoding="utf-8-sig", newline="") as target:
    csv.writer(target).writerows([("id", "Sentence2", "score", "Sentence1"), *((7, b, c, a) for a, b, c in ROWS)])


def write_json_lines(path):
  lines = (json.dumps({"score": c, "sentence1": a, "sentence2": b}) for a, b, c in ROWS)
  path.write_text("\n".join(lines) + "\n\n")


def write_parquet(path):
  pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
  from pyarrow import parquet

  first, second, scores = zip(*ROWS, strict=True)
  parquet.write_table(pa.table({"score": scores, "sentence1": first, "sentence2": second}), path)


def _shown(score):
  return "" if score is None else str(score)


FILES = {
  "a.tsv": write_tsv,
  "a.txt": write_tsv,
  "b.tsv": write_decimal_commas,
  "a.csv": write_csv,
  "a.csv.gz": functools.partial(write_csv, opened=gzip.open),
  "a.jsonl": write_json_lines,
  "a.parquet": write_parquet,
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_means_the_same_in_every_format_and_command(tmp_path, name, caplog):
  path = tmp_path / name
  FILES[name](path)
  task = load_task("custom", data_dir=path)
  pairs = task.splits["test"]
  # A pair with an empty sentence is neither fitted nor evaluated.
  assert [pairs.sentences_a, pairs.sentences_b] == [("a", 'd "e"'), ("b, c", "f")]
  np.testing.assert_array_equal(pairs.scores, [3.5, np.nan])
  assert "1 pair with an empty sentence left out" in caplog.text and task.source.startswith("2 scored pairs")
  expected = [(a, b) for a, b, _ in ROWS]
  assert list(map(tuple, read_pairs(str(path)).texts)) == expected == client.pairs_of_file(str(path))
  with rejected(ConfigError, "input"):
    JobSettings(output_dir="x").format_of([str(path)])


@pytest.mark.parametrize(
  ("name", "content"),
  [
    ("a.txt", "a\n\nb, c\n"),
    ("b.txt", "Sentence\na\nb, c\n"),
    ("a.tsv", "id\ttext\n7\ta\n8\t\n9\tb, c\n"),
    ("a.csv", 'a\n"b, c"\n'),
    ("a.jsonl", '{"title": "a"}\n{"title": "b, c"}\n'),
    ("b.jsonl", '{"id": 7, "text": "a"}\n{"id": 8, "text": "b, c"}\n'),
  ],
)
def test_sentences_are_the_same_in_every_format_and_command(file, name, content):
  path = file(content, name)
  assert load_task("custom", data_dir=path).splits["train"].sentences_a == ("a",)
  corpus = read_sentences([str(path)], JobSettings(output_dir="x").format_of([str(path)]))
  assert [text for _, text in corpus] == ["a", "b, c"]
  with rejected(ConfigError, "input"):
    read_pairs(str(path))


@pytest.mark.parametrize(("name", "content"), [("a.csv", "One\nOne, two\n"), ("a.tsv", "One\nOne\ttwo\n")])
def test_a_sentence_is_not_cut_off_at_a_separator(file, name, content):
  path = str(file(content, name))
  input_format = JobSettings(output_dir="x").format_of([path])
  with pytest.raises(DataError, match=r"(record|line) 2: 2 columns"):
    read_sentences([path], input_format)
  index = plan_shards([path], input_format, 10, 1000)
  shard = ShardReader(input_format).read(index.shards[0])
  assert [record.text for record in shard.records] == ["One"]
  assert [(bad.line, bad.kind) for bad in shard.bad] == [(2, "columns")]


@pytest.mark.parametrize(
  ("name", "header"),
  [
    ("a.csv", "sentence1;sentence2;score"),
    ("a.csv", "sentence1\tsentence2"),
    ("a.csv", "id;text"),
    ("a.tsv", "sentence1,sentence2"),
    ("a.txt", "Sentence1; Sentence2"),
  ],
)
def test_names_of_columns_with_the_separator_of_other_files(file, name, header):
  path = file(f"{header}\nA man.;A woman.;3,5\n", name)
  with rejected(DataError, "data_dir", match="line 1"):
    load_task("custom", data_dir=path)


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
  np.testing.assert_array_equal(read_custom_pairs(path)[0].scores, expected)
  for said, is_so in (
    ("of -1 count as missing", np.isnan(expected).any()),
    ("of -1 count as scores", scores[-1] == "1"),
  ):
    assert (said in caplog.text) == is_so
  data = load_task("custom", path)
  assert data.spec.eval_split == (None if np.isnan(expected).all() else "test")


def _with_scores(kind, scores):
  """Returns a file of pairs of the kind, whose scores are text."""
  if kind == "jsonl":
    keys = ("sentence1", "sentence2", "score")
    return "".join(json.dumps(dict(zip(keys, ("A.", "B.", score), strict=True))) + "\n" for score in scores)
  if kind == "tsv":
    return "".join(f"A.\tB.\t{score}\n" for score in scores)
  return "sentence1,sentence2,score\n" + "".join(f'A.,B.,"{score}"\n' for score in scores)


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl"])
@pytest.mark.parametrize(
  ("scores", "expected", "warning"),
  [
    (["4,5", " 0,25 ", "3"], [4.5, 0.25, 3], ""),
    (["4.50e0", " 4.5", "+3"], [4.5, 4.5, 3], ""),
    (["1,234", "0,500"], [1.234, 0.5], ""),
    (["12", "1,234"], [12, 1.234], "the score 1,234 is read as 1.234; if the comma separates thousands, leave it out"),
    (["4.6", "4,5"], "the score is '4,5', and '4.6' in line [12]; expected either decimal points or", ""),
    (["1", "1.234,5"], "the score is '1.234,5', expected a number with a decimal point", ""),
    (["1", "1,234,567"], "the score is '1,234,567', expected a number with a decimal point", ""),
    (["1", "85%"], "the score is '85%', expected a number from", ""),
    (["1", "n/a"], "the score is 'n/a', expected a number from .*, or nothing for a pair without a score", ""),
  ],
)
def test_scores_of_every_format_as_people_write_them(file, kind, scores, expected, warning, caplog):
  path = file(_with_scores(kind, scores), f"mine.{kind}")
  if isinstance(expected, str):
    with pytest.raises(DataError, match=expected):
      read_custom_pairs(path)
    return
  assert read_custom_pairs(path)[0].scores.tolist() == expected
  assert warning in caplog.text and bool(warning) == ("is read as" in caplog.text)


def test_unscored_pairs_with_an_empty_sentence(file, caplog):
  assert read_custom_pairs(file("a\tb\n\tc\nd\t \n"))[0].sentences_b == ("b",)
  assert "2 pairs with an empty sentence left out" in caplog.text
  with pytest.raises(DataError, match="no pair with two texts: 2 of 2"):
    read_custom_pairs(file("sentence1\tsentence2\n\tc\nd\t\n"))


def test_the_first_score_may_be_empty(file):
  for content in ("a\tb\t\nc\td\t2.5\n", "\ta\tb\n2.5\tc\td\n"):
    pairs = read_custom_pairs(file(content))[0]
    assert pairs.sentences_a == ("a", "c") and pairs.scores[1] == 2.5 and np.isnan(pairs.scores[0])


def test_a_file_is_required(tmp_path):
  with rejected(ConfigError, "data_dir"):
    load_task("custom")
  for path in (tmp_path, tmp_path / "none.txt"):
    with rejected(DataError, "data_dir"):
      load_task("custom", data_dir=path)
