"""Siamese training: losses, weights that change, early stopping, resumes; golden_test has the gradients."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from bert_flow_tf.encoder.pooling import parse_pooling
from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.training.siamese import trainer as siamese_trainer
from bert_flow_tf.training.siamese.early_stopping import EarlyStopping
from bert_flow_tf.training.siamese.objectives import Classifier, cosine_losses
from bert_flow_tf.training.siamese.settings import SiameseEmbedding, SiameseSettings, siamese_name
from tests.testing import rejected, shared
from tests.training import two_replicas
from tests.training.siamese import small_siamese as small
from tests.training.small import eagerly, interrupted_at


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  return small.save(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def without_dropout(tmp_path_factory):
  return small.save(tmp_path_factory.mktemp("still") / "model", blocks=2, dropout=0.0, scale=0.5)


@pytest.mark.parametrize("classifier", [True, False])
def test_losses_are_those_of_the_formula(without_dropout, classifier):
  """The formula is computed in float64; a flow calibrates the embeddings, and one pair of the batch has no label."""
  parts = small.make(without_dropout, classifier, flow=True, l2_penalty=0.01)
  flow = parts.flow
  targets = np.array([0.0, 2.0, np.nan, 1.0, 1.0, 0.0, 2.0, 1.0])
  if not classifier:
    targets /= 2
  source = small.source(parts.encoder, 8, targets)
  features = next(iter(source.features(tf.data.Dataset.range(8).batch(8))))
  pooling = parse_pooling("avg-first-last", 2)
  sides = [parts.encoder.pooled_batch(*source.tokens(ids), pooling) for ids in features[:2]]
  flow.initialize(sides[0])
  u, v = (flow(side).numpy().astype(np.float64) for side in sides)
  if not classifier:
    cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    losses = (cosines - targets) ** 2
  else:
    logits = np.hstack([u, v, np.abs(u - v)]) @ parts.classifier.output_weights.numpy().T
    losses = -special.log_softmax(logits, axis=1)[np.arange(8), np.nan_to_num(targets).astype(int)]
  losses = np.where(np.isnan(targets), 0.0, losses)
  penalty = 0.01 * (np.linalg.norm(u, axis=1) + np.linalg.norm(v, axis=1))
  loss, bits = parts.losses(source, features, tf.constant([1, 2]))
  assert loss.numpy() == pytest.approx(np.mean(losses + penalty), rel=1e-5)
  assert bits.numpy() == pytest.approx(sum(flow.bits_per_dim(side).numpy().mean() for side in sides), rel=1e-5)


@eagerly()
def test_weights_that_the_pooling_does_not_read_are_not_trained(tmp_path):
  model = small.save(tmp_path / "model", blocks=2)
  parts = small.make(model, pooling="avg-last-last-2")
  encoder = parts.encoder
  before = {name: value.copy() for name, value in encoder.tf1_variables().items()}
  parts.trainer().fit(small.source(encoder), 0.5)
  after = encoder.tf1_variables()
  changed = {name for name in before if (before[name] != after[name]).any()}
  assert changed == {name for name in before if name.startswith(("bert/embeddings/", "bert/encoder/layer_0/"))}
  assert len(encoder.trained_weights(encoder.pooling("cls"))) == len(encoder.bert.weights)


def test_half_precision_is_close_and_its_weights_are_float32(without_dropout):
  found = {}
  for precision in ("float32", "bfloat16"):
    parts = small.make(without_dropout)
    parts.encoder.compute_in(precision, frozen=False)
    source = small.source(parts.encoder, 8)
    features = next(iter(source.features(tf.data.Dataset.range(8).batch(8))))
    with tf.GradientTape() as tape:
      loss = parts.losses(source, features, tf.constant([1, 2]))[0]
    gradients = tape.gradient(loss, parts.losses.variables)
    assert {weight.dtype for weight in parts.losses.variables} == {tf.float32}
    found[precision] = np.concatenate([tf.convert_to_tensor(gradient).numpy().ravel() for gradient in gradients])
    assert parts.encoder.precision == precision
  one, other = found.values()
  cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
  assert 0.99 < cosine < 1 - 1e-9


@eagerly()
def test_nothing_to_learn_and_a_loss_that_is_not_finite(model, tmp_path):
  parts = small.make(model)
  nothing = small.source(parts.encoder, 8, np.full(8, np.nan))
  with pytest.raises(ConfigError):
    parts.trainer().fit(nothing)
  with rejected(ConfigError, "train_batch_size"):
    parts.trainer().fit(nothing, 0.5)
  parts = small.make(model, learning_rate=1e30, warmup_proportion=0.0)
  with pytest.raises(TrainingError, match=r"step [23];.*ckpt-0,.*learning_rate"):
    parts.trainer(tmp_path).fit(small.source(parts.encoder))


def test_dropout_while_only_a_flow_is_fitted(model):
  """BERT has none, except as_published: losses of the same batch with different seeds."""
  for as_published in (False, True):
    parts = small.make(
      model, classifier=False, flow=True, num_examples=0, actnorm_init="glorot", as_published=as_published
    )
    source = small.source(parts.encoder, 8, np.full(8, np.nan))
    features = next(iter(source.features(tf.data.Dataset.range(8).batch(8))))
    one, other = (parts.losses(source, features, tf.constant([seed, 0]))[1].numpy() for seed in (1, 2))
    assert (one != other) == as_published


@eagerly()
def trained_by(parts, targets=None):
  """Fits half a pass; returns whether there was a loss, and whether BERT and the flow have other weights after it."""
  parts.flow.initialize(np.random.default_rng(0).normal(size=[9, 12]).astype(np.float32))
  before = parts.encoder.weights_checksum, [weight.numpy() for weight in parts.flow.trainable_variables]
  losses = parts.trainer().fit(small.source(parts.encoder, 64, targets), 0.5).losses
  moved = [(weight.numpy() != old).any() for weight, old in zip(parts.flow.trainable_variables, before[1], strict=True)]
  return losses[:, 0].all(), parts.encoder.weights_checksum != before[0], any(moved)


@pytest.mark.parametrize("classifier", [True, False])
def test_one_optimizer_trains_the_flow_too(model, classifier):
  parts = small.make(model, classifier, flow=True, flow_loss=False)
  assert not parts.losses.flow_variables and trained_by(parts) == (True, True, True)


def test_without_labels_the_penalty_trains_bert(model):
  """And without it nothing does."""
  nothing, settings = np.full(64, np.nan), {"num_examples": 0, "classifier": False, "flow": True}
  assert trained_by(small.make(model, **settings), nothing) == (False, False, True)
  assert trained_by(small.make(model, **settings, l2_penalty=0.1), nothing) == (True, True, True)


@eagerly()
def test_the_flow_starts_from_the_first_sentences_of_the_first_batch(model):
  parts, by_hand = (small.make(model, flow=True, learning_rate=1e-30, flow_learning_rate=1e-30) for _ in range(2))
  first, _, _ = small.pairs(32)
  by_hand.flow.initialize(by_hand.encoder.encode(first[: small.BATCH], "avg-first-last", max_seq_length=16))
  parts.trainer().fit(small.source(parts.encoder, 32), shuffle=False)
  for name, value in by_hand.flow.tf1_variables().items():
    np.testing.assert_allclose(parts.flow.tf1_variables()[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("as_published", "copies", "expected"), [(True, 2, True), (True, 1, False), (False, 2, False)])
def test_copies_are_read_in_the_published_order_if_asked_for(model, monkeypatch, as_published, copies, expected):
  def stop(name):
    def order(*arguments):
      raise InterruptedError(name)

    return order

  for name in ("published_order", "distribute_batches"):
    monkeypatch.setattr(siamese_trainer, name, stop(name))
  parts = small.make(model, as_published=as_published)
  with pytest.raises(InterruptedError) as stopped:
    parts.trainer().fit(small.source(parts.encoder, 8, dupe_factor=copies))
  assert (str(stopped.value) == "published_order") == expected


WEIGHTS = np.random.default_rng(0).normal(size=[3, 12]).astype(np.float32)


def test_initial_weights_and_probabilities():
  rng = np.random.default_rng(0)
  u, v = rng.normal(size=[2, 5, 6]).astype(np.float32)
  classifier = Classifier.initial(6, small.LABELS, 3)
  weights = classifier.output_weights.numpy()
  assert weights.shape == (3, 18) and np.abs(weights).max() <= 0.04 and weights.std() == pytest.approx(0.0176, rel=0.25)
  np.testing.assert_array_equal(weights, Classifier.initial(6, small.LABELS, 3).output_weights)
  assert (weights != Classifier.initial(6, small.LABELS, 4).output_weights.numpy()).all()
  logits = np.hstack([u, v, np.abs(u - v)]).astype(np.float64) @ weights.T
  np.testing.assert_allclose(classifier.probabilities(u, v), special.softmax(logits, axis=1), rtol=1e-5)


def test_a_sentence_of_zeros_has_cosine_0_and_no_gradient():
  u, v = np.random.default_rng(0).normal(size=[2, 5, 6]).astype(np.float32)
  u[0] = 0.0
  u = tf.Variable(u)
  with tf.GradientTape() as tape:
    losses = cosine_losses(u, v, tf.fill([5], 0.5))
  assert losses.numpy()[0] == pytest.approx(0.25) and np.isfinite(tape.gradient(losses, u)).all()


def test_a_saved_classifier_is_the_same(tmp_path):
  Classifier(WEIGHTS, small.LABELS, {"name": "mini"}).save(tmp_path / "classifier")
  loaded = Classifier.load(tmp_path / "classifier")
  assert loaded.output_weights.numpy().tobytes() == WEIGHTS.tobytes()
  assert (loaded.dim, loaded.labels, loaded.encoder) == (4, small.LABELS, {"name": "mini"})
  with pytest.raises(TrainingError, match="absent"):
    Classifier.load(tmp_path / "absent")


@pytest.mark.parametrize(
  ("scores", "arguments", "steps", "best", "weights"),
  [
    ([50.0, 60.0, 60.0], {}, 3, (60.0, 2), 2),
    ([-5.0, -9.0], {}, 2, (-5.0, 1), 1),
    ([50.0, np.nan, 40.0, 70.0], {"patience": 2}, 3, (50.0, 1), 1),
    ([np.nan], {}, 1, None, 1),
    ([50.0, 60.0], {"patience": 3}, 2, (60.0, 2), 2),
    ([60.0, 50.0, 50.0, 40.0], {"as_published": True}, 3, (50.0, 2), 3),  # until it does not fall; the last weights
  ],
)
def test_the_best_weights_and_the_end(tmp_path, scores, arguments, steps, best, weights):
  weight, remaining = tf.Variable(0), iter(scores)
  stopping = EarlyStopping(lambda: next(remaining), **arguments)
  stopping.keep_in(tmp_path, {}, {"weights": [weight]})
  assert stopping.best is None and not stopping.stopped
  step = 0
  while step < len(scores) and not stopping.stopped:
    step += 1
    weight.assign(step)
    np.testing.assert_equal(stopping.evaluate(step), scores[step - 1])
  assert (step, stopping.best) == (steps, best)
  stopping.take_best()
  assert weight.numpy() == weights
  assert (tmp_path / "best").exists() == ("as_published" not in arguments)  # nobody would read them


def settings_of(cls, values):
  names = {field.name for field in dataclasses.fields(cls)}
  return cls(**{name: value for name, value in values.items() if name in names})


def test_published_names():
  cases = json.loads(shared("golden_siamese/facts.json").read_text())["experiment_names"]
  named = [case for case in cases if case["folder"] is not None and "exp_name" not in case["flags"]]
  assert len(named) >= 11
  for case in named:
    integers = ("flow", "flow_loss", "use_full_for_training")  # booleans here
    values = {name: bool(value) if name in integers else value for name, value in case["flags"].items()}
    values = {"task_name": "STS-B"} | values
    embedding, settings = (settings_of(cls, values) for cls in (SiameseEmbedding, SiameseSettings))
    assert siamese_name(values["exp_name_prefix"], values["task_name"], embedding, settings) == case["folder"]


def test_half_precision_of_a_training():
  SiameseSettings(num_examples=0, flow=True, flow_loss=True).check_training("float16")  # the encoder is frozen
  with rejected(ConfigError, "precision"):
    SiameseSettings().check_training("float16")


def test_what_settings_mean():
  assert SiameseSettings(as_published=True, flow=True).actnorm_init == "glorot"
  assert SiameseSettings(num_examples=0).frozen and not SiameseSettings(num_examples=0, l2_penalty=0.1).frozen
  assert SiameseSettings().trains and not SiameseSettings(num_train_epochs=1e-10).trains
  assert SiameseEmbedding(low_dim=0).model_arguments()["low_dim"] is None


# Dev's figure by step: a fit of 16 steps with 3 in a pass over the pairs stops at 12, step 6 being the best.
DEV = {3: 50.0, 6: 60.0, 9: float("nan"), 12: 60.0, 15: 99.0, 16: 99.0}


class ListedScores(EarlyStopping):
  """Early stopping by the scores of `DEV`."""

  def evaluate(self, step):
    self._evaluate = lambda: DEV[step]
    return super().evaluate(step)


def fit(model, folder, **settings):
  """A fit with dropout, a flow and early stopping: its result, and all weights there are after it."""
  parts = small.make(model, flow=True, flow_learning_rate=0.01, **settings)
  result = parts.trainer(folder).fit(small.source(parts.encoder, 24), 16 / 3, ListedScores(None, patience=2))
  weights = [*parts.encoder.bert.weights, parts.classifier.output_weights, *parts.flow.weights]
  return result, [weight.numpy() for weight in weights]


def assert_same(found, expected):
  for one, other in zip(found, expected, strict=True):
    np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_resumed_fit_is_the_same_to_the_bit(model, tmp_path):
  """Stopped at 4; then at 8 and, the best weights being saved but not the fit itself, at 6."""
  expected, best = fit(model, tmp_path / "whole")
  assert (expected.steps, expected.planned_steps, expected.best) == (12, 16, (60.0, 6))
  folder = tmp_path / "stopped"
  with interrupted_at(4):
    fit(model, folder)
  names = (folder / "checkpoint").read_text()
  with interrupted_at(8):
    fit(model, folder)
  for file in folder.glob("ckpt-6.*"):
    file.unlink()
  (folder / "checkpoint").write_text(names)
  assert list((folder / "best").glob("ckpt-6.index"))
  result, weights = fit(model, folder)
  assert (result.first_step, result.steps, result.best) == (3, 12, (60.0, 6))
  np.testing.assert_array_equal(result.losses, expected.losses[3:])
  assert_same(weights, best)
  finished, weights = fit(model, folder)  # loaded and not trained again
  assert (finished.first_step, finished.best, len(finished.losses)) == (12, (60.0, 6), 0)
  assert_same(weights, best)
  with pytest.raises(TrainingError, match=r"learning_rate 0\.01, now 0\.02"):
    fit(model, folder, learning_rate=0.02)


@pytest.mark.slow
def test_two_replicas_find_what_one_does():
  one, two = two_replicas.siamese(tf.distribute.get_strategy()), two_replicas.results("siamese")["siamese"]
  np.testing.assert_allclose(two["losses"], one["losses"], rtol=1e-4)
  for name, value in one["weights"].items():
    np.testing.assert_allclose(two["weights"][name], value, atol=2e-5, err_msg=name)
  np.testing.assert_allclose(two["embedded"], one["embedded"], atol=1e-5)
