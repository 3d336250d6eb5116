"""Scores and differences of the rows beyond the paper; `beyond` has the rows."""

import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.data.flow_corpus import TARGET
from bert_flow_tf.data.tasks import STS_TASKS
from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.evaluation.bootstrap import bootstrap_gain
from bert_flow_tf.evaluation.task_scores import scores_of_split
from bert_flow_tf.progress import Progress
from bert_flow_tf.tables import beyond
from bert_flow_tf.tables.beyond import AUTO, UNIFORM
from bert_flow_tf.tables.keys import gold_fingerprint
from bert_flow_tf.tables.plan import BEYOND, GAINS
from bert_flow_tf.tables.similarity_tables import AVG, FIRST_LAST
from bert_flow_tf.tables.table import BETTER, OURS, WORSE, Cell, Row
from bert_flow_tf.tables.workbench import NONE, Recipe, Workbench, headline, target_of

MEAN = "mean"


class Comparison:
  """Rows of the tables beyond the paper.

  Args:
    benches: encoders.
    variant: returns the workbench of an encoder with other token weights, or of its word embeddings alone:
      (bench, token_weights, static) -> Workbench; it may raise a `BertFlowError`.
    tasks: names of the tasks, a column each.
    seeds: seeds of the flow.
  """

  def __init__(
    self,
    benches: Sequence[Workbench],
    variant: Callable[[Workbench, str, bool], Workbench],
    tasks: Sequence[str],
    seeds: Sequence[int],
  ) -> None:
    self._benches, self._variant, self._seeds, self._tasks = benches, variant, seeds, tasks
    self._sets = [task for task in tasks if task in STS_TASKS]
    self._variants: dict[Any, Any] = {}
    self._taken: dict[str, dict[str, dict[str, str]]] = {}  # by auto: {encoder: {corpus: {task: calibration}}}

  def table(self, name: str) -> tuple[str, str, list[str], list[Row], list[str]]:
    """Returns title, metric, columns, rows and notes of BEYOND, GAINS or ABLATION."""
    rows, notes, jobs = [], list(beyond.NOTES[name]), beyond.jobs(name, target_of(*self._sets))
    columns = [*self._sets, *[MEAN] * (len(self._sets) > 1), *(task for task in self._tasks if task not in self._sets)]
    with Progress(len(self._benches) * len(jobs) * len(self._tasks), True, name, "cell") as progress:
      for bench in self._benches:
        own: dict[str, dict[str, Cell]] = {}
        for job in jobs:
          cells = {}
          for task in self._tasks:
            progress.update(0, f"{bench.title}, {beyond.row_name(*job)}, {task}")
            cells[task] = self._cell(bench, task, *job)
            progress.update(1, f"{bench.title}, {beyond.row_name(*job)}")
          own[beyond.row_name(*job)] = self._with_mean(cells)
        own = _marked(own)
        rows += [Row(f"{bench.title}, {row}", OURS, cells) for row, cells in own.items()]
        if name == GAINS:
          notes.append(f"{bench.title}: {_count_of_marks(own)}.")
        if name == BEYOND:
          notes += [_what_auto_took(bench.title, *taken) for taken in self._taken.get(bench.title, {}).items()]
    if name == BEYOND and not any(bench.paper_encoder for bench in self._benches):
      notes.append(beyond.NOT_RUN)
    metric = beyond.METRIC + beyond.BINARY_METRIC * (len(self._tasks) > len(self._sets))
    return beyond.TITLES[name], metric, columns, rows, notes

  def _cell(self, bench, task, line, corpus, over):
    """Returns a score, or with `over` the difference of two."""
    found, reason = self._cosines(bench, task, line, corpus)
    if over is None or reason:
      scores = [_score(bench, task, values) for values in found]
      return Cell(tuple(value for value, _ in scores), reason=reason or next((why for _, why in scores if why), ""))
    before, reason = self._cosines(bench, task, over, corpus)
    gain = {"gain": None, "reason": reason} if reason else self._gain(bench, task, before, found)
    if gain["gain"] is None:
      return Cell(reason=gain["reason"])
    return Cell((gain["gain"],), interval=() if gain["low"] is None else (gain["low"], gain["high"]))

  def _with_mean(self, cells):
    """Returns the cells, with the mean over the sets for each seed if there are several sets."""
    if len(self._sets) < 2:
      return cells
    of_sets = [cells[task] for task in self._sets]
    missing = next((cell for cell in of_sets if not cell.defined), None)
    seeds = [] if missing else zip(*(cell.values for cell in of_sets), strict=True)
    means = tuple(math.fsum(values) / len(values) for values in seeds)
    interval = None if of_sets[0].interval is None else ()
    return {**cells, MEAN: Cell(means, reason=missing.reason if missing else "", interval=interval)}

  def _cosines(self, bench, task, line, corpus):
    """Returns the cosines of the evaluated pairs for each seed, and ""; or [] and the reason why there are none."""
    recipe = Recipe(line.embedding, line.calibration, TARGET if line.calibration == NONE else corpus)
    try:
      own = self._bench(bench, line)

      def compute(*what):
        fitted = own.calibration(*what)
        return {"cosines": own.cosines(*what).tolist(), "calibration": fitted.name if fitted else NONE}

      seeds = self._seeds if recipe.is_random else self._seeds[:1]
      found = [own.remembered("cosines", compute, task, recipe, seed) for seed in seeds]
      if line.calibration == AUTO:
        self._taken.setdefault(bench.title, {}).setdefault(corpus, {})[task] = found[0]["calibration"]
      return [np.array(values["cosines"]) for values in found], ""
    except BertFlowError as error:
      logging.warning("no score of %s, %s on %s: %s", bench.title, line.name, task, error)
      return [], str(error)

  def _bench(self, bench, line):
    """Returns the workbench of a row's encoder; raises the error of its loading for each row that needs it."""
    if line.token_weights == UNIFORM and not line.static:
      return bench
    key = bench.label, line.token_weights, line.static
    if key not in self._variants:
      try:
        self._variants[key] = self._variant(bench, line.token_weights, line.static)
      except BertFlowError as error:
        self._variants[key] = error
    if isinstance(self._variants[key], BertFlowError):
      raise self._variants[key]
    return self._variants[key]

  def _gain(self, bench, task, before, after):
    """Returns the `Gain` of a task as a dict, from the store if it is there."""
    data = bench.inputs.tasks[task]
    pairs = data.splits[data.spec.eval_split]
    metric = "auc" if data.spec.metric == "auc" else "spearman"
    subsets = pairs.subset_names() if metric == "spearman" else None
    key = {"what": "gain", "metric": metric, "gold": gold_fingerprint(pairs)}
    key |= {"cosines": [hashlib.sha256(np.array(method).tobytes()).hexdigest() for method in (before, after)]}
    compute = functools.partial(bootstrap_gain, before, after, pairs.scores, subsets, metric=metric)
    return bench.kept(key, lambda: dataclasses.asdict(compute()))


