"""evaluation/metrics.py: cosines, correlations, AUC and means over subsets, by hand, by SciPy and by scikit-learn."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.spatial import distance
from sklearn.metrics import roc_auc_score

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation.metrics import (
  auc,
  correlation,
  cosine_similarity,
  mean_random_cosine,
  score_pairs,
)
from tests.testing import rejected

NAN = math.nan


def test_cosines():
  rng = np.random.default_rng(0)
  a, b = rng.normal(size=(2, 30, 7)).astype(np.float32)
  found = cosine_similarity(a, b)
  assert found.dtype == np.float64 and found.shape == (30,)
  expected = [1.0 - distance.cosine(x.astype(np.float64), y.astype(np.float64)) for x, y in zip(a, b, strict=True)]
  np.testing.assert_allclose(found, expected, rtol=1e-12)
  a = [[1, 0], [1, 0], [1, 0], [3, 4], [2e30, 0], [1e-30, 0]]
  b = [[5, 0], [0, 2], [-7, 0], [4, 3], [1e38, 0], [1e-30, 1e-30]]
  np.testing.assert_allclose(cosine_similarity(a, b), [1, 0, -1, 24 / 25, 1, math.sqrt(0.5)], rtol=1e-14)
  assert cosine_similarity(np.zeros([0, 4]), np.zeros([0, 4])).shape == (0,)


def test_identical_sentences_tie():
  """Their embeddings differ by rounding, if at all; sentences that nearly agree keep their order."""
  rng = np.random.default_rng(0)
  a = (rng.normal(size=[2000, 300]) * rng.gamma(1.0, size=300)).astype(np.float32)
  for b in (a, np.nextafter(a, np.float32(np.inf)), 7 * a):
    assert set(cosine_similarity(a, b)) == {1.0}
  near = cosine_similarity(a, a + 1e-4 * rng.normal(size=a.shape))
  assert near.max() < 1 and len(set(near)) == len(near)


def test_no_direction_is_nan_without_a_warning(recwarn):
  a = [[0, 0], [1, 2], [NAN, 1], [math.inf, 1], [1, 2]]
  b = [[1, 2], [0, 0], [1, 2], [1, 2], [2, 4]]
  found = cosine_similarity(a, b)
  assert np.isnan(found[:4]).all() and found[4] == pytest.approx(1.0)
  assert not recwarn.list


def test_random_pairs():
  """No sentence meets itself; the mean cosine is near 1 in a cone and near 0 on a sphere."""
  a = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
  assert mean_random_cosine(a, a) == pytest.approx((0 + 0 - 1) / 3)  # (a0,b2), (a1,b0), (a2,b1)
  assert mean_random_cosine(a, np.ones([3, 2])) == pytest.approx((1 + 1 - 1) / 3 / math.sqrt(2))
  assert math.isnan(mean_random_cosine(a[:1], a[:1])) and math.isnan(mean_random_cosine(np.zeros([3, 2]), a))
  noise = np.random.default_rng(0).normal(size=(2, 2000, 16))
  assert abs(mean_random_cosine(*noise)) < 0.02 and mean_random_cosine(*(noise + 10.0)) > 0.98


def test_narrow_similarities_still_rank():
  """All of BERT's cosines may lie within 1e-6 of each other."""
  assert correlation([0.999999, 0.9999991, 0.9999992], [1, 2, 3]).spearman == pytest.approx(100)
  assert correlation(np.array([1, 2, 3]) * 1e-200, [1, 2, 3]).spearman == pytest.approx(100)
  assert auc([0.999999, 0.9999991], [0, 1]).auc == 100


@pytest.mark.parametrize(("n", "digits", "share"), [(50, 8, 0.5), (200, 1, 0.3), (500, 0, 0.9), (7, 1, 0.5)])
def test_auc_of_ties_is_scikit_learns(n, digits, share):
  rng = np.random.default_rng(n)
  labels = (rng.uniform(size=n) < share).astype(float)
  labels[:2] = 0, 1
  similarities = np.round(labels + rng.normal(0, 1, n), digits)
  found = auc(similarities, labels)
  assert found.auc == pytest.approx(100 * roc_auc_score(labels, similarities), abs=1e-10)
  assert (found.pairs, found.positives, found.reason) == (n, labels.sum(), "")


def test_pairs_without_gold_take_no_part():
  expected = correlation([0.1, 0.5, 0.3], [0, 5, 4])
  assert correlation([0.1, NAN, 0.5, math.inf, 0.3], [0, NAN, 5, NAN, 4]) == expected and expected.pairs == 3
  found = auc([0.5, NAN, 0.1, 9.0], [1, NAN, 0, NAN])
  assert found == auc([0.5, 0.1], [1, 0]) and found.pairs == 2


