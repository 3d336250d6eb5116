"""Files of sentences or pairs that are read whole, and written again with a further column or with fewer records."""

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from bert_flow_tf.data.readers.binary import import_parquet, open_reader
from bert_flow_tf.data.readers.columns import choose_columns, find_header, first_rows, keys_of
from bert_flow_tf.data.readers.lines import BOM
from bert_flow_tf.data.readers.places import PAIR, SENTENCE, is_score
from bert_flow_tf.data.readers.text import (
  CSV,
  EMBED,
  JSONL,
  MAX_RECORD_BYTES,
  PARQUET,
  TEXT,
  TFRECORD,
  TSV,
  InputFormat,
  Reader,
  is_number,
  kind_of,
)
from bert_flow_tf.errors import ConfigError, DataError


@dataclasses.dataclass(frozen=True)
class Records:
  """Records of a file, as they are stored in it, and the texts of its columns.

  Attributes:
    path: the file.
    kind: its kind, such as "csv".
    separator: of its columns.
    head: bytes before the first record: BOM, separator, names of the columns.
    has_names: whether the head ends with the names of the columns.
    names: of the columns, if they have names.
    raw: the records: bytes with the line break, or the row's number of Parquet, from 0.
    numbers: of the records in the file, from 1; a header has 1.
    texts: of the wanted columns, for each record.
    blank_lines: number of lines without anything that are no records.
  """

  path: str
  kind: str
  separator: str
  head: bytes
  has_names: bool
  names: Sequence[str]
  raw: list[Any]
  numbers: list[int]
  texts: list[list[str]]
  blank_lines: int

  def content(self, rows: Iterable[int], name: str = "", column: Sequence[float | None] = ()) -> bytes:
    """Returns the file with these records alone, not packed, and otherwise byte by byte as it is.

    Args:
      rows: positions in `raw`, increasing.
      name: name of a further column of numbers; "" for none.
      column: values of the further column, one per row; None for an empty value.
    """
    records = [self.raw[row] for row in rows]
    if self.kind == PARQUET:
      return _parquet(self.path, records, name, column)
    if not name:
      return b"".join([self.head, *records])
    lines = [self.head]
    if self.has_names:
      lines = [self._with_field(self.head, name)]
    for record, value in zip(records, column, strict=True):
      if self.kind == JSONL:
        lines.append(_with_key(record, name, value))
      else:
        lines.append(self._with_field(record, "" if value is None else f"{value:.6f}"))
    return b"".join(lines)

  def _with_field(self, record, field):
    """Returns the bytes of a record with a further field, before the line break."""
    row = record.removesuffix(b"\n").removesuffix(b"\r")
    return row + f"{self.separator}{field}".encode() + record[len(row) :]


def read_records(
  path: str,
  input_format: InputFormat,
  columns: Sequence[str] | None = None,
  keep_empty: bool = False,
  any_type: bool = False,
) -> Records:
  """Returns the records of a file; without empty ones, unless the format embeds them.

  Args:
    path: the file, or - for standard input.
    input_format: its format.
    columns: columns to read; None for the format's columns.
    keep_empty: whether records without a sentence are kept, but for lines without anything.
    any_type: whether the columns may have values of all types, shown as text.

  Raises:
    ConfigError: it has TFRecords.
    DataError: a record is not text or has other columns than the first record, or there is none.
  """
  kind = input_format.kind
  if kind == TFRECORD:
    message = f"input={path}: is tfrecord, expected text, TSV, CSV, JSON lines or Parquet, which can be written again"
    raise ConfigError(message, argument="input")
  keep_empty = keep_empty or input_format.empty == EMBED
  raw, numbers, texts = [], [], []
  blank_lines = 0
  opened = open_reader(path, input_format, columns)
  opened.any_type = any_type
  with contextlib.closing(opened) as reader:
    records = list(reader.records(reader.start, reader.first))
    head, stored = b"", iter(range(len(records)))
    if kind != PARQUET:
      head, stored = _stored(reader, [size for _, size in records])
    while records and reader.is_blank(records[-1][0]):  # at the end
      records.pop()
    for number, (record, _), as_stored in zip(itertools.count(reader.first), records, stored, strict=False):
      if reader.is_blank(record) and (kind == JSONL or input_format.empty != EMBED):
        blank_lines += 1
        continue
      if kind in (TSV, CSV) and reader.width is None and not reader.is_blank(record):
        reader.width = len(reader.checked(record, number, reader.row))
      fields = reader.checked(record, number, reader.fields)
      if keep_empty or fields[0].strip():
        raw.append(as_stored)
        numbers.append(number)
        texts.append(fields)
  is_named = kind in (TSV, CSV) and input_format.header
  if not any(field.strip() for fields in texts for field in fields):
    raise _no_sentences(path, is_named and not texts and any(opened.names))
  return Records(path, kind, opened.separator, head, is_named, opened.names, raw, numbers, texts, blank_lines)


