"""Readers of files of text and of JSON lines, from any record on, since workers share a file; `InputFormat`."""

import bz2
import contextlib
import dataclasses
import decimal
import gzip
import io
import json
import lzma
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import IO, Generic, Literal, TypeVar

from bert_flow_tf.data.readers.lines import (
  BOM,
  HEAD,
  TextError,
  carriage_return,
  check_beginning,
  decode,
  decode_line,
  packing_of,
)
from bert_flow_tf.errors import DataError
from bert_flow_tf.io import storage

TEXT, TSV, CSV, JSONL, PARQUET, TFRECORD = "text", "tsv", "csv", "jsonl", "parquet", "tfrecord"
# {ending of a file's name: its kind}
_ENDINGS = {"tsv": TSV, "csv": CSV, "jsonl": JSONL, "ndjson": JSONL, "json": JSONL, "parquet": PARQUET, "pq": PARQUET}
# Treatment of a record whose sentence is empty or white space.
SKIP, BAD, EMBED = "skip", "bad", "embed"
_PART = 1 << 16
MAX_RECORD_BYTES = 1 << 20
_UNPACKERS: dict[str, Callable[[IO[bytes], Literal["rb"]], io.BufferedIOBase]] = {
  "gz": gzip.open,
  "bz2": bz2.open,
  "xz": lzma.open,
}
_PARQUET_MAGIC = b"PAR1"
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
  max_bytes: int = MAX_RECORD_BYTES
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


def too_long(found: str, limit: int) -> TextError:
  """Returns the error of a record of more than `limit` bytes."""
  return TextError("too long", f"{found}, expected at most {limit}; --max_record_bytes=N allows more")


# A record of a reader, as it is before it is parsed: the bytes of a line, or the columns of a CSV or Parquet file.
Record = TypeVar("Record")
Parsed = TypeVar("Parsed")


class Reader(Generic[Record]):
  """Opened file of records; the base of all readers.

  The file is unpacked if its name ends in .gz, .bz2 or .xz, or if it begins as such a file does. Its first record has
  the number `first` (a header has 1) and begins at byte `start`.

  Args:
    path: the file, or - for standard input.
    input_format: its format.
    columns: columns whose texts `fields` returns; None for the format's columns.
  """

  # A record, in messages.
  unit = "line"
  # Names of the columns; none without a header.
  names: Sequence[str] = ()
  separator = ""
  # The line that gives the separator; "" without.
  sep_line = ""
  # Number of columns of each record of TSV and CSV, if it is known.
  width: int | None = None
  # Whether `fields` shows values of all types as text; else the first column must be text, and others not nested.
  any_type = False

  def __init__(self, path: str, input_format: InputFormat, columns: Sequence[str] | None = None) -> None:
    self.path, self._format = path, input_format
    self._columns = list(input_format.columns if columns is None else columns)
    self.start, self.first = 0, 1
    self._stored = storage.open_file(path)
    self._file: IO[bytes] | io.BufferedIOBase = self._stored
    self.packing = path.lower().rpartition(".")[2]
    head = self._stored.read(HEAD)
    check_beginning(path, head)
    self.packing = packing_of(head) or self.packing
    self._stored.seek(0)
    if self.packing in _UNPACKERS:
      self._file = _UNPACKERS[self.packing](self._stored, "rb")
      head = self.content(HEAD)
      check_beginning(path, head)
      self._file.seek(0)
    if input_format.kind != PARQUET and head.startswith(_PARQUET_MAGIC):
      raise DataError(f"{path} is a Parquet file; expected a name that ends in .parquet")

  @property
  def position(self) -> int:
    """Number of stored bytes read until now."""
    return self._stored.tell()

  def close(self) -> None:
    """Closes the file."""
    self._file.close()
    self._stored.close()

  def content(self, size: int = -1) -> bytes:
    """Returns the first bytes of the unpacked file, or all."""
    with self._file_errors():
      self._file.seek(0)
      return self._file.read(size)

  def is_blank(self, record: Record | TextError) -> bool:
    """Returns whether one of `records` is a line without anything, which separates records."""
    return isinstance(record, bytes) and not record.strip()

  def row(self, record: Record) -> list[str]:
    """Returns all columns of a record; of JSON lines their names."""
    raise NotImplementedError

  def checked(self, record: Record | TextError, number: int, parse: Callable[[Record], Parsed]) -> Parsed:
    """Returns the result of `parse`, as `fields` or `row`; a DataError names a broken record by its number."""
    try:
      if isinstance(record, TextError):
        raise record
      return parse(record)
    except TextError as error:
      raise DataError(f"{self.path}, {self.unit} {number}: {error}") from error

  def records(self, offset: int, number: int) -> Iterator[tuple[Record | TextError, int]]:
    """Yields (record, or a `TextError`; its size in bytes) from the record `number` at byte `offset` to the end."""
    with self._file_errors():
      yield from self._records(offset, number)

  @contextlib.contextmanager
  def _file_errors(self) -> Iterator[None]:
    """Raises a DataError for a file that cannot be read in the block."""
    try:
      yield
    except UNPACKING_ERRORS as error:  # BadGzipFile is an OSError too
      raise DataError(f"{self.path} cannot be unpacked ({error}): it is damaged or was not copied whole") from error
    except OSError as error:
      raise DataError(f"{self.path} cannot be read: {error.strerror or error}") from error

  def parse(self, record: Record | TextError) -> tuple[str | None, str] | None:
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

  def fields(self, record: Record) -> list[str]:
    """Returns the wanted columns of a record; for a corpus the sentence, then the id if there is an id column."""
    raise NotImplementedError

  def _records(self, offset: int, number: int) -> Iterator[tuple[Record | TextError, int]]:
    """See `records`."""
    raise NotImplementedError

  def _lines(self, offset: int) -> Iterator[tuple[bytes | TextError, int]]:
    """Yields (line without its break, or a `TextError`; its size in bytes) from byte `offset` to the end."""
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
      error = too_long(f"the line has about {size} bytes", limit)
      if b"\r" in line:  # more likely the end of a shorter line
        error = carriage_return()
      yield error, size


