"""Files of sentences or pairs that are read whole, and written again with a further column or with fewer records."""

import array
import contextlib
import dataclasses
import json
from collections.abc import Collection, Iterable, Iterator, Sequence

from absl import logging

from bert_flow_tf.data.files.formats import PAIR, find_format, open_reader, reader_of, table_format
from bert_flow_tf.data.files.given_columns import check_distinct, given_format
from bert_flow_tf.data.files.input_format import (
  CSV,
  EMBED,
  JSONL,
  MAX_RECORD_BYTES,
  PARQUET,
  TFRECORD,
  TSV,
  InputFormat,
)
from bert_flow_tf.data.files.parquet import import_parquet
from bert_flow_tf.data.files.source import BOM, FileSource, Reader
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.progress import counted


@dataclasses.dataclass(frozen=True)
class Records:
  """Records of a file, as they are stored in it, and the texts of its columns.

  Attributes:
    path: the file.
    kind: its kind, such as "csv".
    separator: of its columns.
    data: the unpacked file.
    head: bytes before the first record: BOM, separator, names of the columns.
    has_names: whether the head ends with the names of the columns.
    names: of the columns, if they have names.
    starts: first byte of each record in `data`, or the row's number of Parquet, from 0.
    ends: byte behind each record and its line break; for Parquet of no use.
    numbers: of the records in the file, from 1; a header has 1.
    texts: of the wanted columns, for each record.
    blank_lines: number of lines without anything that are no records.
  """

  path: str
  kind: str
  separator: str
  data: bytes
  head: bytes
  has_names: bool
  names: Sequence[str]
  starts: Sequence[int]
  ends: Sequence[int]
  numbers: list[int]
  texts: list[list[str]]
  blank_lines: int

  def stored(self, row: int) -> bytes:
    """Returns the bytes of the record at a position in `texts`, with the line break."""
    return self.data[self.starts[row] : self.ends[row]]

  def content(self, rows: Iterable[int], name: str = "", column: Sequence[float | None] = ()) -> bytes:
    """Returns the file with these records alone, not packed, and otherwise byte by byte as it is.

    Args:
      rows: positions in `texts`, increasing.
      name: name of a further column of numbers; "" for none.
      column: values of the further column, one per row; None for an empty value.
    """
    if self.kind == PARQUET:
      return _parquet(self.data, [self.starts[row] for row in rows], name, column)
    if not name:
      return b"".join([self.head, *map(self.stored, rows)])
    lines = [self.head]
    if self.has_names:
      lines = [self._with_field(self.head, name)]
    for row, value in zip(rows, column, strict=True):
      record = self.stored(row)
      if self.kind == JSONL:
        lines.append(_with_key(record, name, value))
      else:
        lines.append(self._with_field(record, "" if value is None else f"{value:.6f}"))
    return b"".join(lines)

  def _with_field(self, record, field):
    """Returns the bytes of a record with a further field, before the line break."""
    row = record.removesuffix(b"\n").removesuffix(b"\r")
    return row + f"{self.separator}{field}".encode() + record[len(row) :]


@contextlib.contextmanager
def opened_whole(path: str) -> Iterator[FileSource]:
  """Yields a file in memory: its format is found, and its records are read, while it is opened once."""
  with FileSource(path) as source:
    source.keep()
    yield source


def read_records(
  path: str, input_format: InputFormat, columns: Sequence[str] | None = None, keep_empty: bool = False
) -> Records:
  """Returns the `records_of` a file."""
  with opened_whole(path) as source:
    return records_of(source, input_format, columns, keep_empty=keep_empty)


