"""Tables 2, 3, 4, 5 and 8 of the paper, and the transfer table: scores of tasks by recipe."""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_flow_tf.calibration.names import parse_calibration
from bert_flow_tf.data.flow_corpus import NLI
from bert_flow_tf.errors import DataError
from bert_flow_tf.tables.inputs import target_of
from bert_flow_tf.tables.kinds import EncoderKind
from bert_flow_tf.tables.recipe import CONTROLS, NONE, RowRecipe
from bert_flow_tf.tables.request import TableContent, TableRequest
from bert_flow_tf.tables.table import OURS, WORSE, Cell, Row, note, paper_tables
from bert_flow_tf.tables.workbench import Workbench

AVG, FIRST_LAST = "avg", "avg-first-last"
# The k that the paper chose on dev; ours, chosen on dev too, is compared with it.
_PAPER_K = {"natsv": "natsv-10", "sn+natsv": "sn+natsv-6"}
# Pairs of QNLI's splits in GLUE (its second version, as in TensorFlow Datasets).
_QNLI = {"train": 104743, "dev": 5463, "test": 5463}
# Beginning and end of the note where some of them are missing.
PART_OF_QNLI, FITTED_ON_PART = "Only a part of QNLI was available", "The rows (target) are fitted on"
_COLUMN_OF_TASK = {"QNLI": "AUC"}  # in Table 4
_SEED_RECIPES = (RowRecipe(AVG), RowRecipe(FIRST_LAST), RowRecipe(FIRST_LAST, "flow"))  # rows of Table 8
# 0.15 epoch of all pairs of SNLI and MNLI, 32 per step.
_PAPER_NLI_STEPS = 4600
WEIGHTED = note("STS-12 to STS-16")
_NOT_TUNED = "Our encoders are not fine-tuned on NLI (`--nli_model`); the paper's are."


def make_similarity(request: TableRequest) -> TableContent:
  """Makes Tables 2 and 3: avg, cls, avg-first-last, flows and other calibrations; a column for each task."""
  recipes, notes, without_cls = {}, [], []
  for bench in request.benches:
    best = bench.only_embedding or FIRST_LAST
    bench_recipes = [RowRecipe(bench.only_embedding or AVG)]
    if bench.only_embedding is None:
      if bench.encoder.has_pooler:
        bench_recipes.append(RowRecipe("cls"))
      else:
        without_cls.append(bench.title)
      bench_recipes.append(RowRecipe(FIRST_LAST))
    if bench.kind is not EncoderKind.WORDS:
      bench_recipes.append(RowRecipe(best, "flow", NLI))
    bench_recipes.append(RowRecipe(best, "flow"))
    for calibration in request.arguments.calibration:
      bench_recipes.append(RowRecipe(best, calibration))
    if bench.only_embedding and bench.kind is not EncoderKind.WORDS:
      bench_recipes.append(RowRecipe(best, "auto"))
    if bench.kind not in (EncoderKind.WORDS, EncoderKind.SAVED_MODEL):
      bench_recipes += map(RowRecipe, CONTROLS)
    recipes[bench] = bench_recipes
  if any(column.startswith("STS-1") for column in request.tasks):
    notes.append(WEIGHTED)
  notes += _notes_of_corpora(request, recipes)
  if any(RowRecipe(CONTROLS[0]) in bench_recipes for bench_recipes in recipes.values()):
    notes += map(note, CONTROLS)
  notes += only_embedding_notes(request)
  if without_cls:
    notes.append(f"No row of cls for {', '.join(without_cls)}: the checkpoint has no pooler.")
  if request.name == "3" and not recipes:
    notes.append("No encoder fine-tuned on NLI was given (`--nli_model`): only published rows.")
  return TableContent(request.tasks, _rows(request, recipes), notes)


