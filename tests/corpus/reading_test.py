"""Files split into records, against Python's lines and TensorFlow's TFRecords; and parsing of good and bad records."""

import bz2
import gzip
import lzma
import struct

import pytest
import tensorflow as tf

from bert_flow_tf.corpus.reading import Columns, InputFormat, Stream, frames, kind_of, parse, to_tfrecord
from bert_flow_tf.data.lines import TextError
from bert_flow_tf.errors import DataError


def read(path, kind, max_bytes=100, offset=0):
  stream = Stream(str(path))
  stream.file.seek(offset)
  records = list(frames(stream, InputFormat(kind, max_bytes=max_bytes)))
  stream.close()
  return [raw.kind if isinstance(raw, TextError) else raw for raw, _ in records], [taken for _, taken in records]


PACKED = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, "": bytes}


@pytest.mark.parametrize("ending", PACKED)
def test_lines(tmp_path, ending):
  data = (
    b"one\ntwo\r\n\n" + b"x" * 100 + b"\n" + b"y" * 100 + b"\r\n" + b"z" * 101 + b"\n" + b"w" * 200_000 + b"\nlast\x85"
  )
  path = tmp_path / f"a{ending}"
  path.write_bytes(PACKED[ending](data))
  records, taken = read(path, "text")
  assert records[:5] == [b"one", b"two", b"", b"x" * 100, b"y" * 100]
  assert records[5:] == ["too long", "too long", b"last\x85"]
  assert taken == [len(line) for line in data.split(b"\n")[:-1] for line in [line + b"\n"]] + [5]
  assert read(path, "text", offset=sum(taken[:2]))[0] == records[2:]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("length", [99, 100, 101, 102, 103])
def test_the_longest_line(tmp_path, length, end):
  (tmp_path / "a").write_bytes(b"x" * length + end + b"after\n" * bool(end))
  records, taken = read(tmp_path / "a", "text")
  assert (records[0] == b"x" * length) == (length <= 100)
  assert taken[0] == length + len(end) and records[1:] == [b"after"] * bool(end)


@pytest.mark.parametrize("packed", [False, True])
def test_tfrecords(tmp_path, packed):
  data = [b"", b"a", b"\x00\xff" * 30, b"long" * 30, b"b" * 100]
  path = str(tmp_path / ("a.gz" if packed else "a"))
  with tf.io.TFRecordWriter(path, "GZIP" if packed else "") as writer:
    for record in data:
      writer.write(record)
  records, taken = read(path, "tfrecord")
  assert records == [*data[:3], "too long", data[4]]
  assert taken == [len(record) + 16 for record in data]
  assert read(path, "tfrecord", offset=taken[0] + taken[1])[0] == records[2:]


def test_a_damaged_tfrecord(tmp_path):
  with tf.io.TFRecordWriter(str(tmp_path / "a")) as writer:
    writer.write(b"first")
    writer.write(b"second")
  whole = (tmp_path / "a").read_bytes()
  (tmp_path / "a").write_bytes(whole.replace(b"first", b"fitst"))
  assert read(tmp_path / "a", "tfrecord")[0] == ["damaged", b"second"]
  for damaged in (whole[:-1], whole[:30], b"no TFRecord file"):
    (tmp_path / "a").write_bytes(damaged)
    with pytest.raises(DataError):
      read(tmp_path / "a", "tfrecord")
  # A wrong length would send the reader anywhere.
  (tmp_path / "a").write_bytes(struct.pack("<Q", 7) + to_tfrecord(b"12345678")[8:12] + bytes(11))
  with pytest.raises(DataError, match="damaged"):
    read(tmp_path / "a", "tfrecord")


def test_gzip_that_was_not_copied_whole(tmp_path):
  packed = gzip.compress(b"".join(b"%d\n" % i for i in range(10_000)))
  damaged = {"a.gz": packed[:-20], "b.gz": packed[:200] + b"!" + packed[201:]}
  damaged |= {"a.bz2": bz2.compress(packed)[:-20], "a.xz": lzma.compress(packed)[:-20]}
  for name, content in damaged.items():
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{name} cannot be (unpacked|read)"):
      read(tmp_path / name, "text")


def parse_line(raw, line=5, width=None, columns=(), **fields):
  return parse(raw, line, Columns(columns, width), InputFormat(**fields))


def example(**features):
  made = {}
  for name, values in features.items():
    if isinstance(values[0] if values else b"", bytes):
      made[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    elif isinstance(values[0], int):
      made[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    else:
      made[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
  return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString(deterministic=True)


TSV = {"kind": "tsv", "columns": (2, 0)}
RECORD = {"kind": "tfrecord", "columns": ("text", "id")}
LATIN_1 = "naïve".encode("latin-1")


@pytest.mark.parametrize(
  ("raw", "arguments", "expected"),
  [
    (b"A man.", {}, (None, "A man.")),
    ("\u2028 é\x85".encode(), {}, (None, "\u2028 é\x85")),
    (b"\xef\xbb\xbfA man.", {"line": 1}, (None, "A man.")),
    (b"\xef\xbb\xbfA man.", {"line": 2}, (None, "\ufeffA man.")),
    (b"", {}, None),
    (b" \t ", {}, None),
    (b" \t ", {"empty": "embed"}, (None, " \t ")),
    (b"7\tx\tA man.\ty", TSV, ("7", "A man.")),
    (b"7\tx\t", TSV, None),
    (b"", TSV, None),
    (b"7\tx\t", {**TSV, "empty": "embed"}, ("7", "")),
    (example(text=[b"A\nman"], id=[b"a7"]), RECORD, ("a7", "A\nman")),
    (example(text=[b"A man."], id=[-7]), RECORD, ("-7", "A man.")),
    (example(text=[b""], id=[b"a7"]), RECORD, None),
  ],
)
def test_good_records(raw, arguments, expected):
  assert parse_line(raw, **arguments) == expected


@pytest.mark.parametrize(
  ("raw", "arguments", "kind"),
  [
    (LATIN_1, {}, "not UTF-8"),
    (b"\xed\xa0\x80", {}, "not UTF-8"),  # a lone surrogate
    (b"A\0man", {}, "not text"),
    (b"A\rman", {}, "not text"),
    (TextError("too long", "long"), {}, "too long"),
    (b"", {"empty": "bad"}, "empty"),
    (b"7\tx", TSV, "columns"),
    (b"", {**TSV, "empty": "bad"}, "columns"),
    (b"7\tx\ty\tz", {**TSV, "width": 3}, "columns"),
    (b"7\tx", {**TSV, "width": 3}, "columns"),
    (b"\tx\ty", TSV, "bad id"),
    (b"7\tx\t ", {**TSV, "empty": "bad"}, "empty"),
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
def test_bad_records(raw, arguments, kind):
  with pytest.raises(TextError) as raised:
    parse_line(raw, **arguments)
  assert raised.value.kind == kind


def test_kinds_by_name():
  kinds = {"a.tsv": "tsv", "b/a.TSV.gz": "tsv", "a.txt": "text", "a.tfrecord": "tfrecord", "a": "text"}
  kinds |= {"a.tfrecord-00000-of-00010": "tfrecord", "d.tfrecord/a.txt": "text", "a.tfrecords.gz": "tfrecord"}
  assert {path: kind_of(path) for path in kinds} == kinds