def records_of(
  source: FileSource,
  input_format: InputFormat,
  columns: Sequence[str] | None = None,
  quoted: bool | None = None,
  keep_empty: bool = False,
  any_type: bool = False,
  pairs: bool = False,
) -> Records:
  """Returns the records of a file in memory; without empty ones, unless the format embeds them.

  Args:
    source: the file.
    input_format: its format.
    columns: columns to read; None for the format's columns.
    quoted: see `Format`.
    keep_empty: whether records without a sentence are kept, but for lines without anything.
    any_type: whether the columns may have values of all types, shown as text.
    pairs: whether the first two columns are a pair, both of which must have text in one record at least.

  Raises:
    ConfigError: it has TFRecords.
    DataError: a record is not text or has other columns than the first record, or there is none.
  """
  kind, embeds = input_format.kind, input_format.empty == EMBED
  if kind == TFRECORD:
    message = f"input={source.path}: is tfrecord, expected text, TSV, CSV, JSON lines or Parquet, which can be written "
    raise ConfigError(f"{message}again", argument="input")
  starts, ends, numbers = array.array("q"), array.array("q"), []
  texts: list[list[str]] = []
  blank_lines = without_text = 0
  reader = reader_of(source, input_format, columns, quoted)
  reader.any_type, reader.equal_widths = any_type, True
  for number, record, start, end in _located(reader):
    if reader.is_blank(record) and (kind == JSONL or not embeds):
      blank_lines += 1
      continue
    fields = reader.checked(record, number, reader.fields)
    if keep_empty or embeds or fields[0].strip():
      starts.append(number - 1 if kind == PARQUET else start)
      ends.append(end)
      numbers.append(number)
      texts.append(fields)
    else:
      without_text += 1
  is_named = kind in (TSV, CSV) and input_format.header
  has_text = _has_two_texts if pairs else _has_text
  if not any(map(has_text, texts)):
    has_header = is_named and any(reader.names)
    is_blank = kind != PARQUET and bool(source.head.removeprefix(BOM))
    raise _no_sentences(source.path, has_header, without_text + len(texts), is_blank, pairs)
  data = source.content()
  head = b"" if kind == PARQUET else data[: _first_byte(reader)]
  names = reader.names
  return Records(
    source.path, kind, reader.separator, data, head, is_named, names, starts, ends, numbers, texts, blank_lines
  )


def _first_byte(reader: Reader) -> int:
  """Returns where the first record begins, behind a BOM and the names of the columns."""
  if not reader.start and reader.source.head.startswith(BOM):
    return len(BOM)
  return reader.start


def _located(reader):
  """Yields (number, record, its first byte, the byte behind it) of a file's records, but for blank ones at the end."""
  blank = []
  start = _first_byte(reader)
  end = reader.start
  for number, (record, size) in enumerate(reader.records(reader.start, reader.first), reader.first):
    end += size
    located = number, record, start, end
    start = end
    if reader.is_blank(record):
      blank.append(located)
      continue
    yield from blank
    blank.clear()
    yield located


def _no_sentences(path: str, has_header: bool, without_text: int, is_blank: bool, pairs: bool = False) -> DataError:
  """Returns the error of a file, or of several, without sentences or pairs.

  `without_text` counts records; `is_blank`: whether there are lines without anything.
  """
  found, expected = "is empty", "expected sentences"
  if without_text and pairs:
    found = f"has no pair with two texts: {without_text} of {without_text} have an empty cell"
    expected = "expected pairs of sentences"
  elif without_text:
    found = f"has no record with text: {without_text} of {without_text} are empty"
  elif has_header:
    found = "has a header and no records"
  elif is_blank:
    found = "has only blank lines"
  return DataError(f"{path} {found}; {expected}")


def _has_text(fields: Sequence[str]) -> bool:
  return any(map(str.strip, fields))


def _has_two_texts(fields: Sequence[str]) -> bool:
  return all(map(str.strip, fields[:2]))