@pytest.mark.parametrize(
  ("metric", "similarities", "gold", "reason"),
  [
    (correlation, [], [], "0 scored pairs, a correlation needs at least 2"),
    (correlation, [0.5, 0.6], [3.0, NAN], "1 scored pair, a correlation needs at least 2"),
    (correlation, [0.5, 0.6, 0.7], [3, 3, 3], "all 3 gold scores are 3, a correlation needs scores that differ"),
    (correlation, [0, 0], [1, 2], "all 2 similarities are 0, a correlation needs similarities that differ"),
    # Equal but for rounding: the cosine of one vector with itself, computed in two ways.
    (correlation, [1.0, 1 - 2.2e-16, 1 + 2.2e-16], [1, 2, 3], "all 3 similarities are 1, a correlation needs"),
    (auc, [], [], "0 pairs of label 1 and 0 of label 0, an AUC needs both"),
    (auc, [0.5, 0.6], [1, 1], "2 pairs of label 1 and 0 of label 0"),
    (auc, [1.0, 1 - 2.2e-16], [0, 1], "all 2 similarities are 1, "),
  ],
)
def test_not_defined_is_nan_with_a_reason(metric, similarities, gold, reason, recwarn):
  found = metric(similarities, gold)
  assert math.isnan(found.auc if metric is auc else found.spearman + found.pearson)
  assert found.reason.startswith(reason) and found.pairs == np.sum(~np.isnan(np.array(gold, float)))
  assert not recwarn.list


@pytest.mark.parametrize("metric", [correlation, auc])
@pytest.mark.parametrize("value", [NAN, -math.inf])
def test_a_similarity_that_is_not_finite(metric, value):
  with rejected(DataError, None, match=r"\b2\b"):  # the number of the pair
    metric([1, 2, value, NAN, 3], [1, NAN, 0, 1, 0])


def subsets_of_a_task():
  """Similarities, gold with ties and gaps, and names of three mixed subsets of unequal size and level."""
  rng = np.random.default_rng(0)
  names = rng.choice(["news", "forum", "images"], 300, p=[0.6, 0.3, 0.1])
  gold = rng.integers(0, 6, 300).astype(float)
  level, noise = ({"news": x, "forum": y, "images": z} for x, y, z in ((0, 3, 6), (2, 1, 4)))
  similarities = np.array([g + level[n] + noise[n] * rng.normal() for g, n in zip(gold, names, strict=True)])
  gold[rng.uniform(size=300) < 0.2] = NAN
  return similarities, gold, names


@pytest.mark.parametrize(("score", "measure"), [("spearman", stats.spearmanr), ("pearson", stats.pearsonr)])
def test_the_three_means_over_subsets(score, measure):
  similarities, gold, names = subsets_of_a_task()
  found = score_pairs(similarities, gold, names)
  scored = ~np.isnan(gold)
  values, sizes = [], []
  for name in ("news", "forum", "images"):
    rows = scored & (names == name)
    values.append(100 * measure(similarities[rows], gold[rows])[0])
    sizes.append(rows.sum())
    assert found["subsets"][name][score] == pytest.approx(values[-1]) and found["subsets"][name]["pairs"] == sizes[-1]
  assert found[f"{score}_mean"] == pytest.approx(np.mean(values), rel=1e-12)
  assert found[f"{score}_wmean"] == pytest.approx(np.average(values, weights=sizes), rel=1e-12)
  assert found[f"{score}_all"] == pytest.approx(100 * measure(similarities[scored], gold[scored])[0], rel=1e-12)
  assert len({round(found[f"{score}_{mean}"], 1) for mean in ("all", "mean", "wmean")}) == 3  # not mixed up
  assert found["pairs"] == scored.sum() and score not in found
  assert list(found["subsets"]) == list(dict.fromkeys(names.tolist()))  # in order of first appearance


@pytest.mark.parametrize(
  ("gold", "reason"),
  [
    ([1, 2, 3, 4], "subset b: 1 scored pair, a correlation needs at least 2"),
    ([1, 2, 3, NAN], "subset b: 0 scored pairs"),
    ([2, 2, 2, 4], "subset a: all 3 gold scores are 2, "),
  ],
)
def test_undefined_subset_leaves_the_means_undefined(gold, reason, recwarn):
  found = score_pairs([1, 2, 4, 3], gold, ["a", "a", "a", "b"])
  assert not math.isnan(found["spearman_all"]) and math.isnan(found["subsets"]["b"]["spearman"])
  assert all(math.isnan(found[f"{score}_{mean}"]) for score in ("spearman", "pearson") for mean in ("mean", "wmean"))
  assert found["reason"].startswith(reason) and not recwarn.list
