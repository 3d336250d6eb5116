"""Files split into records, against Python's lines and TensorFlow's TFRecords."""

import bz2
import gzip
import lzma
import struct

import pytest
import tensorflow as tf

from bert_flow_tf.corpus.reading import InputFormat, Stream, Unreadable, frames, to_tfrecord
from bert_flow_tf.errors import DataError


def read(path, kind, max_bytes=100, offset=0):
  stream = Stream(str(path))
  stream.file.seek(offset)
  records = list(frames(stream, InputFormat(kind, max_bytes=max_bytes)))
  stream.close()
  return [raw.kind if isinstance(raw, Unreadable) else raw for raw, _ in records], [taken for _, taken in records]


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
