"""Tables whose rows are recipes: the one maker of them, and the cells of a recipe."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.data.tasks import STS_TASKS
from bert_flow_tf.tables.kinds import EncoderKind
from bert_flow_tf.tables.recipe import NONE, RowRecipe
from bert_flow_tf.tables.request import TableContent, TableRequest
from bert_flow_tf.tables.table import OURS, Cell, Row, paper_tables
from bert_flow_tf.tables.workbench import Workbench

MEAN = "mean"
# The k that the paper chose on dev; ours, chosen on dev too, is compared with it.
_PAPER_K = {"natsv": "natsv-10", "sn+natsv": "sn+natsv-6"}
_PAPER_COLUMNS = {"QNLI": "AUC"}  # {task: the paper's column}, if they differ


@dataclasses.dataclass(frozen=True)
class ScoredRow:
  """Cells of a recipe with an encoder by column; `fitted`: {fitted calibration: tasks that have a score of it}."""

  bench: Workbench
  recipe: RowRecipe
  cells: dict[str, Cell]
  fitted: dict[str, list[str]]


@dataclasses.dataclass(frozen=True)
class ScoreTable:
  """A table whose rows are recipes, with the scores of tasks as columns.

  Attributes:
    recipes: returns the recipes of an encoder, a row each.
    notes: returns the notes below all rows.
    row_name: returns the name of a row.
    is_papers: whether each score stands next to the paper's, in the paper's columns.
    has_mean: whether the mean over the paper's sets is a column.
    baseline: returns the recipe of an encoder below which scores of calibrations are marked; None for no marks.
  """

  recipes: Callable[[TableRequest, Workbench], Sequence[RowRecipe]]
  notes: Callable[[TableRequest, Sequence[ScoredRow]], list[str]]
  row_name: Callable[[ScoredRow], str]
  is_papers: bool = False
  has_mean: bool = False
  baseline: Callable[[Workbench], RowRecipe] | None = None

  def make(self, request: TableRequest) -> TableContent:
    """Computes the scores of all encoders."""
    columns: Sequence[str] = request.tasks
    if self.is_papers:
      columns = tuple(_PAPER_COLUMNS.get(task, task) for task in request.tasks)
    if self.has_mean:
      columns = columns_of(request)
    scored: list[ScoredRow] = []
    for bench in request.benches:
      scored += self._score(request, bench)
    rows = [Row(self.row_name(row), OURS, row.cells) for row in scored]
    return TableContent(columns, rows, self.notes(request, scored))

  def _score(self, request: TableRequest, bench: Workbench) -> list[ScoredRow]:
    """Returns the rows of an encoder."""
    rows = []
    for recipe in self.recipes(request, bench):
      cells, fitted = cells_of(bench, recipe, request.tasks, request.seeds)
      if self.is_papers:
        cells = _with_paper(request, bench, recipe, cells)
      if self.has_mean:
        cells = with_mean(request, cells)
      rows.append(ScoredRow(bench, recipe, cells, fitted))
    # A calibration can hurt: cells below the uncalibrated embeddings are marked.
    if self.baseline is not None:
      baseline = self.baseline(bench)
      for plain in [row.cells for row in rows if row.recipe == baseline]:
        for row in rows:
          if row.recipe.calibration != NONE:
            _mark(row.cells, plain)
    return rows


def _mark(cells: dict[str, Cell], plain: Mapping[str, Cell]) -> None:
  """Marks the cells that are lower than those without a calibration."""
  for column, cell in cells.items():
    cells[column] = dataclasses.replace(cell, worse=cell.mean < plain[column].mean)


def _with_paper(
  request: TableRequest, bench: Workbench, recipe: RowRecipe, cells: Mapping[str, Cell]
) -> dict[str, Cell]:
  """Returns the cells under the paper's columns, next to the paper's scores."""
  published = published_cells(bench, recipe, int(request.name))
  of_columns: dict[str, Cell] = {}
  for task, cell in cells.items():
    column = _PAPER_COLUMNS.get(task, task)
    of_columns[column] = dataclasses.replace(cell, paper=published.get(column))
  return of_columns


def cells_of(
  bench: Workbench, recipe: RowRecipe, tasks: Iterable[str], seeds: Sequence[int]
) -> tuple[dict[str, Cell], dict[str, list[str]]]:
  """Returns {task: cell} of a recipe, with a score for each seed if it is random; and {fitted calibration: tasks}."""
  cells: dict[str, Cell] = {}
  names: dict[str, list[str]] = {}
  for seed in recipe.seeds(seeds):  # outer loop: a fit that serves all tasks is made once per seed
    for task in tasks:
      value, reason, calibration = bench.score(task, recipe, seed)
      before = cells.get(task, Cell())
      cells[task] = Cell((*before.values, value), reason=before.reason or reason)
      if not reason and task not in names.get(calibration, ()):
        names.setdefault(calibration, []).append(task)
  return cells, names


def sets_of(request: TableRequest) -> list[str]:
  """Returns the tasks that are sets of the paper, over which the mean is taken."""
  return list(filter(STS_TASKS.__contains__, request.tasks))


def columns_of(request: TableRequest) -> list[str]:
  """Returns the columns of a table: its tasks, and the mean behind the sets of the paper if there are several."""
  columns = list(request.tasks)  # the sets come first
  if len(sets_of(request)) > 1:
    columns.insert(len(sets_of(request)), MEAN)
  return columns


def with_mean(request: TableRequest, cells: Mapping[str, Cell]) -> dict[str, Cell]:
  """Returns the cells, with the mean over the sets for each seed if there are several sets."""
  of_sets = list(map(cells.__getitem__, sets_of(request)))
  if len(of_sets) < 2:
    return dict(cells)
  mean = Cell()
  if of_sets[0].interval is not None:
    mean = Cell(interval=())
  for cell in of_sets:
    if not cell.defined:
      return {**cells, MEAN: dataclasses.replace(mean, reason=cell.reason)}
  # A mean per seed.
  values = np.mean([cell.values for cell in of_sets], axis=0)
  return {**cells, MEAN: dataclasses.replace(mean, values=tuple(values.tolist()))}


def published_cells(bench: Workbench, recipe: RowRecipe, number: int) -> Mapping[str, Any]:
  """Returns {column: score} of the paper's row that ours is compared with; {} if the encoder is not the paper's."""
  if bench.paper_encoder is None:
    return {}
  corpus = None
  if recipe.is_random:
    corpus = recipe.corpus
  row = paper_tables()[number].match(
    _PAPER_K.get(recipe.calibration, recipe.calibration),
    bench.kind is EncoderKind.TUNED,
    encoder=bench.paper_encoder,
    embedding=recipe.embedding,
    corpus=corpus,
  )
  if row is None:
    return {}
  return row.cells
