"""Readers of TSV and CSV; whether a TSV is quoted, and whether other separators than expected are in a file."""

import csv
import itertools
import re
from collections.abc import Callable, Iterator, Sequence

from bert_flow_tf.data.files.input_format import CSV, MAX_RECORD_BYTES, SKIP, TEXT, TSV, InputFormat, is_column_number
from bert_flow_tf.data.files.source import (
  BOM,
  FilePath,
  FileSource,
  Reader,
  Record,
  TextError,
  carriage_return,
  check_text,
  decode,
  decode_line,
  find_name,
  line_error,
  lines,
  nearest_name,
  too_long,
)
from bert_flow_tf.errors import DataError
from bert_flow_tf.io import storage
from bert_flow_tf.progress import counted

# {separator that spreadsheets write in place of a comma: its name}
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
# {kind of file: description of its separator for errors}
_EXPECTED = {CSV: "commas, or tabs in a file whose name ends in .tsv"}
_EXPECTED |= dict.fromkeys([TEXT, TSV], "tabs, or commas in a file whose name ends in .csv")
# Lines by which a separator is found.
_LINES = 20
# Names as R writes them.
_QUOTED_NAMES = re.compile(r'"[^"]*"(?: "[^"]*")*')
# Bytes of a TSV by which its quotation marks are judged.
_HEAD = 1 << 23
_PART = 1 << 12
# The line that tells a spreadsheet the separator.
_SEP_LINE = re.compile(rb"sep=([;,|:^~\t])\r?\n?")
# A first line whose columns have blanks before their quotation marks, which csv takes for text.
_SPACED_LINE = re.compile(rb'"[^"]*"(?:[;,|] +"[^"]*")+\s*')


# Advice for standard input, whose name tells no kind, by the commands that have the flag.
_KIND_OF_STREAM = "embed, search, dedupe and score take it from standard input by --input_format=csv"


def mend_separator(separator: str) -> str:
  """Returns advice for the user of a CSV with another separator than commas."""
  if separator == "\t":
    return "give the file a name that ends in .tsv"
  return f'write "sep={separator}" in a line before the first one'


class ColumnReader(Reader[Record]):
  """Reader of records whose columns a separator separates; the base of the readers of TSV and CSV."""

  # Number of columns of each record, if it is known.
  width: int | None = None

  def __init__(self, source: FileSource, input_format: InputFormat, columns: Sequence[str] | None = None) -> None:
    super().__init__(source, input_format, columns)
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
      raise DataError(f"{self.path}, line 1: expected the names of columns: {error}") from error
    self.names = names
    if first is None:  # a part without rows has no header either
      self._places = []
      return
    self._places = [self._place(name, self.names) for name in self._columns]
    self.width, self.start, self.first = len(self.names), self.start + size, 2

  def _read_separator(self) -> None:
    """Sets `separator`, and `start` behind a line that gives it."""

  def _place(self, name: str, names: list[str]) -> int:
    """Returns the place of a column in the header: by its name, or by its number if no column has this name."""
    found = find_name(name, names)
    if found is not None and names.count(found) == 1:
      return names.index(found)
    if name not in names and is_column_number(name) and 0 < int(name) <= len(names):
      return int(name) - 1
    shown = ", ".join(name[:40] for name in names[:20]) or "nothing"
    places = [str(place) for place, other in enumerate(names, 1) if other.strip() == name.strip()]
    message = f"{self.path}, line 1: {len(places)} columns {name!r} in the header ({shown}), expected exactly 1"
    hint = self._hint(names) or self.comma_hint or nearest_name(name, names)
    if len(places) > 1:
      hint = f"; a number takes one of them: {' or '.join(places)} in place of {name!r}"
    if self._format.kind == TSV and len(names) == 1 and name in names[0].split(","):
      hint = "; if commas separate the columns, give the file a name that ends in .csv"
    raise DataError(message + hint)

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
    if self.equal_widths and self.width is None and not self.is_blank(record):
      self.width = len(row)
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
    return self.source.lines(offset, self._format.max_bytes)


