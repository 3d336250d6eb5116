"""Columns of a user's file: which of them are sentences, pairs and scores, the same in all commands."""

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from absl import logging

from bert_flow_tf.data.readers.binary import open_reader
from bert_flow_tf.data.readers.delimited import SEPARATORS, mend_separator
from bert_flow_tf.data.readers.lines import BOM, TextError, decode
from bert_flow_tf.data.readers.places import PAIR, SCORE, SENTENCE, Places, is_score
from bert_flow_tf.data.readers.text import (
  CSV,
  JSON_LINES,
  JSONL,
  MAX_RECORD_BYTES,
  PARQUET,
  TEXT,
  TFRECORD,
  TSV,
  InputFormat,
  has_name,
  is_number,
  kind_of,
)
from bert_flow_tf.errors import ConfigError, DataError, naming
from bert_flow_tf.progress import counted, listed

# Other names of these columns.
_SYNONYMS = {"text": SENTENCE}
# {kind of file: description of its separator for errors}
_SEPARATORS = {CSV: "commas, or tabs in a file whose name ends in .tsv"}
_SEPARATORS |= dict.fromkeys([TEXT, TSV], "tabs, or commas in a file whose name ends in .csv")
# Names as R writes them.
_QUOTED_NAMES = re.compile(r'"[^"]*"(?: "[^"]*")*')
# A name of a column; three words at most.
_NAME = re.compile(r"[\w#][\w#.:/()-]*(?: [\w#.:/()-]+){0,2}(?<![.])")
# Lines by which a separator is found, and bytes by which an array is.
_LINES, _PART = 20, 1 << 10
EXPECTED = "sentence; sentence1 and sentence2; or sentence1, sentence2 and score"


def shown_names(names: Iterable[str]) -> str:
  """Returns the names of columns for messages; that of an index, as pandas and R write it, is empty."""
  return ", ".join(name[:40] or "(without a name)" for name in names)


@dataclasses.dataclass(frozen=True)
class Columns:
  """Columns of a file.

  Attributes:
    path: the file.
    kind: its kind, such as "tsv".
    header: whether the first line of a TSV or CSV has the names of the columns.
    roles: {"sentence", "sentence1", "sentence2" or "score": the column's name, or its number from 1}.
    names: names of all columns; numbers if they have no names.
    places: the roles of a pair without names, with their check; None for other columns.
    sep_line: line of the file that gives the separator, such as "sep=;"; "" without.
    candidates: {role: the columns that may have it by their names}; the first of them has it.
  """

  path: str
  kind: str
  header: bool
  roles: Mapping[str, str]
  names: Sequence[str]
  places: Places | None = None
  sep_line: str = ""
  candidates: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

  def __str__(self) -> str:
    """Number and names of the columns, for errors."""
    shown = shown_names(self.names[:20])
    by = f' by the line "{self.sep_line}"' if self.sep_line else ""
    return f"{counted(len(self.names), 'column')}{by} ({shown})"

  def check(self, roles: Iterable[str], hint: str = "") -> None:
    """Raises a DataError if several columns may have one of the roles, or columns without names other content."""
    for role in roles:
      if len(self.candidates.get(role, ())) > 1:
        found = f"the columns {listed([name[:40] for name in self.candidates[role]])} may each be the {role}"
        raise DataError(f"{self.path}: {found}; expected one of them, and other names for the others{hint}")
    if self.places is not None:
      self.places.check(self.path)

  def need(self, *roles: str, argument: str, hint: str = "") -> list[str]:
    """Returns the columns of some roles; else a ConfigError names the columns that the file has."""
    if all(role in self.roles for role in roles):
      with naming(argument):
        self.check(roles, hint)
      return [self.roles[role] for role in roles]
    message = f"{argument}={self.path}: has {self}, expected {' and '.join(roles)}{hint}"
    raise ConfigError(message, argument=argument)


