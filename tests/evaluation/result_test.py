"""evaluation/result.py: gains over the encoder alone and over the string match, by NumPy and SciPy."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf import SentenceModel, load_task
from bert_flow_tf.data.beir import load_beir
from bert_flow_tf.evaluation.controls import task_controls
from bert_flow_tf.evaluation.result import retrieval_result, right_order, task_result
from bert_flow_tf.evaluation.retrieval import MEASURES, RetrievalScores
from bert_flow_tf.evaluation.task_scores import scores_of_split
from tests.report.records import BETTER, N, invented, result_of
from tests.runs.small_runs import write_beir
from tests.testing import shared


def test_gains_are_over_the_encoder_alone():
  result = result_of(*BETTER)
  gain = result.gains["test"]["with_flow"]
  before, after = (result.scores["test"][method]["spearman"] for method in ("without_flow", "with_flow"))
  assert gain["gain"] == pytest.approx(after - before) and gain["over"] == "without_flow" and gain["low"] > 0


def test_gains_over_the_encoder_before_its_training():
  result = result_of(("before_training", 0.3), *BETTER)
  assert [gain["over"] for gain in result.gains["test"].values()] == ["before_training", "without_flow"]


@pytest.mark.parametrize(
  ("methods", "compared"),
  [
    (BETTER, ["with_flow"]),
    (BETTER[:1], ["without_flow"]),
    ((*BETTER, ("characters", 0.1), ("whitening", 0.1)), ["with_flow", "whitening"]),
  ],
)
def test_gains_over_the_string_match(methods, compared):
  """The interval is that of resamples drawn one by one."""
  noise = {"tf-idf of word pieces": 0.3, "characters": 0.1}
  result = result_of(*methods, matches=noise)
  pairs, cosines, matches = invented(methods, matches=noise)
  gains, gold = result.gains_over_match["test"], pairs.scores
  assert list(gains) == compared
  before, after = matches["characters"], cosines[compared[0]]
  differences = []
  for draw in np.random.default_rng(0).integers(N, size=[1000, N]):
    of_draw = [100 * stats.spearmanr(values[draw], gold[draw])[0] for values in (before, after)]
    differences.append(of_draw[1] - of_draw[0])
  gain = gains[compared[0]]
  assert (gain["low"], gain["high"]) == pytest.approx(tuple(np.percentile(differences, [2.5, 97.5])))
  assert gain["over"] == "characters" and result.controls["test"]["characters"]["pairs"] == N


def test_queries_of_the_same_text_are_drawn_together(tmp_path):
  """Queries that stand ten times in a search, under other ids, have the intervals of the queries once."""
  once = load_beir(write_beir(tmp_path))
  queries, qrels = {}, {}
  for turn in range(10):
    for name, grades in once.qrels.items():
      queries[f"{name} {turn}"], qrels[f"{name} {turn}"] = once.queries[name], grades
  ten = dataclasses.replace(once, queries=queries, qrels=qrels)
  values = np.random.default_rng(0).random([3, len(once.qrels)])
  results = []
  for task, times in ((once, 1), (ten, 10)):
    scored = {}
    for method, row in zip(("without_flow", "mean", "BM25"), values, strict=True):
      scored[method] = RetrievalScores(list(task.qrels), dict.fromkeys(MEASURES, np.tile(row, times)))
    results.append(retrieval_result(task, scored))
  for gains, repeated in zip(*((each.gains, each.gains_over_match) for each in results), strict=True):
    found, expected = repeated["test"]["mean"], gains["test"]["mean"]
    assert [found[end] for end in ("gain", "low", "high")] == pytest.approx(
      [expected[end] for end in ("gain", "low", "high")]
    )
    assert found["pairs"] == 10 * expected["pairs"]


def test_the_order_of_two_pairs():
  """One by one, over all couples of different gold; of many pairs over every second one."""
  rng = np.random.default_rng(0)
  for n, step in ((60, 1), (4000, 2)):
    gold, cosines = rng.integers(0, 4, n).astype(float), rng.integers(0, 9, n) / 9
    gold[3] = np.nan
    scored = np.flatnonzero(~np.isnan(gold))[::step]
    couples = [(i, j) for i in scored[:100] for j in scored[:100] if gold[i] > gold[j]]
    shares = [(cosines[i] > cosines[j]) + (cosines[i] == cosines[j]) / 2 for i, j in couples]
    order = right_order(gold, {"a": cosines, "gold": gold})
    assert order["gold"] == 100 and order["a"] == pytest.approx(100 * np.mean(shares), abs=1e-9 if n == 60 else 5)
  assert right_order(np.ones(3), {"a": np.arange(3.0)}) == right_order(np.full(2, np.nan), {}) == {}


def test_without_gold_there_is_no_gain():
  result = result_of(*BETTER, gold=False)
  assert not result.has_gold and result.gains == result.gains_over_match == {}


def test_the_best_recipe_of_mini_is_no_better_than_the_string_match():
  """Compares with a program of an audit, which shares no code with this package."""
  task = load_task("STS-B", shared("data"))
  model = SentenceModel.from_pretrained("static:mini").fit(task.all_pairs(), "whitening+characters")
  pairs = task.splits["test"]
  cosines = np.sum(
    model.encode(pairs.sentences_a, normalize_embeddings=True).astype(float)
    * model.encode(pairs.sentences_b, normalize_embeddings=True),
    axis=1,
  )
  evaluations = {"whitening+characters": (scores_of_split("test", pairs, cosines, "correlation"), {"test": cosines})}
  result = task_result(task, evaluations, matches=task_controls(model.encoder, task, model.max_seq_length))
  gain = result.gains_over_match["test"]["whitening+characters"]
  assert (gain["gain"], gain["low"], gain["high"]) == pytest.approx((0.38, -0.57, 1.31), abs=0.1)
