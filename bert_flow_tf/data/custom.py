"""Users' own text: the task `custom`, and any text file as a corpus for a fit."""

import csv
import re

import numpy as np
from absl import logging

from bert_flow_tf.data.lines import FilePath, count, lines, read_number
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import Loaded, Paths
from bert_flow_tf.errors import ConfigError, DataError, naming

# {number of columns of a `custom` file without a header: their names}.
_COLUMNS = {1: ("sentence",), 2: ("sentence1", "sentence2"), 3: ("score", "sentence1", "sentence2")}
_ANY_SCORE = (-1e30, 1e30)  # the squares of larger ones would be infinite in some sums
# Names of the two columns of sentences in the headers of well-known data sets.
_SENTENCE_NAMES = (
  ("sentence1", "sentence2"),
  ("sentence_a", "sentence_b"),
  ("question1", "question2"),
  ("question", "sentence"),
  ("premise", "hypothesis"),
  ("#1 string", "#2 string"),
)
# Other names of the only column of sentences, and of the scores.
_OTHER_NAMES = {"text": "sentence", **dict.fromkeys(("relatedness_score", "similarity", "gold"), "score")}
# In a file of at least this many lines, a column holds labels if under 1% of its values are distinct.
_MIN_LINES_FOR_LABELS = 200
_QUOTED = re.compile('"((?:[^"]|"")*)"')
# Separators of columns other than tabs, and the number of lines that are searched for them.
_SEPARATORS = {",": "commas", ";": "semicolons", "|": "bars"}
_CHECKED_LINES = 1000


@naming("data_dir")
def load(paths: Paths) -> Loaded:
  """Loads the task `custom` from the file `data_dir`: text or TSV, plain or gzipped.

  All lines have the same number of columns:
    1: a sentence. Used for fitting only; empty lines, such as those between documents, are skipped.
    2: sentence1, sentence2. Used for fitting only.
    3: score, sentence1, sentence2, or sentence1, sentence2, score; the column of numbers holds the scores, on any
      scale. Used for fitting and evaluation.
  With a header the columns are in any order, and others are ignored: sentence; or sentence1 and sentence2, or their
  names in SICK, QQP, QNLI, SNLI or MRPC (`_SENTENCE_NAMES`), with or without score. Quoted cells lose their quotes.

  Raises:
    ConfigError: data_dir is missing.
    DataError: the file is missing, malformed, empty, of JSON lines, or its columns are separated by commas.
  """
  path = paths.data_dir
  if path is None:
    raise ConfigError(
      "data_dir: missing; the task custom needs a text file or TSV of sentences, pairs or scored pairs",
      argument="data_dir",
    )
  header, rows = _read_rows(path)
  width = len(rows[0][1])
  if header is None and width not in _COLUMNS:
    raise DataError(
      f"{path}, line {rows[0][0]}: {count(width, 'column')}, expected 1 (a sentence), 2 (sentence1, sentence2) or 3 "
      "(score, sentence1, sentence2), separated by tabs, or a header with these names"
    )
  names = header or _COLUMNS[width]
  unread = [name for name in names if name not in ("sentence", "sentence1", "sentence2", "score")]
  if unread:
    logging.warning("%s: %s not read: %s", path, count(len(unread), "column"), ", ".join(unread))
  if "sentence" in names:
    sentences = [fields[names.index("sentence")] for _, fields in rows]
    return Loaded({"train": pair_up(sentences)}, f"{count(len(sentences), 'sentence')} of {path}")
  first, second = ([fields[names.index(name)] for _, fields in rows] for name in ("sentence1", "sentence2"))
  if "score" not in names:
    numbers = next((name for name, side in (("first", first), ("second", second)) if _holds_numbers(tuple(side))), "")
    if numbers and header is None:
      raise DataError(
        f"{path}: the {numbers} of the 2 columns has only numbers; expected sentence1, sentence2, or a header that "
        "names the columns, such as id, sentence"
      )
    pairs = SentencePairs.without_gold(first, second)
    return Loaded({"train": pairs}, f"{count(len(rows), 'pair')} without scores of {path}")
  place = names.index("score")
  if header is None and _score_is_last([fields for _, fields in rows]):
    place, first, second = 2, *([fields[column] for _, fields in rows] for column in (0, 1))
  scores = [_score(fields, place, path, number) for number, fields in rows]
  changes = {"eval_split": "test", "scale": (min(scores), max(scores))}
  pairs = SentencePairs(first, second, np.array(scores))
  return Loaded({"test": pairs}, f"{count(len(rows), 'scored pair')} of {path}", changes)


