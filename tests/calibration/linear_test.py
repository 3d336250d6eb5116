"""calibration/linear.py: what each method does to its rows, the choice of k, and embeddings of low rank."""

import dataclasses

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.errors import BertFlowError, CalibrationError, ConfigError
from bert_flow_tf.evaluation.metrics import correlation, cosine_similarity
from bert_flow_tf.training.calibrate import fit_calibration
from tests.calibration.cases import close, cone, cosines, in_graph
from tests.flow import reference
from tests.testing import rejected

DIM = 24


def test_what_cannot_be_merged():
  whitening = make_calibration("whitening").fit(cone(60, 5))
  other_width = make_calibration("whitening").fit(cone(60, 6))
  for other in (make_calibration("sn").fit(cone(60, 5)), make_calibration("whitening-3").fit(cone(60, 5)), other_width):
    with rejected(CalibrationError, None):
      whitening.merge(other)
  with rejected(CalibrationError, None):
    whitening.merge(make_calibration("whitening"))
  assert whitening.count == 60
  whitening.encoder, other = {"name": "a"}, make_calibration("whitening").fit(cone(60, 5))
  assert whitening.merge(other).encoder == {"name": "a"} and other.merge(whitening).encoder == {"name": "a"}
  other.encoder = {"name": "b"}
  with rejected(CalibrationError, None):
    whitening.merge(other)


def test_fit_forgets_and_partial_fit_goes_on():
  a, b = cone(60, 5), cone(40, 5, seed=1)
  calibration = make_calibration("whitening").fit(a)
  np.testing.assert_array_equal(calibration.fit(b).transform(a), make_calibration("whitening").fit(b).transform(a))
  calibration.partial_fit(a)
  expected = make_calibration("whitening").fit(np.concatenate([a, b])).transform(a)
  np.testing.assert_allclose(calibration.transform(a), expected, atol=1e-5)


def test_far_from_the_fit_is_an_error_not_infinity():
  calibration = make_calibration("sn").fit(cone(50, 4) * np.float32(1e-20))
  with rejected(CalibrationError, "embeddings"):
    calibration.transform(np.float32([[1, 1, 1, 1], [1e30, 1, 1, 1]]))


def test_the_graph_of_small_deviations_keeps_their_digits():
  rng = np.random.default_rng(0)
  rows = (rng.normal(size=[500, 8]) * np.geomspace(1e-3, 1, 8) + 50).astype(np.float32)
  calibration = make_calibration("whitening").fit(rows)
  for lite, tolerance in ((False, 1e-6), (True, 1e-5)):
    close(in_graph(calibration, lite)(rows), calibration.transform(rows), tolerance)


def test_integers_lists_and_float64_are_taken():
  rows = [[1, 2], [3, 5], [4, 4]]
  found = make_calibration("mean").fit(rows).transform(np.array(rows, np.float64))
  np.testing.assert_allclose(found, np.array(rows) - np.mean(rows, axis=0), rtol=1e-6)


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", True])
def test_k_that_is_no_number_of_directions(k):
  for method in ("whitening", "soft-whitening", "none"):
    with rejected(ConfigError, "k"):
      LinearCalibration(method, k)
  with rejected(ConfigError, "method"):
    LinearCalibration("flow", k)


def pairs(n=300, shared=4, seed=0):
  """Embeddings of pairs and gold: `shared` large directions that say nothing, smaller ones that the gold follows."""
  rng = np.random.default_rng(seed)
  a, b = rng.standard_normal([2, n, DIM])
  gold = rng.uniform(0, 1, n)
  b = gold[:, None] * a + (1 - gold[:, None]) * b
  a[:, :shared], b[:, :shared] = 30 * rng.standard_normal([2, n, shared])
  turn = np.linalg.qr(rng.standard_normal([DIM, DIM]))[0]
  return a @ turn, b @ turn, gold


