"""Tables 2, 3, 4, 5 and 8 of the paper, and the transfer table: scores of tasks by recipe."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

from bert_flow_tf.calibration.names import parse_calibration
from bert_flow_tf.data.flow_corpus import NLI
from bert_flow_tf.progress import Progress
from bert_flow_tf.tables.inputs import target_of
from bert_flow_tf.tables.paper_tables import PaperRow, paper_tables
from bert_flow_tf.tables.table import OURS, WORSE, Cell, Row, note
from bert_flow_tf.tables.workbench import NONE, Made, Recipe, Run, Workbench

AVG, FIRST_LAST = "avg", "avg-first-last"
# The k that the paper chose on dev; ours, chosen on dev too, is compared with it.
_PAPER_K = {"natsv": "natsv-10", "sn+natsv": "sn+natsv-6"}
# Pairs of QNLI's splits in GLUE (its second version, as in TensorFlow Datasets).
_QNLI = {"train": 104743, "dev": 5463, "test": 5463}
_SEED_RECIPES = (Recipe(AVG), Recipe(FIRST_LAST), Recipe(FIRST_LAST, "flow"))  # rows of Table 8
WEIGHTED = note("STS-12 to STS-16")
_NOT_TUNED = "Our encoders are not fine-tuned on NLI (`--nli_model`); the paper's are."


def make_similarity(run: Run) -> Made:
  """Makes Tables 2 and 3: avg, cls, avg-first-last, flows and other calibrations; a column for each task."""
  recipes, notes, without_cls = {}, [], []
  for bench in run.benches:
    best, of_bench = AVG, [Recipe(AVG)]
    if not bench.words:
      best = FIRST_LAST
      if bench.has_cls:
        of_bench.append(Recipe("cls"))
      else:
        without_cls.append(bench.title)
      of_bench += [Recipe(FIRST_LAST), Recipe(FIRST_LAST, "flow", NLI)]
    of_bench.append(Recipe(best, "flow"))
    of_bench += [Recipe(best, name) for name in run.plan.calibration]
    recipes[bench] = of_bench
  if any(column.startswith("STS-1") for column in run.tasks):
    notes.append(WEIGHTED)
  notes += _notes_of_corpora(run, recipes)
  if without_cls:
    notes.append(f"No row of cls for {', '.join(without_cls)}: the checkpoint has no pooler.")
  if run.name == "3" and not recipes:
    notes.append("No encoder fine-tuned on NLI was given (`--nli_model`): only published rows.")
  return Made(run.tasks, _rows(run, recipes, {task: task for task in run.tasks}), notes)


def make_qnli(run: Run) -> Made:
  """Makes Table 4: AUC of QNLI."""
  of_each = [Recipe(FIRST_LAST), Recipe(FIRST_LAST, "flow", NLI), Recipe(FIRST_LAST, "flow")]
  recipes = dict.fromkeys(run.benches, of_each)
  notes = _notes_of_corpora(run, recipes)
  if recipes:
    splits = run.benches[0].inputs.tasks["QNLI"].splits
    counts = {split: len(splits.get(split, ())) for split in _QNLI}
    if counts != _QNLI:
      numbers = ", ".join(f"{counts[split]} of {full} {split}" for split, full in _QNLI.items())
      fitted = f"{sum(counts.values())} of its {sum(_QNLI.values())} pairs"
      # Before the note of the corpus NLI.
      missing = f"Only a part of QNLI was available: {numbers} pairs. The rows (target) are fitted on {fitted}."
      notes.insert(1, missing)
  return Made(("AUC",), _rows(run, recipes, {"AUC": "QNLI"}), notes + not_tuned(run))


def make_calibrations(run: Run) -> Made:
  """Makes Table 5, all of plain averages; the k of natsv without a number is chosen on dev."""
  names = [NONE, "sn", "natsv-1", "natsv", "sn+natsv-1", "sn+natsv", *run.plan.calibration, "flow"]
  of_each = tuple(Recipe(AVG, name) for name in dict.fromkeys(names))
  recipes = dict.fromkeys(run.benches, of_each)
  notes = _notes_of_corpora(run, recipes)
  return Made(run.tasks, _rows(run, recipes, {task: task for task in run.tasks}), notes)


def make_seeds(run: Run) -> Made:
  """Makes Table 8: mean, standard deviation and median over the seeds of the flow."""
  (task,), columns, rows = run.tasks, paper_tables()[8].columns, []
  with run.progress(len(run.benches) * count_of(_SEED_RECIPES, run.tasks, run.seeds)) as progress:
    for bench in run.benches:
      for recipe in _SEED_RECIPES:
        cell = cells_of(bench, recipe, {task: task}, run.seeds, progress)[0][task]
        published = _published(bench, recipe, 8)
        values = {"mean": cell.mean, "standard deviation": cell.spread, "median": None}
        reason = "only one seed" if recipe.is_random else "no seed takes part in this row"
        if cell.defined:
          values["median"] = statistics.median(cell.values)
        cells = {}
        for column, value in values.items():
          paper = published and published.cells[column]
          cells[column] = Cell((value,), paper) if value is not None else Cell((), paper)
          if not cells[column].defined:
            cells[column] = dataclasses.replace(cells[column], reason=cell.reason or reason)
        rows.append(Row(row_name(bench, recipe), OURS, cells))
  numbers = ", ".join(map(str, run.seeds))
  text = f"Ours: seeds {numbers} of the flow, with the same encoder; the paper's five are of the whole training."
  return Made(columns, rows, [text, *not_tuned(run)])


def make_transfer(run: Run) -> Made:
  """Makes the table of flows that are fitted on the sentences of one set and evaluated on another."""
  recipes = {f"flow fitted on {task}": Recipe(FIRST_LAST, "flow", target_of(task)) for task in run.tasks}
  for corpus in run.plan.transfer_corpus:
    label = "NLI" if corpus == NLI else corpus
    recipes[f"flow fitted on {label}"] = Recipe(FIRST_LAST, "flow", corpus)
  columns, rows, notes = {task: task for task in run.tasks}, [], [WEIGHTED]
  total = len(run.benches) * len(columns) * (1 + len(recipes) * len(run.seeds))
  with run.progress(total) as progress:
    for bench in run.benches:
      plain = cells_of(bench, Recipe(FIRST_LAST), columns, run.seeds, progress)[0]
      rows.append(Row(f"{bench.title}, no flow", OURS, plain))
      compared = lower = 0
      for name, recipe in recipes.items():
        cells = cells_of(bench, recipe, columns, run.seeds, progress)[0]
        for column, cell in cells.items():
          worse = cell.mean < plain[column].mean
          cells[column] = dataclasses.replace(cell, worse=worse)
          compared += cell.defined and plain[column].defined
          lower += worse
        rows.append(Row(f"{bench.title}, {name}", OURS, cells))
      notes.append(f"{bench.title}: the flow lowers the score in {lower} of {compared} cells ({WORSE}).")
  return Made(run.tasks, rows, notes)


def cells_of(
  bench: Workbench, recipe: Recipe, columns: Mapping[str, str], seeds: Sequence[int], progress: Progress
) -> tuple[dict[str, Cell], set[str]]:
  """Returns {column: cell} of a recipe, and the names of its calibrations, which a k chosen on dev may vary.

  `columns` is {column: task}; there is a score for each seed if the recipe is random.
  """
  name = row_name(bench, recipe)
  if not recipe.is_random:
    seeds = seeds[:1]
  missing = ""
  if recipe.calibration != NONE:
    missing = bench.inputs.why_missing(recipe.corpus)
  if missing:
    progress.update(len(columns) * len(seeds), f"{name}: no such corpus")
    return {column: Cell(reason=missing) for column in columns}, set()
  values, reasons, names = {}, {}, set()
  for seed in seeds:  # outer loop: a fit that serves all columns is made once per seed
    for column, task in columns.items():
      progress.update(0, f"{name}, {column}, seed {seed}")
      value, reason, calibration = bench.score(task, recipe, seed)
      values.setdefault(column, []).append(value)
      reasons[column] = reasons.get(column) or reason
      names.add(calibration)
      progress.update(1, name)
  return {column: Cell(tuple(values[column]), reason=reasons[column]) for column in columns}, names


def count_of(recipes: Sequence[Recipe], columns: Sequence[str], seeds: Sequence[int]) -> int:
  """Returns the number of scores that `cells_of` computes for all recipes."""
  random = sum(recipe.is_random for recipe in recipes)
  return len(columns) * (random * len(seeds) + len(recipes) - random)


def row_name(bench: Workbench, recipe: Recipe, chosen: str | None = None) -> str:
  """Returns the name of a row; `chosen` is the calibration's name with the k chosen on dev, None for several."""
  embedding = "avg of word vectors" if bench.words else recipe.embedding
  if recipe.calibration == NONE:
    return f"{bench.title}, {embedding}"
  spec = parse_calibration(recipe.calibration)
  method = spec.name
  if spec.k_on_dev:
    k = chosen and parse_calibration(chosen).k
    method = f"{spec.method}-{k or 'k'}, k chosen on dev"
  corpus = "NLI" if recipe.corpus == NLI else recipe.corpus
  return f"{bench.title}, {embedding}, {method} ({corpus})"


