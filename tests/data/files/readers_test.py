"""Files of each kind split into records, against the programs that wrote them; and parsing of good and bad records."""

import base64
import bz2
import contextlib
import csv
import gzip
import json
import lzma
import struct

import pytest
import tensorflow as tf

from bert_flow_tf.data.files.formats import kind_of, open_reader
from bert_flow_tf.data.files.input_format import InputFormat
from bert_flow_tf.data.files.rows import read_records
from bert_flow_tf.data.files.source import TextError
from bert_flow_tf.errors import DataError

pytestmark = pytest.mark.packages


def records_of(path, kind, max_bytes=100, offset=0):
  with contextlib.closing(open_reader(str(path), InputFormat(kind, "1", max_bytes=max_bytes))) as reader:
    records = list(reader.records(offset, 1))
  return [raw.kind if isinstance(raw, TextError) else raw for raw, _ in records], [size for _, size in records]


PACKED = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, "": bytes}


@pytest.mark.parametrize("ending", PACKED)
def test_lines(tmp_path, ending):
  data = (
    b"one\ntwo\r\n\n" + b"x" * 100 + b"\n" + b"y" * 100 + b"\r\n" + b"z" * 101 + b"\n" + b"w" * 200_000 + b"\nlast\x85"
  )
  path = tmp_path / f"a{ending}"
  path.write_bytes(PACKED[ending](data))
  records, sizes = records_of(path, "text")
  assert records[:5] == [b"one", b"two", b"", b"x" * 100, b"y" * 100]
  assert records[5:] == ["too long", "too long", b"last\x85"]
  assert sizes == [len(line) for line in data.split(b"\n")[:-1] for line in [line + b"\n"]] + [5]
  assert records_of(path, "text", offset=sum(sizes[:2]))[0] == records[2:]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("length", [99, 100, 101, 102, 103])
def test_the_longest_line(tmp_path, length, end):
  (tmp_path / "a").write_bytes(b"x" * length + end + b"after\n" * bool(end))
  records, sizes = records_of(tmp_path / "a", "text")
  assert (records[0] == b"x" * length) == (length <= 100)
  assert sizes[0] == length + len(end) and records[1:] == [b"after"] * bool(end)


@pytest.mark.parametrize("packed", [False, True])
def test_tfrecords(tmp_path, packed):
  data = [b"", b"a", b"\x00\xff" * 30, b"long" * 30, b"b" * 100]
  path = str(tmp_path / "a")
  with tf.io.TFRecordWriter(path, "GZIP" if packed else "") as writer:
    for record in data:
      writer.write(record)
  records, sizes = records_of(path, "tfrecord")
  assert records == [*data[:3], "too long", data[4]]
  assert sizes == [len(record) + 16 for record in data]
  reader = open_reader(path, InputFormat("tfrecord", "1"))
  assert [record for record, _ in reader.records(sum(sizes[:2]), 3)] == data[2:]
  whole = (tmp_path / "a").read_bytes()
  for damaged in (whole[:-1], b"no TFRecord file"):
    if packed:
      damaged = gzip.compress(gzip.decompress(whole)[:-1])
    (tmp_path / "a").write_bytes(damaged)
    with pytest.raises(DataError):
      records_of(path, "tfrecord")


def test_gzip_that_was_not_copied_whole(tmp_path):
  packed = gzip.compress(b"".join(b"%d\n" % i for i in range(10_000)))
  damaged = {"a.gz": packed[:-20], "b.gz": packed[:200] + b"!" + packed[201:]}
  damaged |= {"a.bz2": bz2.compress(packed)[:-20], "a.xz": lzma.compress(packed)[:-20]}
  for name, content in damaged.items():
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name):
      records_of(tmp_path / name, "text")


def parse(path, raw, kind="text", columns=("text",), **fields):
  """Returns the parsed values of the only record of a file."""
  path.write_bytes(raw)
  if kind == "tfrecord":
    with tf.io.TFRecordWriter(str(path)) as writer:
      writer.write(raw)
  with contextlib.closing(open_reader(str(path), InputFormat(kind, *columns, **fields))) as reader:
    ((record, _),) = reader.records(reader.start, reader.first)
    return reader.parse(record)