def make_qnli(request: TableRequest) -> TableContent:
  """Makes Table 4: AUC of QNLI."""
  all_recipes = [RowRecipe(FIRST_LAST), RowRecipe(FIRST_LAST, "flow", NLI), RowRecipe(FIRST_LAST, "flow")]
  recipes = dict.fromkeys(request.benches, all_recipes)
  notes = _notes_of_corpora(request, recipes)
  if recipes:
    splits = request.benches[0].inputs.tasks["QNLI"].splits
    counts, numbers = [], []
    for split, full in _QNLI.items():
      counts.append(len(splits.get(split, ())))
      numbers.append(f"{counts[-1]:,} of {full:,} {split}")
    if counts != list(_QNLI.values()):
      fitted = f"{sum(counts):,} of {sum(_QNLI.values()):,} pairs"
      # This note comes before the note of the corpus NLI.
      missing = f"{PART_OF_QNLI}: {', '.join(numbers)} pairs."
      notes.insert(1, f"{missing} {FITTED_ON_PART} {fitted}.")
  return TableContent(("AUC",), _rows(request, recipes), notes + not_tuned(request))


def make_calibrations(request: TableRequest) -> TableContent:
  """Makes Table 5, all of plain averages; the k of natsv without a number is chosen on dev."""
  names = [NONE, "sn", "natsv-1", "natsv", "sn+natsv-1", "sn+natsv", *request.arguments.calibration, "flow"]
  all_recipes = [RowRecipe(AVG, name) for name in dict.fromkeys(names)]
  recipes = dict.fromkeys(request.benches, all_recipes)
  notes = _notes_of_corpora(request, recipes)
  return TableContent(request.tasks, _rows(request, recipes), notes)


def make_seeds(request: TableRequest) -> TableContent:
  """Makes Table 8: mean, standard deviation and median over the seeds of the flow."""
  rows = []
  for bench in request.benches:
    for recipe in _SEED_RECIPES:
      cell = cells_of(bench, recipe, request.tasks, request.seeds)[0][request.tasks[0]]
      published = _published(bench, recipe, 8)
      # A row that no seed changes has no spread; its mean and median are its score.
      values = {"mean": cell.mean, "standard deviation": cell.spread, "median": None}
      reason = cell.reason or "no seed takes part in this row"
      if recipe.is_random:
        reason = cell.reason or "only one seed"
      if cell.defined:
        values["median"] = statistics.median(cell.values)
      cells = {}
      for column, value in values.items():
        paper = published.get(column)
        if value is None or math.isnan(value):
          cells[column] = Cell((), paper, reason)
        else:
          cells[column] = Cell((value,), paper)
      rows.append(Row(row_name(bench, recipe), OURS, cells))
  numbers = ", ".join(map(str, request.seeds))
  text = f"Ours: seeds {numbers} of the flow, with the same encoder; the paper's five are of the whole training."
  return TableContent(paper_tables()[8].columns, rows, [text, *not_tuned(request)])


def make_transfer(request: TableRequest) -> TableContent:
  """Makes the table of flows that are fitted on the sentences of a set and evaluated on a different set."""
  # A row for each corpus; on the set of its row, a flow is fitted on the sentences that it is evaluated on.
  recipes = {f"flow fitted on {task}": RowRecipe(FIRST_LAST, "flow", target_of([task])) for task in request.tasks}
  notes = [WEIGHTED]
  for corpus in request.arguments.transfer_corpus:
    recipes[f"flow fitted on {_corpus_name(corpus)}"] = RowRecipe(FIRST_LAST, "flow", corpus)
  if NLI in request.arguments.transfer_corpus:
    for bench in request.benches[:1]:
      notes += nli_notes(bench)
  rows = []
  for bench in request.benches:
    plain = cells_of(bench, RowRecipe(FIRST_LAST), request.tasks, request.seeds)[0]
    rows.append(Row(f"{bench.title}, no flow", OURS, plain))
    compared = lower = 0
    for name, recipe in recipes.items():
      cells = cells_of(bench, recipe, request.tasks, request.seeds)[0]
      for task, cell in cells.items():
        worse = cell.mean < plain[task].mean
        cells[task] = dataclasses.replace(cell, worse=worse)
        compared += cell.defined and plain[task].defined
        lower += worse
      rows.append(Row(f"{bench.title}, {name}", OURS, cells))
    notes.append(f"{bench.title}: the flow lowers the score in {lower} of {compared} cells ({WORSE}).")
  return TableContent(request.tasks, rows, notes)


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


