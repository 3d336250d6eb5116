"""Readers of TSV and CSV, from any record on, since workers share a file."""

import csv
import re
from collections.abc import Iterator, Sequence

from bert_flow_tf.data.readers.lines import BOM, TextError, carriage_return, check_text, decode, decode_line
from bert_flow_tf.data.readers.text import CSV, SKIP, InputFormat, Reader, Record, find_name, is_number, too_long
from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import counted

# {separator that spreadsheets write in place of a comma: its name}
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_PART = 1 << 12
# The line that tells a spreadsheet the separator.
_SEP_LINE = re.compile(rb"sep=([;,|:^~\t])\r?\n?")
# A first line whose columns have blanks before their quotation marks, which csv takes for text.
_SPACED_LINE = re.compile(rb'"[^"]*"(?:[;,|] +"[^"]*")+\s*')


def mend_separator(separator: str) -> str:
  """Returns advice for the user of a CSV with another separator than commas."""
  if separator == "\t":
    return "give the file a name that ends in .tsv"
  return f'write "sep={separator}" in a line before the first one'


class ColumnReader(Reader[Record]):
  """Reader of records whose columns a separator separates; the base of the readers of TSV and CSV."""

  def __init__(self, path: str, input_format: InputFormat, columns: Sequence[str] | None = None) -> None:
    super().__init__(path, input_format, columns)
    self._read_separator()
    self.width = input_format.width
    if not input_format.header:
      self._places = [int(name) - 1 for name in self._columns]
      return
    names, size = [""], 0
    first = next(self.records(self.start, 1), None)
    try:
      if first is not None:
        record, size = first
        if isinstance(record, TextError):
          raise record
        names = self.row(record)
    except TextError as error:
      raise DataError(f"{path}, line 1: expected the names of columns: {error}") from error
    self.names = names
    self._places = [self._place(name, self.names) for name in self._columns]
    self.width, self.start, self.first = len(self.names), self.start + size, 2

  def _read_separator(self) -> None:
    """Sets `separator`, and `start` behind a line that gives it."""

  def _place(self, name: str, names: list[str]) -> int:
    """Returns the place of a column in the header: by its name, or by its number if no column has this name."""
    found = find_name(name, names)
    if found is not None and names.count(found) == 1:
      return names.index(found)
    if name not in names and is_number(name) and 0 < int(name) <= len(names):
      return int(name) - 1
    shown = ", ".join(name[:40] for name in names[:20]) or "nothing"
    message = f"{self.path}, line 1: {names.count(name)} columns {name!r} in the header ({shown}), expected exactly 1"
    raise DataError(message + self._hint(names))

  def _hint(self, row: Sequence[str]) -> str:
    """Returns the end of a message about columns that may be separated in another way; "" where nothing says so."""
    for separator, name in SEPARATORS.items():
      if self._format.kind == CSV and len(row) == 1 and separator in row[0]:
        return f"; if {name} separate the columns, {mend_separator(separator)}"
    return ""

  def is_blank(self, record: Record | TextError) -> bool:
    """See `Reader.is_blank`."""
    return record in (b"", [])

  def fields(self, record: Record) -> list[str]:
    """See `Reader.fields`."""
    row = self.row(record)
    # An empty line has no columns.
    if row == [""] and self._format.empty == SKIP:
      return row
    if self.width not in (None, len(row)) or len(row) <= max(self._places):
      found = "the line is empty" if row == [""] else counted(len(row), "column")
      expected = counted(self.width or max(self._places) + 1, "column")
      if self.width is None:
        expected = f"at least {expected}"
      raise TextError("columns", f"{found}, expected {expected}{self._hint(row) or self._hint(self.names)}")
    return [row[place] for place in self._places]


class TsvReader(ColumnReader[bytes]):
  """Reader of lines whose columns are separated by tabs; nothing is quoted."""

  separator = "\t"

  def row(self, record: bytes) -> list[str]:
    """See `Reader.row`."""
    return decode_line(record).split("\t")

  def _records(self, offset: int, number: int) -> Iterator[tuple[bytes | TextError, int]]:
    return self._lines(offset)


