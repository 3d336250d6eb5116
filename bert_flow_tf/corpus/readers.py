"""Readers of input files, one class a kind, from any record on: so workers share a large file."""

import collections
import contextlib
import csv
import dataclasses
import gzip
import json
import lzma
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import google_crc32c
from fsspec.compression import compr
from fsspec.utils import infer_compression

from bert_flow_tf.corpus import storage
from bert_flow_tf.data.lines import BOM, TextError, decode, decode_line
from bert_flow_tf.errors import ConfigError, DataError, one_line
from bert_flow_tf.progress import counted

TEXT, TSV, CSV, JSONL, PARQUET, TFRECORD = "text", "tsv", "csv", "jsonl", "parquet", "tfrecord"
# {ending of a file's name: its kind}
_ENDINGS = {"tsv": TSV, "csv": CSV, "jsonl": JSONL, "ndjson": JSONL, "json": JSONL, "parquet": PARQUET, "pq": PARQUET}
# Treatment of a record whose sentence is empty or white space.
SKIP, BAD, EMBED = "skip", "bad", "embed"
# Kinds of values that a TFRecord's features may have: of the sentence, of the id.
_FEATURES = (("bytes_list",), ("bytes_list", "int64_list"))
_PART = 1 << 16
_UNPACKING_ERRORS = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)


@dataclasses.dataclass(frozen=True)
class InputFormat:
  """Format of all input files of a run; a column is given by its name, or in TSV and CSV by its number from 1."""

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


def kind_of(path: str) -> str:
  """Returns the kind of a file by its name (notes.tsv.gz, part.tfrecord-00000-of-00010), text by default."""
  endings = path.lower().rsplit("/", 1)[-1].split(".")[1:]
  if any(ending.startswith("tfrecord") for ending in endings):
    return TFRECORD
  for ending in endings[-2:]:
    if ending in _ENDINGS:
      return _ENDINGS[ending]
  return TEXT


def is_number(column: str) -> bool:
  """Returns True for a column given by its number, False for a name."""
  return column.isascii() and column.isdigit()


def has_header(columns: Iterable[tuple[str, str | None]], header: bool | None) -> bool:
  """Returns whether TSV or CSV files have a header, by (argument, column); a ConfigError names a wrong column."""
  is_named = bool(header)
  for name, value in columns:
    if value is None:
      continue
    if not is_number(value):
      is_named = True
      if header is False:
        raise ConfigError(f"{name}={value}: expected a column's number, as the files have no header", argument=name)
    elif int(value) < 1:
      raise ConfigError(f"{name}={value}: expected 1 or more, as columns are numbered from 1", argument=name)
  return is_named


def import_parquet(argument: str) -> Any:
  """Returns pyarrow.parquet; a ConfigError names the argument that asks for it if it is not installed."""
  try:
    import pyarrow.parquet as parquet
  except ImportError as error:
    message = f"{argument}: Parquet files need pyarrow, which cannot be imported ({error}): pip install pyarrow"
    raise ConfigError(message, argument=argument) from error
  return parquet


def open_reader(path: str, input_format: InputFormat) -> "TextReader":
  """Returns the reader of a file."""
  return _READERS[input_format.kind](path, input_format)