def read_corpus(path: FilePath) -> SentencePairs:
  """Reads any text file or TSV, plain or gzipped, as pairs without gold.

  If the header has the names of the sentences in STS, SICK, QQP, QNLI, SNLI or MRPC, these two columns are the pairs.
  Otherwise, columns of numbers or of few distinct values (labels) are ignored. Two remaining columns are pairs; the
  sentences of one or of more than two are paired by `pair_up`, without empty sentences. Empty lines of a file with one
  column are skipped.

  Raises:
    DataError: the file is missing, malformed, or has no sentences.
  """
  names, rows = _read_rows(path)
  if names is not None and "sentence" in names:
    return pair_up([fields[names.index("sentence")] for _, fields in rows])
  if names is not None:
    places = (names.index(name) for name in ("sentence1", "sentence2"))
    return SentencePairs.without_gold(*([fields[place] for _, fields in rows] for place in places))
  columns = list(zip(*(fields for _, fields in rows), strict=True))
  # A word above a column of numbers is a column name, so the first line is a header.
  has_header = any(_holds_numbers(column[1:]) and not _is_number(column[0]) for column in columns)
  columns = [column[has_header:] for column in columns]
  columns = [column for column in columns if any(map(str.strip, column)) and not _holds_numbers(column)]
  columns = [column for column in columns if not _holds_labels(column)] or columns
  if len(columns) == 2:
    return SentencePairs.without_gold(*columns)
  sentences = [sentence for column in columns for sentence in column if sentence.strip()]
  if not sentences:
    raise DataError(f"{path} has no sentences: {count(len(rows[0][1]), 'column')}, empty or of numbers")
  return pair_up(sentences)


def pair_up(sentences: list[str]) -> SentencePairs:
  """Returns pairs for a fit from n single sentences: sentence i and sentence i + n/2, so that each is in one pair.

  The fit uses each side of a pair separately, so any pairing is valid. Neighbors are not paired because they would make
  the sentences of a batch more similar. If n is odd, the first sentence is also paired with the middle one.
  """
  half = (len(sentences) + 1) // 2
  return SentencePairs.without_gold(sentences[:half], (*sentences[half:], *sentences[: len(sentences) % 2]))


def _read_rows(path: FilePath) -> tuple[list[str] | None, list[tuple[int, list[str]]]]:
  """Returns the header's names (None without a header) and (line number, fields) of the other lines."""
  names, rows, last = None, [], 0
  for number, line in lines(path, empty="skip"):
    fields = line.split("\t")
    width = len(rows[0][1] if rows else names or fields)
    if len(fields) != width:
      quoted = ", and no tab or line break in a quoted cell" if '"' in line else ""
      raise DataError(
        f"{path}, line {number}: {count(len(fields), 'column')}, expected {width} as in the lines before, separated by "
        f"tabs{quoted}"
      )
    if width > 1 and number != last + 1:
      raise DataError(f"{path}, line {last + 1}: the line is empty; expected {width} columns, as in the other lines")
    last = number
    names = _header(fields) if number == 1 else names
    if number > 1 or names is None:
      rows.append((number, fields))
  if not rows:
    raise DataError(f"{path} is empty; expected sentences")
  if len(rows[0][1]) == 1:
    _check_is_text(path, [*(names or ()), *(fields[0] for _, fields in rows[:_CHECKED_LINES])])
    return names, rows
  if any('"' in field for _, fields in rows for field in fields):
    columns = [_unquoted(column) for column in zip(*(fields for _, fields in rows), strict=True)]
    rows = [(number, list(fields)) for (number, _), *fields in zip(rows, *columns, strict=True)]
  return names, rows


