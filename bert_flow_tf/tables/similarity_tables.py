"""Tables 2, 3, 4, 5 and 8 of the paper, and the transfer matrix: figures of tasks by recipes."""

import dataclasses
import math
import statistics

from absl import logging

from bert_flow_tf.calibration.spec import parse_calibration
from bert_flow_tf.data.flow_corpus import NLI
from bert_flow_tf.errors import CalibrationError, FlowError, TrainingError
from bert_flow_tf.tables.paper_tables import paper_table
from bert_flow_tf.tables.table import OURS, PUBLISHED, Cell, Row
from bert_flow_tf.tables.workbench import NONE, Recipe, headline

AVG, FIRST_LAST = "avg", "avg-first-last"
# What the paper chose k to be on dev; ours, chosen likewise, is compared with it.
_PAPER_K = {"natsv": "natsv-10", "sn+natsv": "sn+natsv-6"}


@dataclasses.dataclass(frozen=True)
class Model:
  """An encoder of the run.

  Attributes:
    label: what it is called.
    bench: its `Workbench`.
    paper_encoder: "base" or "large" where it is the paper's, else None: then nothing is compared.
    nli_tuned: whether it was fine-tuned on NLI.
    words: whether it averages word vectors, and has one embedding alone.
  """

  label: str
  bench: object
  paper_encoder: str | None = None
  nli_tuned: bool = False
  words: bool = False

  @property
  def title(self):
    """How its rows begin."""
    return f"{self.label} (fine-tuned on NLI)" if self.nli_tuned else self.label

  @property
  def has_cls(self):
    """Whether its checkpoint has what `cls` is made of."""
    return not self.words and self.bench.encoder.bert.has_pooler


def similarity_recipes(model, calibrations=()):
  """The rows of Tables 2 and 3 that an encoder can give: avg, cls, avg-first-last, both flows, other calibrations."""
  best, recipes = AVG, [Recipe(AVG)]
  if not model.words:
    best = FIRST_LAST
    recipes += [*[Recipe("cls")] * model.has_cls, Recipe(FIRST_LAST), Recipe(FIRST_LAST, "flow", NLI)]
  return [*recipes, Recipe(best, "flow"), *(Recipe(best, name) for name in calibrations)]


def qnli_recipes(model, calibrations=()):
  """The rows of Table 4."""
  del model, calibrations
  return [Recipe(FIRST_LAST), Recipe(FIRST_LAST, "flow", NLI), Recipe(FIRST_LAST, "flow")]


def calibration_recipes(model, calibrations=()):
  """The rows of Table 5, on plain averages; natsv without k has it chosen on dev; then other calibrations."""
  del model
  names = [NONE, "sn", "natsv-1", "natsv", "sn+natsv-1", "sn+natsv", *calibrations, "flow"]
  return [Recipe(AVG, name) for name in dict.fromkeys(names)]


def measure(model, task, recipe, seed):
  """(value, reason, calibration's name) of one cell; NaN and a reason where the method fails on these sentences."""
  try:
    figures = model.bench.figures(task, recipe, seed)
  except (CalibrationError, FlowError, TrainingError) as error:
    logging.warning("no figure of %s on %s: %s", row_name(model, recipe), task, error)
    return math.nan, str(error), recipe.calibration
  return *headline(figures), figures.get("calibration", recipe.calibration)


def rows_of(model, recipes, columns, number, seeds, progress):
  """Our rows: a figure a task and recipe, over the seeds where they make a difference.

  Args:
    model: `Model`.
    recipes: `Recipe`s.
    columns: {column: name of the task}.
    number: of the paper's table.
    seeds: of the flow.
    progress: `Progress`, counted a cell.
  """
  rows = []
  for recipe in recipes:
    published = _published(model, recipe, number)
    cells, names = cells_of(model, recipe, columns, seeds, progress)
    cells = {
      column: dataclasses.replace(cell, paper=published and published.cells[column]) for column, cell in cells.items()
    }
    chosen = names.pop() if len(names) == 1 else recipe.calibration
    rows.append(Row(row_name(model, recipe, chosen), OURS, cells))
  return rows


def cells_of(model, recipe, columns, seeds, progress):
  """{column: Cell} of a recipe, and the names of the calibrations behind them, which k chosen on dev may tell apart.

  Args:
    model: as in `rows_of`.
    recipe: `Recipe`.
    columns: as in `rows_of`.
    seeds: as in `rows_of`.
    progress: as in `rows_of`.
  """
  name, seeds = row_name(model, recipe), seeds if recipe.is_random else seeds[:1]
  missing = "" if recipe.calibration == NONE else model.bench.why_missing(recipe.corpus)
  if missing:
    progress.update(len(columns) * len(seeds), f"{name}: no such corpus")
    return {column: Cell(reason=missing) for column in columns}, set()
  values, reasons, names = {column: [] for column in columns}, dict.fromkeys(columns, ""), set()
  for seed in seeds:  # a fit that serves all columns is made once a seed
    for column, task in columns.items():
      progress.update(0, f"{name}, {column}, seed {seed}" if recipe.is_random else f"{name}, {column}")
      value, reason, calibration = measure(model, task, recipe, seed)
      values[column].append(value)
      reasons[column] = reasons[column] or reason
      names.add(calibration)
      progress.update(1, name)
  return {column: Cell(tuple(values[column]), reason=reasons[column]) for column in columns}, names


