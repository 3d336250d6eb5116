"""evaluation/metrics.py: correlations against SciPy, NumPy and ranks counted by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation.metrics import correlation


def ranks(values):
  """Ranks from 1, ties at their mean rank, by counting."""
  return np.array([np.sum(values < value) + (np.sum(values == value) + 1) / 2 for value in values])


def test_by_hand_with_ties():
  """Gold 0 0 1 2 2 2 has the ranks 1.5 1.5 3 5 5 5; similarities have 1 2.5 2.5 4 6 5."""
  gold, similarities = [0, 0, 1, 2, 2, 2], [0.1, 0.2, 0.2, 0.3, 0.9, 0.4]
  found = correlation(similarities, gold)
  x, y = np.array([1.5, 1.5, 3, 5, 5, 5]) - 3.5, np.array([1, 2.5, 2.5, 4, 6, 5]) - 3.5
  assert found.spearman == pytest.approx(100 * (x @ y) / math.sqrt((x @ x) * (y @ y)), rel=1e-12)
  assert found.pearson == pytest.approx(100 * np.corrcoef(gold, similarities)[0, 1], rel=1e-12)
  assert (found.pairs, found.reason) == (6, "")


@pytest.mark.parametrize("seed", range(3))
def test_against_scipy_and_counted_ranks(seed):
  rng = np.random.default_rng(seed)
  gold = rng.integers(0, 6, 200).astype(float)  # many ties, as graded pairs have
  similarities = np.round(gold / 10 + rng.normal(0, 0.2, 200), 1 + seed)
  found = correlation(similarities, gold)
  assert found.spearman == pytest.approx(100 * np.corrcoef(ranks(gold), ranks(similarities))[0, 1], rel=1e-10)
  assert found.spearman == pytest.approx(100 * stats.spearmanr(similarities, gold).statistic, rel=1e-12)
  assert found.pearson == pytest.approx(100 * stats.pearsonr(similarities, gold).statistic, rel=1e-12)
  assert abs(found.spearman - found.pearson) > 1e-6


def test_orders():
  assert correlation([1, 2, 3], [1, 4, 9]).spearman == pytest.approx(100)
  assert correlation([3, 2, 1], [1, 4, 9]).spearman == pytest.approx(-100)
  assert correlation([1, 2, 3], [1, 4, 9]).pearson < 99.9
  assert correlation([0.1, 0.9], [0, 5]).pearson == pytest.approx(100)


def test_pairs_without_gold_take_no_part():
  nan = math.nan
  found = correlation([0.1, 9.0, 0.5, -9.0, 0.3], [0, nan, 5, nan, 4])
  expected = correlation([0.1, 0.5, 0.3], [0, 5, 4])
  assert found == expected and found.pairs == 3
  # Nor does it matter what they are like.
  assert correlation([0.1, nan, 0.5, math.inf, 0.3], [0, nan, 5, nan, 4]) == expected


@pytest.mark.parametrize(
  ("similarities", "gold", "reason"),
  [
    ([], [], "0 scored pairs, a correlation needs at least 2"),
    ([0.5], [3.0], "1 scored pair, a correlation needs at least 2"),
    ([0.5, 0.6], [3.0, math.nan], "1 scored pair, a correlation needs at least 2"),
    ([0.5, 0.6, 0.7], [3, 3, 3], "all 3 gold scores are 3, a correlation needs scores that differ"),
    ([0.5, 0.5], [1, 2], "all 2 similarities are 0.5, a correlation needs similarities that differ"),
    ([0, 0], [1, 2], "all 2 similarities are 0, a correlation needs similarities that differ"),
    # Equal but for rounding: the cosine of one vector with itself, computed in two ways.
    ([1.0, 1 - 2.2e-16, 1 + 2.2e-16], [1, 2, 3], "all 3 similarities are 1, a correlation needs similarities that"),
  ],
)
def test_not_defined_is_nan_with_a_reason(similarities, gold, reason, recwarn):
  found = correlation(similarities, gold)
  assert math.isnan(found.spearman) and math.isnan(found.pearson)
  assert found.reason.startswith(reason)
  assert found.pairs == np.sum(~np.isnan(np.array(gold, float)))
  assert not recwarn.list


def test_narrow_similarities_still_rank():
  """All of BERT's cosines may lie within 1e-6 of each other."""
  assert correlation([0.999999, 0.9999991, 0.9999992], [1, 2, 3]).spearman == pytest.approx(100)
  assert correlation(np.array([1, 2, 3]) * 1e-200, [1, 2, 3]).spearman == pytest.approx(100)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_similarity_that_is_not_finite_names_the_pair(value):
  with pytest.raises(DataError, match=rf"pair 2 \(counted from 0\) has the similarity {value}, .*\(2 of 4 pairs"):
    correlation([0.1, 0.2, value, value, 0.3], [1, math.nan, 2, 3, 4])


def test_infinite_gold():
  with pytest.raises(DataError, match=r"the gold score of pair 1 \(counted from 0\) is infinite"):
    correlation([0.1, 0.2, 0.3], [1, math.inf, 2])


@pytest.mark.parametrize(("similarities", "gold"), [([1, 2], [1, 2, 3]), ([[1], [2]], [[1], [2]]), (1.0, 2.0)])
def test_lengths_that_differ(similarities, gold):
  with pytest.raises(DataError, match=r"similarities and .* gold scores, expected \[n\] of each"):
    correlation(similarities, gold)


@pytest.mark.parametrize("pairs", [2, 3, 50, 2001])
@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e200])
def test_correlations_are_scipys(pairs, scale):
  """Also with ties, and where squares would overflow or vanish."""
  rng = np.random.default_rng(pairs)
  similarities, gold = scale * rng.normal(size=pairs), np.round(np.linspace(0, 5, pairs) + rng.uniform(0, 1, pairs), 1)
  similarities[pairs - 1 : 1 : -3] = similarities[0]
  found = correlation(similarities, gold)
  assert found.spearman == pytest.approx(100 * stats.spearmanr(similarities, gold).statistic, rel=1e-12)
  assert found.pearson == pytest.approx(100 * stats.pearsonr(similarities, gold).statistic, rel=1e-12)