@pytest.mark.parametrize("method", ["natsv", "sn+natsv"])
def test_choice_is_the_best_of_twenty(method):
  a, b, gold = pairs()
  calibration = make_calibration(method).fit(np.concatenate([a, b]))
  with rejected(CalibrationError, None):
    calibration.transform(a)
  scores = calibration.choose_k(a, b, gold)
  assert list(scores) == list(range(1, 21)) and calibration.k == max(scores, key=scores.get)
  assert calibration.name == f"{method}-{calibration.k}"
  for k in (1, 4, 20, calibration.k):
    fixed = make_calibration(f"{method}-{k}").fit(np.concatenate([a, b]))
    expected = correlation(cosine_similarity(fixed.transform(a), fixed.transform(b)), gold).spearman
    assert scores[k] == pytest.approx(expected, abs=1e-9)
  np.testing.assert_array_equal(
    calibration.transform(a), make_calibration(calibration.name).fit(np.concatenate([a, b])).transform(a)
  )


def test_equals_take_the_smallest_and_pairs_without_gold_no_part():
  a, b, gold = pairs(6)
  gold = np.where(np.arange(6) < 3, np.arange(6), np.nan)  # 3 pairs: few different correlations
  calibration = make_calibration("natsv").fit(np.concatenate(pairs()[:2]))
  b[3:] = 1e30  # would spoil any score
  scores = calibration.choose_k(a, b, gold)
  best = max(scores.values())
  assert list(scores.values()).count(best) > 1
  assert calibration.k == min(k for k, score in scores.items() if score == best)
  assert calibration.choose_k(a[:3], b[:3], gold[:3]) == scores


def test_few_directions_limit_the_choice():
  a, b, gold = pairs()
  u = np.concatenate([a, b])
  assert list(make_calibration("natsv").fit(u[:, :5]).choose_k(a[:, :5], b[:, :5], gold)) == [1, 2, 3, 4]
  assert list(make_calibration("natsv").fit(u[:7]).choose_k(a, b, gold)) == [1, 2, 3, 4, 5, 6]
  assert list(make_calibration("sn+natsv").fit(u[:7]).choose_k(a, b, gold)) == [1, 2, 3, 4, 5]  # centring costs one


def test_k_may_be_over_twenty_but_something_must_remain():
  u = cone(100, DIM)
  assert np.isfinite(make_calibration("natsv-23").fit(u).transform(u)).all()
  for method in ("natsv", "sn+natsv"):
    with rejected(CalibrationError, "k"):
      make_calibration(f"{method}-24").fit(u)
  with rejected(CalibrationError, "k"):
    make_calibration("natsv-6").fit(u[:6])
  with rejected(CalibrationError, "k"):
    make_calibration("sn+natsv-5").fit(u[:6])


@pytest.mark.parametrize("gold", [[], [1.0], [2.0, 2.0, 2.0], [np.nan, 1.0, np.nan]])
def test_gold_without_a_correlation(gold):
  a, b, _ = pairs(len(gold))
  calibration = make_calibration("natsv-3").fit(cone(100, DIM))
  with rejected(CalibrationError, "gold"):
    calibration.choose_k(a, b, gold)
  assert calibration.k == 3


def test_pairs_that_do_not_fit_together():
  a, b, gold = pairs(9)
  with rejected(CalibrationError, None):
    make_calibration("natsv").choose_k(a, b, gold)
  calibration = make_calibration("natsv").fit(cone(100, DIM))
  for arguments in ((a[:8], b, gold), (a, b, gold[:8]), (a, b, gold[:, None])):
    with rejected(CalibrationError, "gold"):
      calibration.choose_k(*arguments)
  with rejected(CalibrationError, "embeddings"):
    calibration.choose_k(a[:, :5], b[:, :5], gold)


