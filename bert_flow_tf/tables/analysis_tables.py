"""Tables 1 and 6 of the paper, and isotropy: what the embeddings look like."""

import math

import numpy as np

from bert_flow_tf.errors import CalibrationError, FlowError, TrainingError
from bert_flow_tf.evaluation.edit_distance import CLOSE, close_pairs, edit_distances, lexical_correlations
from bert_flow_tf.evaluation.isotropy import isoscore, singular_spectrum
from bert_flow_tf.evaluation.similarity import mean_random_cosine, unpaired_cosines
from bert_flow_tf.evaluation.word_embeddings import frequency_groups
from bert_flow_tf.tables.paper_tables import paper_table
from bert_flow_tf.tables.similarity_tables import FIRST_LAST, row_name
from bert_flow_tf.tables.table import OURS, Cell, Row
from bert_flow_tf.tables.workbench import NONE, Recipe

LEXICAL_SPLIT = "dev"
_EDITS, _GOLD = "edit distance", "gold similarity"
# The paper's names of Table 6's rows and of Figure 2's panels.
_METHODS = {"BERT-induced similarity": Recipe(FIRST_LAST), "flow-induced similarity": Recipe(FIRST_LAST, "flow")}
_ISOTROPY = {
  "IsoScore x 100": "isoscore",
  "mean cosine of random pairs x 100": "cosine",
  "variance along the first direction, %": "first",
}
ISOTROPY_COLUMNS = tuple(_ISOTROPY)


def word_rows(model, order):
  """The rows of Table 1.

  Args:
    model: `Model` with a BERT.
    order: rows of the vocabulary in falling frequency.

  Returns:
    Rows, and how many words each group has, a sentence.
  """
  embeddings = model.bench.encoder.bert.word_embeddings()
  groups = frequency_groups(embeddings, np.asarray(order, np.int64))
  paper = paper_table(1)
  columns = dict(zip(paper.columns, groups, strict=True))
  figures = {"mean l2-norm": lambda group: group.mean_norm}
  for k in (3, 5, 7):
    figures[f"mean k-NN l2-distance, k={k}"] = lambda group, k=k: group.mean_distance[k]
    figures[f"mean k-NN dot product, k={k}"] = lambda group, k=k: group.mean_dot_product[k]
  rows = []
  for published in paper.rows:
    cells = {
      column: Cell(
        (float(figures[published.name](group)),),
        published.cells[column] if model.paper_encoder else None,
        "" if group.words else "no counted word has such a rank",
      )
      for column, group in columns.items()
    }
    rows.append(Row(f"{model.title}, {published.name}", OURS, cells))
  words = ", ".join(f"{group.words} in {column}" for column, group in columns.items())
  return rows, f"{model.title}: words with a count: {words}."


def lexical_points(model, task, seed):
  """What Figure 2 draws and Table 6 is computed from, of the dev split.

  Args:
    model: `Model`.
    task: name of a task with a dev split.
    seed: of the flow.

  Returns:
    {name: [n]}, and {name: reason} of the methods that fail on these sentences.
  """
  pairs = model.bench.settings.tasks[task].splits[LEXICAL_SPLIT]
  found, failed = {_EDITS: edit_distances(pairs.sentences_a, pairs.sentences_b), _GOLD: pairs.scores}, {}

  def compute(task, recipe, seed):
    return [float(cosine) for cosine in model.bench.cosines(task, recipe, seed, LEXICAL_SPLIT)]

  for name, recipe in _METHODS.items():
    try:
      found[name] = model.bench.remembered("cosines", compute, task, recipe, seed, LEXICAL_SPLIT)
    except (CalibrationError, FlowError, TrainingError) as error:
      failed[name] = str(error)
  return {name: np.asarray(values, np.float64) for name, values in found.items()}, failed


def lexical_rows(models, task, seeds, progress):
  """The rows of Table 6: the gold scores, which no encoder takes part in, and each encoder without and with the flow.

  Returns:
    Rows, and how many pairs are close, a sentence.
  """
  published = {row.name: row for row in paper_table(6).rows}
  rows, gold_row = [], []
  for model in models:
    points, failed = [], {}
    for seed in seeds:
      progress.update(0, f"{model.title}, seed {seed}")
      found, why = lexical_points(model, task, seed)
      points, failed = [*points, found], {**failed, **why}
      progress.update(1, model.title)
    gold_row = [_lexical_row(_GOLD, _GOLD, points[:1], published)]
    for name, recipe in _METHODS.items():
      used = points if recipe.is_random else points[:1]
      paper, title = published if model.paper_encoder else {}, f"{row_name(model, recipe)}: {name}"
      if name in failed:
        rows.append(Row(title, OURS, {column: Cell(reason=failed[name]) for column in (_EDITS, _GOLD)}))
      else:
        rows.append(_lexical_row(title, name, used, paper))
    close, pairs = int(close_pairs(points[0][_EDITS]).sum()), len(points[0][_EDITS])
  note = f"Edit distances are of characters; {close} of {pairs} pairs are at most {CLOSE} apart."
  return [*gold_row, *rows], f"{note} The paper does not say of what its distances are."


