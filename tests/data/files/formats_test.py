"""Columns of users' files by their content: pairs without names, other separators, JSON lines; in all commands."""

import functools
import gzip

import numpy as np
import pytest

from bert_flow_tf.corpus.job import JobSettings
from bert_flow_tf.data.custom import read_custom_pairs
from bert_flow_tf.data.files.formats import find_format
from bert_flow_tf.data.files.given_columns import sentence_format
from bert_flow_tf.data.files.rows import read_pairs, read_sentences
from bert_flow_tf.data.files.source import FileSource
from bert_flow_tf.data.flow_corpus import load_flow_corpus
from bert_flow_tf.data.tasks import load_task
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


def format_of(path, **arguments):
  with FileSource(path) as source:
    return find_format(source, **arguments)


def table(*rows, count=1):
  return "".join("\t".join(row).format(i) + "\n" for i in range(1, count + 1) for row in rows)


WITHOUT_NAMES = {
  "rows from 1": (table(("{0}", "A man {0}.", "A dog."), count=3), "column 1 has the numbers of rows"),
  "rows from 0": ("0\tA\tB\n" + table(("{0}", "A man {0}.", "A dog."), count=7), "column 1 has the numbers of rows"),
  "rows at the end": (table(("A man {0}.", "A dog.", "{0}"), count=4), "column 3 has the numbers of rows"),
  "ids in any order": (table(("9{0}", "A man.", "A"), ("8{0}", "A dog.", "B"), count=30), "column 1 has .* ids"),
  "names of rows": (table(("q{0}", "A man {0}.", "A dog."), count=3), r"line 1 \(q1, A man 1., A dog.\): neither"),
  "a number and a sentence": (table(("{0}", "2.5", "A man {0}."), count=4), "column 2 has only numbers"),
  "a sentence and a label": (table(("{0}", "A man.", "0"), ("{0}", "A dog.", "1"), count=4), "column 1 has only num"),
  "two columns": (table(("{0}", "A man {0}."), count=4), "column 1 has only numbers"),
  "two columns with names": ("nr\tquote\n" + table(("{0}", "A man {0}."), count=2), "after the first line"),
}


@pytest.mark.parametrize(("content", "message"), WITHOUT_NAMES.values(), ids=WITHOUT_NAMES)
@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_numbers_are_no_sentences_and_ids_no_scores(file, name, content, message):
  if name == "a.csv":
    content = content.replace("\t", ",")
  path = file(content, name)
  for read in (read_custom_pairs, functools.partial(load_flow_corpus, task=None)):
    with pytest.raises(DataError, match=f"{message}.*names of the columns"):
      read(str(path))
  for read in (read_pairs, client.pairs_of_file):
    with pytest.raises(DataError, match=message):
      read(str(path))


@pytest.mark.parametrize(
  ("content", "scores"),
  [
    ("4.5\tA year.\t1984\n2.5\tA man.\tA dog.\n1\tA.\tB\n", [4.5, 2.5, 1]),  # the first record could be read both ways
    ("1\tA.\tB.\n2\tA.\tB.\n2\tA.\tB.\n", [1, 2, 2]),
    ("0\tA.\tB.\n1\tA.\tB.\n2\tA.\tB.\n", [0, 1, 2]),
    ("A.\tB.\t5\nA.\tB.\t4\nA.\tB.\t3\n", [5, 4, 3]),
    ("A.\tB.\t\nA.\tB.\t\nA.\tB.\t3\n", [np.nan, np.nan, 3]),
  ],
)
def test_scores_without_names(file, content, scores):
  path = file(content)
  pairs, _ = read_custom_pairs(path)
  np.testing.assert_array_equal(pairs.scores, scores)
  expected = list(zip(pairs.sentences_a, pairs.sentences_b, strict=True))
  assert client.pairs_of_file(str(path)) == expected and expected[1] in [("A man.", "A dog."), ("A.", "B.")]


def test_a_bad_first_record_and_a_first_line_that_is_no_header(file):
  path = file("A\0man.\tB.\n2\tA dog.\tC.\n1\tA cat.\tD.\n")
  assert format_of(str(path)).roles == {"score": "1", "sentence1": "2", "sentence2": "3"}
  with pytest.raises(DataError, match="line 1: a NUL byte"):
    read_custom_pairs(path)
  path = str(file("text;id\nA man;1\n", "a.csv"))
  with pytest.raises(DataError, match="separated by semicolons"):
    format_of(path)
  assert format_of(path, header=False).roles == {"sentence": "1"}
  # Names, or no number, in the first line do not count either.
  path = str(file("score\tA man.\tB.\n2\tA dog.\tC.\n1\tA cat.\tD.\n"))
  with pytest.raises(DataError, match="first line"):
    read_pairs(path)
  assert read_pairs(path, header=False).texts == [["A man.", "B."], ["A dog.", "C."], ["A cat.", "D."]]
  assert read_pairs(path, header=True).texts == [["A dog.", "C."], ["A cat.", "D."]]