def _stored(reader: Reader, sizes: list[int]) -> tuple[bytes, Iterator[bytes]]:
  """Returns the bytes before a file's first record, and of each record, by their sizes."""
  content = reader.content()
  first = reader.start
  if not first and content.startswith(BOM):
    first = len(BOM)
  ends = list(itertools.accumulate(sizes, initial=reader.start))
  starts = [max(first, start) for start in ends[:-1]]
  return content[:first], (content[start:end] for start, end in zip(starts, ends[1:], strict=True))


def _no_sentences(path: str, has_header: bool) -> DataError:
  """Returns the error of a file, or of several, without sentences."""
  found = "has a header and no records" if has_header else "is empty"
  return DataError(f"{path} {found}; expected sentences")


def read_sentences(paths: Sequence[str], input_format: InputFormat) -> list[tuple[str, str]]:
  """Returns (id, sentence) of the records of files of any format; the id of a record without one is its number from 1.

  A DataError names the first broken record.
  """
  sentences: list[tuple[str, str]] = []
  count = 0
  for path in paths:
    with contextlib.closing(open_reader(path, input_format)) as reader:
      for number, (record, _) in enumerate(reader.records(reader.start, reader.first), reader.first):
        count += 1
        parsed = reader.checked(record, number, reader.parse)
        if parsed is not None:
          sentences.append((parsed[0] or str(count), parsed[1]))
  if not sentences:
    raise _no_sentences(", ".join(paths)[:200], input_format.header and not count and any(reader.names))
  return sentences


