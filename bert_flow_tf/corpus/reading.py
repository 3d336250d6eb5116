"""Reads input files record by record, from any position, which is counted in bytes: so workers share a large file.

A line ends at a line feed only (see data/lines.py). A TFRecord is, little-endian: length uint64, masked CRC-32C of the
length uint32, the data, masked CRC-32C of the data uint32 (TensorFlow, "TFRecord and tf.train.Example"). TensorFlow's
own reader begins at the start of a file alone, ends at its first damaged record and opens no file of fsspec's.
"""

import contextlib
import dataclasses
import gzip
import io
import lzma
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import google_crc32c
from fsspec.compression import compr
from fsspec.utils import infer_compression

from bert_flow_tf.corpus import storage
from bert_flow_tf.corpus.records import (
  TFRECORD,
  TSV,
  BadRecord,
  Columns,
  InputFormat,
  Record,
  Unreadable,
  is_number,
  parse,
)
from bert_flow_tf.data.lines import TextError, decode_line
from bert_flow_tf.errors import DataError

_PART = 1 << 16
_UNPACKING_ERRORS = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)


class Stream:
  """Input file, unpacked if its name ends in .gz, .bz2 or .xz, as a binary file that can seek.

  `file` has the unpacked bytes. Seeking backward in a compressed file unpacks it again from its beginning.
  """

  def __init__(self, path: str) -> None:
    self.path = path
    self._stored = storage.open_file(path)
    compression = infer_compression(path)
    self.file: Any = self._stored
    if compression is not None:
      self.file = compr[compression](self._stored, mode="rb")

  @property
  def position(self) -> int:
    """Number of stored bytes read until now."""
    return self._stored.tell()

  def close(self) -> None:
    """Closes the file."""
    self.file.close()
    self._stored.close()

  @contextlib.contextmanager
  def errors(self) -> Iterator[None]:
    """Raises errors of reading and unpacking as a DataError that names the file."""
    try:
      yield
    except _UNPACKING_ERRORS as error:  # BadGzipFile is an OSError too
      raise DataError(f"{self.path} cannot be unpacked ({error}): it is damaged or was not copied whole") from error
    except OSError as error:
      raise DataError(f"{self.path} cannot be read: {error.strerror or error}") from error


def frames(stream: Stream, input_format: InputFormat) -> Iterator[tuple[bytes | Unreadable, int]]:
  """Yields (record, its size in the unpacked file in bytes) from the stream's position to the end.

  A record is its bytes without the line break, or an `Unreadable` that says why it cannot be read. Raises a DataError
  if the file is damaged in a way that hides the next record.
  """
  with stream.errors():
    if input_format.kind == TFRECORD:
      yield from _tfrecords(stream, input_format.max_bytes)
    else:
      yield from _lines(stream.file, input_format.max_bytes)


def _lines(file, max_bytes):
  while raw := file.readline(max_bytes + 2):  # a line break has up to 2 bytes
    size = len(raw)
    line = raw.removesuffix(b"\n").removesuffix(b"\r")
    if len(line) <= max_bytes:
      yield line, size
      continue
    # Drop the rest of the line, in parts.
    while not raw.endswith(b"\n") and (raw := file.readline(_PART)):
      size += len(raw)
    yield Unreadable("too long", f"the line has about {size} bytes, expected at most {max_bytes}"), size


def _tfrecords(stream, max_bytes):
  number = 0
  while head := stream.file.read(12):
    number += 1
    if len(head) < 12 or head[8:] != _masked_crc(head[:8]):
      raise DataError(f"{stream.path}: damaged, or not a TFRecord file; record {number} after the reading began")
    (length,) = struct.unpack("<Q", head[:8])
    if length <= max_bytes:
      data = stream.file.read(length)
      checksum = stream.file.read(4)
      missing = length + 4 - len(data) - len(checksum)
      record = data
      if checksum != _masked_crc(data):
        record = Unreadable("damaged", "the record's bytes do not match its checksum")
    else:
      missing = length + 4
      while missing and (part := stream.file.read(min(missing, _PART))):
        missing -= len(part)
      record = Unreadable("too long", f"the record has {length} bytes, expected at most {max_bytes}")
    if missing:
      raise DataError(f"{stream.path} ends inside a record: it was not copied whole")
    yield record, length + 16


