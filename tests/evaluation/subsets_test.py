"""evaluation/subsets.py: all, mean and wmean, by hand and against SciPy and SentEval's arithmetic."""

import math
import re

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation.metrics import Correlation, correlation
from bert_flow_tf.evaluation.subsets import rows_of_subsets, subset_correlations


def task(seed=0):
  """Similarities, gold with ties and gaps, and names of three mixed subsets of unequal size and level."""
  rng = np.random.default_rng(seed)
  names = rng.choice(["news", "forum", "images"], 300, p=[0.6, 0.3, 0.1])
  gold = rng.integers(0, 6, 300).astype(float)
  level, noise = ({"news": x, "forum": y, "images": z} for x, y, z in ((0, 3, 6), (2, 1, 4)))
  similarities = np.array([g + level[n] + noise[n] * rng.normal() for g, n in zip(gold, names, strict=True)])
  gold[rng.uniform(size=300) < 0.2] = math.nan
  return similarities, gold, names


@pytest.mark.parametrize("figure", ["spearman", "pearson"])
def test_against_scipy(figure):
  similarities, gold, names = task()
  found = subset_correlations(similarities, gold, names)
  measure = {"spearman": stats.spearmanr, "pearson": stats.pearsonr}[figure]
  scored = ~np.isnan(gold)
  by_name = {}
  for name in ("news", "forum", "images"):
    rows = scored & (names == name)
    by_name[name] = 100 * measure(similarities[rows], gold[rows])[0], rows.sum()
    assert getattr(found.subsets[name], figure) == pytest.approx(by_name[name][0], rel=1e-12)
    assert found.subsets[name].pairs == by_name[name][1]
  values, sizes = (np.array(column) for column in zip(*by_name.values(), strict=True))
  assert getattr(found.mean, figure) == pytest.approx(values.mean(), rel=1e-12)
  assert getattr(found.wmean, figure) == pytest.approx((values * sizes).sum() / sizes.sum(), rel=1e-12)
  assert getattr(found.all, figure) == pytest.approx(100 * measure(similarities[scored], gold[scored])[0], rel=1e-12)
  three = {round(getattr(part, figure), 1) for part in (found.all, found.mean, found.wmean)}
  assert len(three) == 3  # they must not be mixed up
  assert found.all.pairs == found.mean.pairs == found.wmean.pairs == scored.sum()


def test_by_hand():
  found = subset_correlations([1, 2, 3, 2, 1, 9, 8], [1, 2, 3, 1, 2, 0, math.nan], ["a"] * 3 + ["b"] * 2 + ["a", "b"])
  assert list(found.subsets) == ["a", "b"]
  a = 100 * (1 - 6 * (1 + 1 + 1 + 9) / (4 * 15))  # ranks 1 2 3 4 against 2 3 4 1
  assert found.subsets["a"] == Correlation(pytest.approx(a), correlation([1, 2, 3, 9], [1, 2, 3, 0]).pearson, 4)
  assert found.subsets["b"].spearman == pytest.approx(-100)
  assert found.mean.spearman == pytest.approx((a - 100) / 2)
  assert found.wmean.spearman == pytest.approx((4 * a - 200) / 6)


def test_one_subset_is_the_whole():
  similarities, gold, names = task()
  found = subset_correlations(similarities, gold, np.full(len(names), "x"))
  whole = correlation(similarities, gold)
  assert found.subsets == {"x": whole}
  for part in (found.all, found.mean, found.wmean):
    assert part.spearman == pytest.approx(whole.spearman, rel=1e-14) and part.pairs == whole.pairs


@pytest.mark.parametrize(
  ("gold", "reason"),
  [
    ([1, 2, 3, 4], "subset b: 1 scored pair, a correlation needs at least 2"),
    ([1, 2, 3, math.nan], "subset b: 0 scored pairs"),
    ([2, 2, 2, 4], "subset a: all 3 gold scores are 2, .*; subset b: 1 scored pair"),
  ],
)
def test_undefined_subset_leaves_the_means_undefined(gold, reason, recwarn):
  found = subset_correlations([1, 2, 4, 3], gold, ["a", "a", "a", "b"])
  assert not math.isnan(found.all.spearman) and math.isnan(found.subsets["b"].spearman)
  for part in (found.mean, found.wmean):
    assert math.isnan(part.spearman) and math.isnan(part.pearson)
    assert re.match(reason, part.reason)
  assert not recwarn.list


def test_rows():
  rows = rows_of_subsets(np.array(["b", "a", "b"]), 3)
  assert {name: found.tolist() for name, found in rows.items()} == {"b": [0, 2], "a": [1]}
  assert list(rows) == ["b", "a"]


@pytest.mark.parametrize(
  ("names", "message"),
  [
    (["a", "b"], "2 names of subsets for 3 pairs"),
    ("abc", "one name of subsets for 3 pairs"),
    ([], "0 names of subsets for 3 pairs"),
  ],
)
def test_names_that_do_not_fit(names, message):
  with pytest.raises(DataError, match=message):
    subset_correlations([1, 2, 3], [1, 2, 3], names)


def test_rejected_as_a_whole():
  with pytest.raises(DataError, match="0 names of subsets for 0 pairs, expected a name for each of at least one"):
    subset_correlations([], [], [])
  with pytest.raises(DataError, match=r"pair 2 .* has the similarity nan"):
    subset_correlations([1, 2, math.nan], [1, 2, 3], ["a", "a", "b"])
  with pytest.raises(DataError, match=r"expected \[n\] of each"):
    subset_correlations([1, 2], [1, 2, 3], ["a", "a", "b"])