class TextReader:
  """Opened text file whose lines are the records; the base of the other readers.

  The file is unpacked if its name ends in .gz, .bz2 or .xz. Its first record has the number `first` (a header has 1)
  and begins at byte `start`.
  """

  def __init__(self, path: str, input_format: InputFormat) -> None:
    self.path, self._format = path, input_format
    self.start, self.first = 0, 1
    self._stored = storage.open_file(path)
    self._file: Any = self._stored
    compression = infer_compression(path)
    if compression is not None:
      self._file = compr[compression](self._stored, mode="rb")

  @property
  def position(self) -> int:
    """Number of stored bytes read until now."""
    return self._stored.tell()

  def close(self) -> None:
    """Closes the file."""
    self._file.close()
    self._stored.close()

  def records(self, offset: int, number: int) -> Iterator[tuple[Any, int]]:
    """Yields (record, or a `TextError`; its size in bytes) from the record `number` at byte `offset` to the end."""
    try:
      yield from self._records(offset, number)
    except _UNPACKING_ERRORS as error:  # BadGzipFile is an OSError too
      raise DataError(f"{self.path} cannot be unpacked ({error}): it is damaged or was not copied whole") from error
    except OSError as error:
      raise DataError(f"{self.path} cannot be read: {error.strerror or error}") from error

  def parse(self, record: Any) -> tuple[str | None, str] | None:
    """Returns (id or None, sentence) of one of `records`, None for one to be skipped; or raises a TextError."""
    if isinstance(record, TextError):
      raise record
    fields, name = self.fields(record), None
    if len(fields) == 2:
      name = fields[1]
      if not name or any(mark in name for mark in "\n\r\0"):
        raise TextError("bad id", "the id is empty, or has a line break or NUL")
    if not fields[0].strip() and self._format.empty != EMBED:
      if self._format.empty == SKIP:
        return None
      raise TextError("empty", "the sentence is empty")
    return name, fields[0]

  def fields(self, record: Any) -> list[str]:
    """Returns the sentence and, if it has a column, the id."""
    return [decode_line(record)]

  def _records(self, offset: int, number: int) -> Iterator[tuple[Any, int]]:
    """Yields lines without their breaks; see `records`."""
    self._file.seek(offset)
    limit, mark = self._format.max_bytes, 0
    if offset == 0 and self._file.read(len(BOM)) == BOM:
      mark = len(BOM)
    self._file.seek(offset + mark)
    while raw := self._file.readline(limit + 2):  # a line break has up to 2 bytes
      size = len(raw) + mark
      mark = 0
      line = raw.removesuffix(b"\n").removesuffix(b"\r")
      if len(line) <= limit:
        yield line, size
        continue
      # Drop the rest of the line, in parts.
      while not raw.endswith(b"\n") and (raw := self._file.readline(_PART)):
        size += len(raw)
      yield TextError("too long", f"the line has about {size} bytes, expected at most {limit}"), size


class TsvReader(TextReader):
  """Reader of lines whose columns are separated by tabs; nothing is quoted."""

  def __init__(self, path: str, input_format: InputFormat) -> None:
    super().__init__(path, input_format)
    self._width: int | None = None
    if not input_format.header:
      self._places = [int(name) - 1 for name in input_format.columns]
      return
    record, size = next(self.records(0, 1), (b"", 0))
    try:
      if isinstance(record, TextError):
        raise record
      names = self.row(record)
    except TextError as error:
      raise DataError(f"{path}, line 1: expected the names of columns: {error}") from error
    self._places = [self._place(name, names) for name in input_format.columns]
    self._width, self.start, self.first = len(names), size, 2

  def _place(self, name: str, names: list[str]) -> int:
    """Returns the place of a column in the header: by its name, or by its number if no column has this name."""
    if names.count(name) == 1:
      return names.index(name)
    if name not in names and is_number(name) and 0 < int(name) <= len(names):
      return int(name) - 1
    shown = ", ".join(name[:40] for name in names[:20]) or "nothing"
    message = f"{self.path}, line 1: {names.count(name)} columns {name!r} in the header ({shown}), expected exactly 1"
    raise DataError(message)

  def row(self, record: Any) -> list[str]:
    """Returns the columns of a record."""
    return decode_line(record).split("\t")

  def fields(self, record: Any) -> list[str]:
    """See `TextReader.fields`."""
    row = self.row(record)
    # An empty line has no columns.
    if row == [""] and self._format.empty == SKIP:
      return row
    if self._width not in (None, len(row)) or len(row) <= max(self._places):
      expected = self._width or f"at least {max(self._places) + 1}"
      raise TextError("columns", f"{counted(len(row), 'column')}, expected {expected}")
    return [row[place] for place in self._places]


