"""Columns of a user's file: which of them are sentences, pairs and scores, the same in all commands."""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence

from bert_flow_tf.data.readers.binary import open_reader
from bert_flow_tf.data.readers.text import CSV, JSONL, PARQUET, TEXT, TFRECORD, TSV, InputFormat, kind_of
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.progress import counted

SENTENCE, PAIR, SCORE = "sentence", ("sentence1", "sentence2"), "score"
# Other names of these columns.
_SYNONYMS = {"text": SENTENCE}
# Columns of a file without their names, by the number of columns; the score of three may also be the first.
_PLACES = {1: (SENTENCE,), 2: PAIR, 3: (*PAIR, SCORE)}
# What separates the columns, for errors.
_SEPARATORS = {CSV: "commas, or tabs in a file whose name ends in .tsv"}
_SEPARATORS |= dict.fromkeys([TEXT, TSV], "tabs, or commas in a file whose name ends in .csv")
EXPECTED = "sentence; sentence1 and sentence2; or sentence1, sentence2 and score"


@dataclasses.dataclass(frozen=True)
class Columns:
  """Columns of a file.

  Attributes:
    path: the file.
    kind: its kind, such as "tsv".
    header: whether the first line of a TSV or CSV has the names of the columns.
    roles: {"sentence", "sentence1", "sentence2" or "score": the column's name, or its number from 1}.
    names: names of all columns; numbers if they have no names.
  """

  path: str
  kind: str
  header: bool
  roles: Mapping[str, str]
  names: Sequence[str]

  def need(self, *roles: str, argument: str, hint: str = "") -> list[str]:
    """Returns the columns of some roles; else a ConfigError names the columns that the file has."""
    if all(role in self.roles for role in roles):
      return [self.roles[role] for role in roles]
    shown = ", ".join(name[:40] for name in self.names[:20])
    message = f"{argument}={self.path}: has {counted(len(self.names), 'column')} ({shown})"
    raise ConfigError(f"{message}, expected {' and '.join(roles)}{hint}", argument=argument)


def choose_columns(path: str, kind: str | None = None, header: bool | None = None) -> Columns:
  """Returns the columns of a file by its first two records.

  By the names of a header, of JSON lines or of Parquet, in any order and case: sentence (or text), sentence1 and
  sentence2, score. Without names by their number: a sentence; a pair; or a pair with its score after or before it.

  Args:
    path: the file.
    kind: its kind; None for the kind by its name. A text whose first line has a tab, or is "sentence", is a TSV.
    header: whether the first line of a TSV or CSV has the names of the columns; None: if it has those above.

  Raises:
    DataError: the file cannot be read or is empty, or its first line is likely to be a header with other names.
    ConfigError: it has TFRecords, whose columns are not found by their names.
  """
  kind = kind or kind_of(path)
  if kind == TFRECORD:
    raise ConfigError("column is missing; expected the sentence's feature in the tfrecord files", argument="column")
  rows = _first_rows(path, kind)
  names = rows[0]
  roles = _roles_of(names)
  if not roles and len(names) == 1 and header is not False:
    _check_separator(path, kind, names[0])
  if kind in (JSONL, PARQUET):
    if not roles and len(names) == 1:
      roles = {SENTENCE: names[0]}
    return Columns(path, kind, False, roles, names)
  if kind == TEXT and (len(names) > 1 or roles):
    kind = TSV
  if roles and header is not False:
    return Columns(path, kind, True, roles, names)
  if header:
    return Columns(path, kind, True, _roles_by_place(rows[-1]), names)
  may_have_scores = [any(is_score(field) or not field.strip() for field in row) for row in rows]
  if len(names) > 2 and may_have_scores == [False, True]:
    message = f"{path}: the first line ({', '.join(names)[:80]}) has no number as the second line has"
    raise DataError(f"{message}; if it has the names of the columns, expected {EXPECTED}")
  numbers = [str(number) for number in range(1, len(names) + 1)]
  return Columns(path, kind, False, _roles_by_place(names), numbers)


def _check_separator(path: str, kind: str, line: str) -> None:
  """Raises a DataError if the first line has the names of columns, but with the separator of another kind of files."""
  expected = _SEPARATORS.get(kind)
  for separator, name in ((";", "semicolons"), (",", "commas"), ("\t", "tabs")):
    fields = [field.strip() for field in line.split(separator)]
    if expected is None or len(fields) < 2 or " " in "".join(fields) or not _roles_of(fields):
      continue
    message = f"{path}, line 1: the names of the columns are separated by {name}"
    raise DataError(f"{message}; expected {expected}")


def _first_rows(path: str, kind: str) -> list[list[str]]:
  """Returns the columns of the first two records that are not empty; the names of JSON lines and Parquet.

  A bad record is left to the reading of the whole file, which may count it; it is an error if no record is good.
  """
  if kind == TEXT:
    kind = TSV
  rows: list[list[str]] = []
  bad: DataError | None = None
  with contextlib.closing(open_reader(path, InputFormat(kind), [])) as reader:
    if kind == PARQUET:
      return [list(reader.names)]
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
  if not rows:
    raise bad or DataError(f"{path} is empty; expected sentences")
  return rows


def _roles_of(names: Sequence[str]) -> dict[str, str]:
  """Returns {role: name} of the names that say which columns they are."""
  known: dict[str, str] = {}
  for name in names:
    plain = name.strip().lower()
    known.setdefault(_SYNONYMS.get(plain, plain), name)
  if set(PAIR) <= known.keys():
    wanted: Sequence[str] = (*PAIR, SCORE)
  else:
    wanted = (SENTENCE,)
  return {role: known[role] for role in wanted if role in known}


def _roles_by_place(fields: Sequence[str]) -> dict[str, str]:
  """Returns {role: number of the column} by the fields of a record."""
  roles: Sequence[str] = _PLACES.get(len(fields), ())
  # Either may be empty, of a pair without gold.
  if len(fields) == 3 and not is_score(fields[2]):
    is_empty_first = bool(fields[2].strip()) and not fields[0].strip()
    if is_score(fields[0]) or is_empty_first:
      roles = (SCORE, *PAIR)
  return {role: str(place) for place, role in enumerate(roles, 1)}


def is_score(field: str) -> bool:
  """Returns whether a field is a number, with a decimal point or comma."""
  try:
    float(field.replace(",", "."))
  except ValueError:
    return False
  return True