class CsvReader(ColumnReader[list[str]]):
  """Reader of columns separated by commas, as Python's csv and spreadsheets write them; quoted fields may have lines.

  A first line "sep=;" gives another separator, as in Excel.
  """

  unit = "record"
  separator = ","
  # Whether blanks after a separator are no text.
  _skips_blanks = False

  def _read_separator(self) -> None:
    line = self.content(_PART).split(b"\n")[0] + b"\n"
    mark = len(BOM) * line.startswith(BOM)
    self._skips_blanks = _SPACED_LINE.fullmatch(line[mark:]) is not None
    found = _SEP_LINE.fullmatch(line[mark:])
    if found:
      self.separator, self.sep_line = found[1].decode(), found[0].decode().strip("\r\n")
      self.start = mark + len(found[0])

  def _records(self, offset: int, number: int) -> Iterator[tuple[list[str] | TextError, int]]:
    csv.field_size_limit(max(csv.field_size_limit(), self._format.max_bytes))
    lines = _CsvLines(self._lines(offset))
    rows = csv.reader(lines, delimiter=self.separator, skipinitialspace=self._skips_blanks, strict=True)
    while True:
      lines.size = 0
      row: list[str] | TextError | None = None
      try:
        row = next(rows, None)
      except TextError as error:
        row = error
      except csv.Error as error:
        row = TextError("not CSV", f'{error}; expected a column with quotation marks in the form "He said ""no""."')
        if "new-line character" in str(error):
          row = carriage_return()
        elif "field limit" in str(error):
          row = too_long(f"a column has more than {csv.field_size_limit()} characters", self._format.max_bytes)
      if row is None:
        return
      if isinstance(row, list) and lines.size > self._format.max_bytes + 2:  # a line break has up to 2 bytes
        row = too_long(f"the record has about {lines.size} bytes", self._format.max_bytes)
      yield row, lines.size

  def row(self, record: list[str]) -> list[str]:
    """See `Reader.row`."""
    for field in record:
      decode(field.encode("utf-8", "surrogateescape"), "the column")
    return record or [""]


class QuotedTsvReader(CsvReader):
  """Reader of a TSV whose columns are quoted as in CSV, as pandas and R write them."""

  separator = "\t"

  def _read_separator(self) -> None:
    """Leaves the separator as it is."""


class _CsvLines:
  """Lines for `csv.reader`; `size` are the bytes that it has read since this was set to 0."""

  def __init__(self, lines: Iterator[tuple[bytes | TextError, int]]) -> None:
    self._lines = lines
    self.size = 0

  def __iter__(self) -> "_CsvLines":
    return self

  def __next__(self) -> str:
    line, size = next(self._lines)
    self.size += size
    if isinstance(line, TextError):
      raise line
    check_text(line)
    return line.decode("utf-8", "surrogateescape") + "\n"


# A column of a TSV that is quoted as in CSV, or that has no quotation mark.
_COLUMN = re.compile(rb'(?:"[^"]*+(?:""[^"]*+)*+"|[^"\t\r\n]*+)(?=\t|\r?\n|\Z)')
_UNFINISHED = re.compile(rb'"[^"]*+(?:""[^"]*+)*+\Z')


def is_quoted(data: bytes, whole: bool) -> bool:
  """Returns whether the columns of a TSV are quoted as in CSV: all that have quotation marks are, and some must be.

  A column must be quoted that has a quotation mark, tab or line break, or if all of its records are. Records have
  equally many columns. GLUE's files, where nothing is quoted, have columns with a quotation mark in another place.

  Args:
    data: the file, or its beginning.
    whole: whether it is all of the file.
  """
  if b'"' not in data:
    return False
  data = data.removeprefix(BOM)
  if not whole:
    data = data[: data.rfind(b"\n") + 1]
  must, quoted, plain = False, set(), set()
  position, column, width = 0, 0, None
  while True:
    match = _COLUMN.match(data, position)
    if match is None:
      if not whole and _UNFINISHED.match(data, position):
        break
      return False
    field, position = match[0], match.end()
    if field.startswith(b'"'):
      quoted.add(column)
      must = must or any(mark in field[1:-1] for mark in (b'"', b"\t", b"\n"))
    elif field.strip():
      plain.add(column)
    if data.startswith(b"\t", position):
      column, position = column + 1, position + 1
      continue
    # The end of a record, which may be a blank line.
    if column or field:
      if width not in (None, column):
        return False
      width = column
      must = must or (not column and field == b'""')
    if position == len(data):
      break
    position, column = data.index(b"\n", position) + 1, 0
    if position == len(data):
      break
  return must or bool(quoted - plain)