class CsvReader(TsvReader):
  """Reader of columns separated by commas, as Python's csv and spreadsheets write them: a quoted one may have lines.

  Where the lines from an opened quote on are no CSV, the first of them is bad, and the others are read again.
  """

  def _records(self, offset: int, number: int) -> Iterator[tuple[Any, int]]:
    csv.field_size_limit(max(csv.field_size_limit(), self._format.max_bytes))
    lines = _CsvLines(super()._records(offset, number))
    rows = csv.reader(lines, strict=True)
    while True:
      lines.read = []
      row: Any = None
      try:
        row = next(rows, None)
      except TextError as error:
        row = error
      except csv.Error as error:
        row = TextError("not CSV", f"{error}")
        lines.read_again()
      if row is None:
        return
      yield row, sum(size for _, size in lines.read)

  def row(self, record: Any) -> list[str]:
    """See `TsvReader.row`."""
    for field in record:
      decode(field.encode("utf-8", "surrogateescape"), "the column")
    return record or [""]


class _CsvLines:
  """Lines for `csv.reader`; `read` are those that it has read since this was set to [], each with its size in bytes."""

  def __init__(self, lines: Iterator[tuple[Any, int]]) -> None:
    self._lines = lines
    self._again: collections.deque[tuple[Any, int]] = collections.deque()
    self.read: list[tuple[Any, int]] = []

  def read_again(self) -> None:
    """Gives all lines of `read` but the first once more."""
    self._again.extendleft(reversed(self.read[1:]))
    del self.read[1:]

  def __iter__(self) -> "_CsvLines":
    return self

  def __next__(self) -> str:
    line, size = self._again.popleft() if self._again else next(self._lines)
    self.read.append((line, size))
    if isinstance(line, TextError):
      raise line
    return line.decode("utf-8", "surrogateescape") + "\n"


class JsonReader(TextReader):
  """Reader of JSON lines: an object on each line."""

  def fields(self, record: Any) -> list[str]:
    """See `TextReader.fields`."""
    text = decode_line(record)
    if not text.strip():
      return [""]
    try:
      values = json.loads(text)
    except (ValueError, RecursionError) as error:
      raise TextError("not JSON", f"the line is not JSON ({error})") from error
    names = self._format.columns
    if not isinstance(values, dict) or not values.keys() >= set(names):
      raise TextError("columns", f"expected an object with {', '.join(names)}")
    return _texts(names, [values[name] for name in names])


class ParquetReader(TextReader):
  """Reader of two columns of a Parquet file, whose records are found by their number alone."""

  def __init__(self, path: str, input_format: InputFormat) -> None:
    super().__init__(path, input_format)
    parquet = import_parquet("input")
    with self._arrow_errors():
      self._table = parquet.ParquetFile(self._file)
      names = self._table.schema_arrow.names
    for name in input_format.columns:
      if names.count(name) != 1:
        shown = ", ".join(name[:40] for name in names[:20])
        raise DataError(f"{path}: {names.count(name)} columns {name!r} ({shown}), expected exactly 1")

  @property
  def position(self) -> int:
    """0: its parts are read in any order."""
    return 0

  def _records(self, offset: int, number: int) -> Iterator[tuple[Any, int]]:
    # Leave out the groups of rows before the first record.
    before, groups = number - 1, []
    for group in range(self._table.num_row_groups):
      rows = self._table.metadata.row_group(group).num_rows
      if groups or before < rows:
        groups.append(group)
      else:
        before -= rows
    names = self._format.columns
    batches = self._table.iter_batches(row_groups=groups, columns=list(dict.fromkeys(names)), batch_size=4096)
    with self._arrow_errors():
      for batch in batches:
        rest = batch.slice(min(before, len(batch)))
        before -= len(batch) - len(rest)
        columns = [_values(rest.column(name)) for name in names]
        for values in zip(*columns, strict=True):
          size = len(values[0]) if isinstance(values[0], bytes) else 0
          if size > self._format.max_bytes:
            values = TextError("too long", f"the sentence has {size} bytes, expected at most {self._format.max_bytes}")
          yield values, size

  def fields(self, record: Any) -> list[str]:
    """See `TextReader.fields`."""
    return _texts(self._format.columns, record)

  @contextlib.contextmanager
  def _arrow_errors(self) -> Iterator[None]:
    import pyarrow

    try:
      yield
    except (pyarrow.ArrowException, OSError) as error:
      raise DataError(f"{self.path}: damaged, or not a Parquet file ({one_line(error)})") from error


