"""Tables beyond the paper: calibrations of other embeddings, their gains, and the best one in steps."""

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
from bert_flow_tf.tables.keys import gold_fingerprint
from bert_flow_tf.tables.plan import ABLATION, BEYOND, GAINS
from bert_flow_tf.tables.similarity_tables import AVG, FIRST_LAST
from bert_flow_tf.tables.table import OURS, Cell, Row
from bert_flow_tf.tables.workbench import NONE, Recipe, Workbench, headline, target_of

MEAN = "mean"
UNIFORM, IDF = "uniform", "idf"
_SOFT, _ALL_SETS = "soft-whitening", "all sets"


@dataclasses.dataclass(frozen=True)
class Line:
  """Method of a row.

  Attributes:
    embedding: a `sentence_embedding_type`.
    calibration: name of a calibration, "none" for the embeddings themselves.
    token_weights: the encoder's `token_weights`.
    static: whether the encoder is its BERT's word embeddings alone.
    prefix: beginning of its name in the tables.
  """

  embedding: str
  calibration: str = NONE
  token_weights: str = UNIFORM
  static: bool = False
  prefix: str = ""

  @property
  def name(self) -> str:
    """Name in the tables: "recipe: mix, idf, soft-whitening"."""
    parts = (self.embedding, self.token_weights, self.calibration)
    return self.prefix + ", ".join(part for part in parts if part not in (UNIFORM, NONE))


WHITENING, FLOW = Line(FIRST_LAST, "whitening"), Line(FIRST_LAST, "flow")
RECIPE = Line("mix", _SOFT, IDF, prefix="recipe: ")
LINES = (
  Line(AVG),
  Line(FIRST_LAST),
  FLOW,
  WHITENING,
  Line(FIRST_LAST, _SOFT),
  RECIPE,
  Line("mix", "flow", IDF),
  Line("mix", f"flow+{_SOFT}", IDF),
  Line("word-rows", _SOFT, IDF, static=True, prefix="static: "),
  Line("mix", "auto", IDF),
)
ABLATION_LINES = (
  WHITENING,
  Line(FIRST_LAST, _SOFT),
  Line(FIRST_LAST, "whitening", IDF),
  Line(FIRST_LAST, _SOFT, IDF),
  Line(AVG, _SOFT, IDF),
  Line("word-rows", _SOFT, IDF),
  Line("mix-0.5", _SOFT, IDF),
  RECIPE,
  Line("mix-0.8", _SOFT, IDF),
  Line("mix", _SOFT, "idf-1"),
  Line("mix", _SOFT),
  Line("mix", "whitening", IDF),
  Line("mix", "soft-whitening-0.3", IDF),
  Line("mix", "soft-whitening-0.4", IDF),
)
_TITLES = {
  BEYOND: "the paper's flow, other calibrations, and other embeddings",
  GAINS: "differences between rows of table beyond, with 95 % intervals",
  ABLATION: "from whitening to the recipe, and away from it",
}
_METRIC = "Spearman x 100 (STS-12 to STS-16: mean over the subsets, weighted by their numbers of pairs)"
_BINARY_METRIC = "; AUC x 100 of QNLI and MRPC"
_NOTES = {
  BEYOND: (
    "(target): fitted on all sentences of the evaluated set, without gold scores. (all sets): fitted once, on the "
    "sentences of the columns before mean.",
    "idf: tokens are weighted by the logarithm of their inverse document frequency; mix: unit rows of the word "
    "embeddings and the last block's mean; static: unit rows alone, without a transformer.",
  ),
  GAINS: (
    "In square brackets: the 95 % interval of a paired bootstrap over the pairs, of the mean over the seeds. The mean "
    "has none: some pairs of STS-B are pairs of STS-12 to STS-16 too.",
  ),
  ABLATION: ("All rows are fitted on all sentences of the evaluated set, without gold scores.",),
}
_NOT_RUN = (
  "The paper's encoders, `base` and `large`, were not run here. With them: `python run_scripts/run_table.py "
  "--table=beyond,gains,ablation --model=base,large --num_seeds=3 --seed=0 --data_dir=DATA`."
)


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

  def table(self, name: str) -> tuple[str, str, list[str], list[Row], list[str]]:
    """Returns title, metric, columns, rows and notes of BEYOND, GAINS or ABLATION."""
    rows, notes, jobs = [], list(_NOTES[name]), _jobs(name, target_of(*self._sets))
    columns = [*self._sets, *[MEAN] * (len(self._sets) > 1), *(task for task in self._tasks if task not in self._sets)]
    with Progress(len(self._benches) * len(jobs) * len(self._tasks), True, name, "cell") as progress:
      for bench in self._benches:
        own = {}
        for job in jobs:
          cells = {}
          for task in self._tasks:
            progress.update(0, f"{bench.title}, {_row_name(*job)}, {task}")
            cells[task] = self._cell(bench, task, *job)
            progress.update(1, f"{bench.title}, {_row_name(*job)}")
          own[_row_name(*job)] = self._with_mean(cells)
        rows += [Row(f"{bench.title}, {row}", OURS, cells) for row, cells in own.items()]
        if name != ABLATION:
          notes.append(f"{bench.title}, {_where_it_hurts(own, columns)}.")
    if name == BEYOND and not any(bench.paper_encoder for bench in self._benches):
      notes.append(_NOT_RUN)
    return _TITLES[name], _METRIC + _BINARY_METRIC * (len(self._tasks) > len(self._sets)), columns, rows, notes

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
      compute = lambda *what: own.cosines(*what).tolist()  # noqa: E731
      seeds = self._seeds if recipe.is_random else self._seeds[:1]
      return [np.array(own.remembered("cosines", compute, task, recipe, seed)) for seed in seeds], ""
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
    compute = functools.partial(bootstrap_gain, before, after, pairs.scores, subsets or None, metric=metric)
    return bench.kept(key, lambda: dataclasses.asdict(compute()))


