"""Roles of the two or three columns of a pair in a TSV or CSV without their names, by the fields of all records."""

from collections.abc import Iterable

from bert_flow_tf.errors import DataError

SENTENCE, PAIR, SCORE = "sentence", ("sentence1", "sentence2"), "score"
# Smallest numbers of increasing integers that count as row numbers: from 1 on, and from 0 on (a file may have a pair
# with each score of 0 to 5). Smallest number of different integers that count as ids.
_MIN_ROW_NUMBERS, _MIN_FROM_0, _MIN_IDS = 3, 7, 50
_NAME_THEM = (
  "expected two sentences, and after or before them a score; otherwise write the names of the columns in a line before "
  "the first one: sentence1, sentence2 and score, and other names for other columns"
)


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