class TextReader(Reader[bytes]):
  """Reader of a text file, whose lines are the records."""

  def row(self, record: bytes) -> list[str]:
    """See `Reader.row`."""
    return [decode_line(record)]

  def fields(self, record: bytes) -> list[str]:
    """See `Reader.fields`."""
    return [decode_line(record)]

  def _records(self, offset: int, number: int) -> Iterator[tuple[bytes | TextError, int]]:
    return self._lines(offset)


JSON_LINES = (
  "expected JSON lines, an object on each line, as df.to_json(FILE, orient='records', lines=True) writes them"
)


class JsonReader(TextReader):
  """Reader of JSON lines: an object on each line; `names` are all keys of the records that were parsed."""

  def __init__(self, path: str, input_format: InputFormat, columns: Sequence[str] | None = None) -> None:
    super().__init__(path, input_format, columns)
    self._keys: dict[str, None] = {}

  @property
  def names(self) -> Sequence[str]:  # type: ignore[override]
    """Keys in the order of their first record."""
    return list(self._keys)

  def fields(self, record: bytes) -> list[str]:
    """See `Reader.fields`."""
    if self.is_blank(record):
      return [""]
    values = self._object(record)
    names, found = self._columns, []
    for name in names:
      key = find_name(name, values)
      if key is None and has_name(name, values):
        raise TextError("columns", f"several keys are {name!r} but for blanks; expected one")
      value = None if key is None else values[key]  # a missing key is null, as for those who leave null out
      found.append(value)
      if isinstance(value, dict | list) and not self.any_type:
        raise TextError("columns", f"column {name!r} has {repr(value)[:40]}, expected text; {JSON_LINES}")
    return texts_of(names, found, self.any_type)

  def row(self, record: bytes) -> list[str]:
    """See `Reader.row`."""
    if self.is_blank(record):
      return []
    return list(self._object(record))

  def _object(self, record: bytes) -> dict[str, object]:
    """Returns the object of a line."""
    text = decode_line(record)
    if text.lstrip().startswith("["):
      raise TextError("columns", f"a JSON array; {JSON_LINES}")
    try:
      values = json.loads(text)
    except (ValueError, RecursionError) as error:
      raise TextError("not JSON", f"the line is not JSON ({error}); {JSON_LINES}") from error
    if not isinstance(values, dict):
      raise TextError("columns", f"{text.strip()[:40]}; {JSON_LINES}")
    self._keys.update(dict.fromkeys(values))
    return values


def find_name(name: str, names: Collection[str]) -> str | None:
  """Returns the name among `names` that is `name`, or the only one that is so without blanks around; None without."""
  if name in names:
    return name
  same = [other for other in names if other.strip() == name.strip()]
  if len(same) == 1:
    return same[0]
  return None


def has_name(name: str, names: Collection[str]) -> bool:
  """Returns whether one of the names, or several, is `name` but for blanks around it."""
  return any(other.strip() == name.strip() for other in names)


def texts_of(names: Sequence[str], values: Sequence[object], any_type: bool = False) -> list[str]:
  """Returns the values of columns of JSON or Parquet as str; null and NaN are empty; `any_type`: see `Reader`."""
  texts: list[str] = []
  for name, value in zip(names, values, strict=True):
    if isinstance(value, bytes):
      value = decode(value, f"column {name!r}")
    if value is None or value != value:
      value = ""
    elif isinstance(value, decimal.Decimal) and (texts or any_type):
      value = f"{value:f}"
    elif any_type or (texts and isinstance(value, int | float | uuid.UUID)):
      value = str(value)
    if not isinstance(value, str):
      raise TextError("columns", f"column {name!r} has {repr(value)[:40]}, expected text")
    texts.append(value.encode("utf-8", "replace").decode("utf-8"))  # JSON may have half a surrogate pair
  return texts