class CsvReader(ColumnReader[list[str]]):
  """Reader of columns separated by commas, as Python's csv and spreadsheets write them; quoted fields may have lines.

  A first line "sep=;" gives another separator, as in Excel.
  """

  unit = "record"
  separator = ","
  # Whether blanks after a separator are no text.
  _skips_blanks = False

  def _read_separator(self) -> None:
    line = self.source.content(_PART).split(b"\n")[0] + b"\n"
    mark = len(BOM) * line.startswith(BOM)
    self._skips_blanks = _SPACED_LINE.fullmatch(line[mark:]) is not None
    found = _SEP_LINE.fullmatch(line[mark:])
    if found:
      self.separator, self.sep_line = found[1].decode(), found[0].decode().strip("\r\n")
      self.start = mark + len(found[0])

  def _records(self, offset: int, number: int) -> Iterator[tuple[list[str] | TextError, int]]:
    csv.field_size_limit(max(csv.field_size_limit(), self._format.max_bytes))
    lines = _CsvLines(self.source.lines(offset, self._format.max_bytes))
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


def has_quotes(source: FileSource) -> bool:
  """Returns whether the columns of a TSV are quoted as in CSV, by its first 8 MiB; see `is_quoted`."""
  head = source.content(_HEAD + 1)
  return is_quoted(head[:_HEAD], len(head) <= _HEAD)


def tab_separated(
  path: FilePath, empty: str = "reject", broken: list[DataError] | None = None
) -> Iterator[tuple[int, list[str]]]:
  """Yields (number from 1, columns) of the lines of a TSV where nothing is quoted; arguments as of `lines`."""
  for number, line in lines(path, empty, broken):
    yield number, line.split("\t")


def header_of_r(rows: Sequence[Sequence[str]]) -> tuple[str, list[str]]:
  """Returns what is wrong with a header as R's write.table writes it by default, "" for nothing; and its names.

  Blanks separate columns with quotation marks, and rows have a name, which has no column in the header.
  """
  names, row, problem = rows[0], rows[-1], ""
  if len(row) == len(names) + 1 and is_column_number(row[0].strip('"')):
    problem = "has one name fewer than the rows"
  elif len(names) == 1 and _QUOTED_NAMES.fullmatch(names[0]) and ('" "' in names[0] or '" "' in row[0]):
    names, problem = names[0].split('" "'), "has names separated by blanks"
  return problem, [name.strip('"') for name in names]


def check_separator(
  source: FileSource, kind: str, line: str, is_header: Callable[[list[str]], bool], has_format: bool
) -> None:
  """Raises a DataError if columns have the separator of another kind of files.

  They have it if the first line, with it, is a header with known names, or if all of the first lines of a CSV have it
  equally often. `has_format`: whether input_format may give the kind of standard input.
  """
  for separator, name in {";": "semicolons", ",": "commas", **SEPARATORS}.items():
    fields = [field.strip() for field in line.split(separator)]
    if len(fields) < 2:
      continue
    mend = f"; {mend_separator(separator)}" if kind == CSV else ""
    if has_format and storage.is_stream(source.path):
      mend += f"; {_KIND_OF_STREAM}"
    as_text = "" if separator == "\t" else "; in a file whose name ends in .txt each line is a sentence"
    if " " not in "".join(fields) and is_header(fields):
      _check_encoding(source)
      message = f"{source.path}, line 1: the names of the columns are separated by {name}"
      raise DataError(f"{message}; expected {_EXPECTED[kind]}{mend}")
    if kind == CSV and separator in SEPARATORS and _all_have(source, separator, len(fields) - 1):
      _check_encoding(source)
      message = f"{source.path}, line 1: the columns are separated by {name}"
      raise DataError(f"{message}; expected {_EXPECTED[kind]}{mend}{as_text}")


def _first_lines(source: FileSource) -> list[bytes | TextError]:
  """Returns the lines by which a separator is found."""
  with source.errors():
    return [line for line, _ in itertools.islice(source.lines(0, MAX_RECORD_BYTES), _LINES)]


def _check_encoding(source: FileSource) -> None:
  """Raises a DataError if one of the first lines of a file is not UTF-8."""
  for number, line in enumerate(_first_lines(source), 1):
    try:
      if isinstance(line, TextError):
        raise line
      decode(line, "the line")
    except TextError as error:
      raise line_error(source.path, number, str(error)) from error


def _all_have(source: FileSource, separator: str, count: int) -> bool:
  """Returns whether a file has several lines and each of its first lines has a separator `count` times."""
  lines = [line for line in _first_lines(source) if line]
  has_count = [not isinstance(line, TextError) and line.count(separator.encode()) == count for line in lines]
  return len(lines) > 1 and all(has_count)
