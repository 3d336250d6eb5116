"""Tables 1 and 6 of the paper, isotropy, and the figures: properties of the embeddings."""

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from bert_flow_tf.data.pairs import check_pairs
from bert_flow_tf.errors import BertFlowError, ConfigError, install_command
from bert_flow_tf.evaluation.figures import spectrum_figure
from bert_flow_tf.evaluation.isotropy import isoscore, singular_spectrum
from bert_flow_tf.evaluation.metrics import correlation, mean_random_cosine, random_pair_cosines
from bert_flow_tf.progress import Progress
from bert_flow_tf.tables import figures
from bert_flow_tf.tables.recipe import NONE, RowRecipe
from bert_flow_tf.tables.request import CHARACTERS, TOKENS, TableContent, TableRequest
from bert_flow_tf.tables.similarity import FIRST_LAST, row_name
from bert_flow_tf.tables.table import OURS, Cell, Row, paper_tables
from bert_flow_tf.tables.word_ranks import vocabulary_ranks
from bert_flow_tf.tables.workbench import Workbench

if TYPE_CHECKING:
  from matplotlib.figure import Figure

# Table 1's ranges of ranks, from 0, without the end. The paper prints "[5K, 1K)" for the last, a misprint.
RANK_GROUPS = ((0, 100), (100, 500), (500, 5000), (5000, 10000))
NEIGHBORS = (3, 5, 7)
# Numbers of a block of the distance matrix: 2^22 of float64 are 32 MiB.
_PIECE = 1 << 22

# Words, and runs of other characters, as `tokenizers.pre_tokenizers.Whitespace` and NLTK's wordpunct_tokenize split.
_TOKEN = re.compile(r"\w+|[^\w\s]+")
LEXICAL_SPLIT = "dev"
_EDITS, _GOLD = "edit distance", "gold similarity"
_UNIT_NOTES = {
  TOKENS: "tokens: words and runs of punctuation of the lower-cased sentences (`\\w+|[^\\w\\s]+`). The paper does not "
  "name its unit, but its gold score agrees with tokens and not with characters (`--edit_unit=characters`)",
  CHARACTERS: "characters, unlike the paper's, whose gold score agrees with tokens (`--edit_unit=tokens`)",
}
# The paper's names of the rows of Table 6 and of the panels of Figure 2.
_METHODS = {"BERT-induced similarity": RowRecipe(FIRST_LAST), "flow-induced similarity": RowRecipe(FIRST_LAST, "flow")}
# {column: key of `_isotropy_of`}
_ISOTROPY = {
  "IsoScore x 100": "isoscore",
  "mean cosine of random pairs x 100": "cosine",
  "variance along the first direction, %": "first",
}
ISOTROPY_COLUMNS = tuple(_ISOTROPY)


def make_words(request: TableRequest) -> TableContent:
  """Makes Table 1: norms and nearest neighbors of word embeddings, by the rank of the word's frequency."""
  paper, rows, notes = paper_tables()[1], [], []
  file = request.arguments.frequency_file or request.arguments.corpus
  for bench in request.benches:
    order = np.asarray(vocabulary_ranks(bench, request.arguments), np.int64)
    # Groups of words by rank, as the paper's columns: (0,100), [100,500), ...
    means = frequency_groups(bench.encoder.bert.word_embeddings.numpy(), order)
    groups = dict(zip(paper.columns, means, strict=True))
    counts = {column: len(order[first:end]) for column, (first, end) in zip(groups, RANK_GROUPS, strict=True)}
    for published in paper.rows:
      cells = {}
      for column, group in groups.items():
        compared, reason = None, ""
        if bench.paper_encoder:
          compared = published.cells[column]
        if not counts[column]:
          reason = "no counted word has this rank"
        cells[column] = Cell((group[published.name],), compared, reason)
      rows.append(Row(f"{bench.title}, {published.name}", OURS, cells))
    words = [f"{count} in {column}" for column, count in counts.items()]
    notes.append(f"{bench.title}: words with a count: {', '.join(words)}.")
  notes.append("Distances: the k nearest words by l2-distance. Dot products: the k largest.")
  notes.append(f"Words ranked by `{file}`; the paper ranks them by a Wikipedia and does not say which BERT it used.")
  return TableContent(paper.columns, rows, notes)


def make_lexical(request: TableRequest) -> TableContent:
  """Makes Table 6: correlation of similarities with edit distance and gold, on the dev split; gold has one row."""
  published = {row.name: row for row in paper_tables()[6].rows}
  rows = []
  for bench in request.benches:
    points = [_lexical_points(bench, request, seed) for seed in request.seeds]
    if not rows:
      rows.append(_lexical_row(_GOLD, _GOLD, points[:1], published))
    paper = {}
    if bench.paper_encoder:
      paper = published
    for name, recipe in _METHODS.items():
      rows.append(_lexical_row(f"{row_name(bench, recipe)}: {name}", name, recipe.seeds(points), paper))
  # All encoders have the same pairs.
  distances = points[0][_EDITS]
  close = f"{int((distances <= figures.CLOSE).sum())} of {len(distances)} pairs are at most {figures.CLOSE} apart."
  notes = [f"Edit distances count {_UNIT_NOTES[request.arguments.edit_unit]}. {close}"]
  return TableContent(paper_tables()[6].columns, rows, notes)


