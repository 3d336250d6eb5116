"""Files split into records, against Python's lines and TensorFlow's TFRecords."""

import gzip
import struct

import pytest
import tensorflow as tf

from bert_flow_tf.corpus.formats import Unreadable
from bert_flow_tf.corpus.framing import Stream, frames, masked_crc
from bert_flow_tf.errors import DataError


def read(path, kind, max_bytes=100, offset=0):
  stream = Stream(str(path), kind)
  stream.file.seek(offset)
  records = list(frames(stream, kind, max_bytes))
  stream.close()
  return [raw.kind if isinstance(raw, Unreadable) else raw for raw, _ in records], [taken for _, taken in records]


@pytest.mark.parametrize("packed", [False, True])
def test_lines(tmp_path, packed):
  data = (
    b"one\ntwo\r\n\n" + b"x" * 100 + b"\n" + b"y" * 100 + b"\r\n" + b"z" * 101 + b"\n" + b"w" * 200_000 + b"\nlast\x85"
  )
  (tmp_path / "a").write_bytes(gzip.compress(data) if packed else data)
  records, taken = read(tmp_path / "a", "text")
  assert records[:5] == [b"one", b"two", b"", b"x" * 100, b"y" * 100]
  assert records[5:] == ["too long", "too long", b"last\x85"]
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
  data = [b"", b"a", b"\x00\xff" * 30, b"long" * 30, b"b" * 100]
  path = str(tmp_path / "a")
  with tf.io.TFRecordWriter(path, "GZIP" if packed else "") as writer:
    for record in data:
      writer.write(record)
  records, taken = read(path, "tfrecord")
  assert records == [*data[:3], "too long", data[4]]
  assert taken == [len(record) + 16 for record in data]
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
  assert read(tmp_path / "a", "tfrecord")[0] == ["damaged", b"second"]
  for damaged in (whole[:-1], whole[:30], b"no TFRecord file"):
    (tmp_path / "a").write_bytes(damaged)
    with pytest.raises(DataError):
      read(tmp_path / "a", "tfrecord")
  # A wrong length would send the reader anywhere.
  (tmp_path / "a").write_bytes(struct.pack("<Q", 7) + struct.pack("<I", masked_crc(b"8 bytes!")) + bytes(11))
  with pytest.raises(DataError, match="damaged"):
    read(tmp_path / "a", "tfrecord")


def test_gzip_that_was_not_copied_whole(tmp_path):
  packed = gzip.compress(b"".join(b"%d\n" % i for i in range(10_000)))
  for damaged in (packed[:-20], packed[:200] + b"!" + packed[201:]):
    (tmp_path / "a.gz").write_bytes(damaged)
    with pytest.raises(DataError, match=r"a\.gz cannot be unpacked"):
      read(tmp_path / "a.gz", "text")