def example(**features):
  messages = {}
  for name, values in features.items():
    if isinstance(values[0] if values else b"", bytes):
      messages[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    elif isinstance(values[0], int):
      messages[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    else:
      messages[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
  return tf.train.Example(features=tf.train.Features(feature=messages)).SerializeToString(deterministic=True)


TSV = {"kind": "tsv", "columns": ("3", "1")}
NAMED = {"kind": "tsv", "columns": ("text", "id"), "header": True}
CSV = {"kind": "csv", "columns": ("text", "id"), "header": True}
JSON = {"kind": "jsonl", "columns": ("text", "id")}
RECORD = {"kind": "tfrecord", "columns": ("text", "id")}
LATIN_1 = "naïve".encode("latin-1")


@pytest.mark.parametrize(
  ("raw", "arguments", "expected"),
  [
    (b"A man.", {}, (None, "A man.")),
    ("\u2028 é\x85".encode(), {}, (None, "\u2028 é\x85")),
    (b"\xef\xbb\xbfA man.", {}, (None, "A man.")),
    (b"\n", {}, None),
    (b" \t ", {}, None),
    (b" \t ", {"empty": "embed"}, (None, " \t ")),
    (b"7\tx\tA man.\ty", TSV, ("7", "A man.")),
    (b"7\tx\t", TSV, None),
    (b"\n", TSV, None),
    (b"7\tx\t", {**TSV, "empty": "embed"}, ("7", "")),
    (b"id\ttext\r\n7\tA man.\r\n", NAMED, ("7", "A man.")),
    (b"\xef\xbb\xbfid,text\n7,A man.", CSV, ("7", "A man.")),
    (b'text,"id"\r\n"A ""man"",\r\nsaid",7\r\n', CSV, ("7", 'A "man",\nsaid')),
    (b'5" disk,7', {**CSV, "header": False, "columns": ("1", "2")}, ("7", '5" disk')),
    (b"id,text\n\n", CSV, None),
    (b'\xef\xbb\xbfsep=;\r\ntext; id\r\n"A; man";7\r\n', CSV, ("7", "A; man")),
    (b'sep=|\nA, "man|7', {**CSV, "header": False, "columns": ("1", "2")}, ("7", 'A, "man')),
    (b"id , text\r\n7,A man.\r\n", CSV, ("7", "A man.")),
    (b'"id", "text"\n"7", "A man, old"\n', CSV, ("7", "A man, old")),
    (b" text\tid \nA man.\t7\n", NAMED, ("7", "A man.")),
    (b'{" id": 7, "text ": "A man."}', JSON, ("7", "A man.")),
    (b'{"id": 7, "text": "A\\nman", "more": NaN}', JSON, ("7", "A\nman")),
    (b'{"id": "a7", "text": "\\ud83d\\ude00 \\ud83d"}', JSON, ("a7", "\U0001f600 ?")),
    (b'{"id": 7, "text": null}', JSON, None),
    (b" \n", JSON, None),
    (b'{"id": 7.5, "text": "a"}', JSON, ("7.5", "a")),
    (b'{"id": 9007199254740993, "text": "a"}', JSON, ("9007199254740993", "a")),
    (b'{"text": "a", "more": 1e17}', {**JSON, "columns": ("text",), "more_columns": ("more",)}, (None, "a 1e+17")),
    (b'{"id": 7, "text": null}', {**JSON, "empty": "embed"}, ("7", "")),
    (example(text=[b"A\nman"], id=[b"a7"]), RECORD, ("a7", "A\nman")),
    (example(text=[b"A man."], id=[-7]), RECORD, ("-7", "A man.")),
    (example(text=[b""], id=[b"a7"]), RECORD, None),
  ],
)
def test_good_records(tmp_path, raw, arguments, expected):
  assert parse(tmp_path / "a", raw, **arguments) == expected


@pytest.mark.parametrize(
  ("raw", "arguments", "kind"),
  [
    (LATIN_1, {}, "not UTF-8"),
    (b"\xed\xa0\x80", {}, "not UTF-8"),  # a lone surrogate
    (b"A\0man", {}, "not text"),
    (b"A\rman", {}, "not text"),
    (b"long" * 30, {"max_bytes": 100}, "too long"),
    (b"\n", {"empty": "bad"}, "empty"),
    (b"7\tx", TSV, "columns"),
    (b"\n", {**TSV, "empty": "bad"}, "columns"),
    (b"id\ttext\n7\tx\ty\n", NAMED, "columns"),
    (b"id\ttext\n7\n", NAMED, "columns"),
    (b"\tx\ty", TSV, "bad id"),
    (b"7\tx\t ", {**TSV, "empty": "bad"}, "empty"),
    (b"id,text\n7\n", CSV, "columns"),
    (b"id,text\n7,a,b\n", CSV, "columns"),
    (b"id,text\n7," + LATIN_1, CSV, "not UTF-8"),
    (b'id,text\n7,"never closed\n', CSV, "not CSV"),
    (b'id,text\n7,"a"b\n', CSV, "not CSV"),
    (b"id,text\n7,", {**CSV, "empty": "bad"}, "empty"),
    (b"no JSON", JSON, "not JSON"),
    (b'["a", 7]', JSON, "columns"),
    (b"null", JSON, "columns"),
    (b"7", JSON, "columns"),
    (b'{"id": 7, "text": {"0": "a"}}', JSON, "columns"),
    (b'{"id": 7, " text": "a", "text ": "b"}', JSON, "columns"),
    ("7,a".encode("utf-16"), {**CSV, "header": False, "columns": ("1",)}, "not UTF-8"),
    (b"id,text\n7,a\0\n", CSV, "not text"),
    (b'id,text\n7,"' + b"word\n" * 30 + b'"\n', {**CSV, "max_bytes": 100}, "too long"),
    (b'{"text": "a"}', JSON, "bad id"),
    (b'{"id": 7, "text": 3}', JSON, "columns"),
    (b'{"id": null, "text": "a"}', JSON, "bad id"),
    (b'{"id": -9007199254740993.0, "text": "a"}', JSON, "bad id"),
    (b'{"id": 7, "text": "' + LATIN_1 + b'"}', JSON, "not UTF-8"),
    (b"\xff no message", RECORD, "no Example"),
    (b"", RECORD, "columns"),
    (example(text=[b"a", b"b"], id=[1]), RECORD, "columns"),
    (example(text=[], id=[1]), RECORD, "columns"),
    (example(text=[1], id=[1]), RECORD, "columns"),
    (example(text=[b"a"], id=[1.5]), RECORD, "columns"),
    (example(text=[b"a"]), RECORD, "columns"),
    (example(text=[LATIN_1], id=[1]), RECORD, "not UTF-8"),
    (example(text=[b"a"], id=[b"1\n2"]), RECORD, "bad id"),
  ],
)
def test_bad_records(tmp_path, raw, arguments, kind):
  with pytest.raises(TextError) as raised:
    parse(tmp_path / "a", raw, **arguments)
  assert raised.value.kind == kind


ROWS = [(str(i), f'row {i}, "quoted"\n' * (i % 4) + "é" * (i % 3)) for i in range(40)]


def write_csv(path):
  with path.open("w", encoding="utf-8", newline="") as file:
    csv.writer(file).writerows([("id", "text"), *ROWS])


def write_json(path):
  path.write_text("".join(json.dumps({"text": text, "id": name}) + "\n" for name, text in ROWS))


def write_parquet(path):
  pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
  from pyarrow import parquet

  names, texts = zip(*ROWS, strict=True)
  coded = pa.array(texts, pa.large_string()).dictionary_encode()
  parquet.write_table(pa.table({"more": texts, "id": names, "text": coded}), path, row_group_size=7)


@pytest.mark.parametrize(("kind", "write"), [("csv", write_csv), ("jsonl", write_json), ("parquet", write_parquet)])
def test_records_from_any_position(tmp_path, kind, write):
  path = tmp_path / "a"
  write(path)
  reader = open_reader(str(path), InputFormat(kind, "text", "id", header=kind == "csv", empty="embed"))
  records = list(reader.records(reader.start, reader.first))
  assert [reader.parse(record) for record, _ in records] == ROWS
  offset = reader.start
  for row, (_, size) in enumerate(records):
    rest = [reader.parse(record) for record, _ in reader.records(offset, reader.first + row)]
    assert rest == ROWS[row:]
    offset += size
  assert kind == "parquet" or offset == path.stat().st_size
  reader.close()


def test_types_that_parquet_cannot_give(tmp_path):
  """DuckDB writes HUGEINT as DOUBLE, Polars writes Int128, which pyarrow does not read."""
  pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
  from pyarrow import parquet

  path = tmp_path / "a.parquet"
  ids = [2.0**53 - 1, 2.0**53]
  parquet.write_table(pa.table({"id": pa.array(ids, pa.float64()), "text": ["a", "b"]}), path)
  with contextlib.closing(open_reader(str(path), InputFormat("parquet", "text", "id"))) as reader:
    first, second = [record for record, _ in reader.records(0, 1)]
    assert reader.parse(first) == ("9007199254740991.0", "a")
    with pytest.raises(TextError, match=r"column 'id' has 9007199254740992.0, .*rounded; expected text or integers"):
      reader.parse(second)
  # A schema that declares 128 bits, as Polars has it.
  parquet.write_table(pa.table({"id": [1], "text": ["a"]}), path)
  stored = parquet.read_metadata(path).metadata[b"ARROW:schema"]
  declared = base64.b64decode(stored).replace(struct.pack("<i", 64), struct.pack("<i", 128))
  path.write_bytes(path.read_bytes().replace(stored, base64.b64encode(declared)))
  with pytest.raises(DataError, match=r"more than 64 bits.*write the column as text") as error:
    open_reader(str(path), InputFormat("parquet", "text"))
  assert "damaged" not in str(error.value)


def test_columns_of_parquet(tmp_path):
  pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
  from pyarrow import parquet

  columns = {
    "text": pa.array(["a", None, "long" * 30]),
    " view ": pa.array(["a", "b", "a"], pa.string_view()),
    "bytes": [b"a", b"\xff", b"c"],
    "number": [1, 2, 3],
  }
  columns["damaged"] = pa.array(columns["bytes"]).view(pa.string())
  parquet.write_table(pa.table(columns), tmp_path / "a")

  def read(*names):
    results = []
    reader = open_reader(str(tmp_path / "a"), InputFormat("parquet", *names, max_bytes=100))
    for record, _ in reader.records(0, 1):
      try:
        results.append(reader.parse(record))
      except TextError as error:
        results.append(error.kind)
    return results

  assert read("text", "number") == [("1", "a"), None, "too long"]
  assert (
    read("bytes") == read("damaged") == [(None, "a"), "not UTF-8", (None, "c")] and read("number") == ["columns"] * 3
  )
  assert read("view") == [(None, "a"), (None, "b"), (None, "a")]
  kept = read_records(str(tmp_path / "a"), InputFormat("parquet", "view")).content([0, 2])
  assert parquet.read_table(pa.BufferReader(kept)).to_pydict()["number"] == [1, 3]
  with pytest.raises(DataError, match="other"):
    read("other")
  for content in (b"no Parquet", (tmp_path / "a").read_bytes()[:-9]):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError):
      read("text")


def test_kinds_by_name():
  kinds = {"a.tsv": "tsv", "b/a.TSV.gz": "tsv", "a.txt": "text", "a.tfrecord": "tfrecord", "a": "text"}
  kinds |= {"a.tfrecord-00000-of-00010": "tfrecord", "d.tfrecord/a.txt": "text", "a.tfrecords.gz": "tfrecord"}
  kinds |= {"a.csv": "csv", "a.csv.gz": "csv", "b.JSONL": "jsonl", "part-0.snappy.parquet": "parquet", "csv": "text"}
  assert {path: kind_of(path) for path in kinds} == kinds