def _values(column):
  """Returns the values of an Arrow array as a list, text as bytes, since those of a damaged file need not be UTF-8."""
  import pyarrow as pa

  if pa.types.is_dictionary(column.type):
    column = column.dictionary_decode()
  if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
    column = column.cast(pa.large_binary())
  return column.to_pylist()


def _texts(names, values):
  """Returns the sentence and the id, if it has a column, of JSON or Parquet as str; null is an empty one."""
  texts = []
  for name, value in zip(names, values, strict=True):
    if isinstance(value, bytes):
      value = decode(value, f"column {name!r}")
    is_id = len(texts) == 1
    if value is None:
      value = ""
    elif is_id and isinstance(value, int):
      value = str(value)
    if not isinstance(value, str):
      raise TextError("columns", f"column {name!r} has {repr(value)[:40]}, expected text")
    texts.append(value.encode("utf-8", "replace").decode("utf-8"))  # JSON may have half a surrogate pair
  return texts


class TfRecordReader(TextReader):
  """Reader of the features of tf.train.Examples in a TFRecord file."""

  # A record is, little-endian: length uint64, masked CRC-32C of it uint32, the data, masked CRC-32C of the data uint32.
  # TensorFlow's own reader begins at a file's start alone, ends at its first damaged record and opens no fsspec file.

  def _records(self, offset: int, number: int) -> Iterator[tuple[Any, int]]:
    self._file.seek(offset)
    limit = self._format.max_bytes
    while head := self._file.read(12):
      # The length has its own checksum: a wrong one would send the reader anywhere.
      if len(head) < 12 or head[8:] != _masked_crc(head[:8]):
        raise DataError(f"{self.path}: damaged, or not a TFRecord file; record {number}")
      (length,) = struct.unpack("<Q", head[:8])
      record: Any
      if length <= limit:
        record = self._file.read(length)
        checksum = self._file.read(4)
        missing = length + 4 - len(record) - len(checksum)
        if checksum != _masked_crc(record):
          record = TextError("damaged", "the record's bytes do not match its checksum")
      else:
        # Drop the record, in parts.
        missing = length + 4
        while missing and (part := self._file.read(min(missing, _PART))):
          missing -= len(part)
        record = TextError("too long", f"the record has {length} bytes, expected at most {limit}")
      if missing:
        raise DataError(f"{self.path} ends inside a record: it was not copied whole")
      yield record, length + 16
      number += 1

  def fields(self, record: Any) -> list[str]:
    """See `TextReader.fields`."""
    import tensorflow as tf  # only for such files
    from google.protobuf.message import DecodeError

    try:
      example = tf.train.Example.FromString(record).features.feature
    except DecodeError as error:
      raise TextError("no Example", "the record is not a tf.train.Example") from error
    fields = []
    for name, allowed in zip(self._format.columns, _FEATURES, strict=False):
      kind = example[name].WhichOneof("kind") or "nothing"
      values = getattr(example[name], kind).value if kind in allowed else []
      if len(values) != 1:
        content = f"{counted(len(values), 'value')} ({kind})"
        raise TextError("columns", f"feature {name!r} holds {content}, expected one value ({' or '.join(allowed)})")
      if kind == "bytes_list":
        fields.append(decode(values[0], f"feature {name!r}"))
      else:
        fields.append(str(values[0]))
    return fields


_READERS: dict[str, type[TextReader]] = {
  TEXT: TextReader,
  TSV: TsvReader,
  CSV: CsvReader,
  JSONL: JsonReader,
  PARQUET: ParquetReader,
  TFRECORD: TfRecordReader,
}
KINDS = tuple(_READERS)


def to_tfrecord(data: bytes) -> bytes:
  """Returns a record as a TFRecord file holds it."""
  length = struct.pack("<Q", len(data))
  return length + _masked_crc(length) + data + _masked_crc(data)


def _masked_crc(data):
  """Returns the 4 bytes of a CRC-32C as TFRecord files hold it: rotated by 15 bits, plus 0xa282ead8."""
  crc = google_crc32c.value(data)
  masked = (crc >> 15 | crc << 17) + 0xA282EAD8
  return struct.pack("<I", masked & 0xFFFFFFFF)
