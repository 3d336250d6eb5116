"""Lines of a text file, plain, gzipped or in a zip archive; each error names the file and the line."""

import contextlib
import gzip
import math
import os
import pathlib
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from bert_flow_tf.errors import DataError

# A zipfile.Path is a file inside an archive.
FilePath = str | os.PathLike | zipfile.Path

ANY_NUMBER = (-1e30, 1e30)  # the squares of larger ones would be infinite in some sums
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
}
# Bytes by which the kind of a file is known: a tar archive begins with this many.
HEAD = 512
# {how a packed file begins: its packing}
_PACKINGS = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\0": "xz"}
_BZIP2_BLOCKS = (b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90")  # the first, and the end of an empty file
_BAD_ARCHIVE = (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


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


def lines(path: FilePath, empty: str = "reject", broken: list[DataError] | None = None) -> Iterator[tuple[int, str]]:
  """Yields (number from 1, text without its line break) of each line of a text file in UTF-8, plain or gzipped.

  `empty` is "reject" (except at the end), "skip" or "keep"; `broken` takes the errors of lines that are not text.
  """
  first_empty = None
  for number, raw in enumerate(_raw_lines(path), start=1):
    # The last line may lack its line feed; Windows writes a carriage return before it.
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if number == 1:
      raw = raw.removeprefix(BOM)
    if not raw.strip(b" ") and empty != "keep":
      first_empty = first_empty or number
      continue
    if first_empty and empty == "reject":
      raise line_error(path, first_empty, f"the line is empty; expected a sentence pair, as in line {number}")
    try:
      text = decode_line(raw)
    except TextError as text_error:
      error = line_error(path, number, str(text_error))
      if broken is None:
        raise error from text_error
      broken.append(error)
      continue
    yield number, text


def read_number(field: str, path: FilePath, number: int, scale: tuple[float, float] = ANY_NUMBER) -> float:
  """Returns the score in a field of line `number`; raises DataError for anything but a number on the scale."""
  low, high = scale
  try:
    score = float(field)
  except ValueError:
    score = math.nan
  # float() reads "1_5" as 15; NaN is on no scale.
  if "_" in field or not low <= score <= high:
    kind = "a number with a decimal point" if "," in field else "a number"
    raise line_error(path, number, f"the score is {field[:40]!r}, expected {kind} from {low:g} to {high:g}")
  return score


def _raw_lines(path: FilePath) -> Iterator[bytes]:
  """Yields the lines of a file as bytes, split at line feeds alone, not at U+2028, U+0085 or a form feed."""
  opened: Any = path if isinstance(path, zipfile.Path) else pathlib.Path(path)
  try:
    if isinstance(opened, pathlib.Path) and opened.is_char_device():
      raise DataError(f"{path} is a device; expected a text file")  # /dev/zero is one line without an end
    with opened.open("rb") as file:
      head = file.peek(HEAD)[:HEAD]
      check_beginning(path, head)
      packing = packing_of(head)
      if packing not in ("", "gz"):
        raise DataError(f"{path} is packed by {packing}; expected a file that is not packed, or packed by gzip")
      unpacked: Any = gzip.GzipFile(fileobj=file) if packing else file
      check_beginning(path, unpacked.peek(HEAD)[:HEAD])
      yield from unpacked
  except (FileNotFoundError, NotADirectoryError) as error:
    raise DataError(f"{path} does not exist; expected a text file") from error
  except IsADirectoryError as error:
    raise DataError(f"{path} is a folder; expected a text file") from error
  # BadGzipFile is an OSError too.
  except _BAD_ARCHIVE as error:
    raise DataError(f"{path} cannot be unpacked ({error}): it is damaged; copy it again") from error
  except OSError as error:
    raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