def not_tuned(run: Run) -> list[str]:
  """Returns a note for Tables 4 and 8 if our encoders, unlike the paper's, are not fine-tuned."""
  return [] if run.plan.nli_model else [_NOT_TUNED]


def _rows(run: Run, recipes: Mapping[Workbench, Sequence[Recipe]], columns: Mapping[str, str]) -> list[Row]:
  """Returns our rows of a table of the paper, next to the paper's score of each."""
  rows = []
  total = sum(count_of(of_bench, columns, run.seeds) for of_bench in recipes.values())
  with run.progress(total) as progress:
    for bench, of_bench in recipes.items():
      for recipe in of_bench:
        published = _published(bench, recipe, int(run.name))
        cells, names = cells_of(bench, recipe, columns, run.seeds, progress)
        if published is not None:
          for column, cell in cells.items():
            cells[column] = dataclasses.replace(cell, paper=published.cells[column])
        chosen = names.pop() if len(names) == 1 else recipe.calibration
        rows.append(Row(row_name(bench, recipe, chosen), OURS, cells))
  return rows


def _notes_of_corpora(run: Run, recipes: Mapping[Workbench, Sequence[Recipe]]) -> list[str]:
  """Returns notes on what the rows are fitted on; [] without rows of ours."""
  notes = []
  for bench, of_bench in list(recipes.items())[:1]:
    notes.append(note("(target)"))
    if any(recipe.corpus == NLI for recipe in of_bench) and not bench.inputs.why_missing(NLI):
      notes.append(f"(NLI): fitted on {bench.inputs.corpus(NLI).source}.")
  return notes


def _published(bench: Workbench, recipe: Recipe, number: int) -> PaperRow | None:
  """Returns the paper's row that ours is compared with, None if the encoder is not the paper's."""
  if bench.paper_encoder is None:
    return None
  return paper_tables()[number].match(
    _PAPER_K.get(recipe.calibration, recipe.calibration),
    bench.nli_tuned,
    encoder=bench.paper_encoder,
    embedding=recipe.embedding,
    corpus=recipe.corpus if recipe.is_random else None,
  )
