"""Format of a user's file, decided once and the same in all commands: kind, quotes, header and roles of the columns."""

import contextlib
import dataclasses
import functools
import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from absl import logging

from bert_flow_tf.data.files.delimited import (
  CsvReader,
  QuotedTsvReader,
  TsvReader,
  check_separator,
  has_quotes,
  header_of_r,
)
from bert_flow_tf.data.files.input_format import (
  CSV,
  JSONL,
  MAX_RECORD_BYTES,
  PARQUET,
  TEXT,
  TFRECORD,
  TSV,
  InputFormat,
)
from bert_flow_tf.data.files.json_lines import JsonReader, keys_of
from bert_flow_tf.data.files.parquet import ParquetReader
from bert_flow_tf.data.files.source import BOM, FilePath, FileSource, Reader, line_error, shown_names
from bert_flow_tf.data.files.text import TextReader
from bert_flow_tf.data.files.tfrecord import TfRecordReader
from bert_flow_tf.errors import ConfigError, DataError, naming
from bert_flow_tf.progress import counted, listed

ANY_NUMBER = (-1e30, 1e30)  # the squares of larger ones would be infinite in some sums
SENTENCE, PAIR, SCORE = "sentence", ("sentence1", "sentence2"), "score"
EXPECTED = "sentence; sentence1 and sentence2; or sentence1, sentence2 and score"
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2},\d{3}\s*")  # some numbers with a decimal comma, too
# Other names of these columns.
_SYNONYMS = {"text": SENTENCE}
# A name of a column; three words at most.
_NAME = re.compile(r"[\w#][\w#.:/()-]*(?: [\w#.:/()-]+){0,2}(?<![.])")
# {ending of a file's name: its kind}
_ENDINGS = {"tsv": TSV, "csv": CSV, "jsonl": JSONL, "ndjson": JSONL, "json": JSONL, "parquet": PARQUET, "pq": PARQUET}
_READERS: dict[str, type[Reader]] = {
  TEXT: TextReader,
  TSV: TsvReader,
  CSV: CsvReader,
  JSONL: JsonReader,
  PARQUET: ParquetReader,
  TFRECORD: TfRecordReader,
}
# Smallest numbers of increasing integers that count as row numbers: from 1 on, and from 0 on (a file may have a pair
# with each score of 0 to 5). Smallest number of different integers that count as ids.
_MIN_ROW_NUMBERS, _MIN_FROM_0, _MIN_IDS = 3, 7, 50
_NAME_THEM = (
  "expected two sentences, and after or before them a score; otherwise write the names of the columns in a line before "
  "the first one: sentence1, sentence2 and score, and other names for other columns"
)


def kind_of(path: str) -> str:
  """Returns the kind of a file by its name (notes.tsv.gz, part.tfrecord-00000-of-00010), text by default."""
  endings = path.lower().rsplit("/", 1)[-1].split(".")[1:]
  if any(ending.startswith("tfrecord") for ending in endings):
    return TFRECORD
  for ending in endings[-2:]:
    if ending in _ENDINGS:
      return _ENDINGS[ending]
  return TEXT


def open_reader(path: str, input_format: InputFormat, columns: Sequence[str] | None = None) -> Reader:
  """Opens a file; returns the reader of its records."""
  return reader_of(FileSource(path), input_format, columns)


def reader_of(
  source: FileSource, input_format: InputFormat, columns: Sequence[str] | None = None, quoted: bool | None = None
) -> Reader:
  """Returns the reader of a file's records; see `Reader`. `quoted`: see `Format`; None to judge by the file."""
  if input_format.kind != TSV:
    return _READERS[input_format.kind](source, input_format, columns)
  if quoted is None:
    quoted = unquotes(source)
  reader = QuotedTsvReader if quoted else TsvReader
  return reader(source, input_format, columns)


