"""Anybody's own text: the task `custom`, and any file as a corpus to fit a flow on."""

import math

import numpy as np

from bert_flow_tf.data.lines import FilePath, count, lines, read_number
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import Loaded, Paths
from bert_flow_tf.errors import ConfigError, DataError

# The columns of a file by their number; `custom` takes no other. A header may name them in another order.
_COLUMNS = {1: ("sentence",), 2: ("sentence1", "sentence2"), 3: ("score", "sentence1", "sentence2")}
_ANY_SCORE = (-math.inf, math.inf)
# What the two sentences are called in the headers of well-known sets.
_SENTENCE_NAMES = (
  ("sentence1", "sentence2"),
  ("sentence_a", "sentence_b"),
  ("question1", "question2"),
  ("question", "sentence"),
  ("premise", "hypothesis"),
  ("#1 string", "#2 string"),
)
# Of at least so many lines, a column with fewer values than a hundredth of them holds labels, not sentences.
_LINES_THAT_TELL_LABELS = 200


def load(paths: Paths) -> Loaded:
  """Loads the task `custom` from the file that --data_dir names, a text file or TSV, perhaps gzipped.

  The number of columns, the same in every line, says what it is:
    1: a sentence a line. For fitting alone; empty lines, as between documents, are skipped.
    2: sentence1, sentence2. For fitting alone.
    3: score, sentence1, sentence2, or sentence1, sentence2, score: the column of numbers tells which. Fitted on and
      evaluated; the scores may have any scale.
  Of 2 and 3 columns the first line may be a header of these names, which then may stand in any order; the sentences'
  may also be those of SICK, QQP, QNLI, SNLI or MRPC (`_SENTENCE_NAMES`).

  Raises:
    ConfigError: no file is named.
    DataError: it is missing, malformed or empty.
  """
  path = paths.data_dir
  if path is None:
    raise ConfigError(
      "data_dir is required for the task custom; expected a text file or TSV of sentences, pairs or scored pairs",
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
    others = [name for name in names if name not in _COLUMNS[width]]
    raise DataError(
      f"{path}, line 1: the header names a column {others[0]}; beside the sentences' expected "
      f"{'score' if width > 2 else 'none'}"
    )
  first, second = ([fields[names.index(name)] for _, fields in rows] for name in ("sentence1", "sentence2"))
  if width == 2:
    pairs = SentencePairs.without_gold(first, second)
    return Loaded({"train": pairs}, f"{count(len(rows), 'pair')} without scores of {path}")
  place = names.index("score")
  if header is None and _score_stands_last([fields for _, fields in rows]):
    place, first, second = 2, *([fields[column] for _, fields in rows] for column in (0, 1))
  scores = [_score(fields, place, path, number) for number, fields in rows]
  changes = {"eval_split": "test", "scale": (min(scores), max(scores))}
  pairs = SentencePairs(first, second, np.array(scores))
  return Loaded({"test": pairs}, f"{count(len(rows), 'scored pair')} of {path}", changes)


def read_corpus(path: FilePath) -> SentencePairs:
  """Reads any text file or TSV, perhaps gzipped, as pairs to fit a flow on, without gold.

  A header that names two columns as STS, SICK, QQP, QNLI, SNLI or MRPC do says which two are the pairs. Else every
  column holds sentences that does not hold numbers alone, below its name if it has one, and has more than a few values:
  two such columns are pairs, one or more than two are lone sentences, paired as by `pair_up`. Empty lines of a file of
  one column are skipped, and so are empty lone sentences.

  Raises:
    DataError: the file is missing, malformed, or has no sentences.
  """
  names, rows = _read_rows(path)
  if names is not None:
    places = (names.index(name) for name in ("sentence1", "sentence2"))
    return SentencePairs.without_gold(*([fields[place] for _, fields in rows] for place in places))
  columns = list(zip(*(fields for _, fields in rows), strict=True))
  # A word above nothing but numbers is the name of its column, and so is what stands beside it.
  has_header = any(_holds_numbers(column[1:]) and not _is_number(column[0]) for column in columns)
  columns = [column[has_header:] for column in columns]
  columns = [column for column in columns if any(map(str.strip, column)) and not _holds_numbers(column)]
  columns = [column for column in columns if not _holds_labels(column)] or columns
  if len(columns) == 2:
    return SentencePairs.without_gold(*columns)
  sentences = [sentence for column in columns for sentence in column if sentence.strip()]
  if not sentences:
    raise DataError(f"{path} has no sentences: {count(len(rows[0][1]), 'column')} of numbers or of nothing")
  return pair_up(sentences)


def pair_up(sentences: list[str]) -> SentencePairs:
  """Pairs lone sentences, since a fit takes pairs: sentence i with sentence i + n/2, so that each is in one pair.

  The fit looks at each side of a pair on its own, so that any pairing will do; neighbours would make a batch's
  sentences more alike. Of an odd number, the first sentence makes a second appearance, beside the one in the middle.
  """
  half = (len(sentences) + 1) // 2
  return SentencePairs.without_gold(sentences[:half], (*sentences[half:], *sentences[: len(sentences) % 2]))


def _read_rows(path: FilePath) -> tuple[list[str] | None, list[tuple[int, list[str]]]]:
  """Returns the names in the header, None without one, and (line number, fields) of the other lines."""
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
      raise DataError(f"{path}, line {last + 1}: the line is empty; expected {width} columns, since others have them")
    last = number
    lowered = [field.strip().lower() for field in fields]
    pair = next((pair for pair in _SENTENCE_NAMES if set(pair) <= set(lowered)), None)
    if number == 1 and pair and len(set(lowered)) == width:
      names = [{pair[0]: "sentence1", pair[1]: "sentence2"}.get(name, name) for name in lowered]
      continue
    rows.append((number, fields))
  if not rows:
    raise DataError(f"{path} is empty: no sentence in it")
  return names, rows


def _score_stands_last(rows: list[list[str]]) -> bool:
  """Whether of three columns the last holds the numbers; the first line decides where no column holds them alone."""
  first, last = ([_is_number(fields[column]) for fields in rows] for column in (0, -1))
  return (all(last), last[0]) > (all(first), first[0])


def _score(fields: list[str], place: int, path: FilePath, number: int) -> float:
  try:
    return read_number(fields[place], path, number, _ANY_SCORE)
  except DataError as error:
    if number > 1:
      raise
    raise DataError(
      f"{error}, in the first column or in the last; with other columns, begin the file with a line that names them: "
      "sentence1, sentence2, score"
    ) from error


def _holds_numbers(column: tuple[str, ...]) -> bool:
  """Whether all that stands in a column, and something does, are numbers."""
  filled = [field for field in column if field.strip()]
  return bool(filled) and all(map(_is_number, filled))


def _holds_labels(column: tuple[str, ...]) -> bool:
  """Whether a column has few values for its many lines."""
  return len(column) >= _LINES_THAT_TELL_LABELS and len(set(column)) < len(column) / 100


def _is_number(field: str) -> bool:
  try:
    float(field)
  except ValueError:
    return False
  return True
