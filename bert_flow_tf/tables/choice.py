"""Table Choice: scores on a set of the settings that were chosen on the other sets."""

import itertools
import math
from collections.abc import Mapping

import numpy as np

from bert_flow_tf.evaluation.controls import CHARACTERS
from bert_flow_tf.tables.beyond import (
  BEST,
  IDF,
  MATCH,
  SOFT,
  SOFT_AND_CHARACTERS,
  WHITENING,
  fitted_name,
  recipe_name,
)
from bert_flow_tf.tables.recipe import UNIFORM, RowRecipe
from bert_flow_tf.tables.request import TableContent, TableRequest
from bert_flow_tf.tables.scores import cells_of, columns_of, with_mean
from bert_flow_tf.tables.similarity import FIRST_LAST
from bert_flow_tf.tables.table import OURS, Cell, Row, note
from bert_flow_tf.tables.workbench import Workbench

POOLINGS = (FIRST_LAST, "mix-0.5", "mix", "mix-0.8")
TOKEN_WEIGHTS = (UNIFORM, IDF, "idf-1")
CALIBRATIONS = (WHITENING.calibration, SOFT, SOFT_AND_CHARACTERS)
# Names of rows.
_WITHOUT = "chosen on the other sets, without characters"
_WITH = "chosen on the other sets"
_UPPER = "chosen on the set itself"


def make_choice(request: TableRequest) -> TableContent:
  """Makes the scores of the settings with the best mean on all other sets, next to the recipe and the best setting."""
  rows, notes = [], _grid_notes()
  for bench in request.benches:
    scores = _grid_scores(bench, request)
    without = {recipe: cells for recipe, cells in scores.items() if not recipe.has_characters}
    named_rows = {}
    for name, grid in ((_WITHOUT, without), (_WITH, scores)):
      named_rows[name], settings = _leave_one_out(grid, request.tasks)
      if settings:
        notes.append(f"{bench.title}, {name}: {settings}.")
    named_rows[_UPPER] = {task: _highest(scores, task) for task in request.tasks}
    named_rows[fitted_name(BEST)] = scores[BEST]
    named_rows[CHARACTERS] = cells_of(bench, MATCH, request.tasks, request.seeds)[0]
    for name, cells in named_rows.items():
      rows.append(Row(f"{bench.title}, {name}", OURS, with_mean(request, cells)))
  return TableContent(columns_of(request), rows, notes)


def _leave_one_out(grid, tasks):
  """Returns {task: cell} of the setting that the other tasks choose; and "SETTING for TASK, TASK; ..."."""
  cells, tasks_of_settings = {}, {}
  for task in tasks:
    recipe = best_on_others(grid, task)
    if recipe is None:
      cells[task] = Cell(reason="no setting has a score on every other set")
    else:
      cells[task] = grid[recipe][task]
      tasks_of_settings.setdefault(recipe_name(recipe), []).append(task)
  settings = [f"{setting} for {', '.join(names)}" for setting, names in tasks_of_settings.items()]
  return cells, "; ".join(settings)


def settings_grid() -> list[RowRecipe]:
  """Returns all settings among which a set chooses, fitted on the evaluated set, in a fixed order."""
  grid = []
  for pooling, token_weights, calibration in itertools.product(POOLINGS, TOKEN_WEIGHTS, CALIBRATIONS):
    grid.append(RowRecipe(pooling, calibration, token_weights=token_weights))
  return grid


def best_on_others(scores: Mapping[RowRecipe, Mapping[str, Cell]], task: str) -> RowRecipe | None:
  """Returns the first setting with the highest mean over all tasks but one; None if no setting has such a mean."""
  best, highest = None, -math.inf
  for recipe, cells in scores.items():
    others = [cell.mean for name, cell in cells.items() if name != task]
    mean = float(np.mean(others))
    if mean > highest:  # not for NaN
      best, highest = recipe, mean
  return best


def _grid_scores(bench: Workbench, request: TableRequest) -> dict[RowRecipe, dict[str, Cell]]:
  """Returns {setting: {task: cell}} of an encoder; settings of the same embeddings follow each other."""
  scores = {}
  for recipe in settings_grid():
    scores[recipe] = cells_of(bench, recipe, request.tasks, request.seeds)[0]
  return scores


def _highest(scores: Mapping[RowRecipe, Mapping[str, Cell]], task: str) -> Cell:
  """Returns the cell of the setting with the highest score of a task."""
  cells = [of_tasks[task] for of_tasks in scores.values()]
  defined = [cell for cell in cells if cell.defined]
  if not defined:
    return cells[0]
  return max(defined, key=lambda cell: cell.mean)


def _grid_notes() -> list[str]:
  """Returns notes on the grid and on the rows."""
  parts = {"poolings": POOLINGS, "token weights": TOKEN_WEIGHTS, "calibrations": CALIBRATIONS}
  sizes = [f"{len(names)} {part} ({', '.join(names)})" for part, names in parts.items()]
  return [
    f"The settings: {', '.join(sizes)}, each with each.",
    f"{_WITH}: the setting with the highest mean over the other sets; the set's own scores take no part in the choice.",
    f"{_UPPER}: the highest score of all settings, which flatters.",
    note("recipe"),
    note(CHARACTERS),
  ]
