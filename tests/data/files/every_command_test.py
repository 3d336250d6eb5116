"""Users' files by the readers of all commands: archives, missing keys, headers, names of columns, types of Parquet."""

import bz2
import contextlib
import datetime
import decimal
import functools
import gzip
import importlib.util
import io
import json
import lzma
import re
import sys
import tarfile

import numpy as np
import pytest

from bert_flow_tf.corpus.job import EmbeddingJob, JobSettings
from bert_flow_tf.corpus.shard_plan import ShardReader, find_inputs, plan_shards
from bert_flow_tf.data.files.given_columns import sentence_format, warn_of_unused_ids
from bert_flow_tf.data.files.rows import read_pairs, read_records, read_sentences
from bert_flow_tf.data.files.source import lines
from bert_flow_tf.data.flow_corpus import load_flow_corpus
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import BertFlowError, ConfigError, DataError, naming
from bert_flow_tf.evaluation.scored_tasks import score_predictions
from bert_flow_tf.serving import client
from tests.testing import rejected


@pytest.fixture
def file(tmp_path):
  def make(content, name):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)

  return make


def job(*paths, **settings):
  return JobSettings(output_dir="x", **settings).format_of(paths)


def search(path, *others, **settings):
  return read_sentences([path, *others], job(path, *others, **settings))


def dedupe(path, **settings):
  return read_records(path, job(path, **settings), keep_empty=True)


def embed(path, *others, **settings):
  input_format = job(path, *others, **settings)
  index = plan_shards([path, *others], input_format, 100, 1 << 20)
  return ShardReader(input_format).read(index.shards[0])


def queries(path):
  return read_sentences([path], sentence_format(path, argument="queries"))


def corpus(path):
  return load_flow_corpus(path, None)


def fit(path, **arguments):
  (pairs,) = load_task("custom", data_dir=path, **arguments).splits.values()
  return pairs


OF_SENTENCES = (fit, corpus, search, dedupe, embed, queries)
OF_PAIRS = (fit, corpus, read_pairs, client.pairs_of_file)


def frequencies(path):
  return list(lines(path))


def tar(content, mode="w", **arguments):
  packed = io.BytesIO()
  with tarfile.open(fileobj=packed, mode=mode, **arguments) as archive:
    member = tarfile.TarInfo("corpus.csv")
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
  return packed.getvalue()


