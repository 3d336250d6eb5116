"""Records that are read whole and written again, and files that other programs wrote: pandas, R, Excel."""

import gzip
import os

import pytest

from bert_flow_tf.corpus.shard_plan import find_inputs
from bert_flow_tf.data.custom import read_custom_pairs
from bert_flow_tf.data.files.delimited import is_quoted
from bert_flow_tf.data.files.formats import kind_of
from bert_flow_tf.data.files.given_columns import sentence_format
from bert_flow_tf.data.files.input_format import InputFormat
from bert_flow_tf.data.files.rows import read_pairs, read_records, read_sentences
from bert_flow_tf.errors import DataError


@pytest.mark.parametrize(
  ("content", "expected"),
  [
    (b'text\nA man.\n"He said ""no""."\n"Two\r\nlines"\n', True),
    (b'"a"\t"b c"\n"d"\t"e"\n', True),  # all are
    (b'text\tn\r\n"A man."\t1\r\n"A dog."\t2\r\n"""Yes"""\t3', True),
    (b'text\n""\nA man.\n', True),  # how pandas writes an empty one
    (b"A man.\tA dog.\n", False),
    (b'A man.\t"No."\nA dog.\tA cat.\n', False),  # may be text
    (b'"He said ""no""."\t5" disk\n', False),
    (b'"Stop," he said.\tNo ""quote""\n"Never ""that""."\tx\n', False),
    (b'"One\ttwo\nthree\tfour"\n"He said ""no""."\tx\n', False),  # would be columns of different numbers
    (b'"never ""closed\tx\n', False),
    (b'"A ""man""."\t"cut \n', False),
  ],
)
def test_a_tsv_is_quoted_if_all_of_it_is(tmp_path, content, expected):
  assert is_quoted(content, True) == expected
  # A file is judged by its beginning, which may end in a record.
  if expected:
    assert is_quoted(b"\xef\xbb\xbf" + content + b"\n" * (content[-1:] != b"\n") + b'"cut\n', False)
  path = tmp_path / "a.tsv"
  path.write_bytes(b'text\tid\n"A ""man"",\n\tsaid"\t7\nA dog.\t8\n')
  records = read_records(str(path), InputFormat("tsv", "text", "id", header=True))
  assert records.texts == [['A "man",\n\tsaid', "7"], ["A dog.", "8"]]
  # The texts of STS, with other names, have such quotation marks.
  path.rename(tmp_path / "a.txt")
  with pytest.raises(DataError, match="line 2: 1 column"):
    read_records(str(tmp_path / "a.txt"), InputFormat("tsv", "text", "id", header=True))


BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
  ("kind", "content", "scored"),
  [
    (
      "csv",
      BOM + b'"text","n"\r\n"A ""man""\r\nate", 1\r\nB,2',
      BOM + b'"text","n",cosine\r\n"A ""man""\r\nate", 1,0.500000\r\nB,2,',
    ),
    (
      "csv",
      BOM + b"sep=;\r\ntext;n\r\nA;1\r\nB;2\r\n",
      BOM + b"sep=;\r\ntext;n;cosine\r\nA;1;0.500000\r\nB;2;\r\n",
    ),
    (
      "tsv",
      BOM + b"text\tn\r\nA\t1\r\n{B\t2\r\n",
      BOM + b"text\tn\tcosine\r\nA\t1\t0.500000\r\n{B\t2\t\r\n",
    ),
    ("tsv", b'text\tn\n"A ""man"""\t1\n{B\t2', b'text\tn\tcosine\n"A ""man"""\t1\t0.500000\n{B\t2\t'),
  ],
)
def test_records_are_written_byte_by_byte_as_they_are(tmp_path, kind, content, scored):
  path = tmp_path / f"a.{kind}"
  path.write_bytes(content)
  records = read_records(str(path), InputFormat(kind, "text", header=True))
  assert records.content([0, 1]) == content and records.content([0, 1], "cosine", [0.5, None]) == scored
  # The second alone, after the head.
  head, first, second = records.head, records.stored(0), records.stored(1)
  assert head + first + second == content and records.content([1]) == head + second
  # Without names of columns, the head is the BOM alone.
  path.write_bytes(BOM + b"{\r\n\r\n B")
  records = read_records(str(path), InputFormat(kind, "1"))
  assert [records.head, records.stored(0), records.stored(1)] == [BOM, b"{\r\n", b" B"]


