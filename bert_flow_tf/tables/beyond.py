"""Tables beyond the paper: calibrations of other embeddings, their gains, and the recipe in steps."""

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np
from absl import logging

from bert_flow_tf.data.flow_corpus import TARGET
from bert_flow_tf.encoder.settings import OPENVINO
from bert_flow_tf.encoder.transformer.number_formats import BFLOAT16, INT8
from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.evaluation.bootstrap import bootstrap_gain
from bert_flow_tf.evaluation.controls import CHARACTERS
from bert_flow_tf.tables.inputs import SAMPLE_OF, sample_corpus, target_of
from bert_flow_tf.tables.kinds import EncoderKind
from bert_flow_tf.tables.recipe import CONTROLS, NONE, UNIFORM, RowRecipe
from bert_flow_tf.tables.request import TableContent, TableRequest
from bert_flow_tf.tables.scores import ScoredRow, ScoreTable, columns_of, sets_of, with_mean
from bert_flow_tf.tables.similarity import AVG, FIRST_LAST, only_embedding_notes
from bert_flow_tf.tables.table import BETTER, OURS, WORSE, Cell, Row, note
from bert_flow_tf.tables.workbench import Workbench, fingerprint

IDF = "idf"
SOFT, _AUTO = "soft-whitening", "auto"
SOFT_AND_CHARACTERS = f"{SOFT}+characters"
WHITENING, FLOW = RowRecipe(FIRST_LAST, "whitening"), RowRecipe(FIRST_LAST, "flow")
# The combination that docs/calibrations.md recommends.
BEST = RowRecipe("mix", SOFT, token_weights=IDF)
_CONTROLS = tuple(map(RowRecipe, CONTROLS))
MATCH = RowRecipe(CHARACTERS)
_FITTED = (
  FLOW,
  WHITENING,
  RowRecipe(FIRST_LAST, SOFT),
  BEST,
  RowRecipe("mix", "whitening", token_weights=IDF),
  RowRecipe("mix", "flow", token_weights=IDF),
  RowRecipe("mix", f"flow+{SOFT}", token_weights=IDF),
  RowRecipe("word-rows", SOFT, token_weights=IDF, static=True),
  RowRecipe("mix", _AUTO, token_weights=IDF),
  RowRecipe("mix", SOFT_AND_CHARACTERS, token_weights=IDF),
  RowRecipe("word-rows", SOFT_AND_CHARACTERS, token_weights=IDF, static=True),
)
_ROWS = (*_CONTROLS, RowRecipe(AVG), RowRecipe(FIRST_LAST), *_FITTED)
# The best rows that run a transformer, in fewer bits.
_FEWER_BITS = ((INT8, ""), (BFLOAT16, OPENVINO), (INT8, OPENVINO))
_IN_FEWER_BITS = tuple(
  RowRecipe("mix", calibration, token_weights=IDF, precision=precision, engine=engine)
  for precision, engine in _FEWER_BITS
  for calibration in (SOFT, _AUTO, SOFT_AND_CHARACTERS)
)
_ABLATION_ROWS = (
  WHITENING,
  RowRecipe(FIRST_LAST, SOFT),
  RowRecipe(FIRST_LAST, "whitening", token_weights=IDF),
  RowRecipe(FIRST_LAST, SOFT, token_weights=IDF),
  RowRecipe(AVG, SOFT, token_weights=IDF),
  RowRecipe("word-rows", SOFT, token_weights=IDF),
  RowRecipe("mix-0.5", SOFT, token_weights=IDF),
  BEST,
  RowRecipe("mix-0.8", SOFT, token_weights=IDF),
  RowRecipe("mix", SOFT, token_weights="idf-1"),
  RowRecipe("mix", SOFT),
  RowRecipe("mix", "whitening", token_weights=IDF),
  RowRecipe("mix", "soft-whitening-0.3", token_weights=IDF),
  RowRecipe("mix", "soft-whitening-0.4", token_weights=IDF),
)
# Kinds of baselines in table Gains, whose intervals are counted separately.
_OVER_FITS, _OVER_MATCH = "over whitening and the flow", "over characters"
_SEEN_BY_FREQUENCIES = ("QNLI", "MRPC")
METRIC = "Spearman x 100 (STS-12 to STS-16: mean over the subsets, weighted by their numbers of pairs)"
_NOT_RUN = (
  "The paper's encoders, `base` and `large`, were not run here. With them: `bert-flow table "
  "--table=beyond,gains,ablation --model=base,large --num_seeds=3 --seed=0 --data_dir=DATA`."
)