TEXT = b"sentence1,sentence2\nA man eats.,A man is eating.\n"
PLAIN = tar(TEXT)
# A tar archive of before 1988 has no magic number: its header is cut off behind the name of a link.
OLD = bytearray(PLAIN)
OLD[257:500] = bytes(243)
OLD[148:156] = b" " * 8
OLD[148:156] = f"{sum(OLD[:512]):06o}\0 ".encode()
ARCHIVES = {
  "a.tar": PLAIN,
  "old.tar": bytes(OLD),
  "a.tar.gz": gzip.compress(PLAIN),
  "a.tgz": gzip.compress(PLAIN),
  "a.tar.bz2": bz2.compress(PLAIN),
  "a.tbz2": bz2.compress(PLAIN),
  "a.txz": lzma.compress(PLAIN),
  "a.csv.xz": lzma.compress(PLAIN),
  "a.jsonl.gz": gzip.compress(PLAIN),
  "a.tsv": PLAIN,
  "b.csv.gz": gzip.compress(b"PK\x03\x04" + bytes(600)),
  "c.csv.gz": gzip.compress(b"ARROW1\0\0" + bytes(600)),
  "d.7z": b"7z\xbc\xaf\x27\x1c" + bytes(100),
  "e.rar": b"Rar!\x1a\x07\0" + bytes(100),
  "f.csv.lz4": b"\x04\x22\x4d\x18" + bytes(100),
  "g.csv.Z": b"\x1f\x9d\x90" + bytes(100),
  "h.csv": b"SQLite format 3\0" + bytes(100),
  "i.txt": b"%PDF-1.7\n" + bytes(100),
  "l.npy": b"\x93NUMPY\x01\0" + bytes(100),
  "j.avro": b"Obj\x01" + bytes(100),
  "k.csv": b"PAR1" + bytes(100),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_no_text(file, name):
  path = file(ARCHIVES[name], name)
  readers = [*OF_SENTENCES, *OF_PAIRS, score_predictions]
  if name != "k.csv":  # a Parquet file has a NUL byte in its first line
    readers.append(frequencies)
  for read in readers:
    with pytest.raises(
      DataError, match=r" is (an? .*archive|an Arrow|packed|a database|a PDF|an Avro|a Parq|an array)"
    ) as raised:
      read(path)
    assert "\n" not in str(raised.value) and str(raised.value).count("; expected") == 1


def test_packed_files_are_known_by_their_first_bytes(file):
  for pack in (gzip.compress, bz2.compress, lzma.compress):
    path = file(pack(TEXT), "a.csv")
    assert read_pairs(path).texts == [["A man eats.", "A man is eating."]]
  for text in ("BZhang met Bo.", "%PD", "Obj"):  # no text begins by chance as a packed file does
    assert frequencies(file(text, "a.txt")) == [(1, text)] and search(file(text, "a.txt")) == [("1", text)]


SPARSE = [{"id": "a1"}, {"id": "a2", "text": "A dog."}, {"text": "Rain.", "id": "a3", "n": 1}, {"id": "a4", "text": ""}]


def write_lines(rows):
  return "".join(json.dumps(row) + "\n" for row in rows)


def test_all_records_of_json_lines_decide_the_columns(file):
  path = file(write_lines(SPARSE), "a.jsonl")
  assert search(path) == [("2", "A dog."), ("3", "Rain.")] == search(path, column="text")
  assert search(path, id_column="id") == [("a2", "A dog."), ("a3", "Rain.")]
  assert dedupe(path).texts == [[""], ["A dog."], ["Rain."], [""]]
  for read in (embed(path), embed(path, column="text", id_column="id")):
    assert [record.text for record in read.records] == ["A dog.", "Rain."] and (read.skipped, read.bad) == (2, [])
  assert [text for _, text in queries(path)] == ["A dog.", "Rain."]
  for read in (fit(path), corpus(path).pairs):
    assert read.sentences_a == ("A dog.",) and read.sentences_b == ("Rain.",)


def test_all_records_of_json_lines_decide_the_columns_of_pairs(file):
  rows = [{"id": 1}, {"sentence1": "A.", "id": 2}, {"sentence2": "B.", "sentence1": "C."}]
  rows.append({"score": 4, "sentence1": "D.", "sentence2": "E."})
  path = file(write_lines(rows), "a.jsonl")
  texts = [["", ""], ["A.", ""], ["C.", "B."], ["D.", "E."]]
  assert read_pairs(path).texts == read_pairs(path, ["sentence1", "sentence2"]).texts == texts
  assert client.pairs_of_file(path) == list(map(tuple, texts))
  for pairs in (fit(path), corpus(path).pairs, fit(path, columns=["sentence1", "sentence2", "score"])):
    assert pairs.sentences_a == ("C.", "D.")
    np.testing.assert_array_equal(pairs.scores, [np.nan, 4])


def test_all_files_of_json_lines_decide_the_columns(file, caplog):
  first, second = file(write_lines(SPARSE[:1]), "part-0.jsonl"), file(write_lines(SPARSE[1:]), "part-1.jsonl")
  empty = file("", "part-2.jsonl")
  for paths in ((first, second), (second, first), (empty, first, second)):
    assert [text for _, text in search(*paths)] == ["A dog.", "Rain."] == [row.text for row in embed(*paths).records]
  texts = file("", "part-0.txt"), file("A dog.\nRain.\n", "part-1.txt")
  assert search(*texts) == [("1", "A dog."), ("2", "Rain.")]
  assert f"{first}: no record has the key text" in caplog.text and f"{second}: no" not in caplog.text


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "jsonl", "jsonl.gz", "parquet"])
@pytest.mark.parametrize("column", [None, "text"])
def test_parts_without_a_byte_have_no_records(tmp_path, ending, column):
  packed = gzip.compress if ending.endswith("gz") else bytes
  if ending == "parquet":
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    pq.write_table(pa.table({"text": ["A dog.", "Rain."]}), tmp_path / "part-1.parquet")
  else:
    lines = b"text\nA dog.\nRain.\n" if "sv" in ending else b'{"text": "A dog."}\n{"text": "Rain."}\n'
    (tmp_path / f"part-1.{ending}").write_bytes(packed(lines))
  for number in (0, 2):
    (tmp_path / f"part-{number}.{ending}").write_bytes(packed(b""))
  paths = find_inputs([f"{tmp_path}/*"])
  assert [text for _, text in search(*paths, column=column)] == ["A dog.", "Rain."]
  assert [row.text for row in embed(*paths, column=column).records] == ["A dog.", "Rain."]
  if ending != "parquet":
    with rejected(DataError, None, match="part-0.*(is empty|no records); expected sentences"):
      search(f"{tmp_path}/part-0.{ending}", column=column)


