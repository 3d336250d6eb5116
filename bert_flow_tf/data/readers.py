"""Files of sentence pairs -> SentencePairs; every error names the file and the line.

Lines end at a line feed only: `str.splitlines` would also cut a sentence at U+2028, U+0085 or a form feed.
Fields are separated by tabs without any quoting: a quotation mark is part of the sentence.
"""

import math
import os
import pathlib
from collections.abc import Iterator

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import DataError

_BOM = b"\xef\xbb\xbf"
_TSV_HEADER = ("score", "sentence1", "sentence2")


def read_stsbenchmark(path: str | os.PathLike, scale: tuple[float, float]) -> SentencePairs:
  """Reads a file of the STS benchmark, `sts-{train,dev,test}.csv`, which is tab separated.

  Args:
    path: the file; columns genre, file, year, id, score, sentence1, sentence2; no header. What follows
      (some lines name their sources) is ignored.
    scale: the lowest and the highest score that are allowed.

  Returns:
    SentencePairs, one pair a line, all with a gold score.

  Raises:
    DataError: the file is missing, unreadable, empty or not of this format.
  """
  rows = []
  for number, line in _lines(path):
    fields = line.split("\t")
    if len(fields) < 7:
      raise DataError(
        f"{path}, line {number}: {_count(len(fields), 'column')}, expected at least 7, separated by tabs "
        "(genre, file, year, id, score, sentence1, sentence2)"
      )
    rows.append((_score(fields[4], scale, path, number), fields[5], fields[6]))
  return _pairs(rows, path)


def read_scored_tsv(path: str | os.PathLike, scale: tuple[float, float]) -> SentencePairs:
  """Reads a file of three columns with the header `score<TAB>sentence1<TAB>sentence2`.

  Args:
    path: the file.
    scale: the lowest and the highest score that are allowed.

  Returns:
    SentencePairs, one pair a line after the header, all with a gold score.

  Raises:
    DataError: the file is missing, unreadable, without pairs or not of this format.
  """
  rows = []
  for number, line in _lines(path):
    fields = line.split("\t")
    if number == 1:
      if tuple(fields) != _TSV_HEADER:
        raise DataError(f"{path}, line 1: the header is {line[:80]!r}, expected {chr(9).join(_TSV_HEADER)!r}")
      continue
    if len(fields) != 3:
      raise DataError(
        f"{path}, line {number}: {_count(len(fields), 'column')}, expected 3, separated by tabs "
        f"({', '.join(_TSV_HEADER)})"
      )
    rows.append((_score(fields[0], scale, path, number), fields[1], fields[2]))
  return _pairs(rows, path)


def _pairs(rows: list[tuple[float, str, str]], path) -> SentencePairs:
  """Turns rows of (score, first sentence, second sentence) into SentencePairs; none is an error."""
  if not rows:
    raise DataError(f"{path} is empty: no sentence pair in it")
  scores, sentences_a, sentences_b = zip(*rows, strict=True)
  return SentencePairs(sentences_a, sentences_b, scores)


def _score(field: str, scale: tuple[float, float], path, number: int) -> float:
  """Returns the score of one line, checked against the scale."""
  low, high = scale
  wanted = f"expected a number from {low:g} to {high:g}"
  try:
    # float() reads "1_5" as 15.
    score = math.nan if "_" in field else float(field)
  except ValueError:
    score = math.nan
  if not math.isfinite(score):
    raise DataError(f"{path}, line {number}: the score is {field[:40]!r}, {wanted}")
  if not low <= score <= high:
    raise DataError(f"{path}, line {number}: the score {field.strip()} is outside the scale, {wanted}")
  return score


def _lines(path) -> Iterator[tuple[int, str]]:
  """Yields (number from 1, text without its line break) of each line; empty lines at the end are left out."""
  empty = []
  for number, raw in enumerate(_raw_lines(path), start=1):
    # The last line may lack its line feed; Windows writes a carriage return before it.
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if number == 1:
      raw = raw.removeprefix(_BOM)
    if not raw.strip(b" "):
      empty.append(number)
      continue
    if empty:
      raise DataError(
        f"{path}, line {empty[0]}: the line is empty; expected a sentence pair, since line {number} has one"
      )
    yield number, _text(raw, path, number)


def _raw_lines(path) -> Iterator[bytes]:
  """Yields the lines of a file as bytes, split at line feeds."""
  try:
    with pathlib.Path(path).open("rb") as file:
      yield from file
  except (FileNotFoundError, NotADirectoryError) as error:
    raise DataError(f"{path} does not exist; expected a text file") from error
  except IsADirectoryError as error:
    raise DataError(f"{path} is a folder; expected a text file") from error
  except OSError as error:
    raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def _text(raw: bytes, path, number: int) -> str:
  """Decodes one line."""
  if b"\0" in raw:
    raise DataError(f"{path}, line {number}: a NUL byte; expected text in UTF-8")
  # Also what a file with the line breaks of the old Mac OS, carriage returns alone, would hold.
  if b"\r" in raw:
    raise DataError(f"{path}, line {number}: a carriage return inside the line; expected lines that end in LF or CRLF")
  try:
    return raw.decode("utf-8")
  except UnicodeDecodeError as error:
    raise DataError(
      f"{path}, line {number}: byte 0x{raw[error.start]:02x} at position {error.start + 1} of the line is "
      "not UTF-8; expected text in UTF-8"
    ) from error


def _count(number: int, noun: str) -> str:
  return f"{number} {noun}{'' if number == 1 else 's'}"
