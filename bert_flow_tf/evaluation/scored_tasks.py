"""Tasks with gold scores, and files of similarities that are compared with them."""

import dataclasses
import math
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.readers.lines import lines, read_number
from bert_flow_tf.data.readers.places import is_score
from bert_flow_tf.data.readers.text import MAX_RECORD_BYTES
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import find_task, load_task
from bert_flow_tf.errors import ConfigError, DataError, naming
from bert_flow_tf.evaluation.task_scores import scores_of_split
from bert_flow_tf.progress import counted

_GOLD, _SIMILARITY = "gold", "similarity"
# Columns of test_results.tsv without similarities.
_NO_METHODS = (_GOLD, "index", "sentence1", "sentence2")


def load_scored_tasks(
  names: Sequence[str],
  data_dir: str | None = None,
  tfds_data_dir: str | None = None,
  stsb_gold: str | None = None,
  split: str | None = None,
  metric: str | None = None,
  max_record_bytes: int = MAX_RECORD_BYTES,
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
    task = load_task(spec.name, data_dir, tfds_data_dir, stsb_gold, max_record_bytes=max_record_bytes)
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
  gold, similarities, first_line = _read_predictions(path)
  if task is not None:
    _check_gold(path, task, gold, next(iter(similarities.values())), first_line)
  elif gold is None or np.isnan(gold).all():
    raise ConfigError(f"predictions={path}: no gold in it; give the task that it belongs to", "predictions")
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
      raise DataError(f"{path}, line {bad[0] + first_line}: {method} is {values[bad[0]]:g}, expected a finite number")
    scores[method] = scores_of_split(split, pairs, values, task.spec.metric), {split: values}
  return task, scores


def _check_gold(path, task, gold, similarities, first_line):
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
    raise DataError(f"{path}, line {row + first_line}: gold is {gold[row]}, in {place} it is {scores[row]}")


def _read_predictions(path: str | os.PathLike) -> tuple[np.ndarray | None, Mapping[str, np.ndarray], int]:
  """Returns gold [n], {method: [n]}, float64, and the line number of the first pair of a file of similarities."""
  # The file is a TSV like test_results.tsv, with `gold` ("nan" for none) and methods, or has a similarity per line.
  rows = [(number, text.split("\t")) for number, text in lines(path, empty="keep")]
  while rows and not "".join(rows[-1][1]).strip():
    rows.pop()
  header = [_SIMILARITY]
  if rows and _GOLD in rows[0][1]:
    header = rows.pop(0)[1]
  names = [name for name in header if name == _GOLD or name not in _NO_METHODS]
  if names == [_GOLD] or len(set(header)) < len(header) or "" in map(str.strip, header):
    raise DataError(f"{path}, line 1: the header is {', '.join(header)[:200]}; expected {_GOLD} and distinct methods")
  if not rows:
    raise DataError(f"{path} has no similarity in it")
  place, first = rows[0]
  if header == [_SIMILARITY] and (len(first) > 1 or not is_score(first[0])):
    expected = f"a header with {_GOLD} and methods, as in test_results.tsv, or one similarity per line"
    raise DataError(f"{path}, line {place}: {', '.join(first)[:80]!r}; expected {expected}")
  columns: dict[str, list[float]] = {name: [] for name in names}
  for number, fields in rows:
    if len(fields) != len(header):
      found = counted(len(fields), "column")
      raise DataError(f"{path}, line {number}: {found}, expected {len(header)} ({', '.join(header)[:200]})")
    for name, field in zip(header, fields, strict=True):
      if name in columns:
        columns[name].append(_number(field, path, number))
  arrays = {name: np.array(values) for name, values in columns.items()}
  return arrays.pop(_GOLD, None), arrays, rows[0][0]


def _number(field, path, line):
  """Returns a cell as a finite number, or NaN for "nan"."""
  if field.strip().lower() == "nan":
    return math.nan
  return read_number(field, path, line)
