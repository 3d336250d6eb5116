"""figures.py: which figures a task's metric gives, against SciPy and scikit-learn's definitions."""

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.evaluation.scores import score_pairs

rng = np.random.default_rng(3)
GOLD = np.round(rng.uniform(0, 5, 60), 1)
SIMILARITIES = GOLD / 10 + rng.normal(scale=0.2, size=60)


def spearman(rows):
  return 100 * stats.spearmanr(SIMILARITIES[rows], GOLD[rows]).statistic


def test_one_set_of_pairs():
  found = score_pairs(SIMILARITIES, GOLD)
  assert found["spearman"] == pytest.approx(spearman(slice(None)))
  assert found["pairs"] == 60 and found["reason"] == ""


def test_subsets_give_three_figures_that_differ():
  names = ["first"] * 10 + ["second"] * 50
  found = score_pairs(SIMILARITIES, GOLD, names)
  parts = [spearman(slice(0, 10)), spearman(slice(10, 60))]
  assert found["spearman_all"] == pytest.approx(spearman(slice(None)))
  assert found["spearman_mean"] == pytest.approx(np.mean(parts))
  assert found["spearman_wmean"] == pytest.approx((10 * parts[0] + 50 * parts[1]) / 60)
  assert [part["spearman"] for part in found["subsets"].values()] == pytest.approx(parts)
  assert "spearman" not in found  # a figure of subsets never goes without saying which it is


def test_auc_counts_the_pairs_that_are_in_order():
  labels = (GOLD > 2.5).astype(float)
  above = SIMILARITIES[labels == 1][:, None] - SIMILARITIES[labels == 0][None, :]
  found = score_pairs(SIMILARITIES, labels, metric="auc")
  assert found["auc"] == pytest.approx(100 * np.mean((above > 0) + 0.5 * (above == 0)))
  assert found["positives"] == labels.sum()
