"""evaluation/bootstrap.py: the interval against the same resamples drawn one by one."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.evaluation import bootstrap
from bert_flow_tf.evaluation.bootstrap import bootstrap_gain, bootstrap_mean_gain
from bert_flow_tf.evaluation.metrics import score_pairs


def methods(n=300, seed=0, better=0.5):
  """Returns two methods' similarities and gold, all with ties."""
  rng = np.random.default_rng(seed)
  gold = rng.integers(0, 11, n) / 2
  before, after = (np.round(gold / 5 + rng.normal(0, deviation, n), 2) for deviation in (1.0, better))
  return before, after, gold


def spearman(x, y):
  return 100 * stats.spearmanr(x, y).statistic


def area(values, labels):
  return 100 * roc_auc_score(labels, values)


@pytest.mark.parametrize(
  ("metric", "score", "piece"),
  [("auc", area, 1 << 20), *(("spearman", spearman, piece) for piece in (1, 1000, 1 << 20))],
)
def test_interval_of_the_same_resamples_drawn_one_by_one(monkeypatch, metric, score, piece):
  """The same draws, sorted and ranked by SciPy and scikit-learn."""
  monkeypatch.setattr(bootstrap, "_PIECE", piece)
  before, after, gold = methods(60)
  if metric == "auc":
    gold = (gold > 2.5).astype(float)
  rng = np.random.default_rng(7)
  draws = [rng.integers(60, size=60) for _ in range(200)]
  gains = [score(after[draw], gold[draw]) - score(before[draw], gold[draw]) for draw in draws]
  found = bootstrap_gain(before, after, gold, n_boot=200, seed=7, level=0.9, metric=metric)
  assert (found.low, found.high) == pytest.approx(tuple(np.percentile(gains, [5, 95])), abs=1e-9)
  assert found.gain == pytest.approx(score(after, gold) - score(before, gold), abs=1e-9)
  assert (found.metric, found.level, found.pairs, found.reason) == (metric, 0.9, 60, "")


def test_seed_and_equal_ranks():
  before, after, gold = methods()
  first = bootstrap_gain(before, after, gold, seed=3)
  assert bootstrap_gain(before, after, gold, seed=3) == first != bootstrap_gain(before, after, gold, seed=4)
  found = bootstrap_gain(before, 2 * before + 1, gold)
  assert (found.gain, found.low, found.high) == (0, 0, 0)


def test_subsets_are_resampled_each_by_itself():
  before, after, gold = methods(200)
  names = np.array(["a", "b", "b", "b"] * 50)
  found = bootstrap_gain(before, after, gold, names, n_boot=150, seed=5)
  scores = [score_pairs(values, gold, names)["spearman_wmean"] for values in (before, after)]
  assert found.gain == pytest.approx(scores[1] - scores[0], abs=1e-9)
  rng = np.random.default_rng(5)
  gains = np.zeros(150)
  for name, weight in (("a", 0.25), ("b", 0.75)):
    rows = np.flatnonzero(names == name)
    for index, draw in enumerate(rng.integers(len(rows), size=[150, len(rows)])):
      drawn = rows[draw]
      gains[index] += weight * (spearman(after[drawn], gold[drawn]) - spearman(before[drawn], gold[drawn]))
  assert (found.low, found.high) == pytest.approx(tuple(np.percentile(gains, [2.5, 97.5])), abs=1e-9)
  one = bootstrap_gain(before, after, gold, ["x"] * 200)
  assert one == bootstrap_gain(before, after, gold)