def test_a_key_that_no_record_has_is_an_error_that_names_the_keys(file):
  path = file(write_lines(SPARSE), "a.jsonl")
  wrong = [functools.partial(read, column="body") for read in (search, dedupe, embed)]
  wrong += [functools.partial(search, column="text", id_column="body"), functools.partial(fit, columns=["body"])]
  wrong.append(lambda path: read_pairs(path, ["text", "body"]))
  for read in wrong:
    with pytest.raises(DataError, match="no record has the key 'body', expected one of id, text, n"):
      read(path)


def test_several_columns_are_one_text(file):
  rows = [("Saturn", "It has rings."), ("", "A dog."), (None, "Rain."), ("Title", " "), (" ", "")]
  of_json = file(write_lines({"id": f"d{row}", "title": a, "text": b} for row, (a, b) in enumerate(rows)), "a.jsonl")
  lines = [f"d{row},{a or ''},{b}\n" for row, (a, b) in enumerate(rows)]
  of_csv = file("id,title,text\n" + "".join(lines), "a.csv")
  expected = [("d0", "Saturn It has rings."), ("d1", "A dog."), ("d2", "Rain."), ("d3", "Title")]
  for path in (of_json, of_csv):
    assert search(path, column="title,text", id_column="id") == expected
    read = embed(path, column="title,text", id_column="id")
    assert [(record.id, record.text) for record in read.records] == expected and read.skipped == 1
    assert dedupe(path, column="title,text").texts[0] == list(rows[0])
  assert search(of_csv, column="2,3")[0] == ("1", expected[0][1])
  with pytest.raises(DataError, match="no record has the key 'body'"):
    search(of_json, column="title,body")
  path = file('"Last, first",age\n"Doe, Al",7\n', "b.csv")
  for column, text in (('"Last, first"', "Doe, Al"), ('"Last, first",age', "Doe, Al 7")):
    assert search(path, column=column) == [("1", text)] and dedupe(path, column=column).texts[0][0] == "Doe, Al"


def test_a_name_with_a_comma(file):
  """A value is the name of a column, if there is one, else several names; errors say how such a name is written."""
  header, cells = '"a,b",c,a\n', '"x, y",z,w\n'
  of_csv = file(header + cells, "a.csv")
  of_json = file(write_lines([{"a,b": "x, y", "c": "z", "a": "w"}]), "a.jsonl")
  files = [of_csv, of_json]
  if importlib.util.find_spec("pyarrow"):
    import pyarrow as pa
    import pyarrow.parquet

    files.append(file("", "a.parquet"))
    pa.parquet.write_table(pa.table({"a,b": ["x, y"], "c": ["z"], "a": ["w"]}), files[-1])
  for path in files:
    for column, text in (
      ("a,b", "x, y"),
      ('"a,b"', "x, y"),
      ('"a,b",c', "x, y z"),
      ('c, "a,b"', "z x, y"),
      ("c,a", "z w"),
    ):
      assert search(path, column=column) == [("1", text)], column
      assert " ".join(dedupe(path, column=column).texts[0]) == text
    with pytest.raises(
      DataError, match=r"'d'.*; a name that has a comma stands in quotation marks, as '.Last, first.'$"
    ):
      search(path, column="c,d")
    for column, match in (
      ("c,", "c,: has an empty name"),
      (",", ",: has an empty name"),
      ('"",c', ",c: has an empty name"),
      ("c,d\ne", "cannot be split into names; .*; a name that has a comma"),
      ('"c,d', "cannot be split into names; .*; a name that has a comma"),
    ):
      for prefix in ("", "query_"):
        with rejected(ConfigError, f"{prefix}column", match=f"^{prefix}column=.*{match}"):
          JobSettings(column=column).format_of([path], prefix)
  with pytest.raises(DataError, match=r"0 columns 'd' in the header .*expected exactly 1$"):
    search(of_csv, column="d")
  for path in files:
    with pytest.raises(DataError, match=r"; did you mean 'a,b'\?$"):
      search(path, column='"a,bb"')
  assert search(of_csv, column="2,3", header=False)[1] == ("2", "z w")


