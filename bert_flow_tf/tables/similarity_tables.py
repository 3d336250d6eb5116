"""Tables 2, 3, 4, 5 and 8 of the paper, and the transfer table: scores of tasks by recipe."""

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from bert_flow_tf.calibration.names import parse_calibration
from bert_flow_tf.data.flow_corpus import NLI
from bert_flow_tf.errors import CalibrationError, FlowError, TrainingError
from bert_flow_tf.progress import Progress
from bert_flow_tf.tables.paper_tables import paper_table
from bert_flow_tf.tables.table import OURS, PUBLISHED, WORSE, Cell, Row
from bert_flow_tf.tables.workbench import NONE, Recipe, Workbench, headline

AVG, FIRST_LAST = "avg", "avg-first-last"
# The k that the paper chose on dev; ours, chosen on dev too, is compared with it.
_PAPER_K = {"natsv": "natsv-10", "sn+natsv": "sn+natsv-6"}


def similarity_recipes(bench: Workbench, calibrations: Sequence[str] = ()) -> list[Recipe]:
  """Returns the rows of Tables 2 and 3 that an encoder has: avg, cls, avg-first-last, flows, other calibrations."""
  best, recipes = AVG, [Recipe(AVG)]
  if not bench.words:
    best = FIRST_LAST
    recipes += [*[Recipe("cls")] * bench.has_cls, Recipe(FIRST_LAST), Recipe(FIRST_LAST, "flow", NLI)]
  return [*recipes, Recipe(best, "flow"), *(Recipe(best, name) for name in calibrations)]


def qnli_recipes(bench: Workbench, calibrations: Sequence[str] = ()) -> list[Recipe]:
  """Returns the rows of Table 4."""
  del bench, calibrations
  return [Recipe(FIRST_LAST), Recipe(FIRST_LAST, "flow", NLI), Recipe(FIRST_LAST, "flow")]


def calibration_recipes(bench: Workbench, calibrations: Sequence[str] = ()) -> list[Recipe]:
  """Returns the rows of Table 5, all of plain averages; the k of natsv without a number is chosen on dev."""
  del bench
  names = [NONE, "sn", "natsv-1", "natsv", "sn+natsv-1", "sn+natsv", *calibrations, "flow"]
  return [Recipe(AVG, name) for name in dict.fromkeys(names)]


SEED_RECIPES = (Recipe(AVG), Recipe(FIRST_LAST), Recipe(FIRST_LAST, "flow"))  # rows of Table 8


def measure(bench: Workbench, task: str, recipe: Recipe, seed: int) -> tuple[float, str, str]:
  """Returns score, reason and the calibration's name; NaN and a reason if the method fails on these sentences."""
  try:
    scores = bench.scores(task, recipe, seed)
  except (CalibrationError, FlowError, TrainingError) as error:
    logging.warning("no score of %s on %s: %s", row_name(bench, recipe), task, error)
    return math.nan, str(error), recipe.calibration
  return *headline(scores), scores.get("calibration", recipe.calibration)


def rows_of(
  bench: Workbench,
  recipes: Sequence[Recipe],
  columns: Mapping[str, str],
  number: int,
  seeds: Sequence[int],
  progress: Progress,
) -> list[Row]:
  """Returns our rows: a score per task and recipe, for each seed if the recipe is random.

  Args:
    bench: an encoder.
    recipes: methods, a row each.
    columns: {column: name of the task}.
    number: number of the paper's table.
    seeds: seeds of the flow.
    progress: counts the cells.
  """
  rows = []
  for recipe in recipes:
    published = _published(bench, recipe, number)
    cells, names = cells_of(bench, recipe, columns, seeds, progress)
    cells = {
      column: dataclasses.replace(cell, paper=published and published.cells[column]) for column, cell in cells.items()
    }
    chosen = names.pop() if len(names) == 1 else recipe.calibration
    rows.append(Row(row_name(bench, recipe, chosen), OURS, cells))
  return rows


def cells_of(
  bench: Workbench, recipe: Recipe, columns: Mapping[str, str], seeds: Sequence[int], progress: Progress
) -> tuple[dict[str, Cell], set[str]]:
  """Returns the cells of a recipe by column, and the names of its calibrations, which k chosen on dev may vary.

  The arguments are those of `rows_of`.
  """
  name, seeds = row_name(bench, recipe), seeds if recipe.is_random else seeds[:1]
  missing = "" if recipe.calibration == NONE else bench.inputs.why_missing(recipe.corpus)
  if missing:
    progress.update(len(columns) * len(seeds), f"{name}: no such corpus")
    return {column: Cell(reason=missing) for column in columns}, set()
  values, reasons, names = {column: [] for column in columns}, dict.fromkeys(columns, ""), set()
  for seed in seeds:  # outer loop: a fit that serves all columns is made once per seed
    for column, task in columns.items():
      progress.update(0, f"{name}, {column}, seed {seed}" if recipe.is_random else f"{name}, {column}")
      value, reason, calibration = measure(bench, task, recipe, seed)
      values[column].append(value)
      reasons[column] = reasons[column] or reason
      names.add(calibration)
      progress.update(1, name)
  return {column: Cell(tuple(values[column]), reason=reasons[column]) for column in columns}, names