def row_name(bench: Workbench, recipe: RowRecipe, fitted: str | None = None) -> str:
  """Returns the name of a row; `fitted`: name of the fitted calibration, with its k; None for several."""
  embedding = recipe.embedding
  if bench.kind is EncoderKind.WORDS:
    embedding = "avg of word vectors"
  if recipe.calibration == NONE:
    return f"{bench.title}, {embedding}"
  spec = parse_calibration(recipe.calibration)
  method = spec.name
  if spec.k_on_dev:
    k = fitted and parse_calibration(fitted).k
    method = f"{spec.method}-{k or 'k'}, k chosen on dev"
  return f"{bench.title}, {embedding}, {method} ({_corpus_name(recipe.corpus)})"


def _corpus_name(corpus: str) -> str:
  return corpus.upper() if corpus == NLI else corpus


def only_embedding_notes(request: TableRequest) -> list[str]:
  """Returns notes on encoders with a single pooling."""
  titles = [bench.title for bench in request.benches if bench.only_embedding and bench.kind is not EncoderKind.WORDS]
  if not titles:
    return []
  return [f"{', '.join(titles)}: only the embedding that its files declare or give, and the choice of `auto`."]


def not_tuned(request: TableRequest) -> list[str]:
  """Returns a note for Tables 4 and 8 if our encoders, unlike the paper's, are not fine-tuned."""
  if request.arguments.nli_model:
    return []
  return [_NOT_TUNED]


def _rows(request: TableRequest, recipes: Mapping[Workbench, Sequence[RowRecipe]]) -> list[Row]:
  """Returns our rows of a table of the paper, next to the paper's score of each."""
  rows = []
  for bench, bench_recipes in recipes.items():
    for recipe in bench_recipes:
      published = _published(bench, recipe, int(request.name))
      scores, names = cells_of(bench, recipe, request.tasks, request.seeds)
      cells = {}
      for task, cell in scores.items():
        column = _COLUMN_OF_TASK.get(task, task)
        cells[column] = dataclasses.replace(cell, paper=published.get(column))
      fitted = recipe.calibration
      if list(names.values()) == [list(request.tasks)]:  # all tasks have the same k
        (fitted,) = names
      rows.append(Row(row_name(bench, recipe, fitted), OURS, cells))
  return rows


def _notes_of_corpora(request: TableRequest, recipes: Mapping[Workbench, Sequence[RowRecipe]]) -> list[str]:
  """Returns notes on the corpora of the rows; [] without rows of ours."""
  notes = []
  for bench in list(recipes)[:1]:
    notes.append(note("(target)"))
    if RowRecipe(bench.only_embedding or FIRST_LAST, "flow", NLI) in recipes[bench]:
      notes += nli_notes(bench)
  return notes


def nli_notes(bench: Workbench) -> list[str]:
  """Returns a note on pairs and steps of a fit on NLI, which may be far fewer than the paper's; [] without files."""
  try:
    corpus = bench.inputs.corpus(NLI)
  except DataError:  # its rows have no scores, and say why
    return []
  return [
    f"(NLI): fitted on the available {len(corpus.pairs):,} pairs of SNLI and MNLI: {bench.inputs.fit_size(corpus)}. "
    f"The paper's rows have some {_PAPER_NLI_STEPS:,} steps: compare them only with a fit as long."
  ]


def _published(bench: Workbench, recipe: RowRecipe, number: int) -> Mapping[str, Any]:
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
