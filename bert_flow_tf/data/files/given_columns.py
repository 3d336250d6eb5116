"""Format of files whose columns the user gave, or of the files of a corpus: whether they have them, and a header."""

import csv
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from bert_flow_tf.data.files.formats import (
  SENTENCE,
  Format,
  candidates_of,
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
  SKIP,
  TEXT,
  TSV,
  InputFormat,
  is_column_number,
)
from bert_flow_tf.data.files.json_lines import keys_of
from bert_flow_tf.data.files.source import FileSource
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io import storage


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
  """
  with FileSource(path) as source:
    found = find_format(source, kind=kind, header=header, max_bytes=max_bytes, pairs=False, others=others, hint=hint)
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
) -> InputFormat:
  """Returns the format of all files of a corpus, which have the same kind.

  Args:
    paths: the files.
    kind: their kind.
    column: column of the sentence, or several, as title,text; None to find it by the names of the columns, or to read
      lines.
    id_column: column of the record's id; None to number the records.
    header: see `find_format`.
    empty: see `InputFormat`.
    max_bytes: see `InputFormat`.
    whole_lines: whether each line of a text is a sentence; else it is a TSV if its first line has several columns.
    hint: end of an error that says how another column is named.
  """
  columns = split_columns(column)
  found = InputFormat(kind, next(iter(columns), None), header=bool(header), more_columns=tuple(columns[1:]) or None)
  if column is None and (kind != TEXT or not whole_lines):
    # Spark may write an empty first file.
    first, *others = sorted(paths, key=lambda path: not (storage.stat(path) or (0,))[0])
    found = sentence_format(first, kind, header, hint=hint, max_bytes=max_bytes, others=others)
    header = found.header
  given = [("id_column", id_column), ("column", found.column), *(("column", name) for name in columns[1:])]
  has_header = check_columns(paths, found.kind, given, header, max_bytes)
  return dataclasses.replace(found, id_column=id_column, header=has_header, empty=empty, max_bytes=max_bytes)


def split_columns(column: str | None) -> list[str]:
  """Returns the columns of a value such as title,text, [] of None; a name with a comma stands in quotation marks."""
  if column is None:
    return []
  if "," not in column:
    return [column]
  return [name.strip() for name in next(csv.reader([column]))]


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
  return _has_header(opened_each(paths), kind, columns, header, max_bytes)


def _has_header(
  sources: Iterable[FileSource],
  kind: str,
  columns: Iterable[tuple[str, str | None]],
  header: bool | None,
  max_bytes: int,
  quoted: bool | None = None,
) -> bool:
  """See `check_columns`; `quoted`: see `Format`, None to judge by each file."""
  given = [(name, value) for name, value in columns if value is not None]
  if kind == JSONL:
    keys_of(sources, max_bytes, [value for _, value in given])
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
      message = f"header: missing; the first line of {path} may have the names of the columns, or be a record"
      raise ConfigError(f"{message}; expected header=true for names, header=false for a record", argument="header")
    if has_names != found[first]:
      raise ConfigError(f"header: missing; only one of {first} and {path} has the names of the columns", "header")
  return bool(found[first])


def _first_line_has_names(source: FileSource, kind: str, max_bytes: int, quoted: bool | None) -> bool | None:
  """Returns whether the first line of a TSV or CSV has the names of its columns; None if that cannot be told.

  Names of ours are names; a number, or a sentence, is a record's.
  """
  rows = first_rows(reader_of(source, InputFormat(kind, max_bytes=max_bytes), [], quoted))
  if not rows:
    return False
  check_row_names(source.path, rows, any_names=True)
  if not may_be_names(rows[0]):
    return False
  return True if candidates_of(rows[0]) else None