def test_parts_in_folders_of_a_column(tmp_path):
  pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
  pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
  table = pa.table({"text": ["A dog.", "Rain."], "lang": ["en", "de"]})
  pq.write_to_dataset(table, tmp_path / "texts", partition_cols=["lang"])
  paths = find_inputs([f"{tmp_path}/texts/lang=*/*.parquet"])
  assert search(*paths) == [("1", "Rain."), ("2", "A dog.")]
  for column, end in (("lang", "; lang is in the name of the folder alone, which is not read$"), ("a", "exactly 1$")):
    with pytest.raises(DataError, match=f"lang=de/.*: 0 columns '{column}' .*{end}"):
      search(*paths, column=column)


def test_records_without_text_are_counted(file, caplog):
  for content, name in (
    ("text,n\nA.,1\n,2\n  ,3\n\nB.,4\n", "a.csv"),
    (write_lines([*SPARSE[:2], SPARSE[3]]), "a.jsonl"),
  ):
    for read in (fit, corpus, search, queries):
      caplog.clear()
      read(file(content, name))
      assert f"{name}: 2 records without text left out" in caplog.text, read


def test_files_of_standard_input_whose_name_tells_no_kind(file):
  of_json = file(write_lines(SPARSE[1:2]), "a.txt")
  for read in (fit, corpus, search, dedupe, embed, queries):
    with pytest.raises(DataError, match=r"line 1: an object of JSON lines \(id, text\); expected .*jsonl"):
      read(of_json)
  assert search(of_json, input_format="text") == [("1", write_lines(SPARSE[1:2]).strip())]
  assert search(of_json, input_format="jsonl") == [("1", "A dog.")]
  assert search(file("{braces} {}\n", "b.txt")) == [("1", "{braces} {}")]


RIVALS = {
  "a.csv": "text,sentence\nPrices rose.,The moon is bright.\n",
  "b.csv": "id,Text,text\n1,Prices rose.,The moon is bright.\n",
  "a.tsv": "sentence\tid\ttext\nPrices rose.\t1\tThe moon is bright.\n",
  "a.jsonl": write_lines([{"text": "Prices rose."}, {"sentence": "The moon is bright."}]),
}


@pytest.mark.parametrize("name", RIVALS)
def test_two_columns_that_may_be_the_sentence_are_an_error(file, name):
  path = file(RIVALS[name], name)
  for read in OF_SENTENCES:
    with pytest.raises(DataError, match=r"(?i)columns (text|sentence) and (text|sentence) may each be the sentence"):
      read(path)
  assert search(path, column="text")[-1][1] == fit(path, columns=["text"]).sentences_a[-1]


def test_columns_of_one_name_are_given_by_number(file):
  path = file("id,text,text\n1,Prices rose.,The moon is bright.\n", "a.csv")
  for read in (search, dedupe, embed):
    with pytest.raises(
      DataError, match=r"text and text may each be .*--column names it, or gives its number, as --column=2"
    ):
      read(path)
    with pytest.raises(DataError, match=r"2 columns 'text' .*; a number takes one of them: 2 or 3 in place of 'text'$"):
      read(path, column="text")
  with pytest.raises(DataError, match=r"or their numbers$"):
    fit(path)
  assert search(path, column="3") == [("1", "The moon is bright.")]


def test_two_columns_that_may_be_of_a_pair_are_an_error(file):
  path = file("sentence_1,Sentence 1,sentence2,score\nA.,B.,C.,1\n", "a.csv")
  for read in OF_PAIRS:
    with pytest.raises(DataError, match="columns sentence_1 and Sentence 1 may each be the sentence1"):
      read(path)
  # A name as it is in the documentation is no rival; a score has no use for `score`.
  path = file("sentence1,Sentence 1,sentence2,score,SCORE\nA.,B.,C.,1,2\n", "a.csv")
  assert read_pairs(path).texts == [["A.", "C."]] == [list(pair) for pair in client.pairs_of_file(path)]
  with rejected(DataError, "data_dir", match="columns score and SCORE may each be the score.* columns="):
    fit(path)


