"""Users' own text: the task `custom`, and a text file as a corpus for a fit."""

from typing import NamedTuple

import numpy as np
from absl import logging

from bert_flow_tf.data.lines import FilePath, lines, read_number
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import Loaded, Paths
from bert_flow_tf.errors import ConfigError, DataError, naming
from bert_flow_tf.progress import counted

_NAMES = ("sentence", "sentence1", "sentence2", "score")
_EXPECTED = (
  "expected 1 column (a sentence), 2 (sentence1, sentence2) or 3 (sentence1, sentence2, score), separated by tabs, or "
  "a header with these names"
)
_ANY_SCORE = (-1e30, 1e30)  # the squares of larger ones would be infinite in some sums


class _Columns(NamedTuple):
  """The columns of a file; `second` is empty for single sentences, `scores` without scores."""

  first: list[str]
  second: list[str]
  scores: list[float]


@naming("data_dir")
def load(paths: Paths) -> Loaded:
  """Returns the pairs of the task `custom`, from the file `data_dir`: text or TSV, plain or gzipped.

  All lines have the same number of columns: 1 (a sentence), 2 (sentence1, sentence2), or 3 (sentence1, sentence2 and,
  before or after them, score). With a header (sentence; or sentence1, sentence2 and maybe score) they are in any order,
  and others are ignored. Pairs with scores, on any scale, are evaluated; others are for fitting only.

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
  columns = _read(path)
  pairs = _pairs(columns)
  if columns.scores:
    pairs = SentencePairs(columns.first, columns.second, np.array(columns.scores))
    changes = {"eval_split": "test", "scale": (min(columns.scores), max(columns.scores))}
    return Loaded({"test": pairs}, f"{counted(len(pairs), 'scored pair')} of {path}", changes)
  if columns.second:
    return Loaded({"train": pairs}, f"{counted(len(pairs), 'pair')} without scores of {path}")
  return Loaded({"train": pairs}, f"{counted(len(columns.first), 'sentence')} of {path}")


def read_corpus(path: FilePath) -> SentencePairs:
  """Returns the sentences of a file of the task `custom` as pairs without gold; see `pair_up`."""
  return _pairs(_read(path))


def pair_up(sentences: list[str]) -> SentencePairs:
  """Returns pairs for a fit from n single sentences: sentence i and sentence i + n/2, so that each is in one pair.

  The fit uses each side of a pair separately, so any pairing is valid. Neighbors are not paired because they would make
  the sentences of a batch more similar. If n is odd, the first sentence is also paired with the middle one.
  """
  half = (len(sentences) + 1) // 2
  second = sentences[half:] + sentences[: len(sentences) % 2]
  return SentencePairs.without_gold(sentences[:half], second)


def _pairs(columns: _Columns) -> SentencePairs:
  """Returns the sentences as pairs without gold."""
  if not columns.second:
    return pair_up(columns.first)
  return SentencePairs.without_gold(columns.first, columns.second)


def _read(path: FilePath) -> _Columns:
  """Returns the columns of a file."""
  names: list[str] = []
  rows: list[tuple[int, list[str]]] = []
  width, last = 0, 0
  for number, line in lines(path, empty="skip"):
    fields = line.split("\t")
    if width == 0:
      names, width = _header(fields, path, number), len(fields)
    if len(fields) != width:
      raise DataError(
        f"{path}, line {number}: {counted(len(fields), 'column')}, expected {width} as in the lines before, "
        "separated by tabs"
      )
    # Empty lines separate documents of single sentences; elsewhere a pair is missing.
    if width > 1 and number != last + 1:
      raise DataError(f"{path}, line {last + 1}: the line is empty; expected {width} columns, as in the other lines")
    last = number
    if number > 1 or not names:
      rows.append((number, fields))
  if not rows:
    raise DataError(f"{path} is empty; expected sentences")
  if not names:
    names = _names_without_header(rows[0][1], path, rows[0][0])
  return _columns(names, rows, path)


def _header(fields: list[str], path: FilePath, number: int) -> list[str]:
  """Returns the names of the columns if the first line is a header, else an empty list."""
  names = [field.strip().lower() for field in fields]
  if number > 1 or len(set(names)) < len(names):
    return []
  if "sentence" in names or {"sentence1", "sentence2"} <= set(names):
    unread = [name for name in names if name not in _NAMES]
    if unread:
      logging.warning("%s: %s not read: %s", path, counted(len(unread), "column"), ", ".join(unread))
    return names
  # The header of a file of another format, such as CSV or JSON lines, whose lines would be read as sentences.
  if len(names) == 1 and "sentence1" in names[0]:
    raise DataError(f"{path}, line 1: the header is {fields[0][:80]!r}; {_EXPECTED}")
  return []


def _names_without_header(fields: list[str], path: FilePath, number: int) -> list[str]:
  """Returns the names of the columns of a file without a header, whose first line has these fields."""
  if len(fields) == 1:
    return ["sentence"]
  if len(fields) == 2:
    return ["sentence1", "sentence2"]
  if len(fields) != 3:
    raise DataError(f"{path}, line {number}: {counted(len(fields), 'column')}, {_EXPECTED}")
  if _is_number(fields[2]):
    return ["sentence1", "sentence2", "score"]
  if _is_number(fields[0]):
    return ["score", "sentence1", "sentence2"]
  raise DataError(f"{path}, line {number}: neither the first nor the last of 3 columns is a score; {_EXPECTED}")


def _columns(names: list[str], rows: list[tuple[int, list[str]]], path: FilePath) -> _Columns:
  """Returns the columns of rows (line number, fields)."""
  if "sentence" in names:
    place = names.index("sentence")
    return _Columns([fields[place] for _, fields in rows], [], [])
  first, second = names.index("sentence1"), names.index("sentence2")
  columns = _Columns([fields[first] for _, fields in rows], [fields[second] for _, fields in rows], [])
  if "score" in names:
    place = names.index("score")
    for number, fields in rows:
      columns.scores.append(read_number(fields[place], path, number, _ANY_SCORE))
  elif all(map(_is_number, columns.first)) or all(map(_is_number, columns.second)):
    raise DataError(f"{path}: one of the 2 columns has only numbers; {_EXPECTED}")
  return columns


def _is_number(field: str) -> bool:
  try:
    float(field)
  except ValueError:
    return False
  return True
