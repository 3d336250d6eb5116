"""Readers of files of text, TSV, CSV and JSON lines, one class per kind, from any record on: workers share a file."""

import bz2
import csv
import dataclasses
import gzip
import json
import lzma
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from bert_flow_tf.data.readers.lines import BOM, GZIP_MAGIC, TextError, decode, decode_line
from bert_flow_tf.errors import DataError
from bert_flow_tf.io import storage
from bert_flow_tf.progress import counted

TEXT, TSV, CSV, JSONL, PARQUET, TFRECORD = "text", "tsv", "csv", "jsonl", "parquet", "tfrecord"
# {ending of a file's name: its kind}
_ENDINGS = {"tsv": TSV, "csv": CSV, "jsonl": JSONL, "ndjson": JSONL, "json": JSONL, "parquet": PARQUET, "pq": PARQUET}
# Treatment of a record whose sentence is empty or white space.
SKIP, BAD, EMBED = "skip", "bad", "embed"
_PART = 1 << 16
_UNPACKERS: dict[str, Any] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
UNPACKING_ERRORS = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)


@dataclasses.dataclass(frozen=True)
class InputFormat:
  """Format of all input files of a run; a column is given by its name, or in TSV and CSV by its number from 1.

  `width` is the number of columns of each record of a TSV or CSV without a header; None if it is not known.
  """

  kind: str = TEXT
  column: str | None = None
  id_column: str | None = None
  header: bool = False
  empty: str = SKIP
  max_bytes: int = 1 << 20
  width: int | None = None

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


class TextReader:
  """Opened text file whose lines are the records; the base of the other readers.

  The file is unpacked if its name ends in .gz, .bz2 or .xz, or if it begins as a gzip file does. Its first record has
  the number `first` (a header has 1) and begins at byte `start`.

  Args:
    path: the file, or - for standard input.
    input_format: its format.
    columns: columns whose texts `fields` returns; None for the format's columns.
  """

  # A record, in messages.
  unit = "line"
  # The record with the names of the columns, and the names; none without a header.
  header: Any = None
  names: Sequence[str] = ()

  def __init__(self, path: str, input_format: InputFormat, columns: Sequence[str] | None = None) -> None:
    self.path, self._format = path, input_format
    self._columns = list(input_format.columns if columns is None else columns)
    self.start, self.first = 0, 1
    self._stored = storage.open_file(path)
    self._file: Any = self._stored
    self.packing = path.lower().rpartition(".")[2]
    if self._stored.read(2) == GZIP_MAGIC:
      self.packing = "gz"
    self._stored.seek(0)
    if self.packing in _UNPACKERS:
      self._file = _UNPACKERS[self.packing](self._stored, "rb")

  @property
  def position(self) -> int:
    """Number of stored bytes read until now."""
    return self._stored.tell()

  def close(self) -> None:
    """Closes the file."""
    self._file.close()
    self._stored.close()

  def row(self, record: Any) -> list[str]:
    """Returns all columns of a record; of JSON lines their names."""
    return [decode_line(record)]

  def checked(self, record: Any, number: int, parse: Any = None) -> Any:
    """Returns `fields` of a record, or what `parse` makes of it; a DataError names a broken one by its number."""
    try:
      if isinstance(record, TextError):
        raise record
      if parse is None:
        return self.fields(record)
      return parse(record)
    except TextError as error:
      raise DataError(f"{self.path}, {self.unit} {number}: {error}") from error

  def records(self, offset: int, number: int) -> Iterator[tuple[Any, int]]:
    """Yields (record, or a `TextError`; its size in bytes) from the record `number` at byte `offset` to the end."""
    try:
      yield from self._records(offset, number)
    except UNPACKING_ERRORS as error:  # BadGzipFile is an OSError too
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
    """Returns the texts of the columns of a record: of a corpus the sentence and, if it has a column, the id."""
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

  def __init__(self, path: str, input_format: InputFormat, columns: Sequence[str] | None = None) -> None:
    super().__init__(path, input_format, columns)
    self.width = input_format.width  # number of columns of each record, if it is known
    if not input_format.header:
      self._places = [int(name) - 1 for name in self._columns]
      return
    record, size = next(self.records(0, 1), (b"", 0))
    try:
      if isinstance(record, TextError):
        raise record
      self.names = self.row(record)
    except TextError as error:
      raise DataError(f"{path}, line 1: expected the names of columns: {error}") from error
    self.header = record
    self._places = [self._place(name, self.names) for name in self._columns]
    self.width, self.start, self.first = len(self.names), size, 2

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
    """See `TextReader.row`."""
    return decode_line(record).split("\t")

  def fields(self, record: Any) -> list[str]:
    """See `TextReader.fields`."""
    row = self.row(record)
    # An empty line has no columns.
    if row == [""] and self._format.empty == SKIP:
      return row
    if self.width not in (None, len(row)) or len(row) <= max(self._places):
      found = "the line is empty" if row == [""] else counted(len(row), "column")
      expected = counted(self.width or max(self._places) + 1, "column")
      if self.width is None:
        expected = f"at least {expected}"
      raise TextError("columns", f"{found}, expected {expected}")
    return [row[place] for place in self._places]


