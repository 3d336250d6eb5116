"""Readers of files of sentence pairs; each error names the file and the line.

Fields are separated by tabs, without quoting: a quotation mark is part of the sentence.
"""

import math
from collections.abc import Callable

import numpy as np

from bert_flow_tf.data.lines import FilePath, count, lines, read_number
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import DataError

_TSV_HEADER = ("score", "sentence1", "sentence2")

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
  path: FilePath, columns: tuple[str, str], score: tuple[str, ScoreOf] | None = None, incomplete: float = 0.0
) -> tuple[SentencePairs, int]:
  """Reads columns of a file whose first line names its columns.

  Args:
    path: the file.
    columns: names of the columns of the first and the second sentences.
    score: name of the score column, and the function that converts its fields; None for pairs without gold.
    incomplete: the largest fraction of lines that may be malformed; such lines are left out. Some lines of GLUE's
      files are incomplete.

  Returns:
    SentencePairs, one pair per line after the header, and the number of lines left out.

  Raises:
    DataError: the file is missing, unreadable, without pairs, lacks a column or has malformed lines.
  """
  names, rows, broken = None, [], []
  for number, line in lines(path, "skip" if incomplete else "refuse", broken if incomplete else None):
    fields = line.split("\t")
    if names is None:
      names = fields
      places = [_place(name, names, path, number) for name in (*columns, *([score[0]] if score else []))]
      continue
    try:
      if len(fields) != len(names):
        raise DataError(
          f"{path}, line {number}: {count(len(fields), 'column')}, expected {len(names)}, separated by tabs "
          f"({', '.join(names)})"
        )
      gold = score[1](fields[places[2]], path, number) if score else math.nan
    except DataError as error:
      if not incomplete:
        raise
      broken.append(error)
    else:
      rows.append((gold, fields[places[0]], fields[places[1]]))
  if broken and len(broken) > incomplete * (len(rows) + len(broken)):
    raise broken[0]
  return pairs_of(rows, path), len(broken)


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


def _place(name: str, names: list[str], path: FilePath, number: int) -> int:
  """Returns the position of a column in the header, which is line `number`."""
  if names.count(name) != 1:
    times = "twice" if name in names else "not"
    raise DataError(f"{path}, line {number}: the column {name!r} is {times} among {', '.join(names)[:200]!r}")
  return names.index(name)
