"""How each table and figure of a plan is made."""

import os

from absl import logging

from bert_flow_tf.data.flow_corpus import NLI
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.progress import Progress
from bert_flow_tf.tables import analysis_tables as analysis
from bert_flow_tf.tables import figures, words
from bert_flow_tf.tables import similarity_tables as similarity
from bert_flow_tf.tables.keys import file_fingerprint
from bert_flow_tf.tables.paper_tables import paper_table
from bert_flow_tf.tables.plan import ONE_TASK
from bert_flow_tf.tables.table import Table
from bert_flow_tf.tables.workbench import NONE, target_of

_RECIPES = {
  "2": similarity.similarity_recipes,
  "3": similarity.similarity_recipes,
  "4": similarity.qnli_recipes,
  "5": similarity.calibration_recipes,
}
_WEIGHTED = "STS-12 to STS-16: the subsets' figures, weighted by their numbers of pairs, as in the paper."
_TARGET = "(target): fitted on all sentences of the set that is evaluated, without gold."
_IN_BRACKETS = "In brackets: the paper's figure, and ours less the paper's."


def check_tasks(plan, tasks):
  """Refuses Table 6 and Figure 2 where there is no dev split.

  Raises:
    ConfigError: it is not there.
  """
  asked = [*(["--table=6"] if "6" in plan.tables else []), *(["--figure=2"] if "2" in plan.figures else [])]
  if asked and analysis.LEXICAL_SPLIT not in tasks[ONE_TASK].splits:
    raise ConfigError(
      f"{asked[0]} needs the {analysis.LEXICAL_SPLIT} split of {ONE_TASK}, found {', '.join(tasks[ONE_TASK].splits)} "
      f"in {tasks[ONE_TASK].source}"
    )