class CsvReader(TsvReader):
  """Reader of columns separated by commas, as Python's csv and spreadsheets write them: a quoted one may have lines."""

  unit = "record"

  def _records(self, offset: int, number: int) -> Iterator[tuple[Any, int]]:
    csv.field_size_limit(max(csv.field_size_limit(), self._format.max_bytes))
    lines = _CsvLines(super()._records(offset, number))
    rows = csv.reader(lines, strict=True)
    while True:
      lines.size = 0
      row: Any = None
      try:
        row = next(rows, None)
      except TextError as error:
        row = error
      except csv.Error as error:
        row = TextError("not CSV", f'{error}; expected a column with quotation marks in the form "He said ""no""."')
      if row is None:
        return
      yield row, lines.size

  def row(self, record: Any) -> list[str]:
    """See `TextReader.row`."""
    for field in record:
      decode(field.encode("utf-8", "surrogateescape"), "the column")
    return record or [""]


class _CsvLines:
  """Lines for `csv.reader`; `size` are the bytes that it has read since this was set to 0."""

  def __init__(self, lines: Iterator[tuple[Any, int]]) -> None:
    self._lines = lines
    self.size = 0

  def __iter__(self) -> "_CsvLines":
    return self

  def __next__(self) -> str:
    line, size = next(self._lines)
    self.size += size
    if isinstance(line, TextError):
      raise line
    return line.decode("utf-8", "surrogateescape") + "\n"


class JsonReader(TextReader):
  """Reader of JSON lines: an object on each line."""

  def fields(self, record: Any) -> list[str]:
    """See `TextReader.fields`."""
    values = self._object(record)
    if values is None:
      return [""]
    names = self._columns
    if not isinstance(values, dict) or not values.keys() >= set(names):
      raise TextError("columns", f"expected an object with {', '.join(names)}")
    return texts_of(names, [values[name] for name in names])

  def row(self, record: Any) -> list[str]:
    """See `TextReader.row`."""
    values = self._object(record)
    if values is None:
      return []
    if not isinstance(values, dict):
      raise TextError("columns", "expected an object")
    return list(values)

  def _object(self, record: Any) -> Any:
    """Returns the value of a line; None for an empty line."""
    text = decode_line(record)
    if not text.strip():
      return None
    try:
      return json.loads(text)
    except (ValueError, RecursionError) as error:
      raise TextError("not JSON", f"the line is not JSON ({error})") from error


def texts_of(names: Sequence[str], values: Sequence[Any]) -> list[str]:
  """Returns the values of columns of JSON or Parquet as str; null is empty, and all but the first may be numbers."""
  texts: list[str] = []
  for name, value in zip(names, values, strict=True):
    if isinstance(value, bytes):
      value = decode(value, f"column {name!r}")
    if value is None:
      value = ""
    elif texts and isinstance(value, int | float):
      value = str(value)
    if not isinstance(value, str):
      raise TextError("columns", f"column {name!r} has {repr(value)[:40]}, expected text")
    texts.append(value.encode("utf-8", "replace").decode("utf-8"))  # JSON may have half a surrogate pair
  return texts
