"""Tables 1 and 6 of the paper, isotropy, and the data of the figures: properties of the embeddings."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_flow_tf.errors import CalibrationError, FlowError, TrainingError
from bert_flow_tf.evaluation.analysis import (
  CHARACTERS,
  CLOSE,
  TOKENS,
  close_pairs,
  edit_distances,
  frequency_groups,
  lexical_correlations,
)
from bert_flow_tf.evaluation.isotropy import isoscore, singular_spectrum
from bert_flow_tf.evaluation.metrics import mean_random_cosine, random_pair_cosines
from bert_flow_tf.progress import Progress
from bert_flow_tf.tables.paper_tables import paper_table
from bert_flow_tf.tables.similarity_tables import FIRST_LAST, row_name
from bert_flow_tf.tables.table import OURS, Cell, Row
from bert_flow_tf.tables.workbench import NONE, Recipe, Workbench

LEXICAL_SPLIT = "dev"
_EDITS, _GOLD = "edit distance", "gold similarity"
_UNIT_NOTES = {
  TOKENS: "tokens: words and runs of punctuation of the lower-cased sentences (`\\w+|[^\\w\\s]+`). The paper does not "
  "name its unit, but its gold score agrees with tokens and not with characters (`--edit_unit=characters`)",
  CHARACTERS: "characters, unlike the paper's, whose gold score agrees with tokens (`--edit_unit=tokens`)",
}
# The paper's names of the rows of Table 6 and of the panels of Figure 2.
_METHODS = {"BERT-induced similarity": Recipe(FIRST_LAST), "flow-induced similarity": Recipe(FIRST_LAST, "flow")}
_ISOTROPY = {
  "IsoScore x 100": "isoscore",
  "mean cosine of random pairs x 100": "cosine",
  "variance along the first direction, %": "first",
}
ISOTROPY_COLUMNS = tuple(_ISOTROPY)


def word_rows(bench: Workbench, order: Sequence[int]) -> tuple[list[Row], str]:
  """Returns the rows of Table 1, and a sentence with the number of words in each group.

  Args:
    bench: an encoder with a BERT.
    order: rows of the vocabulary by decreasing frequency.
  """
  paper = paper_table(1)
  groups = frequency_groups(bench.encoder.bert.word_embeddings(), np.asarray(order, np.int64))
  columns = dict(zip(paper.columns, groups, strict=True))
  numbers: dict[str, Any] = {"mean l2-norm": lambda group: group.mean_norm}
  for k in (3, 5, 7):
    numbers[f"mean k-NN l2-distance, k={k}"] = lambda group, k=k: group.mean_distance[k]
    numbers[f"mean k-NN dot product, k={k}"] = lambda group, k=k: group.mean_dot_product[k]
  rows = []
  for published in paper.rows:
    cells = {
      column: Cell(
        (float(numbers[published.name](group)),),
        published.cells[column] if bench.paper_encoder else None,
        "" if group.words else "no counted word has such a rank",
      )
      for column, group in columns.items()
    }
    rows.append(Row(f"{bench.title}, {published.name}", OURS, cells))
  words = ", ".join(f"{group.words} in {column}" for column, group in columns.items())
  return rows, f"{bench.title}: words with a count: {words}."


def lexical_points(
  bench: Workbench, task: str, seed: int, unit: str = TOKENS
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
  """Returns the numbers of Figure 2 and Table 6, from the dev split.

  Args:
    bench: an encoder.
    task: name of a task with a dev split.
    seed: seed of the flow.
    unit: "tokens" or "characters", see `edit_distances`.

  Returns:
    {name: float64 [n]} of edit distance, gold and similarities; and {name: reason} of methods that fail on them.
  """
  pairs = bench.inputs.tasks[task].splits[LEXICAL_SPLIT]
  points = {_EDITS: edit_distances(pairs.sentences_a, pairs.sentences_b, unit), _GOLD: pairs.scores}
  failed = {}

  def compute(task, recipe, seed):
    return [float(cosine) for cosine in bench.cosines(task, recipe, seed, LEXICAL_SPLIT)]

  for name, recipe in _METHODS.items():
    try:
      points[name] = bench.remembered("cosines", compute, task, recipe, seed, LEXICAL_SPLIT)
    except (CalibrationError, FlowError, TrainingError) as error:
      failed[name] = str(error)
  return {name: np.asarray(values, np.float64) for name, values in points.items()}, failed


def lexical_rows(
  benches: Sequence[Workbench], task: str, seeds: Sequence[int], progress: Progress, unit: str = TOKENS
) -> tuple[list[Row], str]:
  """Returns the rows of Table 6, and sentences about the unit and the number of close pairs.

  The gold scores are one row, since no encoder takes part; each encoder has a row without and with the flow.
  """
  published = {row.name: row for row in paper_table(6).rows}
  rows, gold_row = [], []
  for bench in benches:
    points, failed = [], {}
    for seed in seeds:
      progress.update(0, f"{bench.title}, seed {seed}")
      numbers, reasons = lexical_points(bench, task, seed, unit)
      points, failed = [*points, numbers], {**failed, **reasons}
      progress.update(1, bench.title)
    gold_row = [_lexical_row(_GOLD, _GOLD, points[:1], published)]
    for name, recipe in _METHODS.items():
      used = points if recipe.is_random else points[:1]
      paper, title = published if bench.paper_encoder else {}, f"{row_name(bench, recipe)}: {name}"
      if name in failed:
        rows.append(Row(title, OURS, {column: Cell(reason=failed[name]) for column in (_EDITS, _GOLD)}))
      else:
        rows.append(_lexical_row(title, name, used, paper))
  close, pairs = int(close_pairs(points[0][_EDITS]).sum()), len(points[0][_EDITS])
  return [
    *gold_row,
    *rows,
  ], f"Edit distances count {_UNIT_NOTES[unit]}. {close} of {pairs} pairs are at most {CLOSE} apart."


def _lexical_row(title, name, points, published):
  results = [lexical_correlations(numbers[name], numbers[_GOLD], numbers[_EDITS]) for numbers in points]
  columns = {_EDITS: [result.edit_distance for result in results], _GOLD: [result.gold for result in results]}
  cells = {
    column: Cell(
      tuple(correlation.spearman for correlation in correlations),
      published[name].cells[column] if name in published else None,
      correlations[0].reason,
    )
    for column, correlations in columns.items()
  }
  return Row(title, OURS, cells)


def isotropy_of(bench: Workbench, task: str, recipe: Recipe, seed: int) -> dict[str, Any]:
  """Returns IsoScore, mean cosine and singular spectrum of a task's evaluated sentences, JSON values."""
  a, b = bench.sides(task, recipe, seed)
  points = np.unique(np.concatenate([a, b]), axis=0)
  spectrum = singular_spectrum(points, centered=True)
  return {
    "isoscore": 100.0 * isoscore(points),
    "cosine": 100.0 * mean_random_cosine(a, b),
    "first": 100.0 * float(spectrum[0] ** 2 / np.sum(spectrum**2)),
    "spectrum_about_origin": [float(value) for value in singular_spectrum(points)],
  }


