"""Tasks with gold scores, and files of similarities that are compared with them."""

import dataclasses
import math
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging

from bert_flow_tf.data.lines import count, lines
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import find_task, load_task
from bert_flow_tf.errors import ConfigError, DataError, naming
from bert_flow_tf.evaluation.task_scores import scores_of_split

GOLD = "gold"
SIMILARITY = "similarity"
# Other columns of test_results.tsv without similarities.
_OTHERS = ("index", "sentence1", "sentence2")


def load_scored_tasks(
  names: Sequence[str],
  data_dir: str | None = None,
  tfds_data_dir: str | None = None,
  stsb_gold: str | None = None,
  split: str | None = None,
  metric: str | None = None,
) -> list[TaskData]:
  """Loads tasks, each with the one split that is evaluated; the pairs of `custom` may have no gold.

  Args:
    names: names of tasks.
    data_dir: see `load_task`.
    tfds_data_dir: see `load_task`.
    stsb_gold: see `load_task`.
    split: "train", "dev" or "test"; None for the task's own.
    metric: "correlation" or "auc"; None for the task's own.

  Raises:
    ConfigError: a task is unknown or given twice, or has no gold scores for a given split or metric.
    DataError: the data cannot be read.
  """
  specs = [find_task(name.strip()) for name in names]
  unique = {spec.name for spec in specs}
  if not specs or len(unique) < len(specs):
    raise ConfigError(f"task={','.join(names)}: expected one or more tasks, each once", argument="task")
  if all(spec.packaged for spec in specs) and data_dir:
    raise ConfigError(
      f"data_dir={data_dir}: task={','.join(names)} reads no files; give another task", argument="data_dir"
    )
  tasks = [load_task(spec.name, data_dir, tfds_data_dir, stsb_gold) for spec in specs]
  for task in tasks:
    logging.info("%s: %s", task.spec.name, task.source)
  return [_evaluated_split(task, split, metric) for task in tasks]


@naming("predictions")
def score_predictions(
  path: str | os.PathLike, task: TaskData | None = None, metric: str | None = None
) -> tuple[TaskData, dict]:
  """Compares a file of similarities with gold scores.

  Args:
    path: a TSV with the columns gold and one or more methods, or with `task` one similarity per line.
    task: the task with its evaluated split; None for the gold scores of the file.
    metric: as in `load_scored_tasks`, for the gold scores of the file.

  Returns:
    The task, and {method: (scores by split, {split: similarities [n]})}.

  Raises:
    ConfigError: the file has no gold scores, and there is no task.
    DataError: the file is malformed, or does not belong to the task.
  """
  path = os.path.expanduser(path)
  gold, similarities, first_line = read_predictions(path)
  if task is not None:
    _check_gold(path, task, gold, next(iter(similarities.values())), first_line)
  elif gold is None:
    raise ConfigError(
      f"predictions={path}: no column of gold; give the task that it belongs to", argument="predictions"
    )
  else:
    blank = [""] * len(gold)
    spec = dataclasses.replace(find_task("custom"), name=pathlib.Path(path).name, eval_split="test")
    task = _with_metric(TaskData(spec, {"test": SentencePairs(blank, blank, gold)}, path), metric)
  split = str(task.spec.eval_split)
  pairs = task.splits[split]
  check_predictions(path, similarities, pairs.scores, first_line)
  scores = {
    method: (scores_of_split(split, pairs, values, task.spec.metric), {split: values})
    for method, values in similarities.items()
  }
  if not next(iter(scores.values()))[0]:
    raise DataError(f"{path}: every gold is nan, expected one or more numbers")
  return task, scores


def _evaluated_split(task, split, metric):
  """Returns the task with one split, and the metric."""
  name, split = task.spec.name, split or task.spec.eval_split
  if task.spec.eval_split is None and split is None and metric is None:
    return task
  if split is None:
    raise ConfigError(f"metric={metric}: {task.source} has no gold scores", argument="metric")
  if split not in task.splits:
    raise ConfigError(f"split={split}: {name} has {', '.join(task.splits)}", argument="split")
  pairs = task.splits[split]
  if np.isnan(pairs.scores).all():
    raise ConfigError(f"split={split}: no pair of {name} has a gold score in it", argument="split")
  return _with_metric(TaskData(dataclasses.replace(task.spec, eval_split=split), {split: pairs}, task.source), metric)