def _score(bench, task, cosines):
  """Returns the score of cosines [n] by the task's metric, and the reason if it is NaN."""
  data = bench.inputs.tasks[task]
  split = data.spec.eval_split
  return headline(scores_of_split(split, data.splits[split], cosines, data.spec.metric).get(split, {}))


def _what_auto_took(title: str, corpus: str, taken: Mapping[str, str]) -> str:
  names = dict.fromkeys(taken.values())
  places = [f"{name} on {', '.join(task for task in taken if taken[task] == name)}" for name in names]
  return f"{title}, taken by {AUTO}{beyond.fitted_on(corpus)}: {'; '.join(places)}."


def _marked(rows: Mapping[str, Mapping[str, Cell]]) -> dict[str, dict[str, Cell]]:
  """Returns the rows with a mark at the scores of calibrations that are lower than without one."""
  plain = {} if FIRST_LAST not in rows else {column: cell.mean for column, cell in rows[FIRST_LAST].items()}
  return {
    row: {
      column: dataclasses.replace(cell, worse=row not in (AVG, FIRST_LAST) and cell.mean < plain.get(column, -math.inf))
      for column, cell in cells.items()
    }
    for row, cells in rows.items()
  }


def _count_of_marks(rows: Mapping[str, Mapping[str, Cell]]) -> str:
  """Returns a clause with the numbers of intervals that are wholly above or below 0."""
  cells = [cell for row in rows.values() for cell in row.values() if cell.interval]
  above, below = (sum(cell.mark == mark for cell in cells) for mark in (BETTER, WORSE))
  return f"of {len(cells)} intervals, {above} are wholly above 0 ({BETTER}) and {below} wholly below 0 ({WORSE})"