def count_of(recipes, columns, seeds):
  """Cells that `rows_of` computes."""
  return sum(len(columns) * (len(seeds) if recipe.is_random else 1) for recipe in recipes)


def published_rows(number):
  """The paper's own rows, as published."""
  found = paper_table(number)
  return [
    Row(row.name, PUBLISHED, {column: Cell((value,)) for column, value in row.cells.items() if value is not None})
    for row in found.rows
  ]


def seed_recipes(model, calibrations=()):
  """The rows of Table 8."""
  del model, calibrations
  return [Recipe(AVG), Recipe(FIRST_LAST), Recipe(FIRST_LAST, "flow")]


def seed_rows(model, task, seeds, progress):
  """The rows of Table 8: mean, standard deviation and median over the seeds of the flow."""
  rows = []
  for recipe in seed_recipes(model):
    cell = cells_of(model, recipe, {task: task}, seeds, progress)[0][task]
    published = _published(model, recipe, 8)
    found = {"mean": cell.mean, "standard deviation": cell.spread, "median": None}
    if cell.defined:
      found["median"] = statistics.median(cell.values)
    reason = cell.reason or ("one seed alone" if recipe.is_random else "no seed takes part in this row")
    cells = {
      column: Cell(() if value is None else (value,), published and published.cells[column])
      for column, value in found.items()
    }
    cells = {name: one if one.defined else dataclasses.replace(one, reason=reason) for name, one in cells.items()}
    rows.append(Row(row_name(model, recipe), OURS, cells))
  return rows


def transfer_rows(model, corpora, columns, seeds, progress):
  """A flow fitted on each corpus, evaluated on every set: rows, and a sentence that says where it hurts.

  Args:
    model: `Model`.
    corpora: {what it is called: corpus of a `Recipe`}.
    columns: {column: name of the task}.
    seeds: of the flow.
    progress: `Progress`, counted a cell.
  """
  recipes = {"no flow": Recipe(FIRST_LAST)}
  recipes |= {f"flow fitted on {name}": Recipe(FIRST_LAST, "flow", corpus) for name, corpus in corpora.items()}
  found = {name: cells_of(model, recipe, columns, seeds, progress)[0] for name, recipe in recipes.items()}
  rows = [Row(f"{model.title}, {name}", OURS, cells) for name, cells in found.items()]
  return rows, _where_it_hurts(model, found, columns)


def _where_it_hurts(model, found, columns):
  """A sentence with every cell of transfer that is below the one without a flow."""
  without, *fitted = found.values()
  names = list(found)[1:]
  changes = {
    f"{name.removeprefix('flow ')}, on {column}": cells[column].mean - without[column].mean
    for name, cells in zip(names, fitted, strict=True)
    for column in columns
    if cells[column].defined and without[column].defined
  }
  hurts = [f"{where} ({change:+.2f})" for where, change in changes.items() if change < 0]
  cells = ": " + "; ".join(hurts) if hurts else ""
  return f"{model.title}: the flow hurts in {len(hurts)} of {len(changes)} cells{cells}."


def row_name(model, recipe, chosen=None):
  """How a row is named: encoder, embedding, calibration and what it was fitted on.

  Args:
    model: `Model`.
    recipe: `Recipe`.
    chosen: the calibration's name once k was chosen on dev; None if there is no one k.
  """
  embedding = "avg of word vectors" if model.words else recipe.embedding
  if recipe.calibration == NONE:
    return f"{model.title}, {embedding}"
  spec = parse_calibration(recipe.calibration)
  k = parse_calibration(chosen).k if chosen else None
  method = f"{spec.method}-{k or 'k'}, k chosen on dev" if spec.k_on_dev else spec.name
  corpus = "NLI" if recipe.corpus == NLI else recipe.corpus
  return f"{model.title}, {embedding}, {method} ({corpus})"


def _published(model, recipe, number):
  """The paper's row that ours is compared with, None for another encoder than the paper's."""
  if model.paper_encoder is None:
    return None
  return paper_table(number).match(
    calibration=_PAPER_K.get(recipe.calibration, recipe.calibration),
    encoder=model.paper_encoder,
    embedding=recipe.embedding,
    corpus=recipe.corpus if recipe.is_random else None,
    nli_tuned=model.nli_tuned,
  )