def warnings_of(caplog):
  return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def singular(kind, rows=200, dim=10):
  """Embeddings of rank 7 in 10 dimensions, in three ways."""
  u = cone(rows, dim)
  if kind == "constant":
    u[:, [2, 5, 7]] = [0.0, -1.25, 3e4]
  elif kind == "copies":
    u[:, [2, 5, 7]] = u[:, [1, 3, 3]] * np.float32([2.0, -0.5, 1.0])
  elif kind == "sums":  # equal to float32's rounding
    u[:, [2, 5, 7]] = u[:, [0, 1, 3]] + u[:, [3, 4, 9]]
  return u


@pytest.mark.parametrize("kind", ["constant", "copies", "sums"])
def test_singular_covariance_is_finite_and_said_once(kind, caplog):
  u = singular(kind)
  with caplog.at_level("WARNING"):
    calibration = make_calibration("whitening").fit(u)
    z = calibration.transform(u)
    calibration.transform(cone(5, 10, seed=3))
  (warning,) = warnings_of(caplog)
  assert "rank 7" in warning
  assert z.shape == (200, 7) and calibration.output_dim == 7
  np.testing.assert_allclose(np.cov(z.T.astype(np.float64)), np.eye(7), atol=1e-4)
  caplog.clear()
  for k in (3, 7):  # all that is asked for is there
    assert make_calibration(f"whitening-{k}").fit(u).transform(u).shape == (200, k)
  assert not warnings_of(caplog)
  with rejected(CalibrationError, "k"):
    make_calibration("whitening-8").fit(u)


def test_fewer_sentences_than_dimensions(caplog):
  u = cone(6, 20)
  with caplog.at_level("WARNING"):
    z = make_calibration("whitening").fit(u).transform(u)
  (message,) = warnings_of(caplog)
  assert "rank 5" in message
  assert z.shape == (6, 5) and np.isfinite(z).all()
  off_diagonal = cosines(z)[~np.eye(6, dtype=bool)]
  np.testing.assert_allclose(off_diagonal, -1 / 5, atol=1e-5)
  for name in ("sn", "mean", "natsv-3", "sn+natsv-3", "whitening-3"):
    assert np.isfinite(make_calibration(name).fit(u).transform(cone(9, 20, seed=4))).all()


