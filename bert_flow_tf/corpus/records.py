"""Files of sentences or pairs that are read whole, and written again with a further column or with fewer records."""

import contextlib
import csv
import dataclasses
import io
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from bert_flow_tf.corpus.readers import CSV, EMBED, JSONL, TEXT, TSV, InputFormat, has_header, kind_of, open_reader
from bert_flow_tf.data.lines import TextError
from bert_flow_tf.errors import ConfigError, DataError

_PAIR = ("sentence1", "sentence2")


@dataclasses.dataclass(frozen=True)
class Records:
  """Records of a file, as they were read: bytes of a line, or the fields of CSV; and the texts of its columns."""

  path: str
  header: Any  # None without one
  names: list[str]  # of the columns, if it has a header
  raw: list[Any]
  texts: list[list[str]]  # the sentence, or both of a pair, of each record

  def content(self, rows: Iterable[int], name: str = "", column: Sequence[str] = ()) -> bytes:
    """Returns the file with these records alone, and with a further column, if it has a name; not packed."""
    records = [self.raw[row] for row in rows]
    if name:
      records = [_joined(record, value) for record, value in zip(records, column, strict=True)]
    if self.header is not None:
      records.insert(0, _joined(self.header, name) if name else self.header)
    return b"".join(_line(record) + b"\n" for record in records)


def _line(record):
  """Returns the bytes of a record, without a line break at the end."""
  if not isinstance(record, list):
    return record
  text = io.StringIO()
  csv.writer(text).writerow(record)  # with its own line break, which makes it quote both \r and \n
  return text.getvalue().removesuffix("\r\n").encode("utf-8")


def _joined(record, value):
  """Returns a record with a further field."""
  if isinstance(record, list):
    return [*record, value]
  return record + b"\t" + value.encode("utf-8")


def read_records(path: str, input_format: InputFormat) -> Records:
  """Returns the records of a text, TSV, CSV or JSON lines file; without empty ones, unless the format embeds them.

  A ConfigError names another kind of file; a DataError the first record that is not text or lacks a column.
  """
  if input_format.kind not in (TEXT, TSV, CSV, JSONL):
    message = f"input={path}: is {input_format.kind}, expected text, TSV, CSV or JSON lines, which can be written again"
    raise ConfigError(message, argument="input")
  raw, texts = [], []
  opened: Any = open_reader(path, input_format)
  with contextlib.closing(opened) as reader:
    header: Any = None
    names: list[str] = []
    for header, _ in itertools.islice(reader.records(0, 1), input_format.header):
      names = _fields_of(reader, header, 1, reader.row)
    records = [record for record, _ in reader.records(reader.start, reader.first)]
    while records and records[-1] in (b"", []):  # blank lines at the end
      records.pop()
    for number, record in enumerate(records, reader.first):
      fields = _fields_of(reader, record, number)
      if input_format.empty == EMBED or fields[0].strip():
        raw.append(record)
        texts.append(fields)
  if not raw:
    raise DataError(f"{path} is empty; expected sentences")
  return Records(path, header, names, raw, texts)


def read_sentences(paths: Sequence[str], input_format: InputFormat) -> list[tuple[str, str]]:
  """Returns (id, sentence) of the records of files of any format; the id of a record without one is its number from 0.

  A DataError names the first broken record.
  """
  sentences: list[tuple[str, str]] = []
  count = 0
  for path in paths:
    with contextlib.closing(open_reader(path, input_format)) as reader:
      for number, (record, _) in enumerate(reader.records(reader.start, reader.first), reader.first):
        parsed = _fields_of(reader, record, number, reader.parse)
        if parsed is not None:
          sentences.append((parsed[0] or str(count), parsed[1]))
        count += 1
  if not sentences:
    raise DataError(f"{', '.join(paths)[:200]} is empty; expected sentences")
  return sentences


def read_pairs(path: str, columns: Sequence[str] = (), header: bool | None = None) -> Records:
  """Returns the sentence pairs of a TSV or CSV file.

  `columns` are the names or numbers, from 1, of the two columns of sentences. Without them they are sentence1 and
  sentence2 of the header, else the first two, or the second and the third if the first is a number. `header` says
  whether the first line has the names of the columns, if their names are not given.
  """
  kind = kind_of(path)
  if kind not in (TEXT, TSV, CSV):
    raise ConfigError(f"input={path}: is {kind}, expected a TSV or CSV file of sentence pairs", argument="input")
  if kind == TEXT:
    kind = TSV
  if columns and len(columns) != 2:
    message = f"columns={','.join(columns)}: expected two, as in --columns=sentence1,sentence2 or --columns=1,2"
    raise ConfigError(message, argument="columns")
  if not columns:
    columns, is_header = _default_columns(path, kind, bool(header))
    header = header or is_header
  else:
    header = has_header([("columns", column) for column in columns], header)
  return read_records(path, InputFormat(kind, columns[0], columns[1], bool(header), EMBED))


def _default_columns(path, kind, header):
  """Returns the columns of sentences by the first records, and whether the first is a header."""
  with contextlib.closing(open_reader(path, InputFormat(kind, "1"))) as reader:
    rows = []
    for number, (record, _) in zip((1, 2), reader.records(0, 1), strict=False):
      rows.append(_fields_of(reader, record, number, reader.row))
  if not rows:
    raise DataError(f"{path} is empty; expected sentence pairs")
  names = [name.strip().lower() for name in rows[0]]
  if set(_PAIR) <= set(names):
    return [rows[0][names.index(name)] for name in _PAIR], True
  first = rows[-1] if header else rows[0]
  if len(first) < 2:
    message = f"{path}: the first line has 1 column, expected two of sentences"
    raise DataError(f"{message}, separated by {'commas' if kind == CSV else 'tabs'}; --columns names them")
  if len(first) > 2 and _is_number(first[0]):
    return ("2", "3"), False
  if len(first) > 2 and _is_number(rows[-1][0]):
    message = f"{path}: the first column has a number in the second line, but {first[0][:40]!r} in the first"
    raise DataError(f"{message}; name the two columns of sentences by --columns, or a first line of names by --header")
  return ("1", "2"), False


def _fields_of(reader: Any, record: Any, number: int, parse: Any = None) -> Any:
  """Returns the fields of a record, or what `parse` makes of it; a DataError names a broken one."""
  try:
    if isinstance(record, TextError):
      raise record
    return (parse or reader.fields)(record)
  except TextError as error:
    raise DataError(f"{reader.path}, record {number}: {error}") from error


def _is_number(field):
  try:
    float(field)
  except ValueError:
    return False
  return True
