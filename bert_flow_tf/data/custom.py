"""Users' own files: the task `custom`, and a file as a corpus for a fit."""

import dataclasses
import os
import re

import numpy as np
from absl import logging

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.readers.columns import EXPECTED, choose_columns, shown_names
from bert_flow_tf.data.readers.lines import read_number
from bert_flow_tf.data.readers.places import PAIR, SCORE, SENTENCE, is_score
from bert_flow_tf.data.readers.records import Records, read_records
from bert_flow_tf.data.readers.text import EMBED, MAX_RECORD_BYTES, SKIP, InputFormat
from bert_flow_tf.data.task import Paths, TaskData, TaskSpec
from bert_flow_tf.errors import ConfigError, DataError, naming
from bert_flow_tf.progress import counted

_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")


@naming("data_dir")
def load(spec: TaskSpec, paths: Paths) -> TaskData:
  """Returns the pairs of the file `data_dir`; those with scores, on any scale, are evaluated."""
  if paths.data_dir is None:
    message = "data_dir: missing; the task custom needs a file of sentences, pairs or scored pairs"
    raise ConfigError(message, argument="data_dir")
  pairs, source = read_pairs(paths.data_dir, paths.max_record_bytes)
  if np.isnan(pairs.scores).all():
    return TaskData(spec, {"train": pairs}, source)
  scale = (np.nanmin(pairs.scores), np.nanmax(pairs.scores))
  return TaskData(dataclasses.replace(spec, eval_split="test", scale=scale), {"test": pairs}, source)


def pair_up(sentences: list[str]) -> SentencePairs:
  """Returns pairs for a fit, which uses each side alone: sentence i and i + n/2, since neighbors are more similar."""
  half = (len(sentences) + 1) // 2
  return SentencePairs.without_gold(sentences[:half], sentences[half:] + sentences[: len(sentences) % 2])


def read_pairs(path: str | os.PathLike, max_bytes: int = MAX_RECORD_BYTES) -> tuple[SentencePairs, str]:
  """Returns the pairs of a file of the task `custom`, NaN without scores, and a description such as "9 sentences of F".

  `choose_columns` says which columns are sentences, pairs and scores; other columns are ignored. A score is empty for
  a pair without gold. Empty single sentences are skipped, and pairs with an empty sentence.
  """
  name = os.fspath(path)
  columns = choose_columns(name, max_bytes=max_bytes)
  if not columns.roles:
    raise DataError(f"{name}: has {columns}, expected {EXPECTED}")
  columns.check_pair()
  unread = [column for column in columns.names if column not in columns.roles.values()]
  if unread:
    logging.warning("%s: %s not read: %s", name, counted(len(unread), "column"), shown_names(unread))
  if SENTENCE in columns.roles:
    input_format = InputFormat(
      columns.kind, columns.roles[SENTENCE], header=columns.header, empty=SKIP, max_bytes=max_bytes
    )
    sentences = [text for (text,) in read_records(name, input_format).texts]
    return pair_up(sentences), f"{counted(len(sentences), 'sentence')} of {name}"
  roles = [role for role in (*PAIR, SCORE) if role in columns.roles]
  input_format = InputFormat(columns.kind, header=columns.header, empty=EMBED, max_bytes=max_bytes)
  records = read_records(name, input_format, [columns.roles[role] for role in roles])
  first, second, *others = map(list, zip(*records.texts, strict=True))
  if others:
    pairs = _with_text(SentencePairs(first, second, _scores(records, others[0])), name)
    return pairs, f"{counted(len(pairs), 'scored pair')} of {name}"
  if all(map(is_score, first)) or all(map(is_score, second)):
    raise DataError(f"{name}: one of the 2 columns has only numbers; expected {EXPECTED}")
  pairs = _with_text(SentencePairs.without_gold(first, second), name)
  return pairs, f"{counted(len(pairs), 'unscored pair')} of {name}"


def _with_text(pairs: SentencePairs, path: str) -> SentencePairs:
  """Returns the pairs of which both sentences have text; warns of the number of others."""
  has_text = [bool(a.strip() and b.strip()) for a, b in zip(pairs.sentences_a, pairs.sentences_b, strict=True)]
  if all(has_text):
    return pairs
  if not any(has_text):
    raise DataError(f"{path}: a sentence of each pair is empty; expected pairs of two sentences")
  count = counted(has_text.count(False), "pair")
  logging.warning("%s: %s with an empty sentence left out", path, count)
  return pairs.take(np.flatnonzero(has_text))


def _scores(records: Records, fields: list[str]) -> np.ndarray:
  """Returns the scores in a column, float64 [n], NaN for an empty field; numbers may have a decimal comma."""
  scores = np.full(len(fields), np.nan)
  for row, field in enumerate(fields):
    if _DECIMAL_COMMA.fullmatch(field):
      field = field.replace(",", ".")
    if field.strip():
      scores[row] = read_number(field, records.path, records.numbers[row])
  _hide(scores, records.path)
  return scores


def _hide(scores: np.ndarray, path: str) -> None:
  """Replaces scores of -1 by NaN, with which GLUE marks pairs without gold, if others are from 0 to over 1; warns."""
  hidden = scores == -1
  others = scores[~hidden & ~np.isnan(scores)]
  count = counted(int(hidden.sum()), "score")
  if not hidden.any() or (others.size and others.min() < 0):
    return
  if not others.size or others.max() > 1:
    scores[hidden] = np.nan
    logging.warning("%s: %s of -1 count as missing", path, count)
  else:
    logging.warning("%s: %s of -1 count as scores, as a cosine may be -1; leave them empty without gold", path, count)