def count_of(recipes: Sequence[Recipe], columns: Sequence[str], seeds: Sequence[int]) -> int:
  """Returns the number of cells that `rows_of` computes."""
  return sum(len(columns) * (len(seeds) if recipe.is_random else 1) for recipe in recipes)


def published_rows(number: int) -> list[Row]:
  """Returns the paper's own rows."""
  return [
    Row(row.name, PUBLISHED, {column: Cell((value,)) for column, value in row.cells.items() if value is not None})
    for row in paper_table(number).rows
  ]


def seed_rows(bench: Workbench, task: str, seeds: Sequence[int], progress: Progress) -> list[Row]:
  """Returns the rows of Table 8: mean, standard deviation and median over the seeds of the flow."""
  rows = []
  for recipe in SEED_RECIPES:
    cell = cells_of(bench, recipe, {task: task}, seeds, progress)[0][task]
    published = _published(bench, recipe, 8)
    median = statistics.median(cell.values) if cell.defined else None
    reason = cell.reason or ("only one seed" if recipe.is_random else "no seed takes part in this row")
    cells = {}
    for column, value in {"mean": cell.mean, "standard deviation": cell.spread, "median": median}.items():
      cells[column] = Cell(() if value is None else (value,), published and published.cells[column])
      if not cells[column].defined:
        cells[column] = dataclasses.replace(cells[column], reason=reason)
    rows.append(Row(row_name(bench, recipe), OURS, cells))
  return rows


def transfer_rows(
  bench: Workbench,
  corpora: Mapping[str, str],
  columns: Mapping[str, str],
  seeds: Sequence[int],
  progress: Progress,
) -> tuple[list[Row], str]:
  """Returns the rows of a flow fitted on each corpus, and a sentence with the number of cells where it lowers scores.

  The arguments are those of `rows_of`, and corpora, {name in the table: corpus of a `Recipe`}.
  """
  recipes = {"no flow": Recipe(FIRST_LAST)}
  recipes |= {f"flow fitted on {name}": Recipe(FIRST_LAST, "flow", corpus) for name, corpus in corpora.items()}
  cells = {name: cells_of(bench, recipe, columns, seeds, progress)[0] for name, recipe in recipes.items()}
  plain, rows = cells.pop("no flow"), []
  for name, row in cells.items():
    marked = {column: dataclasses.replace(cell, worse=cell.mean < plain[column].mean) for column, cell in row.items()}
    rows.append(Row(f"{bench.title}, {name}", OURS, marked))
  compared = [cell for row in rows for column, cell in row.cells.items() if cell.defined and plain[column].defined]
  note = f"the flow lowers the score in {sum(cell.worse for cell in compared)} of {len(compared)} cells ({WORSE})"
  return [Row(f"{bench.title}, no flow", OURS, plain), *rows], f"{bench.title}: {note}."


def row_name(bench: Workbench, recipe: Recipe, chosen: str | None = None) -> str:
  """Returns the name of a row: encoder, embedding, calibration, and its corpus.

  Args:
    bench: an encoder.
    recipe: the method.
    chosen: name of the calibration with the k that was chosen on dev; None if there are several.
  """
  embedding = "avg of word vectors" if bench.words else recipe.embedding
  if recipe.calibration == NONE:
    return f"{bench.title}, {embedding}"
  spec = parse_calibration(recipe.calibration)
  k = parse_calibration(chosen).k if chosen else None
  method = f"{spec.method}-{k or 'k'}, k chosen on dev" if spec.k_on_dev else spec.name
  return f"{bench.title}, {embedding}, {method} ({'NLI' if recipe.corpus == NLI else recipe.corpus})"


def _published(bench: Workbench, recipe: Recipe, number: int) -> Any:
  """Returns the `PaperRow` that ours is compared with, None if the encoder is not the paper's."""
  if bench.paper_encoder is None:
    return None
  return paper_table(number).match(
    calibration=_PAPER_K.get(recipe.calibration, recipe.calibration),
    encoder=bench.paper_encoder,
    embedding=recipe.embedding,
    corpus=recipe.corpus if recipe.is_random else None,
    nli_tuned=bench.nli_tuned,
  )
