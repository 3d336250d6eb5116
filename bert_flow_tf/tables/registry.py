"""The tables and figures that `run_table.py` makes: a new one is a function and a row here."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bert_flow_tf.data.tasks import STS_TASKS
from bert_flow_tf.evaluation import figures
from bert_flow_tf.tables import analysis, beyond, similarity
from bert_flow_tf.tables.paper_tables import paper_tables
from bert_flow_tf.tables.table import HIGHEST, NEAREST_0, TERMS, Table, note
from bert_flow_tf.tables.workbench import Made, Run, Workbench

BINARY_TASKS = ("QNLI", "MRPC")  # further columns of beyond and gains, unless some columns are chosen
_ONE_TASK = ("STS-B",)
# Encoders with rows in a table: all, those with a BERT, those fine-tuned on NLI, BERTs and these, or these if any.
ALL, BERTS, TUNED, BERTS_AND_TUNED, TUNED_OR_BERTS = "all", "BERTs", "tuned", "BERTs and tuned", "tuned or BERTs"


@dataclasses.dataclass(frozen=True)
class Kind:
  """A table, before it is made.

  Attributes:
    make: function `Run` -> `Made`.
    title: subject; "" for that of the paper's table.
    metric: meaning of the numbers; "" for that of the paper's table.
    encoders: which encoders have rows, one of the above.
    tasks: names of the tasks that are read; None for those of the argument `task`.
    binary: whether BINARY_TASKS follow these, unless some are chosen.
    uses: arguments of `Plan`, besides those that every table uses.
    seeds: default number of seeds; 0 if nothing is random.
    on_nli: whether a row is fitted on SNLI and MNLI.
    without_best: columns without a best cell; None for all.
    nearest_0: columns whose best cell is the nearest to 0.
  """

  make: Callable[[Run], Made]
  title: str = ""
  metric: str = ""
  encoders: str = BERTS
  tasks: tuple[str, ...] | None = None
  binary: bool = False
  uses: tuple[str, ...] = ()
  seeds: int = 1
  on_nli: bool = False
  without_best: tuple[str, ...] | None = ()
  nearest_0: tuple[str, ...] = ()

  def columns(self, chosen: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of its tasks if `chosen` is the argument `task`."""
    if self.tasks is not None:
      return self.tasks
    if self.binary and chosen == STS_TASKS:
      return (*chosen, *BINARY_TASKS)
    return chosen

  def benches(self, models: Sequence[Any], tuned: Sequence[Any]) -> list[Any]:
    """Returns the workbenches that have rows, of the plain ones and of those of encoders fine-tuned on NLI."""
    berts = [bench for bench in models if not bench.words]
    chosen = {ALL: models, BERTS: berts, TUNED: tuned, BERTS_AND_TUNED: [*berts, *tuned]}
    chosen[TUNED_OR_BERTS] = tuned or berts
    return list(chosen[self.encoders])