def choose_columns(
  path: str,
  kind: str | None = None,
  header: bool | None = None,
  max_bytes: int = MAX_RECORD_BYTES,
  pairs: bool = True,
  others: Sequence[str] = (),
  hint: str = "",
) -> Columns:
  """Returns the columns of a file by its first two records; of JSON lines, and of a pair without names, by all records.

  A header, JSON lines and Parquet name the columns, in any order and case: sentence (or text), sentence1 and sentence2,
  score. Without names the number of columns counts: a sentence; a pair; or a pair with its score after or before it.

  Args:
    path: the file.
    kind: its kind; None for the kind by its name. A text whose first line has a tab, or is "sentence", is a TSV.
    header: whether the first line of a TSV or CSV has the names of the columns; None: if it has those above.
    max_bytes: see `InputFormat`.
    pairs: whether a pair is wanted; without, the columns of TSV and CSV are found without reading the whole file.
    others: further files of the same input, whose keys count too in JSON lines.
    hint: end of an error that says how other columns are named.

  Raises:
    DataError: the file cannot be read or is empty, its first line is likely to be a header with other names, or it has
      TFRecords, whose columns are not found by their names.
  """
  kind = kind or kind_of(path)
  if kind == TFRECORD:
    raise DataError(f"{path}: is tfrecord, expected text, TSV, CSV, JSON lines or Parquet")
  if kind == JSONL:
    rows, sep_line = [list(keys_of([path, *others], max_bytes))], ""
  else:
    rows, sep_line = first_rows(path, kind, max_bytes)
  if not any(rows):
    raise DataError(f"{path} is empty; expected sentences")
  names = rows[0]
  candidates = _candidates_of(names)
  roles = {role: columns[0] for role, columns in candidates.items()}
  if kind in (JSONL, PARQUET):
    if not roles and len(names) == 1:
      roles = {SENTENCE: names[0]}
    return Columns(path, kind, False, roles, names, candidates=candidates)
  if header is not False:
    _check_row_names(path, rows)
  if not roles and len(names) == 1 and header is not False:
    _check_separator(path, kind, names[0])
  if kind == TEXT and (len(names) > 1 or roles):
    kind = TSV
  if roles and header is not False:
    return Columns(path, kind, True, roles, names, sep_line=sep_line, candidates=candidates)
  if header is None:
    _check_first_line(path, kind, rows, hint)
  is_named = bool(header)
  if not is_named:
    names = [str(number) for number in range(1, len(names) + 1)]
  if len(names) == 1:
    return Columns(path, kind, is_named, {SENTENCE: "1"}, names, sep_line=sep_line)
  if len(names) > 3 or not pairs:
    return Columns(path, kind, is_named, {}, names, sep_line=sep_line)
  places = Places(len(names), _good_rows(path, kind, max_bytes), is_named)
  return Columns(path, kind, is_named, places.roles, names, places, sep_line)


def _check_first_line(path: str, kind: str, rows: list[list[str]], hint: str) -> None:
  """Raises a DataError, or warns, if the first of two rows, which has no known names, may have others."""
  has_scores = [any(is_score(field) or not field.strip() for field in row) for row in rows]
  if len(rows[0]) > 2 and has_scores == [False, True]:
    message = f"{path}: the first line ({', '.join(rows[0])[:80]}) has no number as the second line has"
    raise DataError(f"{message}; if it has the names of the columns, expected {EXPECTED}{hint}")
  if kind != TEXT and [_may_be_names(row) for row in rows] == [True, False]:
    message = "%s: the first line (%s) is read as a record; if it has the names of the columns, give header=true"
    logging.warning(message, path, shown_names(rows[0]))


def find_header(path: str, kind: str, max_bytes: int) -> bool | None:
  """Returns whether the first line of a TSV or CSV has the names of its columns; None if that cannot be told.

  Names of ours are names; a number, or a sentence, is a record's.
  """
  rows, _ = first_rows(path, kind, max_bytes)
  if not rows:
    return False
  _check_row_names(path, rows, any_names=True)
  if not _may_be_names(rows[0]):
    return False
  return True if _candidates_of(rows[0]) else None


def _may_be_names(row: Sequence[str]) -> bool:
  """Returns whether the fields of a first line may be the names of columns: short, different, and no numbers."""
  names = [field.strip(' "') for field in row]
  return any(names) and len(set(names)) == len(names) and all(not name or _is_name(name) for name in names)


def _is_name(field: str) -> bool:
  has_letter = any(character.isalpha() for character in field)
  return has_letter and _NAME.fullmatch(field) is not None and not is_score(field)


def _check_row_names(path: str, rows: list[list[str]], any_names: bool = False) -> None:
  """Raises a DataError for a table as R's write.table writes it by default, with names of ours or with any.

  Blanks separate columns with quotation marks, and rows have a name, which has no column in the header.
  """
  names, row, problem = rows[0], rows[-1], ""
  line = names[0]
  if len(row) == len(names) + 1 and is_number(row[0].strip('"')):
    problem = "has one name fewer than the rows"
  elif len(names) == 1 and _QUOTED_NAMES.fullmatch(line) and ('" "' in line or '" "' in row[0]):
    names, problem = line.split('" "'), "has names separated by blanks"
  plain = [name.strip('"') for name in names]
  if problem and (_candidates_of(plain) or (any_names and _may_be_names(plain))):
    expected = "expected a table as write.csv(d, 'FILE.csv', row.names=FALSE) of R writes it"
    raise DataError(f"{path}, line 1: the header {problem}; {expected}")


def _check_separator(path: str, kind: str, line: str) -> None:
  """Raises a DataError if columns have the separator of another kind of files.

  They have it if the first line has known names with it, or if all of the first lines of a CSV have it equally often.
  """
  expected = _SEPARATORS.get(kind)
  for separator, name in {";": "semicolons", ",": "commas", **SEPARATORS}.items():
    fields = [field.strip() for field in line.split(separator)]
    if expected is None or len(fields) < 2:
      continue
    mend = f"; {mend_separator(separator)}" if kind == CSV else ""
    as_text = "" if separator == "\t" else "; in a file whose name ends in .txt each line is a sentence"
    if " " not in "".join(fields) and _candidates_of(fields):
      message = f"{path}, line 1: the names of the columns are separated by {name}"
      _check_encoding(path)
      raise DataError(f"{message}; expected {expected}{mend}")
    if kind == CSV and separator in SEPARATORS and _all_have(path, separator, len(fields) - 1):
      message = f"{path}, line 1: the columns are separated by {name}"
      _check_encoding(path)
      raise DataError(f"{message}; expected {expected}{mend}{as_text}")