def _beyond_recipes(request: TableRequest, bench: Workbench) -> list[RowRecipe]:
  """Returns `_ROWS`, fitted on the evaluated set, on all sets, and on lines of a general corpus; and in fewer bits."""
  recipes = list(_ROWS)
  for recipe in _FITTED:
    recipes.append(_on_all_sets(request, recipe))
  if request.arguments.corpus:
    recipes += _on_corpus(request)
  recipes += _IN_FEWER_BITS
  return _supported_recipes(bench, recipes)


def _on_corpus(request: TableRequest) -> list[RowRecipe]:
  corpus = sample_corpus(str(request.arguments.corpus))
  return [dataclasses.replace(recipe, corpus=corpus) for recipe in _FITTED]


def _beyond_notes(request: TableRequest, rows: Sequence[ScoredRow]) -> list[str]:
  notes = list(
    map(note, (*CONTROLS, "(target)", "(all sets)", "mix", "idf", "static", *map(_joined, _FEWER_BITS), "▲, ▼"))
  )
  if request.arguments.corpus:
    notes += [note("(corpus)"), *_corpus_notes(request)]
  notes += [*_binary_notes(request), *only_embedding_notes(request)]
  for row in rows:
    if row.recipe.calibration == _AUTO and row.fitted:
      places = [f"{calibration} on {', '.join(tasks)}" for calibration, tasks in row.fitted.items()]
      method = " in ".join(filter(None, (_AUTO, _joined((row.recipe.precision, row.recipe.engine)))))
      notes.append(f"{row.bench.title}, choice of {method}{_fitted_on(row.recipe)}: {'; '.join(places)}.")
  if not any(bench.paper_encoder for bench in request.benches):
    notes.append(_NOT_RUN)
  return notes


def _joined(parts: Sequence[str]) -> str:
  return ", ".join(filter(None, parts))


def _row_name(row: ScoredRow) -> str:
  return f"{row.bench.title}, {fitted_name(row.recipe)}"


def _binary_notes(request):
  """Returns a note on the tasks whose sentences the word frequencies have seen."""
  if set(request.tasks) & set(_SEEN_BY_FREQUENCIES):
    return [note(", ".join(_SEEN_BY_FREQUENCIES))]
  return []


def _corpus_notes(request):
  """Returns a note on the lines of the corpus; [] without an encoder."""
  notes = []
  for bench in request.benches[:1]:
    notes.append(f"Lines of the corpus: {bench.inputs.corpus(sample_corpus(request.arguments.corpus)).source}.")
  return notes


def _supported_recipes(bench, recipes):
  """Returns the recipes that an encoder supports: of a single embedding, averages, auto and fewer bits."""
  if bench.only_embedding is None:
    return recipes
  supported = []
  for recipe in recipes:
    if recipe.embedding in CONTROLS and bench.kind is not EncoderKind.SAVED_MODEL:
      supported.append(recipe)
    elif recipe.precision:
      continue
    elif recipe.embedding in (AVG, FIRST_LAST) or recipe.calibration == _AUTO:
      supported.append(RowRecipe(bench.only_embedding, recipe.calibration, recipe.corpus))
  if bench.kind is EncoderKind.BERT:
    for precision, engine in _FEWER_BITS:
      supported.append(RowRecipe(bench.only_embedding, precision=precision, engine=engine))
  return list(dict.fromkeys(supported))


