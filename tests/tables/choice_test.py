"""bert_flow_tf/tables/choice.py: settings that other sets choose, against a choice with NumPy and SciPy."""

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.tables import choice, workbench
from bert_flow_tf.tables.recipe import RowRecipe
from bert_flow_tf.tables.table import Cell
from tests.tables.fakes import Bench, Encoder, make, make_bench

TASKS = ("STS-B", "SICK-R", "STS-12")


@pytest.fixture(autouse=True)
def variants(monkeypatch):
  """Encoders whose vectors depend on the token weights."""
  monkeypatch.setattr(workbench, "change_encoder", lambda encoder, settings, weights, *_: Encoder(weights))
  monkeypatch.setattr(workbench, "Workbench", Bench)


def _score(bench, task, recipe):
  """Returns Spearman x 100, of a task with subsets their mean weighted by the number of pairs."""
  cosines, _ = bench.cosines(task, recipe)
  pairs = bench.inputs.tasks[task].splits["test"]
  names = np.array(pairs.subset_names() or [""] * len(pairs))
  scored = ~np.isnan(pairs.scores)
  total = 0.0
  for name in set(names):
    rows = scored & (names == name)
    total += 100 * stats.spearmanr(cosines[rows], pairs.scores[rows])[0] * rows.sum() / scored.sum()
  return total


def test_each_set_has_the_score_of_the_setting_that_the_others_choose(data):
  bench = make_bench(data, TASKS)
  content = make("choice", [bench], [1], TASKS)
  cells = {row.name.removeprefix("fake, "): row.cells for row in content.rows}
  settings = [(pooling, weights) for pooling in choice.POOLINGS for weights in choice.TOKEN_WEIGHTS]
  recipes = [
    RowRecipe(pooling, name, token_weights=weights) for pooling, weights in settings for name in choice.CALIBRATIONS
  ]
  scores = np.array([[_score(bench, task, recipe) for task in TASKS] for recipe in recipes])
  with_characters = np.array(["characters" in recipe.calibration for recipe in recipes])
  for row, grid in (
    ("chosen on the other sets", scores),
    ("chosen on the other sets, without characters", scores[~with_characters]),
  ):
    expected = []
    for column in range(len(TASKS)):
      others = np.delete(grid, column, axis=1)
      expected.append(grid[np.argmax(others.sum(axis=1)), column])
    assert [cells[row][task].mean for task in TASKS] == pytest.approx(expected)
    assert cells[row]["mean"].mean == pytest.approx(np.mean(expected))
  assert [cells["chosen on the set itself"][task].mean for task in TASKS] == pytest.approx(scores.max(axis=0))
  fixed = recipes.index(RowRecipe("mix", "soft-whitening", token_weights="idf"))
  recipe = cells["recipe: mix, idf, soft-whitening (target)"]
  assert [recipe[task].mean for task in TASKS] == pytest.approx(scores[fixed])
  assert [cells["characters"][task].mean for task in TASKS] == pytest.approx(
    [_score(bench, task, RowRecipe("characters")) for task in TASKS]
  )


def test_the_set_itself_has_no_voice():
  """A setting that is best on one set alone is not taken for that set; of equal settings, the first is."""
  first, second, third = (RowRecipe(name) for name in ("first", "second", "third"))
  numbers = {first: (90.0, 10.0, 10.0), second: (0.0, 50.0, 50.0), third: (0.0, 50.0, 50.0)}
  scores = {}
  for recipe, values in numbers.items():
    scores[recipe] = {task: Cell((value,)) for task, value in zip(TASKS, values, strict=True)}
  assert [choice.best_on_others(scores, task) for task in TASKS] == [second, first, first]


def test_a_setting_without_a_score_on_another_set_is_not_taken():
  scores = {RowRecipe("a"): {"x": Cell((1.0,)), "y": Cell(reason="none")}}
  assert choice.best_on_others(scores, "x") is None and choice.best_on_others(scores, "y") == RowRecipe("a")