def _lexical_points(bench: Workbench, request: TableRequest, seed: int) -> dict[str, np.ndarray]:
  """Returns {name: float64 [n]} of edit distance, gold and similarities."""
  (task,) = request.tasks
  pairs = bench.inputs.tasks[task].splits[LEXICAL_SPLIT]
  points = {
    _EDITS: edit_distances(pairs.sentences_a, pairs.sentences_b, request.arguments.edit_unit),
    _GOLD: pairs.scores,
  }
  for name, recipe in _METHODS.items():
    points[name], _ = bench.cosines(task, recipe, seed, LEXICAL_SPLIT)
  return points


def _lexical_row(title, name, points, published):
  """Returns a row of Table 6: `points` has one dict of `_lexical_points` for each seed."""
  correlations = {_EDITS: [], _GOLD: []}
  for numbers in points:
    similarities, gold = numbers[name], numbers[_GOLD]
    # Both correlations use the same pairs, the pairs with gold.
    edits = np.where(np.isnan(gold), np.nan, numbers[_EDITS])
    correlations[_EDITS].append(correlation(similarities, edits))
    correlations[_GOLD].append(correlation(similarities, gold))
  cells = {}
  for column, of_seeds in correlations.items():
    values = tuple(result.spearman for result in of_seeds)
    cells[column] = Cell(values, reason=of_seeds[0].reason)
    if name in published:
      cells[column] = dataclasses.replace(cells[column], paper=published[name].cells[column])
  return Row(title, OURS, cells)


def make_isotropy(request: TableRequest) -> TableContent:
  """Makes the table of isotropy before and after each calibration."""
  rows = []
  for bench in request.benches:
    for recipe in _isotropy_recipes(request):
      values, reason = [], "not defined"
      try:
        values = [_isotropy_of(bench, request, recipe, seed) for seed in recipe.seeds(request.seeds)]
      except BertFlowError as error:
        reason = str(error)
      cells = {}
      for column, key in _ISOTROPY.items():
        numbers = [value[key] for value in values]
        cells[column] = Cell(reason=reason)
        if numbers and None not in numbers:
          cells[column] = Cell(tuple(numbers))
      rows.append(Row(row_name(bench, recipe), OURS, cells))
  notes = [
    "Random pairs: each first sentence with the second sentence half the list further on; near 100 is a narrow cone.",
    "First direction: the part of the variance along the first principal axis.",
    "IsoScore and first direction count each distinct sentence once; random pairs, fits and scores count a sentence as "
    "often as it occurs.",
  ]
  return TableContent(ISOTROPY_COLUMNS, rows, notes)


def _isotropy_recipes(request):
  recipes = [RowRecipe(FIRST_LAST), RowRecipe(FIRST_LAST, "flow")]
  for calibration in request.arguments.calibration:
    recipes.append(RowRecipe(FIRST_LAST, calibration))
  return recipes


def _isotropy_of(bench: Workbench, request: TableRequest, recipe: RowRecipe, seed: int) -> dict[str, Any]:
  """Returns IsoScore, mean cosine and singular spectrum of a task's evaluated sentences, JSON values."""
  (task,) = request.tasks

  def compute():
    a, b = bench.sides(task, recipe, seed)
    points = np.unique(np.concatenate([a, b]), axis=0)
    spectrum = singular_spectrum(points - points.mean(axis=0))
    # The figure shows the spectrum about the origin, in which a cone is one large value.
    return {
      "isoscore": 100.0 * isoscore(points),
      "cosine": 100.0 * mean_random_cosine(a, b),
      "first": 100.0 * float(spectrum[0] ** 2 / np.sum(spectrum**2)),
      "spectrum_about_origin": singular_spectrum(points).tolist(),
    }

  return bench.stored("isotropy", compute, task, recipe, seed)


def draw_edit_distances(request: TableRequest, bench: Workbench) -> "Figure":
  """Draws Figure 2: similarity against edit distance."""
  points = _lexical_points(bench, request, request.arguments.seed)
  title = f"{request.tasks[0]} dev, {bench.label}: similarity and edit distance"
  return figures.edit_distance_figure(points, title, request.arguments.edit_unit)


def draw_spectra(request: TableRequest, bench: Workbench) -> "Figure":
  """Draws the singular values before and after each calibration."""
  spectra = {}
  for recipe in _isotropy_recipes(request):
    try:
      spectrum = _isotropy_of(bench, request, recipe, request.arguments.seed)["spectrum_about_origin"]
      spectra[row_name(bench, recipe)] = np.array(spectrum, np.float64)
    except BertFlowError as error:
      logging.warning("figure isotropy of %s has no line for %s: %s", bench.label, recipe.calibration, error)
  return spectrum_figure(spectra, f"{request.tasks[0]} test, {bench.label}: singular values")