def make_gains(request: TableRequest) -> TableContent:
  """Makes the differences to whitening, to the flow and to the string match, with intervals."""
  # All rows over whitening, the random ones over the flow, all over the string match; then the same, fitted on all
  # sets; and over the string match, fitted on lines of a general corpus.
  pairs = []
  for baseline in (WHITENING, FLOW):
    for recipe in _FITTED:
      if recipe != baseline and (recipe.is_random or baseline == WHITENING):
        pairs.append((recipe, baseline))
  pairs += [(recipe, MATCH) for recipe in _FITTED]
  for recipe, baseline in pairs[:]:
    if baseline != MATCH:
      baseline = _on_all_sets(request, baseline)
    pairs.append((_on_all_sets(request, recipe), baseline))
  notes = [note("[low, high]"), note("▲, ▼"), *_binary_notes(request)]
  if request.arguments.corpus:
    notes += [note("(corpus)"), *_corpus_notes(request)]
    pairs += [(recipe, MATCH) for recipe in _on_corpus(request)]
  rows = []
  notes.append("The mean has no interval: some pairs of STS-B are pairs of STS-12 to STS-16 too.")
  for bench in request.benches:
    marks: dict[str, list[str]] = {_OVER_FITS: [], _OVER_MATCH: []}
    for recipe, baseline in pairs:
      name = f"{recipe_name(recipe)} over {recipe_name(baseline)}{_fitted_on(recipe)}"
      over = _OVER_MATCH if baseline == MATCH else _OVER_FITS
      gains = {}
      for task in request.tasks:
        gains[task] = _gain(bench, task, recipe, baseline, request.seeds)
        if gains[task].interval:
          marks[over].append(gains[task].mark)
      cells = with_mean(request, gains)
      rows.append(Row(f"{bench.title}, {name}", OURS, cells))
    for over, of_baseline in marks.items():
      better, worse = of_baseline.count(BETTER), of_baseline.count(WORSE)
      counts = f"{better} are wholly above 0 ({BETTER}) and {worse} wholly below 0 ({WORSE})"
      notes.append(f"{bench.title}: of {len(of_baseline)} intervals {over}, {counts}.")
  return TableContent(columns_of(request), rows, notes)


def recipe_name(recipe: RowRecipe) -> str:
  """Returns the name of a method in these tables, without its corpus: "recipe: mix, idf, soft-whitening"."""
  prefix = ""
  if recipe.static:
    prefix = "static: "
  elif dataclasses.replace(recipe, corpus=TARGET, precision="", engine="") == BEST:
    prefix = "recipe: "
  parts = (recipe.embedding, recipe.token_weights, recipe.calibration, recipe.precision, recipe.engine)
  named = [part for part in parts if part not in (UNIFORM, NONE, "")]
  return prefix + ", ".join(named)


def fitted_name(recipe: RowRecipe) -> str:
  """Returns the name of a method with its corpus: "recipe: mix, idf, soft-whitening (target)"."""
  return recipe_name(recipe) + _fitted_on(recipe)


def _fitted_on(recipe):
  """Returns the end of the name of a row that is fitted on a corpus."""
  if recipe.calibration == NONE:
    return ""
  if recipe.corpus == TARGET:
    return " (target)"
  if recipe.corpus.startswith(SAMPLE_OF):
    return " (corpus)"
  return " (all sets)"


def _on_all_sets(request, recipe):
  return dataclasses.replace(recipe, corpus=target_of(sets_of(request)))


def _gain(bench: Workbench, task: str, recipe: RowRecipe, baseline: RowRecipe, seeds) -> Cell:
  """Returns the difference of two methods with its interval, from the store if the store has it."""
  methods, digests = [], []
  for method in (recipe, baseline):
    try:
      cosines = [bench.cosines(task, method, seed)[0] for seed in method.seeds(seeds)]
    except BertFlowError as error:
      logging.warning("no score of %s, %s on %s: %s", bench.title, recipe_name(method), task, error)
      return Cell(reason=str(error))
    methods.append(cosines)
    digests.append(hashlib.sha256(np.array(cosines).tobytes()).hexdigest())
  # The interval follows from cosines and gold scores alone, so these are its key.
  data = bench.inputs.tasks[task]
  pairs = data.splits[data.spec.eval_split]
  metric, subsets = "spearman", pairs.subset_names()
  if data.spec.metric == "auc":
    metric, subsets = "auc", ()

  def compute():
    after, before = methods
    logging.info("%s: interval of %s, %s over %s", task, bench.title, recipe_name(recipe), recipe_name(baseline))
    return bootstrap_gain(before, after, pairs.scores, subsets, metric=metric, numbers=pairs.distinct_numbers())

  key = {"kind": "gain of distinct pairs", "metric": metric, "gold": fingerprint(pairs), "cosines": digests}
  gain = bench.store.kept(key, compute)
  if gain["gain"] is None:
    return Cell(reason=gain["reason"])
  interval = (gain["low"], gain["high"])
  if gain["low"] is None:
    interval = ()
  return Cell((gain["gain"],), interval=interval)


BEYOND = ScoreTable(
  _beyond_recipes,
  _beyond_notes,
  _row_name,
  has_mean=True,
  baseline=lambda bench: RowRecipe(bench.only_embedding or FIRST_LAST),
)
ABLATION = ScoreTable(
  recipes=lambda request, bench: _ABLATION_ROWS,
  notes=lambda request, rows: ["All rows are fitted on all sentences of the evaluated set, without gold scores."],
  row_name=_row_name,
  has_mean=True,
)