def _score(bench, task, cosines):
  """Returns the score of cosines [n] by the task's metric, and the reason if it is NaN."""
  data = bench.inputs.tasks[task]
  split = data.spec.eval_split
  return headline(scores_of_split(split, data.splits[split], cosines, data.spec.metric).get(split, {}))


def _jobs(name: str, all_sets: str) -> list[tuple[Line, str, Line | None]]:
  """Returns method, corpus, and the method that it is compared with, of each row."""
  if name == ABLATION:
    return [(line, TARGET, None) for line in ABLATION_LINES]
  fitted = [line for line in LINES if line.calibration != NONE]
  if name == BEYOND:
    return [*((line, TARGET, None) for line in LINES), *((line, all_sets, None) for line in fitted)]
  pairs = [(line, over) for over in (WHITENING, FLOW) for line in fitted if line != over]
  pairs = [(line, over) for line, over in pairs if over != FLOW or "flow" in line.calibration]
  return [(line, corpus, over) for corpus in (TARGET, all_sets) for line, over in pairs]


def _row_name(line, corpus, over):
  fitted = "" if line.calibration == NONE else " (target)" if corpus == TARGET else " (all sets)"
  return f"{line.name}{f' over {over.name}' if over else ''}{fitted}"


def _where_it_hurts(rows: Mapping[str, Mapping[str, Cell]], columns: Sequence[str]) -> str:
  """Returns a clause with the gains whose interval is below 0, or the scores below those of the plain embedding."""
  found = {}
  for row, cells in rows.items():
    for column in columns:
      cell, plain = cells[column], rows.get(FIRST_LAST, {}).get(column)
      change = cell.mean if plain is None else cell.mean - plain.mean
      surely = cell.interval and cell.interval[1] < 0 if plain is None else change < 0
      if surely and row not in (AVG, FIRST_LAST) and column != MEAN:
        found.setdefault(row, []).append(f"{column} {change:+.2f}")
  what = f"worse than {FIRST_LAST} without calibration" if FIRST_LAST in rows else "intervals wholly below 0"
  return f"{what}: {'; '.join(f'{row}: ' + ', '.join(places) for row, places in found.items()) or 'none'}"
