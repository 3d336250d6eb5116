"""Format of files whose columns the user gave, or of the files of a corpus: whether they have them, and a header."""

import csv
import dataclasses
import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from bert_flow_tf.data.files.formats import (
  SENTENCE,
  Format,
  candidates_of,
  check_no_json_lines,
  check_row_names,
  find_format,
  first_rows,
  kind_of,
  may_be_names,
  opened_each,
  reader_of,
  unquotes,
)
from bert_flow_tf.data.files.input_format import (
  CSV,
  JSONL,
  KINDS,
  MAX_RECORD_BYTES,
  PARQUET,
  SKIP,
  TEXT,
  TFRECORD,
  TSV,
  InputFormat,
  is_column_number,
)
from bert_flow_tf.data.files.json_lines import keys_of
from bert_flow_tf.data.files.source import COMMA_HINT, FileSource, has_name
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.progress import counted

# Names of columns of ids: BEIR's files have _id.
_IDS = ("_id", "id")


def common_kind(paths: Iterable[str]) -> str:
  """Returns the kind of all files, by their names; a ConfigError if these differ."""
  kinds = {kind_of(path): path for path in paths}
  if len(kinds) > 1:
    names = ", ".join(f"{path} is {kind}" for kind, path in sorted(kinds.items()))
    message = f"input_format is missing, and the files' names differ ({names})"
    raise ConfigError(f"{message}; expected one of {', '.join(KINDS)}", argument="input_format")
  return next(iter(kinds))


def given_format(
  source: FileSource,
  *,
  roles: Mapping[str, str],
  kind: str | None = None,
  header: bool | None = None,
  max_bytes: int = MAX_RECORD_BYTES,
) -> Format:
  """Returns the format of a file whose columns the user gave as the argument `columns`: {role: column}.

  `kind` and `header`: see `find_format`. A text with columns is a TSV.
  """
  kind = kind or kind_of(source.path)
  if kind == TEXT:
    kind = TSV
  quoted = unquotes(source) if kind == TSV else None
  given = [("columns", column) for column in roles.values()]
  has_header = _has_header([source], kind, given, header, max_bytes, quoted)
  return Format(source.path, kind, has_header, roles, quoted=quoted)


def sentence_format(
  path: str,
  kind: str | None = None,
  header: bool | None = None,
  argument: str = "input",
  hint: str = "",
  max_bytes: int = MAX_RECORD_BYTES,
  others: Sequence[str] = (),
  prefix: str = "",
) -> InputFormat:
  """Returns the format of a file of sentences, by `find_format`; a ConfigError names the columns of another file.

  Args:
    path: the file, or - for standard input.
    kind: see `find_format`.
    header: see `find_format`.
    argument: argument of the caller that names the file, for errors.
    hint: end of an error that says how another column is named.
    max_bytes: see `InputFormat`.
    others: see `find_format`.
    prefix: see `find_format`.
  """
  with FileSource(path) as source:
    arguments: dict[str, Any] = {"max_bytes": max_bytes, "others": others, "hint": hint, "prefix": prefix}
    found = find_format(source, kind=kind, header=header, pairs=False, **arguments)
  (column,) = found.need(SENTENCE, argument=argument, hint=hint)
  if found.kind == TEXT:
    return InputFormat(max_bytes=max_bytes)
  width = None
  if found.kind in (TSV, CSV) and not found.header:
    width = len(found.names)
  return InputFormat(found.kind, column, header=found.header, max_bytes=max_bytes, width=width)