def unquotes(source: FileSource) -> bool:
  """Returns whether quotation marks around the columns of a TSV are no text; logs it.

  A TSV whose columns are quoted is read as pandas writes it if its name ends in .tsv. In other files quotation marks
  are text, as in the texts of STS.
  """
  if not has_quotes(source):
    return False
  is_tsv = kind_of(source.path) == TSV
  _log_quotes(source.path, is_tsv)
  return is_tsv


@functools.cache
def _log_quotes(path: str, is_tsv: bool) -> None:
  """Logs once how the quotation marks of a file are read."""
  if is_tsv:
    logging.info("%s: columns are quoted as in CSV; the quotation marks around them are no text", path)
  else:
    logging.warning("%s: columns are quoted as in CSV; the quotation marks are read as text unless it is a .tsv", path)


@dataclasses.dataclass(frozen=True)
class Format:
  """Format of a file.

  Attributes:
    path: the file.
    kind: its kind, such as "tsv".
    header: whether the first line of a TSV or CSV has the names of the columns.
    roles: {"sentence", "sentence1", "sentence2" or "score": the column's name, or its number from 1}.
    names: names of all columns, numbers if they have no names; empty if the columns were given.
    quoted: whether quotation marks around the columns of a TSV are no text; None for one that was not judged.
    places: the roles of a pair without names, with their check; None for other columns.
    sep_line: line of the file that gives the separator, such as "sep=;"; "" without.
    candidates: {role: the columns that may have it by their names}; the first of them has it.
  """

  path: str
  kind: str
  header: bool
  roles: Mapping[str, str]
  names: Sequence[str] = ()
  quoted: bool | None = None
  places: "Places | None" = None
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

  def reading(self, empty: str, max_bytes: int = MAX_RECORD_BYTES) -> InputFormat:
    """Returns the format for a reader, whose columns are given to it."""
    return InputFormat(self.kind, header=self.header, empty=empty, max_bytes=max_bytes)


@dataclasses.dataclass(frozen=True)
class _Look:
  """What the format of a file is decided by, besides its name.

  Attributes:
    source: the file.
    kind: its kind; a text is read as a TSV.
    header: the header that the user gave.
    rows: columns of the first two records that are not empty; of JSON lines the keys of all records.
    reader: reader of the file.
    hint: end of an error that says how other columns are named.
    prefix: beginning of the names of the file's arguments, such as query_header.
    pairs: whether a pair is wanted.
    candidates: see `Format`.
  """

  source: FileSource
  kind: str
  header: bool | None
  rows: Sequence[list[str]]
  reader: Reader
  hint: str
  prefix: str
  pairs: bool
  candidates: Mapping[str, Sequence[str]]

  @property
  def names(self) -> list[str]:
    """Columns of the first record."""
    return self.rows[0]

  @property
  def final_kind(self) -> str:
    """The kind; TSV for a text with several columns or a known name."""
    return TSV if self.kind == TEXT and (len(self.names) > 1 or self.candidates) else self.kind

  def with_names(self, roles: Mapping[str, str], header: bool) -> Format:
    """Returns the format of a file whose columns have names."""
    return dataclasses.replace(self._format(roles, header), candidates=self.candidates)

  def without_names(self, roles: Mapping[str, str], places: "Places | None" = None) -> Format:
    """Returns the format of a file whose columns have numbers, or names that are not ours if the user gave a header."""
    found = self._format(roles, bool(self.header))
    if not found.header:
      numbers = [str(number) for number in range(1, len(self.names) + 1)]
      found = dataclasses.replace(found, names=numbers)
    return dataclasses.replace(found, places=places)

  def _format(self, roles, header):
    quoted = isinstance(self.reader, QuotedTsvReader)
    sep_line = self.reader.sep_line
    return Format(self.source.path, self.final_kind, header, roles, self.names, quoted, sep_line=sep_line)


