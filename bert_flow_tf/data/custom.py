"""Users' own text, read strictly by its header: the task `custom`, and a text file as a corpus for a fit."""

import dataclasses

import numpy as np
from absl import logging

from bert_flow_tf.data.lines import FilePath, line_error, lines, read_number
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import Paths, TaskData, TaskSpec
from bert_flow_tf.errors import ConfigError, DataError, naming
from bert_flow_tf.progress import counted

# {number of columns: their names in a file without a header}; the score may also be the first of 3.
_NAMES = {1: ["sentence"], 2: ["sentence1", "sentence2"], 3: ["sentence1", "sentence2", "score"]}
_EXPECTED = (
  "expected 1 column (a sentence), 2 (sentence1, sentence2) or 3 (sentence1, sentence2, score), separated by tabs, or "
  "a header with these names"
)
# Files of other formats, whose syntax would be read as sentences.
_OTHER_FORMATS = (".csv", ".json", ".jsonl", ".ndjson", ".parquet")


@naming("data_dir")
def load(spec: TaskSpec, paths: Paths) -> TaskData:
  """Returns the pairs of the file `data_dir`; those with scores, on any scale, are evaluated."""
  if paths.data_dir is None:
    message = "data_dir: missing; the task custom needs a text file or TSV of sentences, pairs or scored pairs"
    raise ConfigError(message, argument="data_dir")
  pairs, source = read_pairs(paths.data_dir)
  if np.isnan(pairs.scores).all():
    return TaskData(spec, {"train": pairs}, source)
  scale = (np.nanmin(pairs.scores), np.nanmax(pairs.scores))
  return TaskData(dataclasses.replace(spec, eval_split="test", scale=scale), {"test": pairs}, source)


def pair_up(sentences: list[str]) -> SentencePairs:
  """Returns pairs for a fit, which uses each side alone: sentence i and i + n/2, since neighbors are more similar."""
  half = (len(sentences) + 1) // 2
  return SentencePairs.without_gold(sentences[:half], sentences[half:] + sentences[: len(sentences) % 2])


def read_pairs(path: FilePath) -> tuple[SentencePairs, str]:
  """Returns the pairs of a file of the task `custom`, NaN without scores, and a description such as "9 sentences of F".

  All lines have the same columns: a sentence, sentence1 and sentence2, or both with score before or after them, which
  is empty for a pair without gold. With a header they are in any order, and others are ignored. Empty lines between
  single sentences are skipped.
  """
  names: list[str] = []
  # {name of a column: its fields}, and the numbers of their lines.
  columns: dict[str, list[str]] = {}
  numbers: list[int] = []
  for number, line in lines(path, empty="skip"):
    fields = line.split("\t")
    is_header = False
    if not names:
      names, is_header = _names_of(fields, path, number)
      columns = {name: [] for name in names}
      last = 0
    if len(fields) != len(names):
      columns_here = counted(len(fields), "column")
      raise line_error(path, number, f"{columns_here}, expected {len(names)} as in the lines before, separated by tabs")
    if len(names) > 1 and number != last + 1:
      raise line_error(path, last + 1, f"the line is empty; expected {len(names)} columns, as in the other lines")
    last = number
    if not is_header:
      numbers.append(number)
      for name, field in zip(names, fields, strict=True):
        columns[name].append(field)
  if not numbers:
    raise DataError(f"{path} is empty; expected sentences")
  # Single sentences, scored pairs, or pairs without scores.
  if "sentence" in columns:
    return pair_up(columns["sentence"]), f"{counted(len(numbers), 'sentence')} of {path}"
  first, second = columns["sentence1"], columns["sentence2"]
  if "score" in columns:
    scores = np.full(len(numbers), np.nan)
    for row, field in enumerate(columns["score"]):
      if field.strip():
        scores[row] = read_number(field, path, numbers[row])
    _hide(scores, path)
    return SentencePairs(first, second, scores), f"{counted(len(numbers), 'scored pair')} of {path}"
  if all(map(_is_number, first)) or all(map(_is_number, second)):
    raise DataError(f"{path}: one of the 2 columns has only numbers; {_EXPECTED}")
  return SentencePairs.without_gold(first, second), f"{counted(len(numbers), 'unscored pair')} of {path}"


def _names_of(fields: list[str], path: FilePath, number: int) -> tuple[list[str], bool]:
  """Returns the names of the columns by the first line, and whether it is a header."""
  names = [field.strip().lower() for field in fields]
  is_header = "sentence" in names or {"sentence1", "sentence2"} <= set(names)
  if is_header and number == 1 and len(set(names)) == len(names):
    unread = [name for name in names if name not in ("sentence", "sentence1", "sentence2", "score")]
    if unread:
      logging.warning("%s: %s not read: %s", path, counted(len(unread), "column"), ", ".join(unread))
    return names, True
  file_name = str(path).lower().removesuffix(".gz")
  if len(names) == 1 and ("sentence1" in names[0] or file_name.endswith(_OTHER_FORMATS)):
    raise line_error(path, number, f"the line is {fields[0][:80]!r}, without a tab; {_EXPECTED}")
  if len(names) == 3 and not _is_number(fields[2]) and (fields[2].strip() or _is_number(fields[0])):
    return ["score", "sentence1", "sentence2"], False
  if len(names) not in _NAMES:
    raise line_error(path, number, f"{len(names)} columns, {_EXPECTED}")
  return _NAMES[len(names)], False


def _is_number(field: str) -> bool:
  try:
    float(field.replace(",", "."))  # a decimal comma is rejected later, as a score
  except ValueError:
    return False
  return True


def _hide(scores: np.ndarray, path: FilePath) -> None:
  """Replaces scores of -1 by NaN, with which GLUE marks pairs without gold, if others are from 0 to over 1; warns."""
  hidden = scores == -1
  others = scores[~hidden & ~np.isnan(scores)]
  count = counted(int(hidden.sum()), "score")
  if not hidden.any() or (others.size and others.min() < 0):
    return
  if not others.size or others.max() > 1:
    scores[hidden] = np.nan
    logging.warning("%s: %s of -1 taken as missing", path, count)
  else:
    logging.warning("%s: %s of -1 count as scores, as a cosine may be -1; leave them empty without gold", path, count)
