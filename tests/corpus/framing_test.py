"""Cutting files into records, against Python's own lines and TensorFlow's own TFRecords."""

import gzip
import struct

import pytest
import tensorflow as tf

from bert_flow_tf.corpus.formats import Unreadable
from bert_flow_tf.corpus.framing import Stream, frames, masked_crc
from bert_flow_tf.corpus.storage import LocalStorage
from bert_flow_tf.errors import DataError


def read(path, kind, max_bytes=100, offset=0):
  stream = Stream(LocalStorage(), str(path), kind)
  stream.file.seek(offset)
  found = list(frames(stream, kind, max_bytes))
  stream.close()
  return [str(raw) if isinstance(raw, Unreadable) else raw for raw, _ in found], [taken for _, taken in found]


@pytest.mark.parametrize("packed", [False, True])
def test_lines(tmp_path, packed):
  data = (
    b"one\ntwo\r\n\n" + b"x" * 100 + b"\n" + b"y" * 100 + b"\r\n" + b"z" * 101 + b"\n" + b"w" * 200_000 + b"\nlast\x85"
  )
  (tmp_path / "a").write_bytes(gzip.compress(data) if packed else data)
  records, taken = read(tmp_path / "a", "text")
  assert records[:5] == [b"one", b"two", b"", b"x" * 100, b"y" * 100]
  assert records[5].startswith("the line has 101 bytes") and records[6].startswith("the line has 200001 bytes")
  assert records[7:] == [b"last\x85"]
  assert taken == [len(line) for line in data.split(b"\n")[:-1] for line in [line + b"\n"]] + [5]
  assert read(tmp_path / "a", "text", offset=sum(taken[:2]))[0] == records[2:]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("length", [99, 100, 101, 102, 103])
def test_the_longest_line(tmp_path, length, end):
  (tmp_path / "a").write_bytes(b"x" * length + end + b"after\n" * bool(end))
  records, taken = read(tmp_path / "a", "text")
  assert (records[0] == b"x" * length) == (length <= 100)
  assert taken[0] == length + len(end) and records[1:] == [b"after"] * bool(end)


@pytest.mark.parametrize("packed", [False, True])
def test_tfrecords(tmp_path, packed):
  wanted = [b"", b"a", b"\x00\xff" * 30, b"long" * 30, b"b" * 100]
  path = str(tmp_path / "a")
  with tf.io.TFRecordWriter(path, "GZIP" if packed else "") as writer:
    for record in wanted:
      writer.write(record)
  records, taken = read(path, "tfrecord")
  assert [*records[:3], records[4]] == [*wanted[:3], wanted[4]] and "120 bytes" in records[3]
  assert taken == [len(record) + 16 for record in wanted]
  assert read(path, "tfrecord", offset=taken[0] + taken[1])[0] == records[2:]


def test_a_tfrecord_whose_length_looks_like_gzip(tmp_path):
  record = bytes(0x8B1F)  # little-endian 1f 8b
  with tf.io.TFRecordWriter(str(tmp_path / "a")) as writer:
    writer.write(record)
  assert (tmp_path / "a").read_bytes()[:2] == b"\x1f\x8b"
  assert read(tmp_path / "a", "tfrecord", 1 << 20)[0] == [record]


def test_a_damaged_tfrecord(tmp_path):
  with tf.io.TFRecordWriter(str(tmp_path / "a")) as writer:
    writer.write(b"first")
    writer.write(b"second")
  whole = (tmp_path / "a").read_bytes()
  (tmp_path / "a").write_bytes(whole.replace(b"first", b"fitst"))
  assert read(tmp_path / "a", "tfrecord")[0] == ["the record's checksum is not that of its bytes", b"second"]
  for damaged, message in [(whole[:-1], "ends inside"), (whole[:30], "damaged"), (b"no TFRecord file", "damaged")]:
    (tmp_path / "a").write_bytes(damaged)
    with pytest.raises(DataError, match=message):
      read(tmp_path / "a", "tfrecord")
  # A length that its checksum belies would send the reader anywhere.
  (tmp_path / "a").write_bytes(struct.pack("<Q", 7) + struct.pack("<I", masked_crc(b"8 bytes!")) + bytes(11))
  with pytest.raises(DataError, match="damaged"):
    read(tmp_path / "a", "tfrecord")


def test_gzip_that_was_not_copied_whole(tmp_path):
  packed = gzip.compress(b"".join(b"%d\n" % i for i in range(10_000)))
  for damaged in (packed[:-20], packed[:200] + b"!" + packed[201:]):
    (tmp_path / "a.gz").write_bytes(damaged)
    with pytest.raises(DataError, match=r"a\.gz cannot be unpacked"):
      read(tmp_path / "a.gz", "text")
