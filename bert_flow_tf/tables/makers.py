"""Makes the tables and figures of a plan."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from bert_flow_tf.data.flow_corpus import NLI
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation import figures
from bert_flow_tf.progress import Progress
from bert_flow_tf.tables import analysis_tables as analysis
from bert_flow_tf.tables import similarity_tables as similarity
from bert_flow_tf.tables import words
from bert_flow_tf.tables.comparison import Comparison
from bert_flow_tf.tables.keys import file_fingerprint
from bert_flow_tf.tables.models import variant_of, with_activation
from bert_flow_tf.tables.paper_tables import paper_table
from bert_flow_tf.tables.plan import GAINS, NEW_TABLES, ONE_TASK, Plan
from bert_flow_tf.tables.table import HIGHEST, NEAREST_0, OURS, Row, Table
from bert_flow_tf.tables.terms import TERMS, note
from bert_flow_tf.tables.workbench import NONE, Recipe, Workbench, target_of

_RECIPES = {
  "2": similarity.similarity_recipes,
  "3": similarity.similarity_recipes,
  "4": similarity.qnli_recipes,
  "5": similarity.calibration_recipes,
}
_WEIGHTED, _TARGET = note("STS-12 to STS-16"), note("(target)")
# Pairs of QNLI's splits in GLUE (its second version, as in TensorFlow Datasets).
_QNLI = {"train": 104743, "dev": 5463, "test": 5463}
# Tables and columns without a best cell. Of isotropy's columns, only the first is the better the higher it is.
_NO_BEST = ("1", GAINS)
_NO_BEST_COLUMNS = ("edit distance", "standard deviation")


def check_tasks(plan: Plan, tasks: Mapping[str, TaskData]) -> None:
  """Checks that the task of Table 6 and Figure 2 has a dev split.

  Raises:
    ConfigError: it has none.
  """
  needing = [("table", "6")] * ("6" in plan.table) + [("figure", "2")] * ("2" in plan.figure)
  if needing and analysis.LEXICAL_SPLIT not in tasks[ONE_TASK].splits:
    argument, name = needing[0]
    raise ConfigError(
      f"{argument}={name}: needs the {analysis.LEXICAL_SPLIT} split of {ONE_TASK}; {tasks[ONE_TASK].source} has "
      f"{', '.join(tasks[ONE_TASK].splits)}",
      argument,
    )


class Makers:
  """Makes the tables and figures of a plan.

  Args:
    plan: tables, figures, columns, seeds.
    models: encoders of `plan.model`.
    nli_models: encoders of `plan.nli_model`.
  """

  def __init__(self, plan: Plan, models: Sequence[Workbench], nli_models: Sequence[Workbench]) -> None:
    self._plan = plan
    self._models, self._nli_models = list(models), list(nli_models)

  def models_of(self, table: str) -> list[Workbench]:
    """Returns the encoders that have rows in a table, or in "figure NAME"."""
    berts = [bench for bench in self._models if not bench.words]
    chosen = {"2": self._models, "3": self._nli_models, "4": [*berts, *self._nli_models]}
    return chosen.get(table, self._nli_models if table == "8" and self._nli_models else berts)

  def table(self, name: str, about: Mapping[str, Any]) -> Table:
    """Returns a finished table.

    Args:
      name: one of `plan.TABLES`.
      about: JSON values of how it is made.
    """
    make = {"1": self._words, "6": self._lexical, "8": self._seeds, "isotropy": self._isotropy}
    make |= {"transfer": self._transfer, "activation": self._activation, **dict.fromkeys(NEW_TABLES, self._beyond)}
    make = make.get(name, self._similarity)
    seeds = self._plan.seeds(name)
    title, metric, columns, rows, notes = make(name, seeds)
    if name.isdigit():
      title, metric = paper_table(int(name)).title, paper_table(int(name)).metric
      rows = [*rows, *similarity.published_rows(int(name))]
    cells = [cell for row in rows for cell in row.cells.values()]
    if any(cell.paper is not None for cell in cells):
      notes.append(note("(paper x, y)"))
    if any(cell.spread is not None for cell in cells):
      notes.append(f"±: {TERMS['±']}, {seeds[0]} to {seeds[-1]}.")
    about, best = {**about, "seeds": seeds}, _best(name, columns)
    return Table(name, title, metric, tuple(columns), tuple(rows), tuple(notes), about, best)

  # Each of these returns title, metric, columns, rows and notes; title and metric are "" for tables of the paper.

  def _similarity(self, name, seeds):
    columns = {task: task for task in self._plan.task}
    if name in ("4", "5"):
      columns = {"AUC": "QNLI"} if name == "4" else {ONE_TASK: ONE_TASK}
    chosen = [(bench, _RECIPES[name](bench, self._plan.calibration)) for bench in self.models_of(name)]
    total = sum(similarity.count_of(recipes, columns, seeds) for _, recipes in chosen)
    rows = []
    with Progress(total, True, f"table {name}", "cell") as progress:
      for bench, recipes in chosen:
        rows += similarity.rows_of(bench, recipes, columns, int(name), seeds, progress)
    return "", "", columns, rows, self._notes(name, chosen, columns)

  def _notes(self, name, chosen, columns):
    """Returns explanations of the rows of Tables 2 to 5."""
    notes = [_WEIGHTED] if any(column.startswith("STS-1") for column in columns) else []
    notes += [_TARGET] if chosen else []
    if name == "4" and chosen:
      notes += _missing_of_qnli(chosen[0][0].inputs.tasks["QNLI"])
    for bench, recipes in chosen[:1]:
      if any(recipe.corpus == NLI for recipe in recipes) and not bench.inputs.why_missing(NLI):
        notes.append(f"(NLI): fitted on {bench.inputs.corpus(NLI).source}.")
    without = [bench.title for bench, _ in chosen if not bench.words and not bench.has_cls]
    if without and name in ("2", "3"):
      notes.append(f"No row of cls for {', '.join(without)}: the checkpoint has no pooler.")
    if name == "3" and not chosen:
      notes.append("No encoder fine-tuned on NLI was given (`--nli_model`): only published rows.")
    return notes + (self._not_tuned() if name == "4" else [])

  def _not_tuned(self):
    """Returns a note for Tables 4 and 8 if our encoders, unlike the paper's, are not fine-tuned."""
    if self._nli_models:
      return []
    return ["Our encoders are not fine-tuned on NLI (`--nli_model`); the paper's are."]

  def _words(self, name, seeds):
    del seeds
    rows, notes = [], []
    file = self._plan.frequency_file or self._plan.corpus
    for bench in self.models_of(name):
      own, note = analysis.word_rows(bench, self._ranked(bench, os.path.expanduser(file)))
      rows, notes = [*rows, *own], [*notes, note]
    notes.append("Distances: the k nearest words by l2-distance. Dot products: the k largest.")
    notes.append(f"Words ranked by `{file}`; the paper ranks them by a Wikipedia and does not say which BERT it used.")
    return "", "", paper_table(1).columns, rows, notes

  def _ranked(self, bench, file):
    """Returns the rows of the vocabulary by decreasing frequency; the counts of a corpus are stored."""
    tokenizer = bench.encoder.tokenizer
    if self._plan.frequency_file:
      return words.ranks_of_file(file, tokenizer)
    key = {"what": "ranks", "tokenizer": tokenizer.checksum, "corpus": file_fingerprint(file)}
    return bench.kept(key, lambda: words.ranks_of_corpus(file, tokenizer).tolist())

  def _lexical(self, name, seeds):
    benches = self.models_of(name)
    with Progress(len(benches) * len(seeds), True, "table 6", "encoder") as progress:
      rows, note = analysis.lexical_rows(benches, ONE_TASK, seeds, progress, self._plan.edit_unit)
    return "", "", paper_table(6).columns, rows, [note]

  def _seeds(self, name, seeds):
    benches, rows = self.models_of(name), []
    total = len(benches) * similarity.count_of(similarity.SEED_RECIPES, [ONE_TASK], seeds)
    with Progress(total, True, "table 8", "cell") as progress:
      for bench in benches:
        rows += similarity.seed_rows(bench, ONE_TASK, seeds, progress)
    numbers = ", ".join(map(str, seeds))
    note = f"Ours: seeds {numbers} of the flow, with the same encoder; the paper's five are of the whole training."
    return "", "", paper_table(8).columns, rows, [note, *self._not_tuned()]

  def _isotropy(self, name, seeds):
    rows, benches, methods = [], self.models_of(name), ["flow", *self._plan.calibration]
    with Progress(len(benches) * (len(methods) + len(seeds)), True, "isotropy", "cell") as progress:
      for bench in benches:
        rows += analysis.isotropy_rows(bench, ONE_TASK, methods, seeds, progress)[0]
    title = f"how evenly the embeddings of {ONE_TASK}'s test sentences fill their space"
    metric = "IsoScore (Rudman et al. 2022): 100 is isotropic, 0 is a single direction"
    notes = [
      "Random pairs: each first sentence with the second sentence half the list further on; near 100 is a narrow cone.",
      "First direction: the part of the variance along the first principal axis.",
    ]
    return title, metric, analysis.ISOTROPY_COLUMNS, rows, notes

  def _transfer(self, name, seeds):
    columns = {task: task for task in self._plan.task}
    corpora = {task: target_of(task) for task in columns}
    corpora |= {"NLI" if corpus == NLI else corpus: corpus for corpus in self._plan.transfer_corpus}
    benches, rows, notes = self.models_of(name), [], [_WEIGHTED]
    total = len(benches) * (1 + len(corpora) * len(seeds)) * len(columns)
    with Progress(total, True, "transfer", "cell") as progress:
      for bench in benches:
        own, note = similarity.transfer_rows(bench, corpora, columns, seeds, progress)
        rows, notes = [*rows, *own], [*notes, note]
    title = "does a flow fitted on the sentences of one set help on another?"
    return title, f"Spearman x 100 of {similarity.FIRST_LAST}", columns, rows, notes

  def _activation(self, name, seeds):
    benches, rows = self.models_of(name), []
    recipes = (Recipe(similarity.FIRST_LAST), Recipe(similarity.FIRST_LAST, "flow"))
    total = 2 * len(benches) * similarity.count_of(recipes, [ONE_TASK], seeds)
    with Progress(total, True, "activation", "cell") as progress:
      for bench in (with_activation(bench, form) for bench in benches for form in ("gelu", "gelu_new")):
        for recipe in recipes:
          cells, _ = similarity.cells_of(bench, recipe, {ONE_TASK: ONE_TASK}, seeds, progress)
          rows.append(Row(similarity.row_name(bench, recipe), OURS, cells))
    notes = [
      "gelu is GELU in its erf form, gelu_new in its tanh form, with which the published code and Google's BERTs run.",
      "The form that an encoder was not trained with is used without further training.",
    ]
    return "the two forms of GELU", "Spearman x 100", (ONE_TASK,), rows, notes

  def _beyond(self, name, seeds):
    return Comparison(self.models_of(name), variant_of, self._plan.columns(name), seeds).table(name)

  def figure(self, name: str, folder: str | os.PathLike) -> list[pathlib.Path]:
    """Draws a figure for each encoder; returns the files."""
    paths = []
    for bench in self.models_of(f"figure {name}"):
      draw = {"2": self._draw_edit_distances, "cone": self._draw_cone, "isotropy": self._draw_spectra}[name]
      paths += figures.save(draw(bench), folder, f"figure_{name}_{bench.label}")
    return paths

  def _draw_edit_distances(self, bench):
    unit = self._plan.edit_unit
    points, failed = analysis.lexical_points(bench, ONE_TASK, self._plan.seed, unit)
    for method, reason in failed.items():
      logging.warning("figure 2 of %s has no panel for %s: %s", bench.label, method, reason)
    return figures.edit_distance_figure(points, f"{ONE_TASK} dev, {bench.label}: similarity and edit distance", unit)

  def _draw_cone(self, bench):
    return figures.cone_figure(
      *(analysis.cone_panel(bench, ONE_TASK, calibration, self._plan.seed) for calibration in (NONE, "flow"))
    )

  def _draw_spectra(self, bench):
    methods = ["flow", *self._plan.calibration]
    with Progress(len(methods) + 1, True, "figure isotropy", "method") as progress:
      _, spectra = analysis.isotropy_rows(bench, ONE_TASK, methods, [self._plan.seed], progress)
    return figures.spectrum_figure(spectra, f"{ONE_TASK} test, {bench.label}: singular values")


def _best(name, columns):
  """Returns {column: kind of its best cell}, see `Table`."""
  if name in _NO_BEST:
    return {}
  kinds = {column: HIGHEST for column in columns if column not in _NO_BEST_COLUMNS}
  return kinds | (dict.fromkeys(analysis.ISOTROPY_COLUMNS[1:], NEAREST_0) if name == "isotropy" else {})


def _missing_of_qnli(task):
  """Returns a note with the numbers of QNLI's pairs if some are not available."""
  counts = {split: len(task.splits.get(split, ())) for split in _QNLI}
  if counts == _QNLI:
    return []
  numbers = ", ".join(f"{counts[split]} of {full} {split}" for split, full in _QNLI.items())
  note = f"Only a part of QNLI was available: {numbers} pairs"
  return [f"{note}. The rows (target) are fitted on {sum(counts.values())} of its {sum(_QNLI.values())} pairs."]
