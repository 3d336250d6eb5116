"""Files of sentences or pairs that are read whole, and written again with a further column or with fewer records."""

import contextlib
import csv
import dataclasses
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from bert_flow_tf.data.readers.binary import import_parquet, open_reader
from bert_flow_tf.data.readers.columns import PAIR, SENTENCE, choose_columns
from bert_flow_tf.data.readers.text import (
  CSV,
  EMBED,
  JSONL,
  PARQUET,
  TEXT,
  TFRECORD,
  TSV,
  InputFormat,
  is_number,
  kind_of,
)
from bert_flow_tf.errors import ConfigError, DataError


@dataclasses.dataclass(frozen=True)
class Records:
  """Records of a file, as they were read, and the texts of its columns.

  Attributes:
    path: the file.
    kind: its kind, such as "csv".
    header: the record with the names of the columns; None without one.
    names: of the columns, if they have names.
    raw: the records: bytes of a line, fields of CSV, or the row's number of Parquet, from 0.
    numbers: of the records in the file, from 1; a header has 1.
    texts: of the wanted columns, for each record.
  """

  path: str
  kind: str
  header: Any
  names: Sequence[str]
  raw: list[Any]
  numbers: list[int]
  texts: list[list[str]]

  def content(self, rows: Iterable[int], name: str = "", column: Sequence[float | None] = ()) -> bytes:
    """Returns the file with these records alone, not packed.

    Args:
      rows: positions in `raw`.
      name: name of a further column of numbers; "" for none.
      column: its values, for each of `rows`; None for an empty one.
    """
    records = [self.raw[row] for row in rows]
    if self.kind == PARQUET:
      return _parquet(self.path, records, name, column)
    if name:
      records = [_joined(record, name, value) for record, value in zip(records, column, strict=True)]
    if self.header is not None:
      header = self.header
      if name:
        header = [*header, name] if self.kind == CSV else header + b"\t" + name.encode()
      records.insert(0, header)
    return b"".join(_line(record) + b"\n" for record in records)


def read_records(path: str, input_format: InputFormat, columns: Sequence[str] | None = None) -> Records:
  """Returns the records of a file; without empty ones, unless the format embeds them.

  Args:
    path: the file, or - for standard input.
    input_format: its format.
    columns: columns to read; None for the format's columns.

  Raises:
    ConfigError: it has TFRecords.
    DataError: a record is not text or has other columns than the first record, or there is none.
  """
  if input_format.kind == TFRECORD:
    message = f"input={path}: is tfrecord, expected text, TSV, CSV, JSON lines or Parquet, which can be written again"
    raise ConfigError(message, argument="input")
  raw, numbers, texts = [], [], []
  opened: Any = open_reader(path, input_format, columns)
  with contextlib.closing(opened) as reader:
    records = [record for record, _ in reader.records(reader.start, reader.first)]
    while records and records[-1] in (b"", []):  # blank lines at the end
      records.pop()
    for number, record in enumerate(records, reader.first):
      if input_format.kind in (TSV, CSV) and reader.width is None and record not in (b"", []):
        reader.width = len(reader.checked(record, number, reader.row))
      fields = reader.checked(record, number)
      if input_format.empty == EMBED or fields[0].strip():
        raw.append(number - reader.first if input_format.kind == PARQUET else record)
        numbers.append(number)
        texts.append(fields)
    names = reader.names
    if input_format.kind == JSONL and raw:
      names = reader.row(raw[0])
  if not raw:
    raise DataError(f"{path} is empty; expected sentences")
  return Records(path, input_format.kind, opened.header, names, raw, numbers, texts)


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
    raise DataError(f"{', '.join(paths)[:200]} is empty; expected sentences")
  return sentences


def read_pairs(
  path: str, columns: Sequence[str] = (), header: bool | None = None, kind: str | None = None, argument: str = "input"
) -> Records:
  """Returns the sentence pairs of a file.

  Args:
    path: the file, or - for standard input.
    columns: names or, in TSV and CSV, numbers from 1 of the two columns of sentences; without them `choose_columns`
      finds them.
    header: see `choose_columns`.
    kind: kind of the file; None for the kind by its name.
    argument: argument of the caller that names the file, for errors.
  """
  if columns and len(columns) != 2:
    message = f"columns={','.join(columns)}: expected two, as in sentence1,sentence2 or 1,2"
    raise ConfigError(message, argument="columns")
  kind = kind or kind_of(path)
  if columns and kind not in (JSONL, PARQUET, CSV):
    kind = TSV
  if columns:
    is_header = kind in (TSV, CSV) and has_header([("columns", column) for column in columns], header)
  else:
    found = choose_columns(path, kind, header)
    columns = found.need(*PAIR, argument=argument, hint="; or --columns names the two")
    kind, is_header = found.kind, found.header
  return read_records(path, InputFormat(kind, header=is_header, empty=EMBED), columns)


def sentence_format(
  path: str, kind: str | None = None, header: bool | None = None, argument: str = "input", hint: str = ""
) -> InputFormat:
  """Returns the format of a file of sentences, by `choose_columns`; a ConfigError names the columns of another file.

  Args:
    path: the file, or - for standard input.
    kind: see `choose_columns`.
    header: see `choose_columns`.
    argument: argument of the caller that names the file, for errors.
    hint: end of an error that says how another column is named.
  """
  columns = choose_columns(path, kind, header)
  (column,) = columns.need(SENTENCE, argument=argument, hint=hint)
  if columns.kind == TEXT:
    return InputFormat()
  width = None
  if columns.kind in (TSV, CSV) and not columns.header:
    width = len(columns.names)
  return InputFormat(columns.kind, column, header=columns.header, width=width)


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


def _line(record):
  """Returns the bytes of a record, without a line break at the end."""
  if not isinstance(record, list):
    return record
  text = io.StringIO()
  csv.writer(text).writerow(record)  # with its own line break, which makes it quote both \r and \n
  return text.getvalue().removesuffix("\r\n").encode("utf-8")


def _joined(record, name, value):
  """Returns a record with a further value, rounded to 6 digits."""
  shown = "" if value is None else f"{value:.6f}"
  if isinstance(record, list):
    return [*record, shown]
  if record.lstrip().startswith(b"{"):
    values = {**json.loads(record), name: None if value is None else round(value, 6)}
    return json.dumps(values, ensure_ascii=False).encode("utf-8", "replace")
  return record + b"\t" + shown.encode()


def _parquet(path, rows, name, column):
  """Returns some rows of a Parquet file as a new file, with a further column, if it has a name."""
  import pyarrow as pa

  from bert_flow_tf.io import storage

  parquet = import_parquet("input")
  with storage.open_file(path) as file:
    table = parquet.read_table(file).take(rows)
  if name:
    table = table.append_column(name, pa.array(column, pa.float64()))
  written = pa.BufferOutputStream()
  parquet.write_table(table, written)
  return written.getvalue().to_pybytes()
