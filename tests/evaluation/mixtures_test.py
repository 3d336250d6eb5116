"""evaluation/mixtures.py: the gold of mixtures counted here from their word pieces, and the score with SciPy."""

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation.mixtures import Mixtures, make_mixtures
from tests.testing import rejected

CLS, SEP = 1, 2


def token_ids(number=40):
  """Sentences of 3 to 9 pieces, no piece in two of them; then single pieces of these, so that some are frequent."""
  rng = np.random.default_rng(0)
  sentences = [10 * (1 + row) + np.arange(rng.integers(3, 10)) for row in range(number)]
  more = [np.array([rng.choice(rng.choice(np.array(sentences, object)))]) for _ in range(3 * number)]
  return [np.array([CLS, *pieces, SEP], np.int32) for pieces in (*sentences, *more)]


def weights(ids):
  """Returns {piece: ln((N + 1) / (df + 1))}."""
  pieces = [set(row[1:-1].tolist()) for row in ids]
  return {v: np.log((len(ids) + 1) / (sum(v in row for row in pieces) + 1)) for v in set().union(*pieces)}


def test_gold_is_the_share_of_the_weights():
  ids = token_ids()
  weight, mixtures = weights(ids), make_mixtures(ids, seed=3)
  total = {row: sum(weight[v] for v in pieces[1:-1]) for row, pieces in enumerate(mixtures.originals)}
  checked = 0
  for row, mixture, gold in zip(mixtures.rows, mixtures.mixed, mixtures.gold, strict=True):
    original = set(mixtures.originals[row][1:-1].tolist())
    left = [v for v in mixture[1:-1] if v in original]
    if len(original) == 1 or len(left) == len(mixture) - 2:
      continue  # a frequent piece may be from either sentence
    checked += 1
    expected = sum(weight[v] for v in left) / np.sqrt(total[row] * sum(weight[v] for v in mixture[1:-1]))
    assert gold == pytest.approx(expected, rel=1e-12)
  assert checked > 50
  assert mixtures.gold.min() >= 0 and mixtures.gold.max() <= 1 + 1e-12


def test_mixtures_are_sentences_of_the_same_lengths():
  ids = token_ids()
  mixtures = make_mixtures(ids, sentences=30)
  assert len(mixtures.originals) == 30 and len(mixtures.mixed) == len(mixtures.rows) == len(mixtures.gold) == 90
  known, longest = {tuple(row) for row in ids}, max(map(len, ids))
  assert {tuple(row) for row in mixtures.originals} <= known
  for row in mixtures.mixed:
    assert row[0] == CLS and row[-1] == SEP and 2 < len(row) <= longest and row.dtype == np.int32
  again, other = make_mixtures(ids, sentences=30), make_mixtures(ids, sentences=30, seed=1)
  assert [row.tolist() for row in again.mixed] == [row.tolist() for row in mixtures.mixed]
  assert [row.tolist() for row in other.mixed] != [row.tolist() for row in mixtures.mixed]


def test_agreement_is_spearmans_correlation_of_cosines():
  rng = np.random.default_rng(0)
  originals, mixed, rows, gold = rng.normal(size=[5, 4]), rng.normal(size=[9, 4]), rng.integers(0, 5, 9), rng.random(9)
  mixed[2] = 0
  mixtures = Mixtures([], [], rows, gold)
  cosines = np.zeros(9)
  for i, (a, b) in enumerate(zip(originals[rows], mixed, strict=True)):
    cosines[i] = 0 if i == 2 else a @ b / np.linalg.norm(a) / np.linalg.norm(b)
  assert mixtures.agreement(originals, mixed) == pytest.approx(100 * stats.spearmanr(cosines, gold)[0], abs=1e-9)
  assert np.isnan(mixtures.agreement(np.ones([5, 4]), np.zeros([9, 4])))


def test_too_few_sentences():
  with rejected(DataError, "calibration"):
    make_mixtures([*token_ids()[:2], np.array([CLS, SEP], np.int32)])