def test_repeated_pairs_are_drawn_together():
  """A file whose pairs all repeat has the interval of the file without repeats; others are drawn one by one."""
  before, after, gold = methods(40)
  once = bootstrap_gain(before, after, gold, n_boot=100)
  ten = [np.tile(values, 10) for values in (before, after, gold)]
  found = bootstrap_gain(*ten, n_boot=100, numbers=np.tile(np.arange(40), 10))
  assert (found.gain, found.low, found.high) == pytest.approx((once.gain, once.low, once.high), abs=1e-9)
  assert bootstrap_gain(before, after, gold, n_boot=100, numbers=np.arange(40)) == once
  numbers = np.concatenate([np.arange(30), np.arange(10)])
  found = bootstrap_gain(before, after, gold, n_boot=50, seed=3, numbers=numbers)
  gains = []
  for draw in np.random.default_rng(3).integers(30, size=[50, 30]):
    rows = [row for pair in draw for row in np.flatnonzero(numbers == pair)]
    gains.append(spearman(after[rows], gold[rows]) - spearman(before[rows], gold[rows]))
  assert (found.low, found.high) == pytest.approx(tuple(np.percentile(gains, [2.5, 97.5])), abs=1e-9)
  assert found.pairs == 40 and found.gain == once.gain


def test_repeated_queries_are_drawn_together():
  before, after = np.random.default_rng(1).random([2, 50])
  numbers = np.concatenate([np.arange(30), np.full(15, 7), np.arange(5)])
  found = bootstrap_mean_gain(before, after, "map", n_boot=60, seed=2, numbers=numbers)
  means = []
  for draw in np.random.default_rng(2).integers(30, size=[60, 30]):
    rows = [row for query in draw for row in np.flatnonzero(numbers == query)]
    means.append(np.mean(after[rows] - before[rows]))
  assert (found.low, found.high) == pytest.approx(tuple(np.percentile(means, [2.5, 97.5])), abs=1e-12)
  assert found.pairs == 50 and found.gain == pytest.approx(np.mean(after - before))


def test_pairs_of_the_same_sentences_in_either_order_repeat():
  # Pairs without sentences, of a file of scores alone, are distinct.
  pairs = SentencePairs(
    ["a", "b", "c", "a", "a", "", ""], ["b", "a", "c", "b", "c", "", ""], [1, 2, 3, 4, math.nan, 5, 6]
  )
  assert pairs.distinct_numbers().tolist() == [0, 0, 2, 0, 4, 5, 6]


def test_pairs_without_gold_take_no_part():
  before, after, gold = methods(100)
  names = np.array(["a", "b"] * 50)
  gaps = np.insert(gold, [3, 50], math.nan)
  with_gaps = [np.insert(values, [3, 50], fill) for values, fill in ((before, math.nan), (after, 9.0))]
  assert bootstrap_gain(*with_gaps, gaps) == bootstrap_gain(before, after, gold)
  found = bootstrap_gain(*with_gaps, gaps, np.insert(names, [3, 50], "a"))
  assert found == bootstrap_gain(before, after, gold, names) and found.pairs == 100


@pytest.mark.parametrize(
  ("before", "gold", "reason"),
  [
    ([0.1], [1.0], "1 scored pair, a correlation needs at least 2"),
    ([0.1, 0.2, 0.3], [2.0, 2.0, 2.0], "all 3 gold scores are 2"),
    ([0.5, 0.5, 0.5], [1.0, 2.0, 3.0], "all 3 similarities are 0.5"),
  ],
)
def test_undefined_gain_has_a_reason(before, gold, reason, recwarn):
  after = np.arange(len(gold), dtype=float)
  found = bootstrap_gain(before, after, gold)
  assert math.isnan(found.gain) and math.isnan(found.low) and math.isnan(found.high)
  assert found.reason.startswith(reason) and not recwarn.list
  if len(gold) > 1:
    named = bootstrap_gain(before, after, gold, ["s"] * len(gold))
    assert named.reason.startswith(f"subset s: {reason}")
  assert "of label 0" in bootstrap_gain(after, after, np.ones(len(after)), metric="auc").reason


def test_too_few_pairs_for_an_interval(recwarn):
  found = bootstrap_gain([1, 2, 3], [3, 1, 2], [1, 2, 3])
  assert found.gain == pytest.approx(spearman([3, 1, 2], [1, 2, 3]) - 100)
  assert math.isnan(found.low) and math.isnan(found.high) and not recwarn.list
  assert "of 1000 resamples of 3 pairs have scores that do not differ" in found.reason