@pytest.mark.parametrize("separator", [";", "|", "\t"])
def test_a_csv_with_another_separator(file, separator):
  lines = [["Question", "Answer"], ["A man, old", "B"], ["C", "D"]]
  content = "".join(separator.join(line) + "\r\n" for line in lines)
  for name in ("a.csv", "a.csv.gz"):
    path = file(gzip.compress(content.encode()) if name.endswith("gz") else content, name)
    with pytest.raises(DataError, match="the columns are separated by") as raised:
      read_pairs(str(path))
    # The way out is a name, as not all commands have --header.
    assert "--" not in str(raised.value) and (".txt" in str(raised.value)) == (separator != "\t")
  with pytest.raises(DataError, match=r"if .* separate the columns"):
    read_pairs(str(file(content, "a.csv")), ["Question", "Answer"])
  read = read_pairs(str(file(f"sep={separator}\r\n{content}", "a.csv")), ["Question", "Answer"])
  assert read.texts == lines[1:]
  with rejected(ConfigError, "input", match=r'2 columns by the line "sep='):
    JobSettings(output_dir="x").format_of([str(file(f"sep={separator}\r\n{content}", "a.csv"))])


def test_json_lines_with_blank_lines_and_a_json_array(file):
  content = (
    '{"sentence1": "a", "sentence2": "b", "score": 1}\n\n{"sentence1": "c", "sentence2": "d", "score": null}\n \n'
  )
  path = file(content, "a.jsonl")
  pairs, _ = read_custom_pairs(path)
  assert (pairs.sentences_a, pairs.sentences_b) == (("a", "c"), ("b", "d"))
  assert client.pairs_of_file(str(path)) == [("a", "b"), ("c", "d")]
  for content in ('[{"sentence1": "a", "sentence2": "b"}]', '\ufeff\n[\n{"sentence1": "a",\n"sentence2": "b"}\n]\n'):
    path = str(file(content, "a.json"))
    for read in (read_custom_pairs, client.pairs_of_file, JobSettings(output_dir="x", column="sentence1").format_of):
      with pytest.raises(DataError, match="JSON array; expected JSON lines"):
        read([path] if read not in (read_custom_pairs, client.pairs_of_file) else path)


def test_a_large_record(file):
  path = file(f'sentence1,sentence2\n"{"word " * 300_000}",A dog.\n', "a.csv")
  for read in (functools.partial(load_task, "custom"), functools.partial(load_flow_corpus, task=None)):
    with pytest.raises(DataError, match="--max_record_bytes"):
      read(**{"data_dir" if read.func is load_task else "name": str(path)})
  assert len(load_task("custom", data_dir=path, max_record_bytes=1 << 21).splits["train"]) == 1
  assert len(load_flow_corpus(str(path), None, max_record_bytes=1 << 21).pairs) == 1
  assert len(client.pairs_of_file(str(path), 1 << 21)) == 1


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("a.tsv", "sentence1\tsentence2\n1\tA man.\tA dog.\n", "has one name fewer than the rows"),
    ("a.tsv", '"sentence1"\t"sentence2"\n"1"\t"A man."\t"\\"A dog."\n', "has one name fewer than the rows"),
    ("a.txt", '"sentence1" "sentence2"\n"1" "A man." "A dog."\n', "has names separated by blanks"),
    ("a.txt", '"sentence"\n"1" "A man."\n', "has names separated by blanks"),
  ],
)
def test_tables_as_r_writes_them_by_default(file, name, content, message):
  with pytest.raises(DataError, match=rf"line 1: the header {message}; expected .* write\.csv"):
    format_of(str(file(content, name)))
  # Neither a record that is bad nor quoted words are such a table.
  assert format_of(str(file("text\tid\nA man.\t1\t\n"))).roles == {"sentence": "text"}
  assert format_of(str(file('"Yes" "No"\n"1" "2"\n', "a.txt"))).roles == {"sentence": "1"}


def test_names_with_blanks_an_index_and_no_records(file, caplog):
  content = ",Sentence 1,sentence_2,SCORE\n0,A man.,A dog.,1\n"
  assert read_custom_pairs(file(content, "a.csv"))[0].sentences_b == ("A dog.",)
  assert "1 column not read: (without a name)" in caplog.text
  assert format_of(str(file("te xt\ttext\nA\tB\n"))).roles == {"sentence": "text"}
  path = str(file("sentence1\tsentence2\n"))
  with pytest.raises(DataError, match="has a header and no records"):
    read_pairs(path)
  path = str(file("text\n"))
  with pytest.raises(DataError, match="has a header and no records"):
    read_sentences([path], sentence_format(path))


def test_the_encoding_comes_before_the_separator(file):
  content = b"sentence1;sentence2\nA man.;B\nIt\x92s;C\n"
  with pytest.raises(DataError, match=r"line 3: .* WINDOWS-1252"):
    format_of(str(file(content, "a.csv")))
  # embed counts such a line where the first one is no error.
  assert format_of(str(file(b"A, b\nIt\x92s\n", "a.txt"))).roles == {"sentence": "1"}