def test_a_line_of_json_keeps_what_it_has(tmp_path):
  path = tmp_path / "a.jsonl"
  path.write_bytes(b'{"text":"\\ud83d","n":1e400} \r\n\n{ "text" : "b" }\n{"text":"c","later":1}')
  records = read_records(str(path), InputFormat("jsonl", "text"), ["text"])
  assert records.content([0, 1, 2], "cosine", [0.5, None, 1]) == (
    b'{"text":"\\ud83d","n":1e400, "cosine": 0.5} \r\n{ "text" : "b", "cosine": null}\n'
    b'{"text":"c","later":1, "cosine": 1}'
  )
  assert records.blank_lines == 1 and records.numbers == [1, 3, 4]
  assert records.names == ["text", "n", "later"]


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("a.csv", b"PK\x03\x04rest", "Excel"),
    ("a.txt", b"\xd0\xcf\x11\xe0rest", "Excel"),
    ("a.feather", b"ARROW1\0\0rest", "an Arrow or Feather file; expected a Parquet file"),
    ("a.arrow", b"\xff\xff\xff\xff\x10\0\0\0", "an Arrow or Feather file; expected a Parquet file"),
    ("a.tsv.zst", b"\x28\xb5\x2f\xfdrest", "packed by zstd; expected a file that is not packed"),
    ("a.csv", b"text\nIt\x92s\n", "iconv -f WINDOWS-1252"),
    ("a.tsv", b"text\x92\tn\nIt\t1\n", "iconv -f WINDOWS-1252"),
    ("a.jsonl", b'{"text": "a"}\nnull\n', "line 2: null; expected JSON lines"),
    ("a.csv", b"text;n\nA man;1\n", 'write "sep=;"'),
    ("a.txt", b"text" + b"t" * 100, "--max_record_bytes"),
  ],
)
def test_a_file_of_another_kind_is_an_error_that_says_the_way_out(tmp_path, name, content, message):
  (tmp_path / name).write_bytes(content)
  input_format = InputFormat(kind_of(name), "text", header=name.endswith("sv"), max_bytes=100)
  with pytest.raises(DataError, match=message):
    read_records(str(tmp_path / name), input_format)


@pytest.mark.parametrize(
  ("name", "lines"),
  [
    ("a.txt", [b"A", b"B", b"C"]),
    ("pairs.txt", [b"A\tB", b"C\tD"]),
    ("a.csv", [b"sentence1,sentence2", b"A,B", b"C,D"]),
    ("quoted.csv", [b'"sentence1","sentence2"', b'"A","B"']),
    ("sep.csv", [b"sep=;", b"sentence1;sentence2", b"A;B"]),
    ("a.tsv", [b"A\tB\t1", b"C\tD\t2"]),
    ("quoted.tsv", [b'"sentence1"\t"sentence2"', b'"A"\t"B"']),
    ("a.jsonl", [b'{"sentence1": "A", "sentence2": "B"}'] * 2),
    ("large.txt", [b"A"] * 1_000_000),
    ("large.csv", [b"A,B"] * 500_000),
  ],
)
def test_lines_that_end_in_a_carriage_return_alone_are_an_error_that_says_the_way_out(tmp_path, name, lines):
  path = str(tmp_path / name)
  for end in (b"\r", b"\r\n"):  # all lines, and all but the last
    (tmp_path / name).write_bytes(b"\r".join(lines) + end)
    for read in (read_pairs, read_custom_pairs, lambda file: read_sentences([file], sentence_format(file))):
      with pytest.raises(DataError, match=rf"{name}, (line|record) 1: a carriage return .* perl -pe .* FILE") as raised:
        read(path)
      assert "\n" not in str(raised.value)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("header", [b"", b"sentence1\tsentence2\n"])
def test_the_pipe_of_a_shell_is_a_file(header, packed):
  """As in --input=<(COMMAND)."""
  content = header + b"A\tB\nC\tD\n"
  reading, writing = os.pipe()
  path = f"/dev/fd/{reading}"
  with open(writing, "wb") as file:
    file.write(gzip.compress(content) if packed else content)
  assert find_inputs([path]) == [path]
  assert read_pairs(path).texts == [["A", "B"], ["C", "D"]]
  lines = read_sentences([path], InputFormat())  # once more
  assert [text for _, text in lines][-1] == "C\tD"
  os.close(reading)


def test_packed_parquet_is_written_again(tmp_path):
  pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
  from pyarrow import parquet

  parquet.write_table(pa.table({"sentence1": ["A", "C"], "sentence2": ["B", "D"]}), tmp_path / "a.parquet")
  path = tmp_path / "b.parquet.gz"
  path.write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
  written = read_pairs(str(path)).content([1], "similarity", [0.5])
  assert parquet.read_table(pa.BufferReader(written)).to_pylist() == [
    {"sentence1": "C", "sentence2": "D", "similarity": 0.5}
  ]


def test_ids_count_through_several_files(tmp_path):
  """A blank line has a number, too, and an id of a column stays."""
  (tmp_path / "a.txt").write_text("a\n\nb\n")
  (tmp_path / "b.txt").write_text("c\nd\n")
  paths = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
  found = read_sentences(paths, sentence_format(paths[0]))
  assert found == [("1", "a"), ("3", "b"), ("4", "c"), ("5", "d")]