def read_table(path: str, known: Collection[str], max_bytes: int = MAX_RECORD_BYTES) -> Records:
  """Returns all columns of a file of any format.

  The first line of a text, TSV or CSV has their names if one of them is `known`, or none is a number.
  """
  kind, header = kind_of(path), None
  if kind in (TEXT, TSV, CSV):
    rows, _ = first_rows(path, kind, max_bytes)
    fields = [field.strip() for row in rows[:1] for field in row]
    header = any(field.lower() in known for field in fields) or not any(map(is_score, fields))
  columns = choose_columns(path, kind, header, max_bytes, pairs=False)
  if kind == TEXT:
    kind = TSV
  input_format = InputFormat(kind, header=bool(header), empty=EMBED, max_bytes=max_bytes)
  return read_records(path, input_format, columns.names, any_type=True)


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
    columns: names or, in TSV and CSV, numbers from 1 of the two columns of sentences; without them `choose_columns`
      finds them.
    header: see `choose_columns`.
    kind: kind of the file; None for the kind by its name.
    argument: argument of the caller that names the file, for errors.
    hint: end of an error that says how other columns are named.
    max_bytes: see `InputFormat`.
  """
  if columns and len(columns) != 2:
    message = f"columns={','.join(columns)}: expected two, as in sentence1,sentence2 or 1,2"
    raise ConfigError(message, argument="columns")
  kind = kind or kind_of(path)
  if columns and kind not in (JSONL, PARQUET, CSV):
    kind = TSV
  if columns:
    is_header = check_columns([path], kind, [("columns", column) for column in columns], header, max_bytes)
  else:
    found = choose_columns(path, kind, header, max_bytes, hint=hint)
    columns = found.need(*PAIR, argument=argument, hint=hint)
    kind, is_header = found.kind, found.header
  return read_records(path, InputFormat(kind, header=is_header, empty=EMBED, max_bytes=max_bytes), columns)


def sentence_format(
  path: str,
  kind: str | None = None,
  header: bool | None = None,
  argument: str = "input",
  hint: str = "",
  max_bytes: int = MAX_RECORD_BYTES,
  others: Sequence[str] = (),
) -> InputFormat:
  """Returns the format of a file of sentences, by `choose_columns`; a ConfigError names the columns of another file.

  Args:
    path: the file, or - for standard input.
    kind: see `choose_columns`.
    header: see `choose_columns`.
    argument: argument of the caller that names the file, for errors.
    hint: end of an error that says how another column is named.
    max_bytes: see `InputFormat`.
    others: see `choose_columns`.
  """
  columns = choose_columns(path, kind, header, max_bytes, pairs=False, others=others, hint=hint)
  (column,) = columns.need(SENTENCE, argument=argument, hint=hint)
  if columns.kind == TEXT:
    return InputFormat(max_bytes=max_bytes)
  width = None
  if columns.kind in (TSV, CSV) and not columns.header:
    width = len(columns.names)
  return InputFormat(columns.kind, column, header=columns.header, max_bytes=max_bytes, width=width)


def check_columns(
  paths: Sequence[str],
  kind: str,
  columns: Iterable[tuple[str, str | None]],
  header: bool | None,
  max_bytes: int = MAX_RECORD_BYTES,
) -> bool:
  """Returns whether TSV or CSV files have a header; JSON lines must have the columns as keys.

  Args:
    paths: the files.
    kind: their kind.
    columns: (argument, column) of the columns that were given.
    header: whether there is a header; None if it was not given.
    max_bytes: see `InputFormat`.

  Raises:
    ConfigError: a column's number is wrong, or columns are numbers and the first line may have names.
    DataError: no record of JSON lines has a column, or the first line is that of a table of R with names of rows.
  """
  given = [(name, value) for name, value in columns if value is not None]
  if kind == JSONL:
    keys_of(paths, max_bytes, [value for _, value in given])
  if kind not in (TSV, CSV):
    return False
  is_named = bool(header)
  for name, value in given:
    if not is_number(value):
      is_named = True
      if header is False:
        raise ConfigError(f"{name}={value}: expected a column's number, as the files have no header", argument=name)
    elif int(value) < 1:
      raise ConfigError(f"{name}={value}: expected 1 or more, as columns are numbered from 1", argument=name)
  if header is not None or not given:
    return is_named
  found = {path: find_header(path, kind, max_bytes) for path in paths}
  if is_named:
    return True
  for path, has_names in found.items():
    if has_names is None:
      message = f"header: missing; the first line of {path} may have the names of the columns, or be a record"
      raise ConfigError(f"{message}; expected header=true for names, header=false for a record", argument="header")
    if has_names != found[paths[0]]:
      raise ConfigError(f"header: missing; only one of {paths[0]} and {path} has the names of the columns", "header")
  return bool(found[paths[0]])


def _with_key(record, name, value):
  """Returns the line of a JSON object with a further key, rounded to 6 digits; the other keys stay as written."""
  values = record.rstrip()
  number = json.dumps(None if value is None else round(value, 6))
  return values[:-1].rstrip() + f', "{name}": {number}}}'.encode() + record[len(values) :]


def _parquet(path, rows, name, column):
  """Returns some rows of a Parquet file as a new file, with a further column, if it has a name."""
  import pyarrow as pa

  from bert_flow_tf.io import storage

  parquet = import_parquet("input")
  with storage.open_file(path) as file:
    table = parquet.read_table(file)
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
