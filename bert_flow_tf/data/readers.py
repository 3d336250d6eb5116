"""Readers of files of sentence pairs; each error names the file and the line.

Fields are separated by tabs, without quoting: a quotation mark is part of the sentence.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from bert_flow_tf.data.lines import FilePath, count, lines, read_number
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import DataError

_TSV_HEADER = ("score", "sentence1", "sentence2")

# Some lines of GLUE's files are malformed.
_MALFORMED_LINES_ALLOWED = 0.001

# (field, path, line number) -> its score; raises DataError.
ScoreOf = Callable[[str, FilePath, int], float]


def read_stsbenchmark(path: FilePath, scale: tuple[float, float]) -> SentencePairs:
  """Reads a file of the STS benchmark, `sts-{train,dev,test}.csv`, which is tab separated.

  Args:
    path: the file, with columns genre, file, year, id, score, sentence1, sentence2 and no header. Further columns, such
      as sources, are ignored.
    scale: the lowest and the highest allowed score.

  Returns:
    SentencePairs, one pair per line, all with a gold score.

  Raises:
    DataError: the file is missing, unreadable, empty or not of this format.
  """
  rows = []
  for number, line in lines(path):
    fields = line.split("\t")
    if len(fields) < 7:
      raise DataError(
        f"{path}, line {number}: {count(len(fields), 'column')}, expected at least 7, separated by tabs "
        "(genre, file, year, id, score, sentence1, sentence2)"
      )
    rows.append((read_number(fields[4], path, number, scale), fields[5], fields[6]))
  return pairs_of(rows, path)


def read_scored_tsv(path: FilePath, scale: tuple[float, float]) -> SentencePairs:
  """Reads a file of three columns with the header `score<TAB>sentence1<TAB>sentence2`.

  Args:
    path: the file.
    scale: the lowest and the highest allowed score.

  Returns:
    SentencePairs, one pair per line after the header, all with a gold score.

  Raises:
    DataError: the file is missing, unreadable, without pairs or not of this format.
  """
  rows = []
  for number, line in lines(path):
    fields = line.split("\t")
    if number == 1:
      if tuple(fields) != _TSV_HEADER:
        raise DataError(f"{path}, line 1: the header is {line[:80]!r}, expected {chr(9).join(_TSV_HEADER)!r}")
      continue
    if len(fields) != 3:
      raise DataError(
        f"{path}, line {number}: {count(len(fields), 'column')}, expected 3, separated by tabs "
        f"({', '.join(_TSV_HEADER)})"
      )
    rows.append((read_number(fields[0], path, number, scale), fields[1], fields[2]))
  return pairs_of(rows, path)


def read_sts(input_path: FilePath, gs_path: FilePath, scale: tuple[float, float]) -> SentencePairs:
  """Reads a subset of a SemEval STS task: its STS.input and STS.gs file.

  Args:
    input_path: two tab-separated sentences per line; further columns, such as sources, are ignored.
    gs_path: the score on the same line, or an empty line if the pair was not annotated.
    scale: the lowest and the highest allowed score.

  Returns:
    SentencePairs, one pair per line; NaN for a pair without gold.

  Raises:
    DataError: a file is missing, unreadable, empty or malformed, or the two differ in length.
  """
  sentences = []
  for number, line in lines(input_path):
    fields = line.split("\t")
    if len(fields) < 2:
      raise DataError(f"{input_path}, line {number}: 1 column, expected 2 sentences, separated by a tab")
    sentences.append(fields[:2])
  # An empty line at the end is a pair without gold, or belongs to empty lines at the end of the input.
  fields = list(lines(gs_path, empty="keep"))
  if len(fields) < len(sentences) or any(field.strip() for _, field in fields[len(sentences) :]):
    raise DataError(f"{gs_path} has {count(len(fields), 'line')}, {input_path} {count(len(sentences), 'pair')}")
  scores = [
    read_number(field, gs_path, number, scale) if field.strip() else math.nan
    for number, field in fields[: len(sentences)]
  ]
  return pairs_of([(score, a, b) for score, (a, b) in zip(scores, sentences, strict=True)], input_path)


def read_table(
  path: FilePath,
  columns: tuple[str, str],
  score: tuple[str, ScoreOf] | None = None,
  places: Sequence[int] = (),
  hidden: bool = False,
) -> tuple[SentencePairs, int]:
  """Reads columns of a file whose first line names its columns.

  With `places`, a file is read as the published code reads it: by these positions if the header has none of the names;
  lines that are too short are left out, further columns are ignored. Up to a thousandth of the lines may be malformed
  in another way, and are left out too. Without `places`, each such line is an error.

  Args:
    path: the file.
    columns: names of the columns of the first and the second sentences.
    score: name of the score column, and the function that converts its fields; None for pairs without gold.
    places: positions of the columns of `columns` and `score` in the published code; -1 is the last column.
    hidden: whether the score column may be missing, as in test files of GLUE; the pairs then have no gold.

  Returns:
    SentencePairs, one pair per line after the header, and the number of lines left out.

  Raises:
    DataError: the file is missing, unreadable, without pairs, lacks a column or has malformed lines.
  """
  names, rows, short, broken = None, [], 0, []
  for number, line in lines(path, "skip" if places else "refuse", broken if places else None):
    fields = line.split("\t")
    if names is None:
      names = fields
      score = None if hidden and score and score[0] not in names else score
      used = _positions(names, columns, score, places, path, number)
      continue
    if places and len(fields) <= max(used):
      short += 1
      continue
    try:
      if not places and len(fields) != len(names):
        raise DataError(
          f"{path}, line {number}: {count(len(fields), 'column')}, expected {len(names)}, separated by tabs "
          f"({', '.join(names)})"
        )
      gold = score[1](fields[used[2]], path, number) if score else math.nan
    except DataError as error:
      if not places:
        raise
      broken.append(error)
    else:
      rows.append((gold, fields[used[0]], fields[used[1]]))
  if len(broken) > _MALFORMED_LINES_ALLOWED * (len(rows) + len(broken)):
    raise broken[0]
  if short and not rows:
    raise DataError(
      f"{path}: all {count(short, 'line')} after the header have too few columns; expected at least {max(used) + 1}, "
      "separated by tabs"
    )
  return pairs_of(rows, path), short + len(broken)


def left_out(number: int, file: str) -> list[str]:
  """Returns the note about the lines that `read_table` left out of a file, if any."""
  return [f"{count(number, 'malformed line')} of {file} left out"] * bool(number)


def label_reader(labels: dict[str, float]) -> ScoreOf:
  """Returns the `ScoreOf` of a column of labels: {label: score}."""

  def score_of(field: str, path: FilePath, number: int) -> float:
    if field not in labels:
      raise DataError(f"{path}, line {number}: the label is {field[:40]!r}, expected {' or '.join(labels)}")
    return labels[field]

  return score_of


def pairs_of(rows: list[tuple[float, str, str]], path: FilePath) -> SentencePairs:
  """Returns SentencePairs of rows (score, first sentence, second sentence).

  Raises:
    DataError: rows is empty.
  """
  if not rows:
    raise DataError(f"{path} is empty; expected sentence pairs")
  scores, sentences_a, sentences_b = zip(*rows, strict=True)
  return SentencePairs(sentences_a, sentences_b, np.array(scores, np.float64))


def _positions(
  names: list[str],
  columns: tuple[str, str],
  score: tuple[str, ScoreOf] | None,
  places: Sequence[int],
  path: FilePath,
  number: int,
) -> Sequence[int]:
  """Returns the positions of the columns of sentences and score in the header `names`, which is line `number`."""
  wanted = (*columns, *([score[0]] if score else []))
  if not places or set(wanted) & set(names):
    return [_place(name, names, path, number) for name in wanted]
  if score and len(names) > max(places) and is_score(names[places[2]], score[1]):
    raise DataError(f"{path}, line {number}: the line is a pair; expected a header, such as {', '.join(wanted)}")
  return places[: len(wanted)]


def is_score(field: str, score_of: ScoreOf) -> bool:
  """Returns whether a field can be converted to a score."""
  try:
    score_of(field, "", 0)
  except DataError:
    return False
  return True


def _place(name: str, names: list[str], path: FilePath, number: int) -> int:
  """Returns the position of a column in the header, which is line `number`."""
  if names.count(name) != 1:
    times = "twice" if name in names else "not"
    raise DataError(f"{path}, line {number}: the column {name!r} is {times} among {', '.join(names)[:200]!r}")
  return names.index(name)
