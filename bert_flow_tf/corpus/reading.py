"""Reads input files record by record, from any position, which is counted in bytes: so workers share a large file."""

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
from bert_flow_tf.data.lines import BOM, TextError, decode, decode_line
from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import counted

TEXT, TSV, TFRECORD = "text", "tsv", "tfrecord"
KINDS = (TEXT, TSV, TFRECORD)
# Treatment of a record whose sentence is empty or white space.
SKIP, BAD, EMBED = "skip", "bad", "embed"
# Kinds of values that a TFRecord's features may have: of the sentence, of the id.
_FEATURES = (("bytes_list",), ("bytes_list", "int64_list"))
_PART = 1 << 16
_UNPACKING_ERRORS = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)


@dataclasses.dataclass(frozen=True)
class InputFormat:
  """Format of all input files of a run; a column is a TSV's name or number from 1, or a TFRecord's feature."""

  kind: str = TEXT
  column: str | None = None
  id_column: str | None = None
  header: bool = False
  empty: str = SKIP
  max_bytes: int = 1 << 20

  @property
  def columns(self) -> list[str]:
    """Columns of the sentence and, unless the records are numbered, of the id."""
    return [name for name in (self.column, self.id_column) if name is not None]


@dataclasses.dataclass(frozen=True)
class Columns:
  """Columns of sentence and id, by number from 0 or feature's name; `width` is that of a TSV's header."""

  places: tuple = ()
  width: int | None = None


@dataclasses.dataclass(frozen=True)
class Record:
  """Sentence to embed, from line `line` (from 1) of the file `path`; in a TFRecord, from that record."""

  id: str
  text: str
  path: str
  line: int


@dataclasses.dataclass(frozen=True)
class BadRecord:
  """Record that cannot be embedded; the run counts each `kind`, and `reason` is for people."""

  path: str
  line: int
  kind: str
  reason: str


def kind_of(path: str) -> str:
  """Returns the kind of a file by its name (notes.tsv.gz, part.tfrecord-00000-of-00010), text by default."""
  endings = path.lower().rsplit("/", 1)[-1].split(".")[1:]
  if any(ending.startswith("tfrecord") for ending in endings):
    return TFRECORD
  if "tsv" in endings[-2:]:
    return TSV
  return TEXT


def is_number(column: str) -> bool:
  """Returns True for a column given by its number, False for a name."""
  return column.isascii() and column.isdigit()


class Stream:
  """Input file as a binary `file` that can seek; unpacked if its name ends in .gz, .bz2 or .xz."""

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


def frames(stream: Stream, input_format: InputFormat) -> Iterator[tuple[bytes | TextError, int]]:
  """Yields (bytes of a record without line break, or a `TextError`; its size in the unpacked file) up to the end."""
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
    yield TextError("too long", f"the line has about {size} bytes, expected at most {max_bytes}"), size


def _tfrecords(stream, max_bytes):
  # A record is, little-endian: length uint64, masked CRC-32C of it uint32, the data, masked CRC-32C of the data uint32.
  # TensorFlow's own reader begins at a file's start alone, ends at its first damaged record and opens no fsspec file.
  number = 0
  while head := stream.file.read(12):
    number += 1
    # The length has its own checksum: a wrong one would send the reader anywhere.
    if len(head) < 12 or head[8:] != _masked_crc(head[:8]):
      raise DataError(f"{stream.path}: damaged, or not a TFRecord file; record {number} after the reading began")
    (length,) = struct.unpack("<Q", head[:8])
    if length <= max_bytes:
      data = stream.file.read(length)
      checksum = stream.file.read(4)
      missing = length + 4 - len(data) - len(checksum)
      record = data
      if checksum != _masked_crc(data):
        record = TextError("damaged", "the record's bytes do not match its checksum")
    else:
      # Drop the record, in parts.
      missing = length + 4
      while missing and (part := stream.file.read(min(missing, _PART))):
        missing -= len(part)
      record = TextError("too long", f"the record has {length} bytes, expected at most {max_bytes}")
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
    if isinstance(raw, TextError):
      raise raw
    names = decode_line(raw).removeprefix("\ufeff").split("\t")
  except TextError as error:
    raise DataError(f"{stream.path}, line 1: expected the names of columns: {error}") from error
  places = []
  # A column by its name, or by its number if no column has this name.
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


def parse(
  raw: bytes | TextError, line: int, columns: Columns, input_format: InputFormat
) -> tuple[str | None, str] | None:
  """Returns (id or None, sentence) of a record of `frames`, None for one to be skipped; or raises a TextError."""
  if isinstance(raw, TextError):
    raise raw
  # The fields of the record: the sentence, and its id if it has one.
  name = None
  if input_format.kind == TFRECORD:
    fields = _example_values(raw, columns.places)
  elif line == 1:
    fields = [decode_line(raw.removeprefix(BOM))]
  else:
    fields = [decode_line(raw)]
  # An empty line has no columns.
  if input_format.kind == TSV and (fields[0] or input_format.empty != SKIP):
    fields = _column_values(fields[0].split("\t"), columns)
  if len(fields) == 2:
    name = fields[1]
    if not name or any(mark in name for mark in "\n\r\0"):
      raise TextError("bad id", "the id is empty, or has a line break or NUL")
  if not fields[0].strip() and input_format.empty != EMBED:
    if input_format.empty == SKIP:
      return None
    raise TextError("empty", "the sentence is empty")
  return name, fields[0]


def _column_values(fields, columns):
  """Returns the sentence and the id, if it has a column, of a TSV's line."""
  expected = columns.width or max(columns.places) + 1
  if columns.width is not None and len(fields) != expected:
    raise TextError("columns", f"{counted(len(fields), 'column')}, expected {expected}, as in the header")
  if len(fields) < expected:
    raise TextError("columns", f"{counted(len(fields), 'column')}, expected at least {expected}")
  return [fields[place] for place in columns.places]


def _example_values(raw, features):
  """Returns the sentence and the id, if it has a feature, of a serialized tf.train.Example."""
  import tensorflow as tf  # only for such files
  from google.protobuf.message import DecodeError

  try:
    example = tf.train.Example.FromString(raw).features.feature
  except DecodeError as error:
    raise TextError("no Example", "the record is not a tf.train.Example") from error
  result = []
  for name, allowed in zip(features, _FEATURES, strict=False):
    kind = example[name].WhichOneof("kind") or "nothing"
    values = getattr(example[name], kind).value if kind in allowed else []
    if len(values) != 1:
      content = f"{counted(len(values), 'value')} ({kind})"
      raise TextError("columns", f"feature {name!r} holds {content}, expected one value ({' or '.join(allowed)})")
    if kind == "bytes_list":
      result.append(decode(values[0], f"feature {name!r}"))
    else:
      result.append(str(values[0]))
  return result


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
    self._columns = Columns()

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
      parsed = parse(raw, line, self._columns, self._format)
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
      self._columns, _ = find_columns(self._stream, self._format)
    with self._stream.errors():
      self._stream.file.seek(span.offset, io.SEEK_SET)
    return self._stream
