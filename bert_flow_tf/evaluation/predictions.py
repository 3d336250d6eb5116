"""Files of similarities, with or without gold."""

import math
import os
from collections.abc import Mapping

import numpy as np

from bert_flow_tf.data.lines import count, lines
from bert_flow_tf.errors import DataError

GOLD = "gold"
SIMILARITY = "similarity"
# Other columns of test_results.tsv without similarities.
_OTHERS = ("index", "sentence1", "sentence2")


def read_predictions(path: str | os.PathLike) -> tuple[np.ndarray | None, dict[str, np.ndarray], int]:
  """Reads a file of similarities, plain or gzipped.

  Two forms:
    A TSV such as `test_results.tsv`: a header with `gold` and one or more methods; index, sentence1 and sentence2 are
      optional. "nan" is the gold of a pair that was not annotated.
    One similarity per line, nothing else.

  Args:
    path: the file.

  Returns:
    Gold, float64 [n], or None for the second form; {method: float64 [n]}; and the line number of the first pair.

  Raises:
    DataError: the file is missing, malformed or has no similarities; the message names the line.
  """
  rows = list(lines(path, empty="keep"))
  while rows and not rows[-1][1].strip():
    rows.pop()
  if not rows:
    raise DataError(f"{path} is empty: no similarity in it")
  names = rows[0][1].split("\t")
  if GOLD not in names:
    if len(names) > 1:
      raise DataError(
        f"{path}, line 1: {count(len(names), 'column')} without {GOLD!r} among them, expected a header such as index, "
        f"{GOLD}, without_flow, with_flow; or one similarity a line"
      )
    return None, {SIMILARITY: np.array([_number(text, SIMILARITY, path, number) for number, text in rows])}, 1
  methods = [name for name in names if name not in (GOLD, *_OTHERS)]
  if not methods or len(set(names)) < len(names) or not all(name.strip() for name in names):
    raise DataError(
      f"{path}, line 1: the header is {', '.join(names)[:200]}; expected {GOLD} and one or more methods, each column "
      "with a name of its own"
    )
  columns = {name: [] for name in (GOLD, *methods)}
  for number, text in rows[1:]:
    fields = text.split("\t")
    if len(fields) != len(names):
      raise DataError(f"{path}, line {number}: {count(len(fields), 'column')}, expected {len(names)} as in the header")
    for name, values in columns.items():
      values.append(_number(fields[names.index(name)], name, path, number))
  if len(rows) == 1:
    raise DataError(f"{path} has a header and no pair below it")
  gold = np.array(columns.pop(GOLD))
  infinite = np.flatnonzero(np.isinf(gold))
  if infinite.size:
    raise DataError(
      f"{path}, line {infinite[0] + 2}: {GOLD} is infinite, expected a number, or nan where there is none"
    )
  return gold, {name: np.array(values) for name, values in columns.items()}, 2


def check_predictions(
  path: str | os.PathLike, similarities: Mapping[str, np.ndarray], gold: np.ndarray, first_line: int
) -> None:
  """Checks that every pair with gold has a finite similarity.

  Args:
    path: the file, for messages.
    similarities: {method: [n]}.
    gold: [n], NaN for a pair without gold.
    first_line: line number of the first pair.

  Raises:
    DataError: one is not finite; the message names the line.
  """
  for method, values in similarities.items():
    bad = np.flatnonzero(~np.isfinite(values) & ~np.isnan(gold))
    if bad.size:
      raise DataError(
        f"{path}, line {bad[0] + first_line}: {method} is {values[bad[0]]:g}, expected a finite number, as this pair "
        "has gold"
      )


def _number(field, name, path, line):
  try:
    return math.nan if field.strip().lower() == "nan" else _strict(field)
  except ValueError as error:
    raise DataError(f"{path}, line {line}: {name} is {field[:40]!r}, expected a number") from error


def _strict(field):
  if "_" in field:  # float() reads "1_5" as 15
    raise ValueError(field)
  return float(field)