def find_format(
  source: FileSource,
  *,
  kind: str | None = None,
  header: bool | None = None,
  max_bytes: int = MAX_RECORD_BYTES,
  pairs: bool = True,
  others: Sequence[str] = (),
  hint: str = "",
  prefix: str = "",
) -> Format:
  """Returns the format of a file by its first two records; of JSON lines, and of a pair without names, by all records.

  A header, JSON lines and Parquet name the columns, in any order and case: sentence (or text), sentence1 and sentence2,
  score. Without names the number of columns counts: a sentence; a pair; or a pair with its score after or before it.

  Args:
    source: the file.
    kind: its kind; None for the kind by its name. A text whose first line has a tab, or is "sentence", is a TSV.
    header: whether the first line of a TSV or CSV has the names of the columns; None: if it has those above.
    max_bytes: see `InputFormat`.
    pairs: whether a pair is wanted; without, the columns of TSV and CSV are found without reading the whole file.
    others: further files of the same input, whose keys count too in JSON lines.
    hint: end of an error that says how other columns are named.
    prefix: beginning of the names of the file's arguments, as query_ of query_header; a file of queries has no
      input_format. "" for the input.

  Raises:
    DataError: the file cannot be read or is empty, its first line is likely to be a header with other names, or it has
      TFRecords, whose columns are not found by their names.
  """
  return _decided(_look_at(source, kind, header, max_bytes, pairs, others, hint, prefix))


def table_format(source: FileSource, *, known: Collection[str], max_bytes: int = MAX_RECORD_BYTES) -> Format:
  """Returns the format of a file whose columns are all read.

  The first line of a text, TSV or CSV has their names if one of them is `known`, or none is a number. A text is a TSV.
  """
  look = _look_at(source, None, None, max_bytes, False, (), "", "")
  if look.kind in (TEXT, TSV, CSV):
    fields = [field.strip() for field in look.names]
    header = any(field.lower() in known for field in fields) or not any(map(is_score, fields))
    look = dataclasses.replace(look, header=header)
  found = _decided(look)
  header = bool(look.header)  # whether or not the names are ours
  return dataclasses.replace(found, kind=TSV if found.kind == TEXT else found.kind, header=header)


def _look_at(
  source: FileSource,
  kind: str | None,
  header: bool | None,
  max_bytes: int,
  pairs: bool,
  others: Sequence[str],
  hint: str,
  prefix: str,
) -> _Look:
  """Reads what the format of a file is decided by; arguments as of `find_format`."""
  kind = kind or kind_of(source.path)
  if kind == TFRECORD:
    raise DataError(f"{source.path}: is tfrecord, expected text, TSV, CSV, JSON lines or Parquet")
  # The lines of a text may have columns.
  reader = reader_of(source, InputFormat(TSV if kind == TEXT else kind, max_bytes=max_bytes), [])
  rows = first_rows(reader) if kind != JSONL else [keys_of(_with_others(source, others), max_bytes)]
  if not any(rows):
    found = "has only empty lines or records" if source.head.removeprefix(BOM) else "is empty"
    raise DataError(f"{source.path} {found}; expected sentences")
  return _Look(source, kind, header, rows, reader, hint, prefix, pairs, candidates_of(rows[0]))


def _decided(look: _Look) -> Format:
  """Returns the format by the first rule that gives one."""
  formats = (rule(look) for rule in _RULES)
  return next(found for found in formats if found is not None)


def _with_others(source: FileSource, paths: Iterable[str]) -> Iterator[FileSource]:
  """Yields a file, and after it the files of paths, one by one."""
  yield source
  yield from opened_each(paths)


def opened_each(paths: Iterable[str]) -> Iterator[FileSource]:
  """Yields files, each opened until the next one is asked for."""
  for path in paths:
    with FileSource(path) as source:
      yield source


