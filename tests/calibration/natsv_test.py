"""calibration/natsv.py: what is taken away, and the choice of k on labelled pairs."""

import numpy as np
import pytest
import scipy.linalg

from bert_flow_tf.calibration.natsv import Natsv, StandardizedNatsv
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.evaluation.metrics import correlation, cosine_similarity
from tests.calibration.cases import cone

DIM = 24


def pairs(n=300, shared=4, seed=0):
  """Embeddings of pairs and gold: `shared` large directions that say nothing, smaller ones that the gold follows."""
  rng = np.random.default_rng(seed)
  a, b = rng.standard_normal([2, n, DIM])
  gold = rng.uniform(0, 1, n)
  b = gold[:, None] * a + (1 - gold[:, None]) * b
  a[:, :shared], b[:, :shared] = 30 * rng.standard_normal([2, n, shared])
  turn = np.linalg.qr(rng.standard_normal([DIM, DIM]))[0]
  return a @ turn, b @ turn, gold


def test_singular_vectors_are_of_the_rows_as_they_are():
  """Not centered: of rows around a far mean, the first singular vector is the mean's direction."""
  u = cone(500, DIM) + np.float32(50)
  z = Natsv(1).fit(u).transform(u)
  mean = u.mean(axis=0, dtype=np.float64)
  assert np.linalg.norm(z @ mean) < 1e-2 * np.linalg.norm(u @ mean)
  vt = scipy.linalg.svd(u.astype(np.float64), full_matrices=False)[2]
  np.testing.assert_allclose(z, u - (u @ vt[:1].T) @ vt[:1], atol=1e-4)


def test_standardized_rows_are_centered():
  u = cone(500, DIM) + np.float32(50)
  z = StandardizedNatsv(2).fit(u).transform(u)
  np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-5)
  assert np.linalg.matrix_rank(z, tol=1e-2) == DIM - 2


@pytest.mark.parametrize("method", [Natsv, StandardizedNatsv])
def test_choice_is_the_best_of_twenty(method):
  a, b, gold = pairs()
  calibration = method().fit(np.concatenate([a, b]))
  figures = calibration.choose_k(a, b, gold)
  assert list(figures) == list(range(1, 21)) and calibration.k == max(figures, key=figures.get)
  assert calibration.name == f"{method.METHOD}-{calibration.k}"
  for k in (1, 4, 20, calibration.k):
    fixed = method(k).fit(np.concatenate([a, b]))
    expected = correlation(cosine_similarity(fixed.transform(a), fixed.transform(b)), gold).spearman
    assert figures[k] == pytest.approx(expected, abs=1e-9)
  np.testing.assert_array_equal(
    calibration.transform(a), method(calibration.k).fit(np.concatenate([a, b])).transform(a)
  )


def test_choice_finds_the_directions_that_say_nothing():
  a, b, gold = pairs(shared=5)
  calibration = Natsv().fit(np.concatenate([a, b]))
  figures = calibration.choose_k(a, b, gold)
  assert calibration.k == 5 and figures[5] > figures[4] + 5


def test_equals_take_the_smallest_and_pairs_without_gold_no_part():
  a, b, gold = pairs(6)
  gold = np.where(np.arange(6) < 3, np.arange(6), np.nan)  # 3 pairs: few different correlations
  calibration = Natsv().fit(np.concatenate(pairs()[:2]))
  b[3:] = 1e30  # would spoil any figure
  figures = calibration.choose_k(a, b, gold)
  best = max(figures.values())
  assert list(figures.values()).count(best) > 1
  assert calibration.k == min(k for k, figure in figures.items() if figure == best)
  assert calibration.choose_k(a[:3], b[:3], gold[:3]) == figures


def test_few_directions_limit_the_choice():
  a, b, gold = pairs()
  u = np.concatenate([a, b])
  assert list(Natsv().fit(u[:, :5]).choose_k(a[:, :5], b[:, :5], gold)) == [1, 2, 3, 4]
  assert list(Natsv().fit(u[:7]).choose_k(a, b, gold)) == [1, 2, 3, 4, 5, 6]
  assert list(StandardizedNatsv().fit(u[:7]).choose_k(a, b, gold)) == [1, 2, 3, 4, 5]  # centring costs one


def test_k_may_be_over_twenty_but_something_must_remain():
  u = cone(100, DIM)
  assert np.isfinite(Natsv(23).fit(u).transform(u)).all()
  for method, rank in ((Natsv, 24), (StandardizedNatsv, 24)):
    with pytest.raises(CalibrationError, match=f"^k=24: the 100 sentences in 24 dimensions have rank {rank}"):
      method(24).fit(u)
  with pytest.raises(CalibrationError, match="k=6: the 6 sentences in 24 dimensions have rank 6"):
    Natsv(6).fit(u[:6])
  with pytest.raises(CalibrationError, match="have rank 5"):
    StandardizedNatsv(5).fit(u[:6])


def test_no_k_yet():
  calibration = Natsv().fit(cone(100, DIM))
  assert calibration.name == "natsv"
  with pytest.raises(CalibrationError, match="natsv: no k is chosen"):
    calibration.transform(cone(3, DIM))


@pytest.mark.parametrize("gold", [[], [1.0], [2.0, 2.0, 2.0], [np.nan, 1.0, np.nan]])
def test_gold_without_a_correlation(gold):
  a, b, _ = pairs(len(gold))
  calibration = Natsv(3).fit(cone(100, DIM))
  with pytest.raises(CalibrationError, match=r"^gold: "):
    calibration.choose_k(a, b, gold)
  assert calibration.k == 3


def test_pairs_that_do_not_fit_together():
  a, b, gold = pairs(9)
  with pytest.raises(CalibrationError, match="natsv is not fitted"):
    Natsv().choose_k(a, b, gold)
  calibration = Natsv().fit(cone(100, DIM))
  for arguments in ((a[:8], b, gold), (a, b, gold[:8]), (a, b, gold[:, None])):
    with pytest.raises(CalibrationError, match=r"^gold: "):
      calibration.choose_k(*arguments)
  with pytest.raises(CalibrationError, match=r"\[n, 24\]"):
    calibration.choose_k(a[:, :5], b[:, :5], gold)