def draw_cone(request: TableRequest, bench: Workbench) -> "Figure":
  """Draws the sentences on a sphere and the cosines of random pairs, before and after the flow."""
  panels = []
  for calibration in (NONE, "flow"):
    recipe = RowRecipe(FIRST_LAST, calibration)
    a, b = np.asarray(bench.sides(request.tasks[0], recipe, request.arguments.seed), np.float64)
    # The distinct sentences on the unit sphere, projected on their three leading singular vectors.
    unit = np.unique(np.concatenate([a, b]), axis=0)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    points = unit @ np.linalg.svd(unit, full_matrices=False)[2][:3].T
    points *= np.sign(points.mean(axis=0))  # a singular vector's sign is arbitrary
    panels.append((points / np.linalg.norm(points, axis=1, keepdims=True), random_pair_cosines(a, b)))
  return figures.cone_figure(panels[0], panels[1])


def frequency_groups(
  embeddings: np.ndarray,
  order: Sequence[int] | np.ndarray,
  groups: Sequence[tuple[int, int]] = RANK_GROUPS,
  neighbors: Sequence[int] = NEIGHBORS,
) -> list[dict[str, float]]:
  """Returns the columns of Table 1 of Li et al. 2020, {row: mean over a group of words by rank of frequency}."""
  # `order` has the rows of `embeddings` [vocab, dim] by falling frequency, int [ranked]; neighbors are among all rows.
  # Dot products have neighbors of their own, the nearest by dot product: with the nearest by l2-distance, the paper's
  # norms, distances and dot products would contradict each other. A word's value is the mean over its k neighbors, a
  # group's the mean over its words.
  embeddings, order = np.asarray(embeddings, np.float64), np.asarray(order)
  ranked = [order[first:end] for first, end in groups]
  words = np.unique(np.concatenate(ranked))
  count = min(max(neighbors), len(embeddings) - 1)
  distances, products = _neighbors(embeddings, words, count)
  columns = []
  for rows in ranked:
    at = np.searchsorted(words, rows)
    values = {"mean l2-norm": np.linalg.norm(embeddings[rows], axis=1)}
    for k in neighbors:
      for name, nearest in (("l2-distance", distances), ("dot product", products)):
        of_words = np.full([len(rows), k], math.nan)
        of_words[:, :count] = nearest[at, :k]
        values[f"mean k-NN {name}, k={k}"] = of_words
    means = {}
    for name, numbers in values.items():
      means[name] = float(np.mean(numbers)) if numbers.size else math.nan
    columns.append(means)
  return columns


def _neighbors(embeddings, rows, count):
  """Returns the smallest l2-distances and the largest dot products of rows with all others, float64 [rows, count]."""
  # A matrix product of the centered rows finds the nearest ones; their distances are computed from the rows, so that
  # rounding can only exchange neighbors at the same distance.
  distances, products = np.empty([2, len(rows), count])
  if not count or not len(rows):
    return distances, products
  centered = embeddings - embeddings.mean(axis=0)
  squares = np.sum(centered**2, axis=1)
  piece = max(1, _PIECE // len(embeddings))
  with Progress(len(rows), work="finding neighbors", unit="word") as progress:
    for start in range(0, len(rows), piece):
      block = rows[start : start + piece]
      itself = np.arange(len(block)), block  # a word is not its own neighbor; another word with an equal row is
      # |a - b|^2 less |a|^2, which is the same for all b.
      squared = squares - 2 * (centered[block] @ centered.T)
      squared[itself] = np.inf
      nearest = np.argpartition(squared, count - 1, axis=1)[:, :count]
      for number, (row, others) in enumerate(zip(block, nearest, strict=True), start):
        distances[number] = np.sort(np.linalg.norm(embeddings[others] - embeddings[row], axis=1))
      negative = -(embeddings[block] @ embeddings.T)
      negative[itself] = np.inf
      largest = np.partition(negative, count - 1, axis=1)[:, :count]
      products[start : start + len(block)] = -np.sort(largest, axis=1)
      progress.update(len(block))
  return distances, products


def edit_distances(sentences_a: Sequence[str], sentences_b: Sequence[str], unit: str = TOKENS) -> np.ndarray:
  """Returns the Levenshtein distance of each pair of n sentences, int64 [n], in tokens or characters."""
  # The paper says only "edit distance". Its gold row in Table 6 is -24.61: tokens give -24.16, characters -20.21.
  try:
    from rapidfuzz.distance import Levenshtein
  except ImportError as error:
    raise ConfigError(
      f"edit distances need the package rapidfuzz, which cannot be imported ({error}): {install_command('tables')}"
    ) from error
  a, b = check_pairs(sentences_a, sentences_b, ("sentences_a", "sentences_b"))
  if unit == TOKENS:
    a, b = _tokens(a), _tokens(b)
  return np.array(list(map(Levenshtein.distance, a, b)), np.int64)


def _tokens(sentences):
  return [_TOKEN.findall(sentence.lower()) for sentence in sentences]
