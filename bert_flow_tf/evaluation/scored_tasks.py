"""Tasks with gold scores, and files of similarities that are compared with them."""

import dataclasses
import math
import os
import pathlib
import re
from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging

from bert_flow_tf.data.custom import scores_of
from bert_flow_tf.data.files.formats import PAIR, SCORE, Column, check_commas, read_number
from bert_flow_tf.data.files.input_format import MAX_RECORD_BYTES
from bert_flow_tf.data.files.rows import read_table
from bert_flow_tf.data.files.source import shown_names
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import find_task, load_task
from bert_flow_tf.errors import ConfigError, DataError, naming
from bert_flow_tf.evaluation.task_scores import scores_of_split
from bert_flow_tf.progress import counted, listed

_GOLD, _SIMILARITY = "gold", "similarity"
# Other names of the column of gold, as in a file that `bert-flow score` wrote.
_GOLDS = (SCORE, "label")
# Columns of test_results.tsv without similarities.
_NO_METHODS = ("index", *PAIR)
# The smallest number of rows that are numbered from 0.
_MIN_ROWS = 3
# Names of columns of ids and row numbers; pandas writes its index without a name, or reads it as "Unnamed: 0".
_ID_WORDS = r"[pq]?id|docid|index|idx|row|nr|rownames?|unnamed: \d+|.*[ _.-](id|index|idx|level_\d+__)"
_IDS = re.compile(rf"|(?i:{_ID_WORDS})|.*[a-z]ID")


def load_scored_tasks(
  names: Sequence[str],
  data_dir: str | None = None,
  tfds_data_dir: str | None = None,
  stsb_gold: str | None = None,
  split: str | None = None,
  metric: str | None = None,
  max_record_bytes: int = MAX_RECORD_BYTES,
  columns: Sequence[str] | None = None,
  header: bool | None = None,
) -> list[TaskData]:
  """Loads tasks, each with the evaluated split alone; None for the task's. Pairs of `custom` may have no gold."""
  # Each task once; the packaged ones read no files.
  specs = [find_task(name.strip()) for name in names]
  unique = {spec.name for spec in specs}
  if not specs or len(unique) < len(specs):
    raise ConfigError(f"task={','.join(names)}: expected one or more tasks, each once", argument="task")
  if data_dir and all(spec.packaged for spec in specs):
    expected = "give another task, as task=custom for a file of pairs"
    raise ConfigError(f"data_dir={data_dir}: task={','.join(names)} reads no files; {expected}", "data_dir")
  tasks = []
  for spec in specs:
    paths = (data_dir, tfds_data_dir, stsb_gold)
    task = load_task(spec.name, *paths, max_record_bytes=max_record_bytes, columns=columns, header=header)
    logging.info("%s: %s", spec.name, task.source)
    tasks.append(_evaluated_split(task, split, metric))
  return tasks


def _evaluated_split(task, split, metric):
  """Returns the task with its evaluated split alone, and with the metric."""
  split = split or task.spec.eval_split
  if split is None:
    if metric is not None:
      raise ConfigError(f"metric={metric}: {task.source} has no gold scores", argument="metric")
    return task
  if split not in task.splits:
    raise ConfigError(f"split={split}: {task.spec.name} has {', '.join(task.splits)}", argument="split")
  pairs = task.splits[split]
  if np.isnan(pairs.scores).all():
    raise ConfigError(f"split={split}: no pair of {task.spec.name} has a gold score in it", argument="split")
  spec = dataclasses.replace(task.spec, eval_split=split)
  return _with_metric(TaskData(spec, {split: pairs}, task.source), metric)


def _with_metric(task, metric):
  metric = metric or task.spec.metric
  gold = task.splits[task.spec.eval_split].scores
  others = gold[~np.isnan(gold) & (gold != 0) & (gold != 1)]
  if metric == "auc" and others.size:
    raise ConfigError(f"metric=auc: expected gold of 0 and 1, found {others[0]:g} ({task.source})", argument="metric")
  return dataclasses.replace(task, spec=task.spec.with_metric(metric))


@naming("predictions")
def score_predictions(
  path: str | os.PathLike, task: TaskData | None = None, metric: str | None = None
) -> tuple[TaskData, dict]:
  """Scores a file of similarities by the gold of a task, or of the file; returns the task, {method: `evaluate`'s}."""
  path = os.path.expanduser(path)
  gold, similarities, lines = _read_predictions(path, all_pairs=task is not None)
  if task is not None:
    _check_gold(path, task, gold, next(iter(similarities.values())), lines)
  elif gold is None or np.isnan(gold).all():
    expected = f"expected a column {_GOLD}, {' or '.join(_GOLDS)}, or the task that it belongs to"
    raise ConfigError(f"predictions={path}: no gold in it; {expected}", "predictions")
  else:
    # The file is the task: pairs without sentences.
    blank = [""] * len(gold)
    spec = dataclasses.replace(find_task("custom"), name=pathlib.Path(path).name, eval_split="test")
    task = _with_metric(TaskData(spec, {"test": SentencePairs(blank, blank, gold)}, path), metric)
  split = str(task.spec.eval_split)
  pairs = task.splits[split]
  scores = {}
  for method, values in similarities.items():
    bad = np.flatnonzero(~np.isfinite(values) & ~np.isnan(pairs.scores))
    if bad.size:
      raise DataError(f"{path}, line {lines[bad[0]]}: {method} is {values[bad[0]]:g}, expected a finite number")
    scores[method] = scores_of_split(split, pairs, values, task.spec.metric), {split: values}
  return task, scores