def _header(fields: list[str]) -> list[str] | None:
  """Returns the names of the columns if the first line is a header, else None."""
  names = [field.strip().strip('"').lower() for field in fields]
  pair = next((pair for pair in _SENTENCE_NAMES if set(pair) <= set(names)), None)
  if len(set(names)) < len(names) or not (pair or {"sentence", "text"} & set(names)):
    return None
  if pair is None:
    return [_OTHER_NAMES.get(name, name) for name in names]
  return [{pair[0]: "sentence1", pair[1]: "sentence2"}.get(name, _OTHER_NAMES.get(name, name)) for name in names]


def _unquoted(column: tuple[str, ...]) -> list[str]:
  """Returns a column without the quotes that a writer of CSV puts around cells, and doubles inside them.

  They are around all cells, or around those that contain a quote. A single cell in quotes may be a quotation.
  """
  found = [_QUOTED.fullmatch(field) for field in column]
  every = all(match or not field for match, field in zip(found, column, strict=True))
  return [
    match[1].replace('""', '"') if match and (every or '""' in match[1]) else field
    for match, field in zip(found, column, strict=True)
  ]


def _check_is_text(path: FilePath, rows: list[str]) -> None:
  """Raises DataError if the lines of a file without tabs are JSON objects, or rows of columns with other separators.

  They are rows if the first line is a header, or if each has the same number of columns, one of them of numbers.
  """
  if all(row.startswith("{") and row.rstrip().endswith("}") for row in rows):
    raise DataError(f"{path}: its lines are JSON; expected a sentence a line, or columns with tabs between them")
  for separator, kind in _SEPARATORS.items():
    try:
      table = [next(csv.reader([row], delimiter=separator), []) for row in rows]
    except csv.Error:  # a very long line
      continue
    is_table = len(table) > 1 and len({len(fields) for fields in table}) == 1 < len(table[0])
    numbers = is_table and any(_holds_numbers(column[len(table) > 2 :]) for column in zip(*table, strict=True))
    if numbers or (len(table[0]) > 1 and _header(table[0]) is not None):
      raise DataError(
        f'{path}: {kind} separate its columns, expected tabs; convert it: python -c "import csv, sys; csv.writer('
        f"sys.stdout, 'excel-tab').writerows(csv.reader(sys.stdin, delimiter='{separator}'))\" < FILE.csv > FILE.tsv"
      )


def _score_is_last(rows: list[list[str]]) -> bool:
  """Returns whether the last of three columns holds the scores; if both ends are mixed, the first line decides."""
  first, last = ([_is_number(fields[column]) for fields in rows] for column in (0, -1))
  return (all(last), last[0]) > (all(first), first[0])


def _score(fields: list[str], place: int, path: FilePath, number: int) -> float:
  try:
    return read_number(fields[place], path, number, _ANY_SCORE)
  except DataError as error:
    if number > 1:
      raise
    raise DataError(
      f"{error} in the first or last column; in a header, expected the names sentence1, sentence2, score"
    ) from error


def _holds_numbers(column: tuple[str, ...]) -> bool:
  """Returns whether a column has fields that are not empty, all of them numbers."""
  filled = [field for field in column if field.strip()]
  return bool(filled) and all(map(_is_number, filled))


def _holds_labels(column: tuple[str, ...]) -> bool:
  """Returns whether a column has few distinct values."""
  return len(column) >= _MIN_LINES_FOR_LABELS and len(set(column)) < len(column) / 100


def _is_number(field: str) -> bool:
  try:
    float(field)
  except ValueError:
    return False
  return True