def to_tfrecord(data: bytes) -> bytes:
  """Returns a record as a TFRecord file holds it."""
  length = struct.pack("<Q", len(data))
  return length + _masked_crc(length) + data + _masked_crc(data)


def _masked_crc(data):
  """Returns the 4 bytes of a CRC-32C as TFRecord files hold it: rotated by 15 bits, plus 0xa282ead8."""
  crc = google_crc32c.value(data)
  masked = (crc >> 15 | crc << 17) + 0xA282EAD8
  return struct.pack("<I", masked & 0xFFFFFFFF)


def find_columns(stream: Stream, input_format: InputFormat) -> tuple[Columns, int]:
  """Returns the columns of sentence and id in a file at its beginning, and the size of its header in bytes."""
  if input_format.kind != TSV:
    return Columns(tuple(input_format.columns)), 0
  if not input_format.header:
    return Columns(tuple(int(name) - 1 for name in input_format.columns)), 0
  raw, size = next(frames(stream, input_format), (b"", 0))
  try:
    if isinstance(raw, Unreadable):
      raise raw
    names = decode_line(raw).removeprefix("\ufeff").split("\t")
  except TextError as error:
    raise DataError(f"{stream.path}, line 1: expected the names of columns: {error}") from error
  places = []
  for name in input_format.columns:
    if names.count(name) == 1:
      places.append(names.index(name))
    elif name not in names and is_number(name) and 0 < int(name) <= len(names):
      places.append(int(name) - 1)
    else:
      shown = ", ".join(name[:40] for name in names[:20]) or "nothing"
      raise DataError(
        f"{stream.path}, line 1: {names.count(name)} columns {name!r} in the header ({shown}), expected exactly 1"
      )
  return Columns(tuple(places), len(names)), size


@dataclasses.dataclass
class ShardRecords:
  """Records of a shard: those to embed, the bad ones, and the number of empty ones, which are skipped."""

  records: list[Record] = dataclasses.field(default_factory=list)
  bad: list[BadRecord] = dataclasses.field(default_factory=list)
  skipped: int = 0


class ShardReader:
  """Reader of shards. It keeps the last file open, so that consecutive shards unpack a compressed file once."""

  def __init__(self, input_format: InputFormat) -> None:
    self._format = input_format
    self._stream: Stream | None = None

  def read(self, task: Any) -> ShardRecords:
    """Returns the records of an `index.ShardTask`; raises a DataError if a file has become shorter or unreadable."""
    shard = ShardRecords()
    number = task.first_record
    for span in task.spans:
      records = frames(self._open(span), self._format)
      for line in range(span.line, span.line + span.records):
        raw, _ = next(records, (None, 0))
        if raw is None:
          raise DataError(f"{span.path} ends before line {line}: it was changed during this run")
        self._add(shard, raw, line, span, number)
        number += 1
    return shard

  def close(self) -> None:
    """Closes the open file."""
    if self._stream is not None:
      self._stream.close()
    self._stream = None

  def _add(self, shard, raw, line, span, number):
    """Parses a record and adds it to the shard."""
    try:
      parsed = parse(raw, line, span.columns, self._format)
    except TextError as error:
      shard.bad.append(BadRecord(span.path, line, error.kind, str(error)))
      return
    if parsed is None:
      shard.skipped += 1
      return
    name, text = parsed
    if name is None:
      name = str(number)
    shard.records.append(Record(name, text, span.path, line))

  def _open(self, span):
    """Returns the stream of a span's file, at the span's first record."""
    if self._stream is None or self._stream.path != span.path:
      self.close()
      self._stream = Stream(span.path)
    with self._stream.errors():
      self._stream.file.seek(span.offset, io.SEEK_SET)
    return self._stream