KNOWN = {
  "a.csv": "id,sentence1,sentence2\n1,A dog runs.,Rain.\n",
  "bom.csv": "\ufeffid,Sentence 1,Sentence_2\r\n1,A dog runs.,Rain.\r\n",
  "quoted.csv": '"id","sentence1","sentence2"\n"1","A dog runs.","Rain."\n',
  "sep.csv": "\ufeffsep=;\r\nid;sentence1;sentence2\r\n1;A dog runs.;Rain.\r\n",
  "a.tsv": "id\tsentence1\tsentence2\n1\tA dog runs.\tRain.\n",
  "quoted.tsv": '"id"\t"sentence1"\t"sentence2"\n"1"\t"A dog runs."\t"Rain."\n',
  "a.txt": "id\tsentence1\tsentence2\n1\tA dog runs.\tRain.\n",
  "index.csv": ",sentence1,sentence2\n0,A dog runs.,Rain.\n",
  "twice.csv": "id,text,text\n1,A dog runs.,Rain.\n",
  "twice.tsv": "sentence\t sentence\tsentence\n1\tA dog runs.\tRain.\n",
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_header_with_known_names_is_no_record(file, name):
  path = file(KNOWN[name], name)
  read = read_pairs(path, ["2", "3"])
  assert read.texts == [["A dog runs.", "Rain."]] and read.has_names
  assert b"Rain." in read.content([0], "similarity", [0.5]).splitlines()[-1]
  assert search(path, column="2") == [("1", "A dog runs.")] == search(path, column="2", id_column=None)
  assert dedupe(path, column="3").texts == [["Rain."]]
  assert [record.text for record in embed(path, column="2").records] == ["A dog runs."]
  pairs = fit(path, columns=["2", "3"])
  assert (pairs.sentences_a, pairs.sentences_b) == (("A dog runs.",), ("Rain.",))


def test_a_first_line_that_may_have_names_asks_for_the_header(file):
  path = file("id,question,answer\n1,Who is he?,It is Bo.\n", "a.csv")
  commands = {
    fit: {"columns": ["2", "3"]},
    search: {"column": "2"},
    dedupe: {"column": "2"},
    embed: {"column": "2"},
    read_pairs: {"columns": ["2", "3"]},
  }
  for read, arguments in commands.items():
    with rejected(ConfigError, "header", match="may have the names of the columns, or be a record"):
      read(path, **arguments)
  for header, first in ((True, ["Who is he?", "It is Bo."]), (False, ["question", "answer"])):
    assert read_pairs(path, ["2", "3"], header).texts[0] == first
    assert (
      search(path, column="2", header=header)[0][1] == first[0] == dedupe(path, column="2", header=header).texts[0][0]
    )
    assert fit(path, columns=["2", "3"], header=header).sentences_a[0] == first[0]
  # A sentence, a number, a date or repeated fields are no names.
  for first in ("A man eats.,B", "1,B", "A man in the park,B", "B,B", "2024-05-06,B", "nan,B"):
    assert read_pairs(file(f"{first}\nA.,B.\n", "a.csv"), ["1", "2"]).texts[0] == first.split(",")
  with rejected(ConfigError, "header"):  # in a .txt, quotation marks are text
    search(file('"id"\t"text"\n"1"\t"Who is he?"\n', "a.txt"), column="2")
  # Of several files, all have a header or none has.
  paths = [file("text,n\nA.,1\n", "a.csv"), file("B.,2\n", "b.csv")]
  with rejected(ConfigError, "header", match="only one of"):
    job(*paths, column="1")


def test_a_header_without_known_names_is_warned_of(file, caplog):
  for content, name in (("question,answer\nWho is he?,It is Bo.\n", "a.csv"), ("question\nWho is he?\n", "b.tsv")):
    fit(file(content, name))
    assert f"{name}: the first line ({content.splitlines()[0].replace(',', ', ')}) is read as a record" in caplog.text
  caplog.clear()
  fit(file("Hello\nHow do you do?\n", "a.txt"))
  fit(file("a\tb\nc\td\n", "a.tsv"))
  assert "first line" not in caplog.text


def test_names_of_many_columns_are_in_the_error(file, caplog):
  path = file("ticket,subject,text_of_it,created\nT-1,Help,It does not print.,today\n", "tickets.csv")
  for command in (search, dedupe, fit, job):
    with pytest.raises(
      (ConfigError, DataError), match=r"has 4 columns \(ticket, subject, text_of_it, created\), expected sentence"
    ):
      command(path)
  assert "first line" not in caplog.text


def test_columns_given_of_a_table_of_r(file):
  path = file("question\tanswer\n1\tWho is he?\tIt is Bo.\n", "a.tsv")
  for columns in (["question", "answer"], ["1", "2"]):
    for read in (fit, read_pairs):
      with pytest.raises(DataError, match=r"has one name fewer than the rows; expected .* write\.csv"):
        read(path, columns=columns)
  path = file('"question" "answer"\n"1" "Who is he?" "It is Bo."\n', "a.txt")
  with pytest.raises(DataError, match=r"has names separated by blanks; expected .* write\.csv"):
    read_pairs(path, ["question", "answer"])


@pytest.mark.parametrize(
  ("header", "columns"),
  [
    ("question1,question2,is_duplicate", ("question1", "question2", "is_duplicate")),
    ("pair_ID,sentence_A,sentence_B,relatedness_score", ("sentence_A", "sentence_B", "relatedness_score")),
    ("id,sentence1,sentence2,label", ("sentence1", "sentence2", "label")),
    ("id,sentence1,sentence2,label", ("2", "3", "4")),
  ],
)
def test_a_task_of_columns_with_other_names(file, header, columns, caplog):
  rows = [["A.", "B.", "1"], ["C.", "D.", ""], ["E.", "F.", "True"], ["G.", "H.", "0,5"]]
  names = header.split(",")
  table = [names, *([str(number)] * (len(names) - 3) + row for number, row in enumerate(rows))]
  path = file("".join("\t".join(row) + "\n" for row in table), "a.tsv")
  pairs = fit(path, columns=columns)
  assert pairs.sentences_b == ("B.", "D.", "F.", "H.")
  np.testing.assert_array_equal(pairs.scores, [1, np.nan, 1, 0.5])
  np.testing.assert_array_equal(fit(path, columns=columns[:2]).scores, [np.nan] * 4)
  assert fit(path, columns=columns[1]).sentences_a == ("B.", "D.")
  np.testing.assert_array_equal(fit(path, columns=",".join(columns)).scores, pairs.scores)
  # Without columns, an error or the warning of unread columns names them.
  try:
    fit(path)
    said = caplog.text
  except BertFlowError as error:
    said = str(error)
  assert "columns=question1,question2,is_duplicate" in said


def test_wrong_columns_of_a_task(file):
  path = file("question1,question2,is_duplicate\nA.,B.,no\n", "a.csv")
  for columns in ([], ["question1"] * 2, list("abcd")):
    with pytest.raises(BertFlowError):
      fit(path, columns=columns)
  for columns, error, argument in (
    (["question1", "question1"], ConfigError, "columns"),
    (["a", "b", "c", "d"], ConfigError, "columns"),
    (["question1", "0"], ConfigError, "columns"),
    (["question1", "question3"], DataError, "data_dir"),
    (["question1", "question2", "is_duplicate"], DataError, "data_dir"),
  ):
    with rejected(error, argument):
      fit(path, columns=columns)
  with rejected(ConfigError, "columns"):  # before the file is read
    fit(f"{path}.absent", columns=["question1", "question1"])
  for argument in ({"columns": ["a", "b"]}, {"header": True}):
    with rejected(ConfigError, next(iter(argument))):
      load_task("sample", **argument)


@pytest.mark.packages
def test_types_of_parquet(tmp_path):
  pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
  from pyarrow import parquet

  moments = [datetime.datetime(2024, 5, 6, 7, 8, 9), datetime.datetime(2025, 1, 1)]
  scores = {
    "decimal": (pa.decimal128(3, 1), [decimal.Decimal("4.5"), None], [4.5, np.nan]),
    "decimal256": (pa.decimal256(40, 2), [decimal.Decimal("0.25"), decimal.Decimal(5)], [0.25, 5]),
    "float": (pa.float32(), [4.5, float("nan")], [4.5, np.nan]),
    "half": (pa.float16(), [np.float16(4.5), None], [4.5, np.nan]),
    "bool": (pa.bool_(), [True, False], [1, 0]),
    "int": (pa.uint8(), [3, 0], [3, 0]),
    "text": (pa.string(), ["4,5", ""], [4.5, np.nan]),
    "coded": (pa.dictionary(pa.int8(), pa.float64()), [4.5, None], [4.5, np.nan]),
  }
  ids = {
    "decimal": (pa.decimal128(38, 0), [decimal.Decimal(7), decimal.Decimal(10) ** 30], ["7", "1" + "0" * 30]),
    "date": (pa.date32(), [moment.date() for moment in moments], ["2024-05-06", "2025-01-01"]),
    "second": (pa.timestamp("s"), moments, ["2024-05-06 07:08:09.000", "2025-01-01 00:00:00.000"]),
    "nanosecond": (pa.timestamp("ns"), [1, 10**9], ["1970-01-01 00:00:00.000000001", "1970-01-01 00:00:01.000000000"]),
    "time": (pa.time32("s"), [moment.time() for moment in moments], ["07:08:09.000", "00:00:00.000"]),
    "coded": (pa.dictionary(pa.int8(), pa.string()), ["a", "b"], ["a", "b"]),
  }
  table = {"sentence1": ["A.", "B."], "sentence2": ["C.", "D."], "list": [["A."], ["B."]]}
  others = {
    "pair": pa.array([[1, 2], None], pa.list_(pa.float32(), 2)),
    "record": pa.array([{"a": 1}, None]),
    "duration": pa.array([1, None], pa.duration("s")),
  }
  table |= others
  for kind, cases in (("score", scores), ("id", ids)):
    for name, (of_type, values, _) in cases.items():
      table[f"{kind} {name}"] = pa.array(values, of_type)
  path = str(tmp_path / "a.parquet")
  parquet.write_table(pa.table(table), path)
  for name, (_, _, expected) in scores.items():
    np.testing.assert_array_equal(fit(path, columns=["sentence1", "sentence2", f"score {name}"]).scores, expected)
  for name, (_, _, expected) in ids.items():
    assert [found for found, _ in search(path, column="sentence1", id_column=f"id {name}")] == expected
  # None of them is a sentence.
  for name in ("list", "score decimal", "id date", "id nanosecond", "id time"):
    for read in (search, dedupe, embed):
      with pytest.raises(DataError, match=f"column '{name}' has values of the type .*, expected text"):
        read(path, column=name)
  for name in ("list", *others):
    calls = [functools.partial(fit, path, columns=["sentence1", "sentence2", name])]
    calls += [functools.partial(read, path, column="sentence1", id_column=name) for read in (search, embed)]
    for call in calls:
      with pytest.raises(DataError, match=f"column '{name}' has values of the type .*, expected text or numbers"):
        call()


def test_a_column_that_is_given_twice_is_named(file):
  path = file("id,title,text\n1,A.,B.\n", "a.csv")
  calls = [
    ("column", "title", lambda: search(path, column="title,text,title")),
    ("column", "1", lambda: dedupe(path, column="1,1", header=True)),
    ("column", "title", lambda: embed(path, column='title," title"')),
    ("query_column", "title", lambda: JobSettings(column="title,title").format_of([path], "query_")),
    ("columns", "text", lambda: read_pairs(path, ["text", "text"])),
    ("columns", "text", lambda: fit(path, columns=["text", "title", "text"])),
  ]
  for argument, name, call in calls:
    with rejected(ConfigError, argument, match=f"^{argument}=.*: has the column '{name}' 2 times; expected different"):
      call()


# {file: (content, what is wrong with its sentences, what with its pairs)}
WITHOUT_TEXT = {
  "empty.tsv": ("", "is empty", "is empty"),
  "blank.txt": ("\n \n\n", "only blank lines", "has 1 column"),
  "lines.txt": ("\n\n", "only empty lines or records", "only empty lines or records"),
  "keys.jsonl": ("{}\n{}\n", "only empty lines or records", "only empty lines or records"),
  "header.csv": ("sentence1,sentence2,text\n", "has a header and no records", "has a header and no records"),
  "cells.csv": (
    "sentence1,sentence2,text\n,,\n,, \n",
    "no record with text: 2 of 2",
    "no pair .*: 2 of 2 have an empty",
  ),
  "one.csv": ("sentence1,sentence2,text\n,a,b\na,,\n", "", "no pair with two texts: 2 of 2 have an empty cell"),
  "cells.jsonl": (
    '{"sentence1": "", "text": ""}\n{"sentence2": "b"}\n',
    "no record with text: 2 of 2",
    "no pair .*: 2 of",
  ),
}


@pytest.mark.parametrize("name", WITHOUT_TEXT)
def test_what_a_file_without_text_has(file, name):
  content, of_sentences, of_pairs = WITHOUT_TEXT[name]
  path = file(content, name)
  column = None if name in ("empty.tsv", "keys.jsonl") or name.endswith("txt") else "text"
  columns = () if column is None else (column,)
  readers = [(of_sentences, lambda: search(path, column=column)), (of_sentences, lambda: dedupe(path, column=column))]
  readers += [(of_sentences, lambda: fit(path, columns=columns)), (of_pairs, lambda: read_pairs(path))]
  if columns:
    readers.append((of_pairs, lambda: fit(path, columns=["sentence1", "sentence2"])))
  for match, read in readers:
    if not match:
      read()
      continue
    with pytest.raises(BertFlowError, match=match) as raised:
      read()
    assert ("is empty" in str(raised.value)) == (name == "empty.tsv")


def test_errors_of_queries_name_their_flags(file, monkeypatch, caplog):
  """A file of queries has no input_format; other flags have the beginning query_."""

  def read(path, **settings):
    with naming("queries", instead_of="input"):
      return read_sentences([path], JobSettings(input=(path,), **settings).format_of([path], "query_"))

  def typed(content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    return "-"

  parquet = {}
  if importlib.util.find_spec("pyarrow"):
    import pyarrow as pa
    import pyarrow.parquet

    table = file("", "a.parquet")
    pa.parquet.write_table(pa.table({"a": ["x"], "b": ["y"]}), table)
    parquet = {"queries=.*a.parquet: has 2 columns .a, b., .*; --query_column": lambda: read(table)}
  calls = {
    r"an object of JSON lines .*name ends in \.jsonl$": lambda: read(typed('{"_id": "q1", "text": "A."}\n')),
    r"separated by commas; .*name ends in \.csv$": lambda: read(typed("id,text\nq1,A.\n")),
    "has 2 columns .1, 2., expected sentence; --query_column names it, or .* --query_column=2$": lambda: read(
      typed("A.\tB.\n")
    ),
    "has 2 columns .a, b., .*; --query_column names it$": lambda: read(file('{"a": "x", "b": "y"}\n', "a.jsonl")),
    "has 2 columns .id, query., .*; --query_column names it, or .* --query_column=2$": lambda: read(
      file("id\tquery\nq1\twho plays\n", "a.tsv"), id_column="id"
    ),
    r"JSON lines .a, b.; .*a file whose name ends in \.jsonl$": lambda: read(
      typed('{"a": "q1", "b": "A."}\n'), input_format="tsv", id_column="a"
    ),
    r"JSON lines .b, c.; .*name ends in \.jsonl$": lambda: read(
      typed('{"b": "q1", "c": "A."}\n'), input_format="tsv", id_column="b", column="c"
    ),
    r"0 columns 'b' .*if commas separate the columns, .*a name that ends in \.csv$": lambda: read(
      typed("a,b\nq1,A.\n"), input_format="tsv", id_column="a", column="b"
    ),
    "has 2 columns .*; --query_column names it, or .* --query_column=2$": lambda: read(file("a.,b\nc,d\n", "a.csv")),
    "query_column=0: expected 1": lambda: read(file("a,b\n", "a.csv"), column="0"),
    "query_id_column=0: expected 1": lambda: read(file("a,text\n", "a.csv"), id_column="0", header=True),
    "query_header: missing; .*query_header=true .*query_header=false": lambda: read(
      file("alpha,beta\nA.,B.\n", "a.csv"), column="1"
    ),
    "query_header has no meaning": lambda: read(file('{"text": "x"}\n', "a.jsonl"), header=True),
    "query_id_column has no meaning": lambda: read(file("a\n", "a.txt"), id_column="1"),
    "query_column is missing": lambda: read(file("", "a.tfrecord")),
  } | parquet
  for match, call in calls.items():
    with pytest.raises(BertFlowError, match=match) as raised:
      call()
    shown = str(raised.value)
    assert raised.value.argument in ("queries", *re.findall("^(query_[a-z_]+)", shown))
    assert not re.search(
      r"(?<!query_)(?<!id_)\b(input|input_format|column|id_column|header)\b[= ](is|has|=|true)", shown
    )
    assert "input_format" not in shown
  with caplog.at_level("WARNING", logger="absl"), contextlib.suppress(BertFlowError):
    read(file("Name,Words\nA man. eats it,B\n", "a.csv"))
  assert "give --query_header=true" in caplog.text


@pytest.mark.parametrize(
  ("name", "content", "column"),
  [
    ("a.jsonl", '{"_id": "q1", "text": "A."}\n', "_id"),
    ("a.csv", "Id,text\nq1,A.\n", "Id"),
    ("a.tsv", "text\tid\nA.\tq1\n", "id"),
  ],
)
def test_ids_that_are_not_used_are_named(file, caplog, name, content, column):
  path = file(content, name)
  warn_of_unused_ids([path], job(path), "query_id_column")
  expected = f"{path}: the column {column} is not used, and records are numbered from 1; --query_id_column={column}"
  assert expected in caplog.text
  caplog.clear()
  EmbeddingJob(JobSettings(input=(path,), output_dir="x"))
  assert f"--id_column={column} takes its ids" in caplog.text
  caplog.clear()
  for settings in ({"id_column": column}, {"column": column}, {"column": f"text,{column}"}):
    warn_of_unused_ids([path], job(path, **settings), "id_column")
  other = file("id\n7\n", "a.txt")
  warn_of_unused_ids([other], job(other), "id_column")
  assert not caplog.text