def first_rows(reader: Reader) -> list[list[str]]:
  """Returns the columns of the first two records that are not empty, or the names of Parquet.

  A bad record is left to the reading of the whole file, which may count it; it is an error if no record is good.
  """
  bad: list[DataError] = []
  rows = [row for _, row in itertools.islice(reader.rows(bad), 2)]
  if bad and not rows:
    raise bad[0]
  return rows


def _keys_or_schema(look: _Look) -> Format | None:
  """Takes the names that JSON lines and Parquet give their columns; an only column has the sentence."""
  if look.kind not in (JSONL, PARQUET):
    return None
  roles = _first_of(look.candidates)
  if not roles and len(look.names) == 1:
    roles = {SENTENCE: look.names[0]}
  return look.with_names(roles, header=False)


def _json_as_text(look: _Look) -> None:
  """Rejects a text of JSON lines with names of ours, as of standard input, whose name tells no kind."""
  if look.kind == TEXT and candidates_of(_json_keys(look.names)):
    raise _json_lines(look.source.path, look.names, look.prefix)


def check_no_json_lines(path: str, row: Sequence[str], prefix: str) -> None:
  """Raises a DataError if the first record of a TSV whose columns are given by name is an object of JSON lines."""
  if _json_keys(row):
    raise _json_lines(path, row, prefix)


def _json_keys(row):
  """Returns the keys of a line that is an object of JSON lines; [] of another."""
  line = "\t".join(row)
  if line.startswith("{"):
    with contextlib.suppress(ValueError, RecursionError):
      return list(json.loads(line))
  return []


def _json_lines(path, row, prefix):
  expected = "expected a file whose name ends in .jsonl"
  if not prefix:
    expected += ", or --input_format=jsonl in embed, search, dedupe and score"
  keys = shown_names(_json_keys(row)[:20])
  return DataError(f"{path}, line 1: an object of JSON lines ({keys}); {expected}")


def _table_of_r(look: _Look) -> None:
  """Rejects a table as R writes it by default, with names of ours."""
  if look.header is not False:
    check_row_names(look.source.path, look.rows)


def _other_separator(look: _Look) -> None:
  """Rejects an only column that has the separator of another kind of files."""
  if look.header is not False and not look.candidates and len(look.names) == 1:
    has_format = not look.prefix
    check_separator(look.source, look.kind, look.names[0], lambda fields: bool(candidates_of(fields)), has_format)


def _names_of_ours(look: _Look) -> Format | None:
  """Takes a first line with names of ours as the header."""
  if look.header is False or not look.candidates:
    return None
  return look.with_names(_first_of(look.candidates), header=True)


def _names_of_others(look: _Look) -> None:
  """Rejects a first line that is likely to have other names; warns of a record that may have them."""
  if look.header is not None:
    return
  path, rows = look.source.path, look.rows
  has_scores = [any(is_score(field) or not field.strip() for field in row) for row in rows]
  if len(rows[0]) > 2 and has_scores == [False, True]:
    message = f"{path}: the first line ({', '.join(rows[0])[:80]}) has no number as the second line has"
    raise DataError(f"{message}; if it has the names of the columns, expected {EXPECTED}{look.hint}")
  # More columns than a pair and its score: an error names them.
  if len(rows[0]) <= 3 and _begins_with_names(look):
    message = "%s: the first line (%s) is read as a record; if it has the names of the columns, give --%sheader=true"
    logging.warning(message, path, shown_names(rows[0]), look.prefix)


def _only_column(look: _Look) -> Format | None:
  """Takes an only column as the sentences."""
  return look.without_names({SENTENCE: "1"}) if len(look.names) == 1 else None


def _pair_by_content(look: _Look) -> Format | None:
  """Takes two or three columns as a pair, with its score by their content."""
  if not look.pairs or len(look.names) > 3:
    return None
  places = Places(len(look.names), look.reader.rows(), bool(look.header))
  return look.without_names(places.roles, places)


