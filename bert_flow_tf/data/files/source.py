"""A file that is opened once, as bytes and as lines: packed or not, also inside a zip archive or from standard input.

`FileSource` is the file, `Reader` the base of the readers of its records, `lines` reads a text file line by line.
"""

import bz2
import contextlib
import decimal
import difflib
import gzip
import io
import lzma
import os
import tarfile
import uuid
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import IO, Generic, Literal, TypeVar

from bert_flow_tf.data.files.input_format import EMBED, PARQUET, SKIP, InputFormat
from bert_flow_tf.errors import DataError
from bert_flow_tf.io import storage

# A zipfile.Path is a file inside an archive.
FilePath = str | os.PathLike | zipfile.Path

BOM = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # how its files begin, and no text in UTF-8
# {how a file begins: its kind, and what is expected in its place}.
_SPREADSHEET = "text in UTF-8, as a spreadsheet saves it: Save As, CSV UTF-8"
_ARROW = ("an Arrow or Feather file", "a Parquet file, as Dataset.to_parquet(FILE) and df.to_parquet(FILE) write it")
_NO_TEXT = {
  b"PK\x03\x04": ("an Excel file (.xlsx) or another ZIP archive", _SPREADSHEET),
  b"\xd0\xcf\x11\xe0": ("an Excel file (.xls)", _SPREADSHEET),
  b"ARROW1\0\0": _ARROW,
  b"\xff\xff\xff\xff": _ARROW,  # its stream, as of datasets' save_to_disk
  b"\x28\xb5\x2f\xfd": ("packed by zstd", "a file that is not packed, as zstd -d FILE writes it, or packed by gzip"),
  b"\x04\x22\x4d\x18": ("packed by lz4", "a file that is not packed, as lz4 -d FILE writes it, or packed by gzip"),
  b"\x1f\x9d\x90": ("packed by compress (.Z)", "a file that is not packed, as uncompress FILE writes it"),
  b"LZIP\x01": ("packed by lzip", "a file that is not packed, as lzip -d FILE writes it"),
  b"7z\xbc\xaf\x27\x1c": ("a 7-Zip archive", "one of the files in it, unpacked"),
  b"Rar!\x1a\x07": ("a RAR archive", "one of the files in it, unpacked"),
  b"Obj\x01": ("an Avro file", "a Parquet file"),
  b"SQLite format 3\0": ("a database of SQLite", "a table of it as CSV, as sqlite3 -csv -header FILE writes it"),
  b"%PDF-": ("a PDF", "its text in UTF-8"),
  b"\x93NUMPY": ("an array of NumPy", "texts; calibrate and search --vectors read vectors"),
}
# Bytes by which the kind of a file is known: a tar archive begins with this many.
HEAD = 512
# {how a packed file begins: its packing}
_PACKINGS = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\0": "xz"}
_UNPACKERS: dict[str, Callable[[IO[bytes], Literal["rb"]], io.BufferedIOBase]] = {
  "gz": gzip.open,
  "bz2": bz2.open,
  "xz": lzma.open,
}
_BZIP2_BLOCKS = (b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90")  # the first, and the end of an empty file
_PARQUET_MAGIC = b"PAR1"
# Errors of a damaged file that is packed, or in a zip archive.
UNPACKING_ERRORS = (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)
_PART = 1 << 16
# Floats from this one on are not all integers: several numbers become one.
_EXACT_FLOATS = 2.0**53


class TextError(ValueError):
  """Bytes that are not text, or no record of a corpus; `kind` says which, as "not text" or "not UTF-8"."""

  def __init__(self, kind: str, reason: str) -> None:
    super().__init__(reason)
    self.kind = kind


def line_error(path: FilePath, number: int, message: str) -> DataError:
  """Returns the error of a malformed line."""
  return DataError(f"{path}, line {number}: {message}")


def check_beginning(path: FilePath, head: bytes) -> None:
  """Raises a DataError if a file that begins with `head`, `HEAD` bytes, is of a kind that is not read."""
  for beginning, (kind, expected) in _NO_TEXT.items():
    if head.startswith(beginning):
      raise DataError(f"{path} is {kind}; expected {expected}")
  if len(head) == HEAD and b"\0" in head:
    with contextlib.suppress(tarfile.HeaderError):  # no checksum as a tar archive has it
      tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
      raise DataError(f"{path} is a tar archive; expected one of the files in it, as tar -xf FILE unpacks them")


def packing_of(head: bytes) -> str:
  """Returns "gz", "bz2" or "xz" for a file that begins with `head`; "" for one that is not packed."""
  for beginning, packing in _PACKINGS.items():
    # A text may begin with BZh: a level and the mark of a block follow.
    if head.startswith(beginning) and (packing != "bz2" or head[4:10] in _BZIP2_BLOCKS):
      return packing
  return ""


def decode(raw: bytes, name: str) -> str:
  """Returns the text of UTF-8 bytes, which errors call `name`; raises TextError if they are not UTF-8."""
  try:
    return raw.decode("utf-8")
  except UnicodeDecodeError as error:
    place = f"byte 0x{raw[error.start]:02x} at position {error.start + 1} of {name}"
    mend = "if it is Windows-1252, iconv -f WINDOWS-1252 -t UTF-8 FILE writes it in UTF-8"
    raise TextError("not UTF-8", f"{place} is not UTF-8; expected text in UTF-8; {mend}") from error


def carriage_return() -> TextError:
  """Returns the error of a carriage return inside a line."""
  # In files of the old Mac OS, lines end in a carriage return alone.
  mend = r"if lines end in CR, as in old files of a Mac, perl -pe 's/\r\n?/\n/g' FILE writes them with LF"
  return TextError("not text", f"a carriage return inside the line; expected lines that end in LF or CRLF; {mend}")


def check_text(raw: bytes) -> None:
  """Raises a TextError if a line is UTF-16, or has a NUL."""
  if raw.startswith(_UTF_16):
    raise TextError("not UTF-8", "UTF-16; expected text in UTF-8, as iconv -f UTF-16 -t UTF-8 FILE writes it")
  if b"\0" in raw:
    raise TextError("not text", "a NUL byte; expected text in UTF-8")


def decode_line(raw: bytes) -> str:
  """Returns the text of a line without its line break; raises TextError for other bytes than text in UTF-8."""
  if b"\0" in raw or raw.startswith(_UTF_16):
    check_text(raw)
  if b"\r" in raw:
    raise carriage_return()
  return decode(raw, "the line")


def too_long(found: str, limit: int) -> TextError:
  """Returns the error of a record of more than `limit` bytes."""
  return TextError("too long", f"{found}, expected at most {limit}; --max_record_bytes=N allows more")


class FileSource:
  """A file that is opened once: its bytes and, from any byte on, its lines. It is a context, which closes it.

  The file is unpacked if it begins as a file of gzip, bzip2 or xz does, whatever its name is; bytes are counted in the
  unpacked file.

  Args:
    path: the file, which may be inside a zip archive; - for standard input.
    file: the opened file, if `path` is only its name in messages.

  Attributes:
    path: the file, in messages.
    packing: "gz", "bz2" or "xz"; "" for a file that is not packed.
    head: first bytes of the unpacked file.
    file: the unpacked file.
  """

  def __init__(self, path: FilePath, file: IO[bytes] | None = None) -> None:
    self.path = str(path)
    self._stored = _opened(path) if file is None else file
    self.file: IO[bytes] | io.BufferedIOBase = self._stored
    self.head = self.content(HEAD)
    check_beginning(path, self.head)
    self.packing = packing_of(self.head)
    self._stored.seek(0)
    if self.packing:
      self.file = _UNPACKERS[self.packing](self._stored, "rb")
      self.head = self.content(HEAD)
      check_beginning(path, self.head)

  def __enter__(self) -> "FileSource":
    return self

  def __exit__(self, *error: object) -> None:
    self.close()

  def close(self) -> None:
    """Closes the file."""
    self.file.close()
    self._stored.close()

  @property
  def position(self) -> int:
    """Number of stored bytes read until now."""
    return self._stored.tell()

  def content(self, size: int = -1) -> bytes:
    """Returns the first bytes of the unpacked file, or all."""
    with self.errors():
      self.file.seek(0)
      return self.file.read(size)

  def keep(self) -> None:
    """Holds the unpacked file in memory, so that its records are read several times and the file once."""
    self.file = io.BytesIO(self.content())

  @contextlib.contextmanager
  def errors(self) -> Iterator[None]:
    """Raises a DataError for a file that cannot be read in the block."""
    try:
      yield
    except UNPACKING_ERRORS as error:  # BadGzipFile is an OSError too
      raise DataError(f"{self.path} cannot be unpacked ({error}): it is damaged or was not copied whole") from error
    except OSError as error:
      raise DataError(f"{self.path} cannot be read: {error.strerror or error}") from error

  def lines(self, offset: int = 0, limit: int | None = None) -> Iterator[tuple[bytes | TextError, int]]:
    """Yields (line without its break, its size in bytes) from byte `offset` to the end; a BOM is no text.

    Lines end at line feeds alone, not at U+2028, U+0085 or a form feed. A line of more than `limit` bytes is a
    `TextError`, and is not held in memory.
    """
    file, mark = self.file, 0
    file.seek(offset)
    if offset == 0 and file.read(len(BOM)) == BOM:
      mark = len(BOM)
    file.seek(offset + mark)
    longest = -1 if limit is None else limit + 2  # a line break has up to 2 bytes
    while raw := file.readline(longest):
      size = len(raw) + mark
      mark = 0
      line = raw.removesuffix(b"\n").removesuffix(b"\r")
      if limit is None or len(line) <= limit:
        yield line, size
        continue
      # Drop the rest of the line, in parts.
      while not raw.endswith(b"\n") and (raw := file.readline(_PART)):
        size += len(raw)
      error = too_long(f"the line has about {size} bytes", limit)
      if b"\r" in line:  # more likely the end of a shorter line
        error = carriage_return()
      yield error, size


def _opened(path: FilePath) -> IO[bytes]:
  """Returns the opened file of a path."""
  try:
    if isinstance(path, zipfile.Path):
      return path.open("rb")
    return storage.open_file(os.fspath(path))
  except FileNotFoundError as error:
    raise DataError(f"{path} does not exist; expected a file") from error
  except IsADirectoryError as error:
    raise DataError(f"{path} is a folder; expected a file") from error
  except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:  # of zipfile: damaged, of another packing
    raise DataError(f"{path} cannot be unpacked ({error}): it is damaged or was not copied whole") from error


def lines(path: FilePath, empty: str = "reject", broken: list[DataError] | None = None) -> Iterator[tuple[int, str]]:
  """Yields (number from 1, text without its line break) of each line of a text file in UTF-8.

  `empty` is "reject" (except at the end), "skip" or "keep"; `broken` takes the errors of lines that are not text.
  """
  first_empty = None
  with FileSource(path) as source, source.errors():
    for number, (raw, _) in enumerate(source.lines(), start=1):
      assert isinstance(raw, bytes)  # of any length
      if not raw.strip(b" ") and empty != "keep":
        first_empty = first_empty or number
        continue
      if first_empty and empty == "reject":
        message = f"the line is empty; expected a sentence pair, as in line {number}"
        raise line_error(source.path, first_empty, message)
      try:
        text = decode_line(raw)
      except TextError as text_error:
        error = line_error(source.path, number, str(text_error))
        if broken is None:
          raise error from text_error
        broken.append(error)
        continue
      yield number, text


# End of an error of a column that is missing, where a value was split into several.
COMMA_HINT = """; a name that has a comma stands in quotation marks, as '"Last, first"'"""


def find_name(name: str, names: Collection[str]) -> str | None:
  """Returns the name among `names` that is `name`, or the only one that is so without blanks around; None without."""
  if name in names:
    return name
  same = [other for other in names if other.strip() == name.strip()]
  if len(same) == 1:
    return same[0]
  return None


def nearest_name(name: str, names: Sequence[str]) -> str:
  """Returns the end of a message that suggests the name most like a mistyped one; "" if none is like it."""
  found = difflib.get_close_matches(name, names, n=1)
  return f"; did you mean {found[0][:40]!r}?" if found and name not in names else ""


def has_name(name: str, names: Collection[str]) -> bool:
  """Returns whether one of the names, or several, is `name` but for blanks around it."""
  return any(other.strip() == name.strip() for other in names)


def shown_names(names: Iterable[str]) -> str:
  """Returns the names of columns for messages; that of an index, as pandas and R write it, is empty."""
  return ", ".join(name[:40] or "(without a name)" for name in names)


def joined(texts: Sequence[str]) -> str:
  """Returns the texts of a record's columns as one, separated by blanks; of several, those without text add nothing."""
  return texts[0] if len(texts) == 1 else " ".join(filter(str.strip, texts))


# A record of a reader, as it is before it is parsed: the bytes of a line, or the columns of a CSV or Parquet file.
Record = TypeVar("Record")
Parsed = TypeVar("Parsed")


class Reader(Generic[Record]):
  """Records of a file, from any record on, since workers share a file; the base of the readers of all kinds.

  The first record has the number `first` (a header has 1) and begins at byte `start`.

  Args:
    source: the file.
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
  start, first = 0, 1
  # Whether `fields` shows values of all types as text; else the first column must be text, and others not nested.
  any_type = False
  # Number of the first columns that must be text; those behind them, as ids, may be numbers.
  text_columns = 1
  # Whether all records of a TSV or CSV must have as many columns as the first one.
  equal_widths = False

  def __init__(self, source: FileSource, input_format: InputFormat, columns: Sequence[str] | None = None) -> None:
    self.source, self._format = source, input_format
    self._columns = list(input_format.columns if columns is None else columns)
    if input_format.kind != PARQUET and source.head.startswith(_PARQUET_MAGIC):
      raise DataError(f"{source.path} is a Parquet file; expected a name that ends in .parquet")

  @property
  def comma_hint(self) -> str:
    """End of an error of a missing column; "" where the columns were given one by one."""
    return COMMA_HINT if self._format.more_columns else ""

  @property
  def path(self) -> str:
    """The file, in messages."""
    return self.source.path

  @property
  def position(self) -> int:
    """Number of stored bytes read until now."""
    return self.source.position

  def close(self) -> None:
    """Closes the file."""
    self.source.close()

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
    with self.source.errors():
      yield from self._records(offset, number)

  def rows(self, bad: list[DataError] | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yields (number, columns) of the records that are neither bad nor empty; the first error is added to `bad`."""
    for number, (record, _) in enumerate(self.records(self.start, self.first), self.first):
      try:
        row = self.checked(record, number, self.row)
      except DataError as error:
        if bad == []:
          bad.append(error)
        continue
      if row not in ([], [""]):
        yield number, row

  def parse(self, record: Record | TextError) -> tuple[str | None, str] | None:
    """Returns (id or None, sentence) of one of `records`, None for one to be skipped; or raises a TextError."""
    if isinstance(record, TextError):
      raise record
    fields, name, texts = self.fields(record), None, self._format.texts
    if len(fields) > texts:
      name = fields[texts]
      if not name or any(mark in name for mark in "\n\r\0"):
        raise TextError("bad id", "the id is empty, or has a line break or NUL")
    text = joined(fields[:texts])
    if not text.strip() and self._format.empty != EMBED:
      if self._format.empty == SKIP:
        return None
      raise TextError("empty", "the sentence is empty")
    return name, text

  def fields(self, record: Record) -> list[str]:
    """Returns the wanted columns of a record; for a corpus the sentence, then the id if there is an id column."""
    raise NotImplementedError

  def texts(self, values: Sequence[object]) -> list[str]:
    """Returns the values of the wanted columns of JSON or Parquet as str; null and NaN are empty."""
    texts: list[str] = []
    for name, value in zip(self._columns, values, strict=True):
      if isinstance(value, bytes):
        value = decode(value, f"column {name!r}")
      if value is None or value != value:
        value = ""
      elif isinstance(value, decimal.Decimal) and (texts or self.any_type):
        value = f"{value:f}"
      elif texts and name == self._format.id_column and isinstance(value, float) and abs(value) >= _EXACT_FLOATS:
        message = (
          f"column {name!r} has {value!r}, and floating point numbers from 2^53 on are rounded; expected text or "
        )
        raise TextError("bad id", f"{message}integers, as CAST({name[:40]} AS VARCHAR) of a database gives them")
      elif self.any_type or (len(texts) >= self.text_columns and isinstance(value, int | float | uuid.UUID)):
        value = str(value)
      if not isinstance(value, str):
        raise TextError("columns", f"column {name!r} has {repr(value)[:40]}, expected text")
      texts.append(value.encode("utf-8", "replace").decode("utf-8"))  # JSON may have half a surrogate pair
    return texts

  def _records(self, offset: int, number: int) -> Iterator[tuple[Record | TextError, int]]:
    """See `records`."""
    raise NotImplementedError