class Makers:
  """Makes the tables and figures of a plan.

  Args:
    plan: `Plan`.
    models: `Model`s of --model.
    nli_models: `Model`s of --nli_model.
  """

  def __init__(self, plan, models, nli_models):
    self._plan = plan
    self._models, self._nli_models = list(models), list(nli_models)

  def models_of(self, table):
    """`Model`s that a table, or "figure NAME", has rows of."""
    berts = [model for model in self._models if not model.words]
    chosen = {"2": self._models, "3": self._nli_models, "4": [*berts, *self._nli_models]}
    return chosen.get(table, self._nli_models if table == "8" and self._nli_models else berts)

  def table(self, name, about):
    """The finished `Table` of a name.

    Args:
      name: one of `plan.TABLES`.
      about: what it is made with, json values.
    """
    make = {"1": self._words, "6": self._lexical, "8": self._seeds, "isotropy": self._isotropy}
    make = make.get(name, self._transfer if name == "transfer" else self._similarity)
    seeds = self._plan.seeds(name)
    title, metric, columns, rows, notes = make(name, seeds)
    if name.isdigit():
      title, metric = paper_table(int(name)).title, paper_table(int(name)).metric
      rows = [*rows, *similarity.published_rows(int(name))]
    cells = [cell for row in rows for cell in row.cells.values()]
    if any(cell.paper is not None for cell in cells):
      notes.append(_IN_BRACKETS)
    if any(cell.spread is not None for cell in cells):
      notes.append(f"± is the standard deviation over the flow's seeds {seeds[0]} to {seeds[-1]}.")
    return Table(name, title, metric, tuple(columns), tuple(rows), tuple(notes), {**about, "seeds": seeds})

  def _similarity(self, name, seeds):
    columns = {task: task for task in self._plan.columns}
    if name in ("4", "5"):
      columns = {"AUC": "QNLI"} if name == "4" else {ONE_TASK: ONE_TASK}
    plan = [(model, _RECIPES[name](model, self._plan.calibrations)) for model in self.models_of(name)]
    total = sum(similarity.count_of(chosen, columns, seeds) for _, chosen in plan)
    rows = []
    with Progress(total, True, f"table {name}", "cell") as progress:
      for model, chosen in plan:
        rows += similarity.rows_of(model, chosen, columns, int(name), seeds, progress)
    return "", "", columns, rows, self._notes(name, plan, columns)

  def _notes(self, name, plan, columns):
    """How to read the rows of Tables 2 to 5."""
    notes = [_WEIGHTED] if any(column.startswith("STS-1") for column in columns) else []
    notes += [_TARGET] if plan else []
    for model, recipes in plan[:1]:
      if any(recipe.corpus == NLI for recipe in recipes) and not model.bench.why_missing(NLI):
        notes.append(f"(NLI): fitted on {model.bench.settings.load_corpus(NLI).source}.")
    without = [model.title for model, _ in plan if not model.words and not model.has_cls]
    if without and name in ("2", "3"):
      notes.append(f"No row of cls for {', '.join(without)}: the checkpoint has no pooler.")
    if name == "3" and not plan:
      notes.append("No encoder fine-tuned on NLI was given (`--nli_model`): only published rows.")
    if name == "4":
      notes += self._not_tuned()
    return notes

  def _not_tuned(self):
    """Says so where Tables 4 and 8 have encoders without the fine-tuning that the paper's have."""
    if self._nli_models:
      return []
    return ["Our encoders here are not fine-tuned on NLI (`--nli_model`); the paper's are."]

  def _words(self, name, seeds):
    del seeds
    rows, notes = [], []
    file = self._plan.frequency_file or self._plan.corpus
    for model in self.models_of(name):
      found, note = analysis.word_rows(model, self._ranked(model.bench, os.path.expanduser(file)))
      rows, notes = [*rows, *found], [*notes, note]
    notes.append(f"Words ranked by `{file}`; the paper's by a Wikipedia, and it does not say which BERT it took.")
    return "", "", paper_table(1).columns, rows, notes

  def _ranked(self, bench, file):
    """Rows of the vocabulary in falling frequency; counting a corpus is remembered."""
    tokenizer = bench.encoder.tokenizer
    if self._plan.frequency_file:
      return words.ranks_of_file(file, tokenizer)
    key = {"what": "ranks", "tokenizer": tokenizer.checksum, "corpus": file_fingerprint(file)}
    return bench.kept(key, lambda: words.ranks_of_corpus(file, tokenizer).tolist())

  def _lexical(self, name, seeds):
    models = self.models_of(name)
    with Progress(len(models) * len(seeds), True, "table 6", "encoder") as progress:
      rows, note = analysis.lexical_rows(models, ONE_TASK, seeds, progress)
    return "", "", paper_table(6).columns, rows, [note]

  def _seeds(self, name, seeds):
    models = self.models_of(name)
    total = sum(similarity.count_of(similarity.seed_recipes(model), [ONE_TASK], seeds) for model in models)
    rows = []
    with Progress(total, True, "table 8", "cell") as progress:
      for model in models:
        rows += similarity.seed_rows(model, ONE_TASK, seeds, progress)
    numbers = ", ".join(map(str, seeds))
    notes = [f"Ours: seeds {numbers} of the flow, the encoder as it is; the paper's five are of the whole training."]
    return "", "", paper_table(8).columns, rows, [*notes, *self._not_tuned()]

  def _isotropy(self, name, seeds):
    rows, models, methods = [], self.models_of(name), self._isotropy_methods()
    with Progress(len(models) * (len(methods) + len(seeds)), True, "isotropy", "cell") as progress:
      for model in models:
        rows += analysis.isotropy_rows(model, ONE_TASK, methods, seeds, progress)[0]
    title = f"how evenly the embeddings of {ONE_TASK}'s test sentences fill their space"
    metric = "IsoScore (Rudman et al. 2022): 100 is isotropic, 0 one direction alone"
    notes = [
      "Random pairs: each first sentence with the second sentence half the list further on; narrow cones are near 100.",
      "First direction: the share of the variance along the first principal axis.",
    ]
    return title, metric, analysis.ISOTROPY_COLUMNS, rows, notes

  def _isotropy_methods(self):
    return ["flow", *self._plan.calibrations]

  def _transfer(self, name, seeds):
    columns = {task: task for task in self._plan.columns}
    corpora = {task: target_of(task) for task in columns}
    corpora |= {"NLI" if name == NLI else name: name for name in self._plan.transfer_corpora}
    models, rows, notes = self.models_of(name), [], []
    total = len(models) * (1 + len(corpora) * len(seeds)) * len(columns)
    with Progress(total, True, "transfer", "cell") as progress:
      for model in models:
        found, note = similarity.transfer_rows(model, corpora, columns, seeds, progress)
        rows, notes = [*rows, *found], [*notes, note]
    title = "does a flow fitted on the sentences of one set help on another?"
    return title, f"Spearman x 100 of {similarity.FIRST_LAST}", columns, rows, [_WEIGHTED, *notes]

  def figure(self, name, folder):
    """Draws a figure for each encoder; returns the files written."""
    seed = self._plan.seed
    paths = []
    for model in self.models_of(f"figure {name}"):
      if name == "2":
        points, failed = analysis.lexical_points(model, ONE_TASK, seed)
        for method, reason in failed.items():
          logging.warning("figure 2 of %s has no panel for %s: %s", model.label, method, reason)
        drawn = figures.edit_distance_figure(points, f"{ONE_TASK} dev, {model.label}: similarity and edit distance")
      elif name == "cone":
        panels = [analysis.cone_panel(model.bench, ONE_TASK, calibration, seed) for calibration in (NONE, "flow")]
        drawn = figures.cone_figure(*panels)
      else:
        methods = self._isotropy_methods()
        with Progress(len(methods) + 1, True, "figure isotropy", "method") as progress:
          _, spectra = analysis.isotropy_rows(model, ONE_TASK, methods, [seed], progress)
        drawn = figures.spectrum_figure(spectra, f"{ONE_TASK} test, {model.label}: singular values")
      paths += figures.save(drawn, folder, f"figure_{name}_{model.label}")
    return paths