def _with_metric(task, metric):
  metric = metric or task.spec.metric
  gold = task.splits[task.spec.eval_split].scores
  others = gold[~np.isnan(gold) & (gold != 0) & (gold != 1)]
  if metric == "auc" and others.size:
    raise ConfigError(f"metric=auc: expected gold of 0 and 1, found {others[0]:g} ({task.source})", argument="metric")
  return dataclasses.replace(task, spec=task.spec.with_metric(metric))


def _check_gold(path, task, gold, similarities, first_line):
  """Raises DataError if a file is not about the task's pairs."""
  split = task.spec.eval_split
  scores = task.splits[split].scores
  if len(similarities) != len(scores):
    raise DataError(
      f"{path} has {len(similarities)} similarities, the {split} split of {task.spec.name} {len(scores)} pairs"
    )
  # Some files and data sets round it, to 5 or 6 decimals.
  differ = [] if gold is None else np.flatnonzero(~np.isclose(gold, scores, rtol=0.0, atol=1e-5, equal_nan=True))
  if len(differ):
    row = differ[0]
    raise DataError(
      f"{path}, line {row + first_line}: gold is {gold[row]}, in the {split} split of {task.spec.name} it is "
      f"{scores[row]}; leave the task out to take the file's own"
    )


def read_predictions(path: str | os.PathLike) -> tuple[np.ndarray | None, dict[str, np.ndarray], int]:
  """Reads a file of similarities, plain or gzipped.

  Two forms:
    A TSV such as `test_results.tsv`: a header with `gold` and one or more methods; index, sentence1 and sentence2 are
      optional. "nan" is the gold of a pair that was not annotated.
    One similarity per line, nothing else.

  Args:
    path: the file.

  Returns:
    Gold, float64 [n], or None for the second form; {method: float64 [n]}; and the line number of the first pair.

  Raises:
    DataError: the file is missing, malformed or has no similarities; the message names the line.
  """
  rows = list(lines(path, empty="keep"))
  while rows and not rows[-1][1].strip():
    rows.pop()
  if not rows:
    raise DataError(f"{path} is empty: no similarity in it")
  names = rows[0][1].split("\t")
  if GOLD not in names:
    if len(names) > 1:
      raise DataError(
        f"{path}, line 1: {count(len(names), 'column')} without {GOLD!r} among them, expected a header such as index, "
        f"{GOLD}, without_flow, with_flow; or one similarity a line"
      )
    return None, {SIMILARITY: np.array([_number(text, SIMILARITY, path, number) for number, text in rows])}, 1
  methods = [name for name in names if name not in (GOLD, *_OTHERS)]
  if not methods or len(set(names)) < len(names) or not all(name.strip() for name in names):
    raise DataError(
      f"{path}, line 1: the header is {', '.join(names)[:200]}; expected {GOLD} and one or more methods, each column "
      "with a name of its own"
    )
  columns = {name: [] for name in (GOLD, *methods)}
  for number, text in rows[1:]:
    fields = text.split("\t")
    if len(fields) != len(names):
      raise DataError(f"{path}, line {number}: {count(len(fields), 'column')}, expected {len(names)} as in the header")
    for name, values in columns.items():
      values.append(_number(fields[names.index(name)], name, path, number))
  if len(rows) == 1:
    raise DataError(f"{path} has a header and no pair below it")
  gold = np.array(columns.pop(GOLD))
  infinite = np.flatnonzero(np.isinf(gold))
  if infinite.size:
    raise DataError(
      f"{path}, line {infinite[0] + 2}: {GOLD} is infinite, expected a number, or nan where there is none"
    )
  return gold, {name: np.array(values) for name, values in columns.items()}, 2


def check_predictions(
  path: str | os.PathLike, similarities: Mapping[str, np.ndarray], gold: np.ndarray, first_line: int
) -> None:
  """Checks that every pair with gold has a finite similarity.

  Args:
    path: the file, for messages.
    similarities: {method: [n]}.
    gold: [n], NaN for a pair without gold.
    first_line: line number of the first pair.

  Raises:
    DataError: one is not finite; the message names the line.
  """
  for method, values in similarities.items():
    bad = np.flatnonzero(~np.isfinite(values) & ~np.isnan(gold))
    if bad.size:
      raise DataError(
        f"{path}, line {bad[0] + first_line}: {method} is {values[bad[0]]:g}, expected a finite number, as this pair "
        "has gold"
      )


def _number(field, name, path, line):
  try:
    return math.nan if field.strip().lower() == "nan" else _strict(field)
  except ValueError as error:
    raise DataError(f"{path}, line {line}: {name} is {field[:40]!r}, expected a number") from error


def _strict(field):
  if "_" in field:  # float() reads "1_5" as 15
    raise ValueError(field)
  return float(field)