def read_sentences(paths: Sequence[str], input_format: InputFormat) -> list[tuple[str, str]]:
  """Returns (id, sentence) of the records of files of any format; the id of a record without one is its number from 1.

  Records without text are left out, with a warning that counts them, but for lines without anything. A DataError names
  the first broken record.
  """
  sentences: list[tuple[str, str]] = []
  count = without_text = blank_lines = 0
  for path in paths:
    with contextlib.closing(open_reader(path, input_format)) as reader:
      for number, (record, _) in enumerate(reader.records(reader.start, reader.first), reader.first):
        count += 1
        parsed = reader.checked(record, number, reader.parse)
        if parsed is not None:
          sentences.append((parsed[0] or str(count), parsed[1]))
        elif reader.is_blank(record):
          blank_lines += 1
        else:
          without_text += 1
  if not sentences:
    has_header = input_format.header and any(reader.names)
    raise _no_sentences(", ".join(paths)[:200], has_header, without_text, blank_lines > 0)
  log_without_text(", ".join(paths)[:200], without_text)
  return sentences


def log_without_text(path: str, count: int) -> None:
  """Logs a warning of a number of records without text, if there are any."""
  if count:
    logging.warning("%s: %s without text left out", path, counted(count, "record"))


def read_table(path: str, known: Collection[str], max_bytes: int = MAX_RECORD_BYTES) -> Records:
  """Returns all columns of a file of any format; see `table_format`."""
  with opened_whole(path) as source:
    found = table_format(source, known=known, max_bytes=max_bytes)
    return records_of(source, found.reading(EMBED, max_bytes), found.names, found.quoted, any_type=True)


def read_pairs(
  path: str,
  columns: Sequence[str] = (),
  header: bool | None = None,
  kind: str | None = None,
  argument: str = "input",
  hint: str = "",
  max_bytes: int = MAX_RECORD_BYTES,
) -> Records:
  """Returns the sentence pairs of a file.

  Args:
    path: the file, or - for standard input.
    columns: names or, in TSV and CSV, numbers from 1 of the two columns of sentences; without them `find_format`
      finds them.
    header: see `find_format`.
    kind: kind of the file; None for the kind by its name.
    argument: argument of the caller that names the file, for errors.
    hint: end of an error that says how other columns are named.
    max_bytes: see `InputFormat`.
  """
  if columns and len(columns) != 2:
    message = f"columns={','.join(columns)}: expected two, as in sentence1,sentence2 or 1,2"
    raise ConfigError(message, argument="columns")
  check_distinct("columns", columns)
  with opened_whole(path) as source:
    if columns:
      roles = dict(zip(PAIR, columns, strict=True))
      found = given_format(source, roles=roles, kind=kind, header=header, max_bytes=max_bytes)
    else:
      found = find_format(source, kind=kind, header=header, max_bytes=max_bytes, hint=hint)
    columns = found.need(*PAIR, argument=argument, hint=hint)
    return records_of(source, found.reading(EMBED, max_bytes), columns, found.quoted, pairs=True)


def _with_key(record, name, value):
  """Returns the line of a JSON object with a further key, rounded to 6 digits; the other keys stay as written."""
  values = record.rstrip()
  number = json.dumps(None if value is None else round(value, 6))
  return values[:-1].rstrip() + f', "{name}": {number}}}'.encode() + record[len(values) :]


def _parquet(data, rows, name, column):
  """Returns some rows of a Parquet file as a new file, with a further column, if it has a name."""
  import pyarrow as pa

  parquet = import_parquet("input")
  table = parquet.read_table(pa.BufferReader(data))
  table = pa.concat_tables([table.slice(0, 0), *(table.slice(start, count) for start, count in _runs(rows))])
  if name:
    table = table.append_column(name, pa.array(column, pa.float64()))
  written = pa.BufferOutputStream()
  parquet.write_table(table, written)
  return written.getvalue().to_pybytes()


def _runs(rows):
  """Yields (first, number) of consecutive integers; slices can be taken of columns of all types."""
  start, count = 0, 0
  for row in rows:
    if count and row == start + count:
      count += 1
      continue
    if count:
      yield start, count
    start, count = row, 1
  if count:
    yield start, count