def _no_roles(look: _Look) -> Format:
  """Leaves the columns without roles: the user must give them, by the names that the first line is likely to have."""
  if look.header is None and _begins_with_names(look):
    return look.with_names({}, header=True)
  return look.without_names({})


def _begins_with_names(look: _Look) -> bool:
  """Returns whether the first line is likely to have names of columns, and the second a record."""
  return look.final_kind != TEXT and [may_be_names(row) for row in look.rows] == [True, False]


# Rules in their order: a rule returns the format, rejects the file, or leaves it to the next rule.
_RULES: tuple[Callable[[_Look], Format | None], ...] = (
  _keys_or_schema,
  _json_as_text,
  _table_of_r,
  _other_separator,
  _names_of_ours,
  _names_of_others,
  _only_column,
  _pair_by_content,
  _no_roles,
)


def may_be_names(row: Sequence[str]) -> bool:
  """Returns whether the fields of a first line may be the names of columns: short, different, and no numbers."""
  names = [field.strip(' "') for field in row]
  return any(names) and len(set(names)) == len(names) and all(not name or _is_name(name) for name in names)


def _is_name(field: str) -> bool:
  has_letter = any(character.isalpha() for character in field)
  return has_letter and _NAME.fullmatch(field) is not None and not is_score(field)


def check_row_names(path: str, rows: Sequence[Sequence[str]], any_names: bool = False) -> None:
  """Raises a DataError for a table as R's write.table writes it by default, with names of ours or with any."""
  problem, names = header_of_r(rows)
  if problem and (candidates_of(names) or (any_names and may_be_names(names))):
    expected = "expected a table as write.csv(d, 'FILE.csv', row.names=FALSE) of R writes it"
    raise DataError(f"{path}, line 1: the header {problem}; {expected}")


def _first_of(candidates: Mapping[str, Sequence[str]]) -> dict[str, str]:
  """Returns {role: its first candidate}."""
  return {role: columns[0] for role, columns in candidates.items()}


def candidates_of(names: Sequence[str]) -> dict[str, list[str]]:
  """Returns {role: the columns that may have it} by their names: roles of a pair if it is one, else of a sentence."""
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


class Places:
  """Roles of columns by their place: two are a pair; of three, the first or the last is the score, by more numbers.

  Args:
    width: number of columns.
    rows: (number from 1, columns) of records; of another width they are left out.
    is_named: whether the first of the rows has names.

  Attributes:
    roles: {role: number of the column}.
  """

  def __init__(self, width: int, rows: Iterable[tuple[int, list[str]]], is_named: bool = False) -> None:
    self._columns = [Column() for _ in range(width)]
    self._first: tuple[int, list[str]] = (1, [""] * width)  # the first record
    self._rows = 0
    for position, (number, row) in enumerate(rows):
      if len(row) != width or (is_named and position == 0):
        continue
      if not self._rows:
        self._first = number, row
      self._rows += 1
      for column, field in zip(self._columns, row, strict=True):
        column.add(field)
    order: tuple[str, ...] = PAIR
    if width == 3:
      is_first = self._columns[0].numbers_or_blank > self._columns[2].numbers_or_blank
      order = (SCORE, *PAIR) if is_first else (*PAIR, SCORE)
    self.roles = {role: str(place) for place, role in enumerate(order, 1)}

  def check(self, path: str) -> None:
    """Raises a DataError, which shows the first record, if a column has other content than its role."""
    number, row = self._first
    shown = ", ".join(field[:30] for field in row)
    problem = self._problem()
    if problem:
      raise DataError(f"{path}, line {number} ({shown}): {problem}; {_NAME_THEM}")

  def _problem(self) -> str:
    """Returns a contradiction to the roles in words; "" for none."""
    for role in PAIR:
      column = self._columns[int(self.roles[role]) - 1]
      if column.numbers and not column.texts:
        return f"column {self.roles[role]} has only numbers, and no sentences"
      if column.numbers > 1 and column.texts == 1 and column.starts_with_text and not column.blanks:
        return f"column {self.roles[role]} has only numbers after the first line, which may have the names of columns"
    if SCORE not in self.roles:
      return ""
    scores = self._columns[int(self.roles[SCORE]) - 1]
    if 2 * scores.numbers_or_blank < self._rows:
      return "neither the first nor the last of 3 columns has scores"
    if scores.has_ids():
      return f"column {self.roles[SCORE]} has the numbers of rows or other ids, and no scores"
    return ""


