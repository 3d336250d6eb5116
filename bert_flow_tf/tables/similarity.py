"""Tables 2, 3, 4, 5 and 8 of the paper, and the transfer table: scores of tasks by recipe."""

import math
import statistics
from collections.abc import Sequence

from bert_flow_tf.calibration.names import parse_calibration
from bert_flow_tf.data.flow_corpus import NLI
from bert_flow_tf.errors import DataError
from bert_flow_tf.tables.inputs import TARGET_OF, target_of
from bert_flow_tf.tables.kinds import EncoderKind
from bert_flow_tf.tables.recipe import CONTROLS, NONE, RowRecipe
from bert_flow_tf.tables.request import TableContent, TableRequest
from bert_flow_tf.tables.scores import ScoredRow, ScoreTable, cells_of, published_cells
from bert_flow_tf.tables.table import OURS, WORSE, Cell, Row, note, paper_tables
from bert_flow_tf.tables.workbench import Workbench

AVG, FIRST_LAST = "avg", "avg-first-last"
# Pairs of QNLI's splits in GLUE (its second version, as in TensorFlow Datasets).
_QNLI = {"train": 104743, "dev": 5463, "test": 5463}
# Beginning and end of the note where some of them are missing.
PART_OF_QNLI, FITTED_ON_PART = "Only a part of QNLI was available", "The rows (target) are fitted on"
_SEED_RECIPES = (RowRecipe(AVG), RowRecipe(FIRST_LAST), RowRecipe(FIRST_LAST, "flow"))  # rows of Table 8
# 0.15 epoch of all pairs of SNLI and MNLI, 32 per step.
_PAPER_NLI_STEPS = 4600
WEIGHTED = note("STS-12 to STS-16")
_NOT_TUNED = "Our encoders are not fine-tuned on NLI (`--nli_model`); the paper's are."


def _similarity_recipes(request: TableRequest, bench: Workbench) -> list[RowRecipe]:
  """Returns the rows of Tables 2 and 3: avg, cls, avg-first-last, flows, other calibrations and controls."""
  best = bench.only_embedding or FIRST_LAST
  recipes = [RowRecipe(bench.only_embedding or AVG)]
  if bench.only_embedding is None:
    if bench.encoder.has_pooler:
      recipes.append(RowRecipe("cls"))
    recipes.append(RowRecipe(FIRST_LAST))
  if bench.kind is not EncoderKind.WORDS:
    recipes.append(RowRecipe(best, "flow", NLI))
  recipes.append(RowRecipe(best, "flow"))
  for calibration in request.arguments.calibration:
    recipes.append(RowRecipe(best, calibration))
  if bench.only_embedding and bench.kind is not EncoderKind.WORDS:
    recipes.append(RowRecipe(best, "auto"))
  if bench.kind not in (EncoderKind.WORDS, EncoderKind.SAVED_MODEL):
    recipes += map(RowRecipe, CONTROLS)
  return recipes


def _similarity_notes(request: TableRequest, rows: Sequence[ScoredRow]) -> list[str]:
  notes = []
  if any(column.startswith("STS-1") for column in request.tasks):
    notes.append(WEIGHTED)
  notes += _notes_of_corpora(request, rows)
  if any(row.recipe == RowRecipe(CONTROLS[0]) for row in rows):
    notes += map(note, CONTROLS)
  notes += only_embedding_notes(request)
  without_cls = [b.title for b in request.benches if b.only_embedding is None and not b.encoder.has_pooler]
  if without_cls:
    notes.append(f"No row of cls for {', '.join(without_cls)}: the checkpoint has no pooler.")
  if request.name == "3" and not rows:
    notes.append("No encoder fine-tuned on NLI was given (`--nli_model`): only published rows.")
  return notes


def _qnli_recipes(request: TableRequest, bench: Workbench) -> list[RowRecipe]:
  del request, bench
  return [RowRecipe(FIRST_LAST), RowRecipe(FIRST_LAST, "flow", NLI), RowRecipe(FIRST_LAST, "flow")]


def _qnli_notes(request: TableRequest, rows: Sequence[ScoredRow]) -> list[str]:
  notes = _notes_of_corpora(request, rows)
  if rows:
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
  return notes + not_tuned(request)


def _calibration_recipes(request: TableRequest, bench: Workbench) -> list[RowRecipe]:
  """Returns the rows of Table 5, all of plain averages; the k of natsv without a number is chosen on dev."""
  del bench
  names = [NONE, "sn", "natsv-1", "natsv", "sn+natsv-1", "sn+natsv", *request.arguments.calibration, "flow"]
  return [RowRecipe(AVG, name) for name in dict.fromkeys(names)]


def _paper_row_name(row: ScoredRow) -> str:
  fitted = row.recipe.calibration
  if [len(tasks) for tasks in row.fitted.values()] == [len(row.cells)]:  # all tasks have the same k
    (fitted,) = row.fitted
  return row_name(row.bench, row.recipe, fitted)


def make_seeds(request: TableRequest) -> TableContent:
  """Makes Table 8: mean, standard deviation and median over the seeds of the flow."""
  rows = []
  for bench in request.benches:
    for recipe in _SEED_RECIPES:
      cell = cells_of(bench, recipe, request.tasks, request.seeds)[0][request.tasks[0]]
      published = published_cells(bench, recipe, 8)
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


def _transfer_recipes(request: TableRequest, bench: Workbench) -> list[RowRecipe]:
  """Returns the embeddings, and a flow for each corpus; on its own set, a flow has the sentences of the evaluation."""
  del bench
  corpora = [target_of([task]) for task in request.tasks]
  corpora += request.arguments.transfer_corpus
  return [RowRecipe(FIRST_LAST), *(RowRecipe(FIRST_LAST, "flow", corpus) for corpus in corpora)]


def _transfer_notes(request: TableRequest, rows: Sequence[ScoredRow]) -> list[str]:
  notes = [WEIGHTED]
  if NLI in request.arguments.transfer_corpus:
    for bench in request.benches[:1]:
      notes += nli_notes(bench)
  for bench in request.benches:
    plain, *flows = [row.cells for row in rows if row.bench is bench]
    compared = lower = 0
    for cells in flows:
      for task, cell in cells.items():
        compared += cell.defined and plain[task].defined
        lower += cell.worse
    notes.append(f"{bench.title}: the flow lowers the score in {lower} of {compared} cells ({WORSE}).")
  return notes


def _transfer_name(row: ScoredRow) -> str:
  if row.recipe.calibration == NONE:
    return f"{row.bench.title}, no flow"
  return f"{row.bench.title}, flow fitted on {_corpus_name(row.recipe.corpus.removeprefix(TARGET_OF))}"


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


def _notes_of_corpora(request: TableRequest, rows: Sequence[ScoredRow]) -> list[str]:
  """Returns notes on the corpora of the rows; [] without rows of ours."""
  notes = []
  for bench in request.benches[:1]:
    notes.append(note("(target)"))
    if any(row.bench is bench and row.recipe.corpus == NLI for row in rows):
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


SIMILARITY = ScoreTable(_similarity_recipes, _similarity_notes, _paper_row_name, is_papers=True)
QNLI = ScoreTable(_qnli_recipes, _qnli_notes, _paper_row_name, is_papers=True)
CALIBRATIONS = ScoreTable(_calibration_recipes, _notes_of_corpora, _paper_row_name, is_papers=True)
TRANSFER = ScoreTable(_transfer_recipes, _transfer_notes, _transfer_name, baseline=lambda bench: RowRecipe(FIRST_LAST))