def corpus_format(
  paths: Sequence[str],
  *,
  kind: str,
  column: str | None = None,
  id_column: str | None = None,
  header: bool | None = None,
  empty: str = SKIP,
  max_bytes: int = MAX_RECORD_BYTES,
  whole_lines: bool = False,
  hint: str = "",
  prefix: str = "",
) -> InputFormat:
  """Returns the format of all files of a corpus, which have the same kind.

  Args:
    paths: the files.
    kind: their kind.
    column: column of the sentence, or several, as title,text, if the first file has no column of this name; None to
      find it by the names of the columns, or to read lines.
    id_column: column of the record's id; None to number the records.
    header: see `find_format`.
    empty: see `InputFormat`.
    max_bytes: see `InputFormat`.
    whole_lines: whether each line of a text is a sentence; else it is a TSV if its first line has several columns.
    hint: end of an error that says how another column is named.
    prefix: see `find_format`.
  """
  first, *others = _begun_with_text(paths)
  is_named = any(name is not None and not is_column_number(name) for name in (column, id_column))
  if is_named and header is not False and kind == TSV:
    check_no_json_lines(first, _first_row(first, kind, max_bytes), prefix)
  columns = []
  if column is not None:
    columns = [column]
    has_names = header is not False and kind in (TSV, CSV, JSONL, PARQUET)
    if "," in column and not (has_names and has_name(column, _first_row(first, kind, max_bytes))):
      columns = split_columns(column, prefix)
    check_column_names(f"{prefix}column", columns)
  found = InputFormat(kind, next(iter(columns), None), header=bool(header), more_columns=tuple(columns[1:]) or None)
  if column is None and (kind != TEXT or not whole_lines):
    if is_named and header is None and kind in (TSV, CSV):
      header = True
    found = sentence_format(first, kind, header, hint=hint, max_bytes=max_bytes, others=others, prefix=prefix)
    header = found.header
  names = [found.column, *columns[1:]]
  given = [(f"{prefix}id_column", id_column), *((f"{prefix}column", name) for name in names)]
  has_header = check_columns(paths, found.kind, given, header, max_bytes, prefix)
  return dataclasses.replace(found, id_column=id_column, header=has_header, empty=empty, max_bytes=max_bytes)


def _begun_with_text(paths):
  """Returns the paths, but empty files that come first last: Spark may write an empty first file."""
  for number, path in enumerate(paths):
    with FileSource(path) as source:
      if source.head:
        return [*paths[number:], *paths[:number]]
  return list(paths)


def _first_row(path, kind, max_bytes):
  """Returns the columns of the first record, which may be their names; of JSON lines and Parquet the names."""
  with FileSource(path) as source:
    rows = first_rows(reader_of(source, InputFormat(kind, max_bytes=max_bytes), []))
  return next(iter(rows), [])


def split_columns(column: str, prefix: str = "") -> list[str]:
  """Returns the columns of a value such as title,text; a name with a comma stands in quotation marks.

  `prefix`: see `find_format`.
  """
  try:
    (names,) = csv.reader([column], strict=True, skipinitialspace=True)
  except (csv.Error, ValueError) as error:
    message = (
      f"{prefix}column={column!r}: cannot be split into names; expected names that commas separate, as title,text"
    )
    raise ConfigError(f"{message}{COMMA_HINT}", argument=f"{prefix}column") from error
  return [name.strip() for name in names]


def joined_columns(columns: Sequence[str]) -> str:
  """Returns the value that `split_columns` splits into these columns."""
  line = io.StringIO()
  csv.writer(line, lineterminator="").writerow(columns)
  return line.getvalue()


def check_column_names(argument: str, columns: Sequence[str]) -> None:
  """Raises a ConfigError if one of the columns that an argument gives has no name, or is given twice."""
  names = [name.strip() for name in columns]
  if "" in names:
    message = f"{argument}={','.join(columns)}: has an empty name; expected names of columns, as title,text"
    raise ConfigError(message, argument=argument)
  repeated = [name for name in names if names.count(name) > 1]
  if repeated:
    message = f"{argument}={','.join(columns)}: has the column {repeated[0]!r} {counted(len(repeated), 'time')}"
    raise ConfigError(f"{message}; expected different columns", argument=argument)