def isotropy_rows(
  bench: Workbench, task: str, calibrations: Sequence[str], seeds: Sequence[int], progress: Progress
) -> tuple[list[Row], dict[str, np.ndarray]]:
  """Returns the rows of isotropy before and after each calibration, and {name of the row: spectrum of one seed}."""
  rows, spectra = [], {}
  for recipe in (Recipe(FIRST_LAST, calibration) for calibration in (NONE, *calibrations)):
    name, values, reason = row_name(bench, recipe), [], "not defined"
    for seed in seeds if recipe.is_random else seeds[:1]:
      progress.update(0, name)
      try:
        values.append(bench.remembered("isotropy", lambda *key: isotropy_of(bench, *key), task, recipe, seed))
      except (CalibrationError, FlowError, TrainingError) as error:
        values.append({})
        reason = str(error)
      progress.update(1, name)
    cells = {}
    for column, key in _ISOTROPY.items():
      numbers = [value.get(key) for value in values]
      cell = Cell(tuple(math.nan if number is None else number for number in numbers))
      cells[column] = cell if cell.defined else Cell(reason=reason)
    rows.append(Row(name, OURS, cells))
    if values[0]:
      spectra[name] = np.array(values[0]["spectrum_about_origin"], np.float64)
  return rows, spectra


def cone_panel(bench: Workbench, task: str, calibration: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns the data of one panel of `figures.cone_figure`, from a task's evaluated sentences.

  Args:
    bench: an encoder.
    task: name of a task.
    calibration: "none" or "flow".
    seed: seed of the flow.

  Returns:
    (points, cosines): float64 [n, 3] on the unit sphere, the distinct sentences' embeddings of length 1 projected on
    their three leading singular vectors; and float64 [pairs], the cosines of random pairs.
  """
  a, b = (np.asarray(side, np.float64) for side in bench.sides(task, Recipe(FIRST_LAST, calibration), seed))
  unit = np.unique(np.concatenate([a, b]), axis=0)
  unit /= np.linalg.norm(unit, axis=1, keepdims=True)
  points = unit @ np.linalg.svd(unit, full_matrices=False)[2][:3].T
  points *= np.sign(points.mean(axis=0))  # a singular vector's sign is arbitrary
  return points / np.linalg.norm(points, axis=1, keepdims=True), random_pair_cosines(a, b)