class Column:
  """Counts of the fields of a column."""

  def __init__(self) -> None:
    self.numbers = self.blanks = self.texts = 0
    self.starts_with_text = False
    self._integers: set[int] = set()
    self._is_increasing = True
    self._last: int | None = None

  @property
  def numbers_or_blank(self) -> int:
    """Number of fields that may be scores."""
    return self.numbers + self.blanks

  def add(self, field: str) -> None:
    """Counts a field."""
    field = field.strip()
    if not field:
      self.blanks += 1
    elif is_score(field):
      self.numbers += 1
    else:
      self.starts_with_text = self.starts_with_text or not self.numbers_or_blank
      self.texts += 1
    if field.isascii() and field.isdigit() and len(field) < 20:
      value = int(field)
      self._is_increasing = self._is_increasing and (self._last is None or value > self._last)
      self._last = value
      self._integers.add(value)

  def has_ids(self, from_0: int = _MIN_FROM_0) -> bool:
    """Returns whether the fields are integers that are numbers of rows, from 0 at least `from_0`, or all different."""
    count = len(self._integers)
    if count < self.numbers_or_blank + self.texts:
      return False
    least = _MIN_ROW_NUMBERS
    if 0 in self._integers:
      least = from_0
    return count >= _MIN_IDS or (self._is_increasing and count >= least)


def is_score(field: str) -> bool:
  """Returns whether a field is a number, with a decimal point or comma."""
  try:
    float(field.replace(",", "."))
  except ValueError:
    return False
  return True


def read_number(
  field: str, path: FilePath, number: int, scale: tuple[float, float] = ANY_NUMBER, hint: str = ""
) -> float:
  """Returns the score in a field of line `number`; raises DataError, which ends in `hint`, for one not on the scale."""
  low, high = scale
  score = parse_number(field)
  # NaN is on no scale.
  if not low <= score <= high:
    kind = "a number with a decimal point" if "," in field else "a number"
    raise line_error(path, number, f"the score is {field[:40]!r}, expected {kind} from {low:g} to {high:g}{hint}")
  return score


def parse_number(field: str) -> float:
  """Returns the number in a field, in which 3,5 is 3.5; NaN for anything else."""
  if _DECIMAL_COMMA.fullmatch(field):
    field = field.replace(",", ".")
  try:
    # float() reads "1_5" as 15.
    return math.nan if "_" in field else float(field)
  except ValueError:
    return math.nan


def check_commas(fields: Sequence[str], path: FilePath, numbers: Sequence[int]) -> None:
  """Raises a DataError if a column of numbers, in lines `numbers`, has commas and points; warns of likely thousands."""
  commas = [row for row, field in enumerate(fields) if _DECIMAL_COMMA.fullmatch(field)]
  if not commas:
    return
  row = commas[0]
  point = next((place for place, field in enumerate(fields) if "." in field), None)
  if point is not None:
    found = f"the score is {fields[row][:40]!r}, and {fields[point][:40]!r} in line {numbers[point]}"
    raise line_error(path, numbers[row], f"{found}; expected either decimal points or decimal commas in all lines")
  if all(_THOUSANDS.fullmatch(fields[place]) for place in commas):
    message = "%s, line %d: the score %s is read as %g; if the comma separates thousands, leave it out"
    logging.warning(message, path, numbers[row], fields[row].strip(), parse_number(fields[row]))
