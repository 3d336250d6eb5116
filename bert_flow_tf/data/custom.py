"""Users' own files: the task `custom`, and a file as a corpus for a fit."""

import dataclasses
import os
from collections.abc import Sequence

import numpy as np
from absl import logging

from bert_flow_tf.data.files.formats import (
  EXPECTED,
  PAIR,
  SCORE,
  SENTENCE,
  Format,
  check_commas,
  find_format,
  is_score,
  read_number,
)
from bert_flow_tf.data.files.given_columns import check_column_names, given_format
from bert_flow_tf.data.files.input_format import EMBED, MAX_RECORD_BYTES, SKIP
from bert_flow_tf.data.files.rows import Records, log_without_text, opened_whole, records_of
from bert_flow_tf.data.files.source import FileSource, shown_names
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import Paths, TaskData, TaskSpec
from bert_flow_tf.errors import ConfigError, DataError, naming
from bert_flow_tf.progress import counted

# {number of columns that were given: their roles}
_ROLES = {0: (), 1: (SENTENCE,), 2: PAIR, 3: (*PAIR, SCORE)}
_HINT = "; for other columns give columns, as in columns=question1,question2,is_duplicate, or their numbers"
_NO_COLUMNS = "; write one of these names in the first line, or a file of sentences, a line each"
_NO_SCORE = ", or nothing for a pair without a score"
# Scores as pandas writes bool.
_WORDS = {"true": "1", "false": "0"}


@naming("data_dir")
def load_custom(spec: TaskSpec, paths: Paths) -> TaskData:
  """Returns the pairs of the file `data_dir`; those with scores, on any scale, are evaluated."""
  if paths.data_dir is None:
    message = "data_dir: missing; the task custom needs a file of sentences, pairs or scored pairs"
    raise ConfigError(message, argument="data_dir")
  pairs, source = read_custom_pairs(paths.data_dir, paths.max_record_bytes, paths.columns, paths.header, _HINT)
  if np.isnan(pairs.scores).all():
    return TaskData(spec, {"train": pairs}, source)
  scale = (np.nanmin(pairs.scores), np.nanmax(pairs.scores))
  return TaskData(dataclasses.replace(spec, eval_split="test", scale=scale), {"test": pairs}, source)


def pair_up(sentences: list[str]) -> SentencePairs:
  """Returns pairs for a fit, which uses each side alone: sentence i and i + n/2, since neighbors are more similar."""
  half = (len(sentences) + 1) // 2
  return SentencePairs.without_gold(sentences[:half], sentences[half:] + sentences[: len(sentences) % 2])


def read_custom_pairs(
  path: str | os.PathLike,
  max_bytes: int = MAX_RECORD_BYTES,
  columns: Sequence[str] = (),
  header: bool | None = None,
  hint: str = _NO_COLUMNS,
) -> tuple[SentencePairs, str]:
  """Returns the pairs of a file of the task `custom`, NaN without scores, and a description such as "9 sentences of F".

  `columns` name the sentence, the pair, or the pair and its score; without them `find_format` does, which describes
  `header` and `hint`, too. Other columns are ignored. A score is empty for a pair without gold. Empty single sentences
  are skipped, and pairs with an empty sentence.
  """
  name = os.fspath(path)
  roles = _roles_of(columns)
  with opened_whole(name) as source:
    if roles:
      found = given_format(source, roles=roles, header=header, max_bytes=max_bytes)
    else:
      found = _found_format(source, header, max_bytes, hint)
    empty = SKIP if SENTENCE in found.roles else EMBED
    columns = [found.roles[role] for role in (SENTENCE, *PAIR, SCORE) if role in found.roles]
    input_format = found.reading(empty, max_bytes)
    records = records_of(
      source, input_format, columns, found.quoted, keep_empty=True, pairs=SENTENCE not in found.roles
    )
  if SENTENCE in found.roles:
    sentences = [text for (text,) in records.texts if text.strip()]
    log_without_text(name, len(records.texts) - len(sentences))
    return pair_up(sentences), f"{counted(len(sentences), 'sentence')} of {name}"
  first, second, *others = map(list, zip(*records.texts, strict=True))
  if others:
    pairs = with_text(SentencePairs(first, second, scores_of(records, others[0])), name)
    return pairs, f"{counted(len(pairs), 'scored pair')} of {name}"
  if all(map(is_score, first)) or all(map(is_score, second)):
    raise DataError(f"{name}: one of the 2 columns has only numbers; expected {EXPECTED}")
  pairs = with_text(SentencePairs.without_gold(first, second), name)
  return pairs, f"{counted(len(pairs), 'unscored pair')} of {name}"


def _roles_of(names: Sequence[str]) -> dict[str, str]:
  """Returns {role: column} of the columns that were given."""
  roles = _ROLES.get(len(names))
  if roles is None:
    expected = "expected a sentence, two sentences, or two and their score, as in question1,question2,is_duplicate"
    raise ConfigError(f"columns={','.join(names)}: {expected}", argument="columns")
  check_column_names("columns", names)
  return dict(zip(roles, names, strict=True))


def _found_format(source: FileSource, header: bool | None, max_bytes: int, hint: str) -> Format:
  """Returns the format of a file, by `find_format`, which must have sentences; logs the other columns."""
  found = find_format(source, header=header, max_bytes=max_bytes, hint=hint)
  if not found.roles:
    raise DataError(f"{source.path}: has {found}, expected {EXPECTED}{hint}")
  found.check(found.roles, hint)
  unread = [column for column in found.names if column not in found.roles.values()]
  if unread:
    logging.warning("%s: %s not read: %s%s", source.path, counted(len(unread), "column"), shown_names(unread), hint)
  return found


def with_text(pairs: SentencePairs, path: str) -> SentencePairs:
  """Returns the pairs of which both sentences have text, at least one; warns of the number of others."""
  has_text = [bool(a.strip() and b.strip()) for a, b in zip(pairs.sentences_a, pairs.sentences_b, strict=True)]
  if all(has_text):
    return pairs
  count = counted(has_text.count(False), "pair")
  logging.warning("%s: %s with an empty sentence left out", path, count)
  return pairs.take(np.flatnonzero(has_text))


def scores_of(records: Records, fields: list[str]) -> np.ndarray:
  """Returns the scores in a column, float64 [n], NaN for an empty field; true is 1, and 3,5 is 3.5."""
  scores = np.full(len(fields), np.nan)
  for row, field in enumerate(fields):
    field = _WORDS.get(field.strip().lower(), field)
    if field.strip():
      scores[row] = read_number(field, records.path, records.numbers[row], hint=_NO_SCORE)
  check_commas(fields, records.path, records.numbers)
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