def _check_encoding(path: str) -> None:
  """Raises a DataError if one of the first lines of a file is not UTF-8."""
  with contextlib.closing(open_reader(path, InputFormat())) as reader:
    for number, (line, _) in enumerate(itertools.islice(reader.records(0, 1), _LINES), 1):
      reader.checked(line, number, lambda raw: decode(raw, "the line"))


def _all_have(path: str, separator: str, count: int) -> bool:
  """Returns whether a file has several lines and each of its first lines has a separator `count` times."""
  with contextlib.closing(open_reader(path, InputFormat())) as reader:
    lines = [line for line, _ in itertools.islice(reader.records(0, 1), _LINES) if line]
  has_count = [not isinstance(line, TextError) and line.count(separator.encode()) == count for line in lines]
  return len(lines) > 1 and all(has_count)


def _good_rows(path: str, kind: str, max_bytes: int) -> Iterator[tuple[int, list[str]]]:
  """Yields (number from 1, columns) of the records of a TSV or CSV that are neither bad nor empty."""
  with contextlib.closing(open_reader(path, InputFormat(kind, max_bytes=max_bytes), [])) as reader:
    for number, (record, _) in enumerate(reader.records(reader.start, reader.first), reader.first):
      with contextlib.suppress(DataError):
        row = reader.checked(record, number, reader.row)
        if row != [""]:
          yield number, row


def first_rows(path: str, kind: str, max_bytes: int) -> tuple[list[list[str]], str]:
  """Returns the columns of the first two records that are not empty, or the names of Parquet; `sep_line`.

  A bad record is left to the reading of the whole file, which may count it; it is an error if no record is good.
  """
  if kind == TEXT:
    kind = TSV
  rows: list[list[str]] = []
  bad: DataError | None = None
  with contextlib.closing(open_reader(path, InputFormat(kind, max_bytes=max_bytes), [])) as reader:
    if kind == PARQUET:
      return [list(reader.names)], ""
    for number, (record, _) in enumerate(reader.records(reader.start, reader.first), reader.first):
      try:
        row = reader.checked(record, number, reader.row)
      except DataError as error:
        bad = bad or error
        continue
      if row not in ([], [""]):
        rows.append(row)
      if len(rows) == 2:
        break
  if bad and not rows:
    raise bad
  return rows, reader.sep_line


def keys_of(paths: Iterable[str], max_bytes: int = MAX_RECORD_BYTES, wanted: Sequence[str] = ()) -> dict[str, None]:
  """Returns the keys of all records of JSON lines, in the order of their first record.

  A file is not read further than to the record by which each of the `wanted` columns was found, if there are any.
  Columns that none of the files has are a DataError, those that one of several lacks a warning.
  """
  keys: dict[str, None] = {}
  lacking: dict[str, list[str]] = {}
  bad: DataError | None = None
  for path in paths:
    check_json_lines(path)
    missing = list(wanted)
    with contextlib.closing(open_reader(path, InputFormat(JSONL, max_bytes=max_bytes), [])) as reader:
      for number, (record, _) in enumerate(reader.records(reader.start, reader.first), reader.first):
        try:
          found = reader.checked(record, number, reader.row)
        except DataError as error:
          bad = bad or error
          continue
        missing = [name for name in missing if not has_name(name, found)]
        if wanted and not missing:
          break
      keys |= dict.fromkeys(reader.names)
      if reader.names:
        lacking[path] = missing
  if bad and not keys:
    raise bad
  for path, names in lacking.items():
    absent = [name for name in names if not has_name(name, keys)]
    if absent:
      raise DataError(f"{path}: no record has the key {absent[0]!r}, expected one of {shown_names(list(keys)[:20])}")
    if names:
      logging.warning("%s: no record has the key %s, which counts as empty", path, listed(names))
  return keys


def check_json_lines(path: str) -> None:
  """Raises a DataError if a file has a JSON array in place of JSON lines."""
  with contextlib.closing(open_reader(path, InputFormat())) as reader:
    if reader.content(_PART).removeprefix(BOM).lstrip().startswith(b"["):
      raise DataError(f"{path}: a JSON array; {JSON_LINES}")


def _candidates_of(names: Sequence[str]) -> dict[str, list[str]]:
  """Returns {role: the columns that may have it} by their names; those of a pair, if it is one, else the sentence."""
  known: dict[str, list[str]] = {}
  # A name without blanks and underscores counts before one with them.
  for ignored in (r"^\s+|\s+$", r"[\s_]"):
    found: dict[str, list[str]] = {}
    for name in names:
      plain = re.sub(ignored, "", name.lower())
      found.setdefault(_SYNONYMS.get(plain, plain), []).append(name)
    known = found | known
  if set(PAIR) <= known.keys():
    wanted: Sequence[str] = (*PAIR, SCORE)
  else:
    wanted = (SENTENCE,)
  return {role: known[role] for role in wanted if role in known}