def _check_gold(path, task, gold, similarities, lines):
  """Raises a DataError if a file is not about the task's pairs."""
  split = task.spec.eval_split
  scores = task.splits[split].scores
  if len(similarities) != len(scores):
    raise DataError(f"{path} has {len(similarities)} similarities for {len(scores)} pairs of {task.spec.name}, {split}")
  if gold is None:
    return
  # Some files and data sets round it, to 5 or 6 decimals.
  differ = np.flatnonzero(~np.isclose(gold, scores, rtol=0.0, atol=1e-5, equal_nan=True))
  if differ.size:
    row = differ[0]
    place = f"the {split} split of {task.spec.name}"
    raise DataError(f"{path}, line {lines[row]}: gold is {gold[row]}, in {place} it is {scores[row]}")


def _read_predictions(path: str, all_pairs: bool) -> tuple[np.ndarray | None, Mapping[str, np.ndarray], list[int]]:
  """Returns gold [n], {method: [n]}, float64, and the records' numbers of a file of similarities.

  `all_pairs`: whether an empty similarity is an error; else its pair is left out.
  """
  # The file has names of columns, as test_results.tsv or a file that `score` wrote, or it has a similarity per line.
  table = read_table(path, (_GOLD, *_GOLDS, _SIMILARITY))
  names = list(table.names) or [_SIMILARITY]
  width = len(table.texts[0])
  if len(names) != width:
    shown = ", ".join(table.texts[0])[:80]
    expected = f"a header with {_GOLD} and methods, as in test_results.tsv, or one similarity per line"
    raise DataError(f"{path}, line {table.numbers[0]}: {shown!r}; expected {expected}")
  columns = dict(zip(names, map(list, zip(*table.texts, strict=True)), strict=True))
  gold_name = _name_of_gold(path, names)
  gold = None
  if gold_name is not None:
    gold = scores_of(table, list(map(_without_nan, columns.pop(gold_name))))
  methods = _methods(path, columns)
  if not methods:
    found = f"{path}, line 1: the header is {shown_names(names)[:200]}"
    raise DataError(f"{found}; expected gold, of the name gold, score or label, and columns of similarities")
  rows = list(range(len(table.numbers)))
  if gold is not None and not all_pairs:
    rows = [row for row in rows if all(columns[name][row].strip() for name in methods)]
    if len(rows) < len(gold):
      logging.warning("%s: %s without a similarity left out", path, counted(len(gold) - len(rows), "pair"))
    gold = gold[rows]
  arrays = {}
  for name in methods:
    arrays[name] = np.array([_number(columns[name][row], path, table.numbers[row]) for row in rows])
    check_commas(columns[name], path, table.numbers)
  return gold, arrays, [table.numbers[row] for row in rows]


def _name_of_gold(path, names):
  """Returns the name of the column of gold, or else the one called score or label; None without."""
  if _GOLD in names:
    return _GOLD
  found = [name for name in names if name.strip().lower() in _GOLDS]
  if len(found) > 1:
    raise DataError(f"{path}: the columns {listed(found)} may each be the gold; expected one of them, renamed {_GOLD}")
  return next(iter(found), None)


def _methods(path, columns):
  """Returns the names of the columns {name: texts} that are similarities; logs those that are not."""
  unknown = [name for name in columns if name.strip().lower() not in _NO_METHODS]
  methods = [name for name in unknown if not _IDS.fullmatch(name.strip())]
  if len(methods) > 1:
    contents = {name: _content(columns[name]) for name in methods}
    methods = [name for name, content in contents.items() if content.numbers and content.numbers >= content.texts]
    # The numbers of rows are no similarities if there are others.
    methods = [name for name in methods if not contents[name].has_ids(_MIN_ROWS)] or methods
  others = [name for name in unknown if name not in methods]
  if others:
    logging.info("%s: %s left out as no similarities: %s", path, counted(len(others), "column"), shown_names(others))
  return methods


def _content(fields):
  """Returns the counts of numbers and texts among fields."""
  column = Column()
  for field in fields:
    column.add(_without_nan(field))
  return column


def _without_nan(field):
  """Returns a cell; "" for nan."""
  return "" if field.strip().lower() == "nan" else field


def _number(field, path, line):
  """Returns a cell as a finite number, or NaN for "nan"."""
  if field.strip().lower() == "nan":
    return math.nan
  return read_number(field, path, line)
