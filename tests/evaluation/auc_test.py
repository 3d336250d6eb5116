"""evaluation/metrics.py: AUC by counting pairs, by hand, and against scikit-learn."""

import math

import numpy as np
import pytest

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation.metrics import auc


def counted(similarities, labels):
  """Returns the part of the (positive, negative) couples in the right order, ties for half: the definition."""
  positive, negative = similarities[labels == 1], similarities[labels == 0]
  difference = positive[:, None] - negative[None, :]
  return 100 * (np.mean(difference > 0) + np.mean(difference == 0) / 2)


def cases():
  """Returns (similarities, labels), from no ties to nearly all."""
  rng = np.random.default_rng(0)
  for n, digits, share in ((50, 8, 0.5), (200, 1, 0.3), (500, 0, 0.9), (7, 1, 0.5)):
    labels = (rng.uniform(size=n) < share).astype(float)
    labels[:2] = 0, 1
    yield np.round(labels + rng.normal(0, 1, n), digits), labels


@pytest.mark.parametrize(("similarities", "labels"), list(cases()))
def test_against_counted_couples(similarities, labels):
  found = auc(similarities, labels)
  assert found.auc == pytest.approx(counted(similarities, labels), abs=1e-10)
  assert (found.pairs, found.positives, found.reason) == (len(labels), labels.sum(), "")


@pytest.mark.parametrize(("similarities", "labels"), list(cases()))
def test_against_scikit_learn(similarities, labels):
  metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed: compared with when it is")
  assert auc(similarities, labels).auc == pytest.approx(100 * metrics.roc_auc_score(labels, similarities), abs=1e-10)


def test_by_hand():
  assert auc([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1]).auc == 100
  assert auc([0.4, 0.3, 0.2, 0.1], [0, 0, 1, 1]).auc == 0  # a true 0: every couple is the wrong way round
  assert auc([0.1, 0.2, 0.2, 0.4], [0, 0, 1, 1]).auc == 87.5  # one tie among four couples
  assert auc([1, 1, 1, 1, 2], [1, 0, 1, 0, 1]).auc == pytest.approx(100 * (4 / 2 + 2) / 6)
  assert auc([0.999999, 0.9999991], [0, 1]).auc == 100


def test_pairs_without_label_take_no_part():
  nan = math.nan
  assert auc([0.5, nan, 0.1, 9.0], [1, nan, 0, nan]) == auc([0.5, 0.1], [1, 0])
  assert auc([0.5, nan, 0.1, 9.0], [1, nan, 0, nan]).pairs == 2


@pytest.mark.parametrize(
  ("similarities", "labels", "reason"),
  [
    ([], [], "0 pairs of label 1 and 0 of label 0, an AUC needs both"),
    ([0.5], [1], "1 pair of label 1 and 0 of label 0"),
    ([0.5, 0.6], [1, 1], "2 pairs of label 1 and 0 of label 0"),
    ([0.5, 0.6], [0, math.nan], "0 pairs of label 1 and 1 of label 0"),
    ([0.5, 0.5], [0, 1], "all 2 similarities are 0.5, an AUC needs similarities that differ"),
    ([1.0, 1 - 2.2e-16], [0, 1], "all 2 similarities are 1, "),
  ],
)
def test_not_defined_is_nan_with_a_reason(similarities, labels, reason, recwarn):
  found = auc(similarities, labels)
  assert math.isnan(found.auc) and found.reason.startswith(reason) and not recwarn.list


@pytest.mark.parametrize(
  ("similarities", "labels", "message"),
  [
    ([0.1, 0.2], [0, 2], r"label 2 \(1 of 2 labels\), expected 0 or 1"),
    ([0.1, 0.2], [-1, -1], r"label -1 \(2 of 2 labels\)"),
    ([0.1, 0.2], [0, math.inf], "the label of pair 1 .* is infinite"),
    ([0.1, math.nan], [0, 1], r"pair 1 \(counted from 0\) has the similarity nan"),
    ([0.1], [0, 1], r"similarities and .* labels, expected \[n\]"),
  ],
)
def test_rejected(similarities, labels, message):
  with pytest.raises(DataError, match=message):
    auc(similarities, labels)