def _lexical_row(title, name, points, published):
  found = [lexical_correlations(one[name], one[_GOLD], one[_EDITS]) for one in points]
  columns = {_EDITS: [one.edit_distance for one in found], _GOLD: [one.gold for one in found]}
  cells = {
    column: Cell(
      tuple(figure.spearman for figure in figures),
      published[name].cells[column] if name in published else None,
      figures[0].reason,
    )
    for column, figures in columns.items()
  }
  return Row(title, OURS, cells)


def isotropy_figures(bench, task, recipe, seed):
  """IsoScore, mean cosine and singular spectrum of a task's evaluated sentences, json values.

  Args:
    bench: `Workbench`.
    task: name of a task.
    recipe: `Recipe`.
    seed: of the flow.
  """
  data = bench.settings.tasks[task]
  pairs = data.splits[data.spec.eval_split]
  transform, embeddings = bench.transform(task, recipe, seed), bench.embeddings(recipe.embedding)
  a, b = transform(embeddings.of(pairs.sentences_a)), transform(embeddings.of(pairs.sentences_b))
  points = np.unique(np.concatenate([a, b]), axis=0)
  spectrum = singular_spectrum(points, centred=True)
  return {
    "isoscore": 100.0 * isoscore(points),
    "cosine": 100.0 * mean_random_cosine(a, b),
    "first": 100.0 * float(spectrum[0] ** 2 / np.sum(spectrum**2)),
    "spectrum_about_origin": [float(value) for value in singular_spectrum(points)],
  }


def isotropy_rows(model, task, calibrations, seeds, progress):
  """Rows of isotropy before and after each calibration, and {row's name: spectrum about the origin, first seed}."""
  rows, spectra = [], {}
  for calibration in (NONE, *calibrations):
    recipe = Recipe(FIRST_LAST, calibration)
    name = row_name(model, recipe)
    found, reason = [], "not defined"
    for seed in seeds if recipe.is_random else seeds[:1]:
      progress.update(0, name)
      try:
        found.append(
          model.bench.remembered("isotropy", lambda *what: isotropy_figures(model.bench, *what), task, recipe, seed)
        )
      except (CalibrationError, FlowError, TrainingError) as error:
        found.append({})
        reason = str(error)
      progress.update(1, name)
    numbers = {column: [one.get(key) for one in found] for column, key in _ISOTROPY.items()}
    cells = {column: Cell(tuple(math.nan if x is None else x for x in some)) for column, some in numbers.items()}
    cells = {column: cell if cell.defined else Cell(reason=reason) for column, cell in cells.items()}
    rows.append(Row(name, OURS, cells))
    if found[0]:
      spectra[name] = np.array(found[0]["spectrum_about_origin"], np.float64)
  return rows, spectra


def cone_panel(bench, task, calibration, seed):
  """Returns the data of one panel of `figures.cone_figure`, from a task's evaluated sentences.

  Args:
    bench: `Workbench`.
    task: name of a task.
    calibration: "none" or "flow".
    seed: seed of the flow.

  Returns:
    (points, cosines): float64 [n, 3] on the unit sphere, the distinct sentences' embeddings of length 1 projected on
    their three leading singular vectors; and float64 [pairs], the cosines of unpaired sentences.
  """
  data, recipe = bench.settings.tasks[task], Recipe(FIRST_LAST, calibration)
  pairs = data.splits[data.spec.eval_split]
  transform, embeddings = bench.transform(task, recipe, seed), bench.embeddings(recipe.embedding)
  a, b = (np.asarray(transform(embeddings.of(side)), np.float64) for side in (pairs.sentences_a, pairs.sentences_b))
  unit = np.unique(np.concatenate([a, b]), axis=0)
  unit /= np.linalg.norm(unit, axis=1, keepdims=True)
  points = unit @ np.linalg.svd(unit, full_matrices=False)[2][:3].T
  points *= np.sign(points.mean(axis=0))  # a singular vector's sign is arbitrary
  return points / np.linalg.norm(points, axis=1, keepdims=True), unpaired_cosines(a, b)