def warn_of_unused_ids(paths: Iterable[str], input_format: InputFormat, argument: str) -> None:
  """Logs a warning if a column has the name of ids, and the records are numbered as `argument` does not give it."""
  if input_format.kind in (TEXT, TFRECORD) or input_format.id_column is not None:
    return
  for path in paths:
    with FileSource(path) as source:
      reader = reader_of(source, input_format, [])
      for _ in itertools.islice(reader.rows(), 1):  # those of JSON lines are the keys of a record
        pass
      unused = [name for name in reader.names if name not in input_format.columns]
    for name in unused:
      if name.strip().lower() in _IDS:
        message = "%s: the column %s is not used, and records are numbered from 1; --%s=%s takes its ids"
        logging.warning(message, path, name, argument, name)
        return


def check_columns(
  paths: Sequence[str],
  kind: str,
  columns: Iterable[tuple[str, str | None]],
  header: bool | None,
  max_bytes: int = MAX_RECORD_BYTES,
  prefix: str = "",
) -> bool:
  """Returns whether TSV or CSV files have a header; JSON lines must have the columns as keys.

  Args:
    paths: the files.
    kind: their kind.
    columns: (argument, column) of the columns that were given.
    header: whether there is a header; None if it was not given.
    max_bytes: see `InputFormat`.
    prefix: see `find_format`.

  Raises:
    ConfigError: a column's number is wrong, or columns are numbers and the first line may have names.
    DataError: no record of JSON lines has a column, or the first line is that of a table of R with names of rows.
  """
  return _has_header(opened_each(paths), kind, columns, header, max_bytes, prefix=prefix)


def _has_header(
  sources: Iterable[FileSource],
  kind: str,
  columns: Iterable[tuple[str, str | None]],
  header: bool | None,
  max_bytes: int,
  quoted: bool | None = None,
  prefix: str = "",
) -> bool:
  """See `check_columns`; `quoted`: see `Format`, None to judge by each file."""
  given = [(name, value) for name, value in columns if value is not None]
  if kind == JSONL:
    is_split = [name for name, _ in given].count(f"{prefix}column") > 1
    keys_of(sources, max_bytes, [value for _, value in given], COMMA_HINT if is_split else "")
  if kind not in (TSV, CSV):
    return False
  is_named = bool(header)
  for name, value in given:
    if not is_column_number(value):
      is_named = True
      if header is False:
        raise ConfigError(f"{name}={value}: expected a column's number, as the files have no header", argument=name)
    elif int(value) < 1:
      raise ConfigError(f"{name}={value}: expected 1 or more, as columns are numbered from 1", argument=name)
  if header is not None or not given:
    return is_named
  found = {source.path: _first_line_has_names(source, kind, max_bytes, quoted) for source in sources}
  if is_named:
    return True
  first = next(iter(found))
  for path, has_names in found.items():
    if has_names is None:
      argument = f"{prefix}header"
      message = f"{argument}: missing; the first line of {path} may have the names of the columns, or be a record"
      expected = f"expected {argument}=true for names, {argument}=false for a record"
      raise ConfigError(f"{message}; {expected}", argument=argument)
    if has_names != found[first]:
      message = f"{prefix}header: missing; only one of {first} and {path} has the names of the columns"
      raise ConfigError(message, argument=f"{prefix}header")
  return bool(found[first])


def _first_line_has_names(source: FileSource, kind: str, max_bytes: int, quoted: bool | None) -> bool | None:
  """Returns whether the first line of a TSV or CSV has the names of its columns; None if that cannot be told.

  Names of ours are names; a number, or a sentence, is a record's.
  """
  rows = first_rows(reader_of(source, InputFormat(kind, max_bytes=max_bytes), [], quoted))
  if not rows:
    return False
  check_row_names(source.path, rows, any_names=True)
  distinct = dict.fromkeys(field.strip(' "') for field in rows[0])  # two columns may have one name
  if candidates_of(rows[0]) and may_be_names(list(distinct)):
    return True
  return None if may_be_names(rows[0]) else False