def test_tempered_whitening_of_few_rows_leaves_them_nearly_as_they_are():
  """The fewer the rows of a fit, the less its small directions are enlarged; whitening makes noise of new rows."""
  rng = np.random.default_rng(0)
  scale = np.geomspace(1.0, 0.1, DIM)
  new = rng.standard_normal([200, DIM]) * scale
  plain = cosines(new)
  differences = {}
  for count in (2, DIM // 2, DIM + 4, 100 * DIM):
    rows = rng.standard_normal([count, DIM]) * scale
    rows -= rows.mean(axis=0)  # so that cosines differ by the matrix alone
    for name in ("tempered-whitening-0.5", "whitening"):
      calibration = make_calibration(name).fit(rows)
      differences[name, count] = np.abs(cosines(calibration.transform(new)) - plain).mean()
      assert name == "whitening" or calibration.output_dim == DIM
  tempered = [differences["tempered-whitening-0.5", count] for count in (2, DIM // 2, DIM + 4, 100 * DIM)]
  assert tempered[0] < 0.06 < tempered[1] < tempered[-1]
  assert abs(tempered[-1] - differences["whitening", 100 * DIM]) < 0.01
  assert tempered[2] < differences["whitening", DIM + 4] - 0.05


@pytest.mark.parametrize(("mean", "power"), [(0.0, 0.2), (1.0, 0.25), (100.0, 0.5)])
def test_power_of_tempered_whitening_follows_the_cone(mean, power):
  rows = np.random.default_rng(0).standard_normal([4000, DIM]) * np.geomspace(1.0, 0.1, DIM)
  rows -= rows.mean(axis=0)
  rows += mean * np.sqrt(np.mean(np.sum(rows**2, axis=1)) / DIM)
  fitted, expected = make_calibration("tempered-whitening").fit(rows), LinearCalibration("tempered-whitening", power)
  np.testing.assert_allclose(fitted.transform(rows), expected.fit(rows).transform(rows), rtol=1e-3, atol=1e-4)


def test_constant_dimensions_of_sn_become_zero_and_are_named_once(caplog):
  u = singular("constant")
  with caplog.at_level("WARNING"):
    calibration = make_calibration("sn").fit(u)
    z, new = calibration.transform(u), calibration.transform(cone(5, 10, seed=3))
  (warning,) = warnings_of(caplog)
  assert "2, 5, 7" in warning
  assert (z[:, [2, 5, 7]] == 0).all() and (new[:, [2, 5, 7]] == 0).all()
  others = [0, 1, 3, 4, 6, 8, 9]
  np.testing.assert_allclose(z[:, others], scipy.stats.zscore(u[:, others].astype(np.float64)), atol=1e-5)


def whitened(u, soft):
  """Whitens by NumPy's singular values in float64, [n, rank]."""
  u = u.astype(np.float64)
  scale = u.std(axis=0)
  centered = (u - u.mean(axis=0))[:, scale > 1e-6 * np.abs(u).max()]
  _, singular_values, v = np.linalg.svd(centered, full_matrices=False)
  variances = singular_values**2 / (len(u) - 1)
  has_variance = singular_values > 1e-6 * singular_values[0]
  variances, v = variances[has_variance], v[has_variance]
  return centered @ (v.T / np.sqrt(variances + soft * variances.mean()))


def badly_conditioned(kind):
  rows, dim = {"wide": (1500, 1024), "few rows": (40, 256)}.get(kind, (400, 64))
  u = singular(kind, rows, dim)
  if kind == "large dimension":
    u[:, 3] *= 1e4
  return u.astype(np.float16) if kind == "float16" else u


@pytest.mark.parametrize(
  ("kind", "name", "soft"),
  [
    *((kind, "whitening", 0.0) for kind in ("large dimension", "float16", "wide", "few rows")),
    *((kind, "soft-whitening", 0.5) for kind in ("large dimension", "float16", "few rows")),
  ],
)
def test_badly_conditioned_embeddings_against_float64(kind, name, soft):
  u = badly_conditioned(kind)
  z = make_calibration(name).fit(u).transform(u)
  np.testing.assert_allclose(cosines(z[:60]), cosines(whitened(u, soft)[:60]), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["constant", "copies", "large dimension", "float16", "wide", "few rows"])
def test_flow_of_badly_conditioned_embeddings_against_float64(kind):
  """Latents and loss of the fitted weights, by NumPy in float64."""
  u = badly_conditioned(kind)[:200]
  flow = fit_calibration(u, "flow", train_batch_size=8 if kind == "few rows" else 32, show_progress=False)
  u, config = u[:60], dataclasses.asdict(flow.flow.config)
  z, weights, wide = flow.transform(u), reference.float64(flow.flow.tf1_variables()), u.astype(np.float64)
  expected, _ = reference.forward(config, weights, wide)
  np.testing.assert_allclose(z, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
  np.testing.assert_allclose(cosines(z), cosines(expected), atol=1e-4)
  np.testing.assert_allclose(flow.bits_per_dim(u), reference.bits_per_dim(config, weights, wide), rtol=1e-4)
  assert flow.flow.constant_dimensions == ([2, 5, 7] if kind == "constant" else [])


@pytest.mark.parametrize(
  ("kind", "argument"),
  [
    ("duplicates", "embeddings"),
    ("huge", "embeddings"),
    ("few rows", "train_batch_size"),
  ],
)
def test_embeddings_that_no_flow_can_start_from(kind, argument):
  u = badly_conditioned(kind)
  u = {"duplicates": u[:1].repeat(400, axis=0), "huge": u * 1e20, "few rows": u[:10]}.get(kind, u)
  with rejected(BertFlowError, argument):
    fit_calibration(u, "flow", show_progress=False)