TABLES = {
  "beyond": Kind(
    beyond.make_beyond,
    title="the paper's flow, other calibrations, and other embeddings",
    metric=beyond.METRIC,
    binary=True,
    uses=("task", "frequency_corpus", "num_seeds"),
  ),
  "gains": Kind(
    beyond.make_gains,
    title="differences between rows of table beyond, with 95 % intervals",
    metric=beyond.METRIC,
    binary=True,
    uses=("task", "frequency_corpus", "num_seeds"),
    without_best=None,
  ),
  "ablation": Kind(
    beyond.make_ablation,
    title="from whitening to the recipe, and away from it",
    metric=beyond.METRIC,
    uses=("task", "frequency_corpus"),
  ),
  "1": Kind(analysis.make_words, tasks=(), uses=("frequency_file", "corpus"), seeds=0, without_best=None),
  "2": Kind(similarity.make_similarity, encoders=ALL, uses=("task", "calibration", "num_seeds"), on_nli=True),
  "3": Kind(
    similarity.make_similarity,
    encoders=TUNED,
    uses=("task", "nli_model", "calibration", "num_seeds"),
    on_nli=True,
  ),
  "4": Kind(
    similarity.make_qnli, encoders=BERTS_AND_TUNED, tasks=("QNLI",), uses=("nli_model", "num_seeds"), on_nli=True
  ),
  "5": Kind(similarity.make_calibrations, tasks=_ONE_TASK, uses=("calibration", "num_seeds")),
  "6": Kind(analysis.make_lexical, tasks=_ONE_TASK, uses=("edit_unit", "num_seeds"), without_best=("edit distance",)),
  "8": Kind(
    similarity.make_seeds,
    encoders=TUNED_OR_BERTS,
    tasks=_ONE_TASK,
    uses=("nli_model", "num_seeds"),
    seeds=5,
    without_best=("standard deviation",),
  ),
  "isotropy": Kind(
    analysis.make_isotropy,
    title=f"how evenly the embeddings of {_ONE_TASK[0]}'s test sentences fill their space",
    metric="IsoScore (Rudman et al. 2022): 100 is isotropic, 0 is a single direction",
    tasks=_ONE_TASK,
    uses=("calibration", "num_seeds"),
    nearest_0=analysis.ISOTROPY_COLUMNS[1:],
  ),
  "transfer": Kind(
    similarity.make_transfer,
    title="does a flow fitted on the sentences of one set help on another?",
    metric=f"Spearman x 100 of {similarity.FIRST_LAST}",
    uses=("task", "transfer_corpus", "num_seeds"),
  ),
}
# {name: (function of a run and an encoder that draws it, arguments that it uses)}; all are of STS-B and of BERTs.
FIGURES: dict[str, tuple[Callable[[Run, Workbench], Any], tuple[str, ...]]] = {
  "2": (analysis.draw_edit_distances, ("edit_unit",)),
  "isotropy": (analysis.draw_spectra, ("calibration",)),
  "cone": (analysis.draw_cone, ()),
}


def users_of(argument: str) -> list[str]:
  """Returns the tables, and figures as "figure NAME", that use an argument; [] for arguments that all of them use."""
  users = [name for name, kind in TABLES.items() if argument in kind.uses]
  return users + [f"figure {name}" for name, (_, uses) in FIGURES.items() if argument in uses]


def make_table(name: str, plan: Any, benches: Sequence[Workbench], about: Mapping[str, Any]) -> Table:
  """Returns a finished table; `benches` are those of `Kind.benches`, `about` JSON values of how it is made."""
  kind, seeds = TABLES[name], plan.seeds(name)
  made = kind.make(Run(name, plan, benches, kind.columns(plan.task), seeds))
  title, metric, rows, notes = kind.title, kind.metric, list(made.rows), list(made.notes)
  # A table of the paper has its title, metric and published rows.
  if not title:
    paper = paper_tables()[int(name)]
    title, metric = paper.title, paper.metric
    rows += paper.published_rows()
  elif set(made.columns) & set(BINARY_TASKS):
    metric += "; AUC x 100 of QNLI and MRPC"
  cells = [cell for row in rows for cell in row.cells.values()]
  if any(cell.paper is not None for cell in cells):
    notes.append(note("(paper x, y)"))
  if any(cell.spread is not None for cell in cells):
    notes.append(f"±: {TERMS['±']}, {seeds[0]} to {seeds[-1]}.")
  # The kind of best cell of each column that has one.
  best = {}
  if kind.without_best is not None:
    for column in made.columns:
      if column not in kind.without_best:
        best[column] = NEAREST_0 if column in kind.nearest_0 else HIGHEST
  return Table(name, title, metric, tuple(made.columns), tuple(rows), tuple(notes), {**about, "seeds": seeds}, best)


def draw_figure(name: str, plan: Any, models: Sequence[Workbench], folder: str | os.PathLike) -> list[pathlib.Path]:
  """Draws a figure for each encoder with a BERT; returns the files."""
  paths, (draw, _) = [], FIGURES[name]
  for bench in models:
    if not bench.words:
      run = Run(f"figure {name}", plan, [bench], _ONE_TASK, [plan.seed])
      paths += figures.save(draw(run, bench), folder, f"figure_{name}_{bench.label}")
  return paths
