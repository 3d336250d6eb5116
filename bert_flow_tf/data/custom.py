"""Users' own text: the task `custom`, and any text file as a corpus for a fit."""

import math

import numpy as np

from bert_flow_tf.data.lines import FilePath, count, lines, read_number
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import Loaded, Paths
from bert_flow_tf.errors import ConfigError, DataError, naming

# {number of columns of a `custom` file: their names}. A header may name them in another order.
_COLUMNS = {1: ("sentence",), 2: ("sentence1", "sentence2"), 3: ("score", "sentence1", "sentence2")}
_ANY_SCORE = (-math.inf, math.inf)
# Names of the two columns of sentences in the headers of well-known data sets.
_SENTENCE_NAMES = (
  ("sentence1", "sentence2"),
  ("sentence_a", "sentence_b"),
  ("question1", "question2"),
  ("question", "sentence"),
  ("premise", "hypothesis"),
  ("#1 string", "#2 string"),
)
# In a file of at least this many lines, a column holds labels if under 1% of its values are distinct.
_MIN_LINES_FOR_LABELS = 200


@naming("data_dir")
def load(paths: Paths) -> Loaded:
  """Loads the task `custom` from the file `data_dir`: text or TSV, plain or gzipped.

  All lines have the same number of columns:
    1: a sentence. Used for fitting only; empty lines, such as those between documents, are skipped.
    2: sentence1, sentence2. Used for fitting only.
    3: score, sentence1, sentence2, or sentence1, sentence2, score; the column of numbers holds the scores, on any
      scale. Used for fitting and evaluation.
  A file of 2 or 3 columns may begin with a header that names them, in any order. The sentences may also have their
  names in SICK, QQP, QNLI, SNLI or MRPC (`_SENTENCE_NAMES`).

  Raises:
    ConfigError: data_dir is missing.
    DataError: the file is missing, malformed or empty.
  """
  path = paths.data_dir
  if path is None:
    raise ConfigError(
      "data_dir: missing; the task custom needs a text file or TSV of sentences, pairs or scored pairs",
      argument="data_dir",
    )
  header, rows = _read_rows(path)
  width = len(rows[0][1])
  if width not in _COLUMNS:
    raise DataError(
      f"{path}, line {rows[0][0]}: {count(width, 'column')}, expected 1 (a sentence), 2 (sentence1, sentence2) or 3 "
      "(score, sentence1, sentence2), separated by tabs"
    )
  if width == 1:
    sentences = [fields[0] for _, fields in rows]
    return Loaded({"train": pair_up(sentences)}, f"{count(len(sentences), 'sentence')} of {path}")
  names = header or _COLUMNS[width]
  if set(names) != set(_COLUMNS[width]):
    raise DataError(f"{path}, line 1: the header is {', '.join(names)}; expected {', '.join(_COLUMNS[width])}")
  first, second = ([fields[names.index(name)] for _, fields in rows] for name in ("sentence1", "sentence2"))
  if width == 2:
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
      raise DataError(
        f"{path}, line {number}: {count(len(fields), 'column')}, expected {width} as in the lines before, separated by "
        "tabs"
      )
    if width > 1 and number != last + 1:
      raise DataError(f"{path}, line {last + 1}: the line is empty; expected {width} columns, as in the other lines")
    last = number
    lowered = [field.strip().lower() for field in fields]
    pair = next((pair for pair in _SENTENCE_NAMES if set(pair) <= set(lowered)), None)
    if number == 1 and pair and len(set(lowered)) == width:
      names = [{pair[0]: "sentence1", pair[1]: "sentence2"}.get(name, name) for name in lowered]
      continue
    rows.append((number, fields))
  if not rows:
    raise DataError(f"{path} is empty; expected sentences")
  return names, rows


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
