"""Siamese training: losses against NumPy, and the weights that change; golden_siamese_test has the gradients."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from bert_flow_tf.encoder import fine_tuning
from bert_flow_tf.encoder.pooling import parse_pooling
from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.training import siamese_trainer
from bert_flow_tf.training.siamese_trainer import SiameseTrainer
from tests.encoder import tiny
from tests.training import small_siamese as small


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  return small.save(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def without_dropout(tmp_path_factory):
  config = {**small.CONFIG, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
  weights = {name: 0.5 * value for name, value in tiny.random_weights(config).items()}
  return tiny.save_tiny(tmp_path_factory.mktemp("still") / "model", weights, config)


@pytest.mark.parametrize("classifier", [True, False])
def test_losses_are_those_of_the_formula(without_dropout, classifier):
  """In float64, of embeddings that a flow calibrates; one pair of the batch has no label."""
  made = small.make(without_dropout, classifier, flow=True, l2_penalty=0.01)
  flow = made.flow
  targets = np.array([0.0, 2.0, np.nan, 1.0, 1.0, 0.0, 2.0, 1.0])
  if not classifier:
    targets /= 2
  source = small.source(made.encoder, 8, targets)
  features = next(iter(source.features(tf.data.Dataset.range(8).batch(8))))
  pooling = parse_pooling("avg-first-last", 2)
  sides = [made.encoder.pooled_batch(*source.tokens(ids), pooling) for ids in features[:2]]
  flow.initialize(sides[0])
  u, v = (flow(side).numpy().astype(np.float64) for side in sides)
  if not classifier:
    cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    losses = (cosines - targets) ** 2
  else:
    logits = np.hstack([u, v, np.abs(u - v)]) @ made.classifier.output_weights.numpy().T
    losses = -special.log_softmax(logits, axis=1)[np.arange(8), np.nan_to_num(targets).astype(int)]
  losses = np.where(np.isnan(targets), 0.0, losses)
  penalty = 0.01 * (np.linalg.norm(u, axis=1) + np.linalg.norm(v, axis=1))
  loss, bits = made.losses(source, features, tf.constant([1, 2]))
  assert loss.numpy() == pytest.approx(np.mean(losses + penalty), rel=1e-5)
  assert bits.numpy() == pytest.approx(sum(flow.bits_per_dim(side).numpy().mean() for side in sides), rel=1e-5)


def test_weights_that_the_pooling_does_not_read_are_not_trained(tmp_path):
  model = small.save(tmp_path / "model", blocks=2)
  made = small.make(model, pooling="avg-last-last-2")
  encoder = made.encoder
  before = {name: value.copy() for name, value in encoder.bert.tf1_variables().items()}
  made.trainer().fit(small.source(encoder), 0.5)
  after = encoder.bert.tf1_variables()
  changed = {name for name in before if (before[name] != after[name]).any()}
  assert changed == {name for name in before if name.startswith(("bert/embeddings/", "bert/encoder/layer_0/"))}
  assert len(fine_tuning.trained_weights(encoder.bert, encoder.pooling("cls"))) == len(encoder.bert.model.weights)


def test_half_precision_is_close_and_its_weights_are_float32(without_dropout):
  found = {}
  for precision in ("float32", "bfloat16"):
    made = small.make(without_dropout)
    made.encoder.bert.compute_in(precision, frozen=False)
    source = small.source(made.encoder, 8)
    features = next(iter(source.features(tf.data.Dataset.range(8).batch(8))))
    with tf.GradientTape() as tape:
      loss = made.losses(source, features, tf.constant([1, 2]))[0]
    gradients = tape.gradient(loss, made.losses.variables)
    assert {weight.dtype for weight in made.losses.variables} == {tf.float32}
    found[precision] = np.concatenate([tf.convert_to_tensor(gradient).numpy().ravel() for gradient in gradients])
    assert made.encoder.precision == precision
  one, other = found.values()
  cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
  assert 0.99 < cosine < 1 - 1e-9


def test_nothing_to_learn_and_a_loss_that_is_not_finite(model, tmp_path):
  made = small.make(model)
  nothing = small.source(made.encoder, 8, np.full(8, np.nan))
  with pytest.raises(ConfigError, match=r"nothing can be learned$"):
    made.trainer().fit(nothing)
  with pytest.raises(ConfigError) as raised:
    made.trainer().fit(nothing, 0.5)
  assert raised.value.argument == "train_batch_size"
  made = small.make(model, learning_rate=1e30, warmup_proportion=0.0)
  with pytest.raises(
    TrainingError,
    match=r"training stopped: .* at step [23]; the checkpoint before it, .*ckpt-0, is kept; lower learning_rate$",
  ):
    made.trainer(tmp_path).fit(small.source(made.encoder))


def test_dropout_while_only_a_flow_is_fitted(model):
  """BERT has none, except as_published: losses of the same batch with different seeds."""
  for as_published in (False, True):
    made = small.make(
      model, classifier=False, flow=True, num_examples=0, actnorm_init="glorot", as_published=as_published
    )
    source = small.source(made.encoder, 8, np.full(8, np.nan))
    features = next(iter(source.features(tf.data.Dataset.range(8).batch(8))))
    one, other = (made.losses(source, features, tf.constant([seed, 0]))[1].numpy() for seed in (1, 2))
    assert (one != other) == as_published


def trained_by(made, targets=None):
  """Fits half a pass; returns whether there was a loss, and whether BERT and the flow have other weights after it."""
  made.flow.initialize(np.random.default_rng(0).normal(size=[9, 12]).astype(np.float32))
  before = made.encoder.bert.weights_checksum, [weight.numpy() for weight in made.flow.trainable_variables]
  losses = made.trainer().fit(small.source(made.encoder, 64, targets), 0.5).losses
  moved = [(weight.numpy() != old).any() for weight, old in zip(made.flow.trainable_variables, before[1], strict=True)]
  return losses[:, 0].all(), made.encoder.bert.weights_checksum != before[0], any(moved)


@pytest.mark.parametrize("classifier", [True, False])
def test_one_optimizer_trains_the_flow_too(model, classifier):
  made = small.make(model, classifier, flow=True, flow_loss=False)
  assert not made.losses.flow_variables and trained_by(made) == (True, True, True)


def test_without_labels_the_penalty_trains_bert(model):
  """And without it nothing does."""
  nothing, settings = np.full(64, np.nan), {"num_examples": 0, "classifier": False, "flow": True}
  assert trained_by(small.make(model, **settings), nothing) == (False, False, True)
  assert trained_by(small.make(model, **settings, l2_penalty=0.1), nothing) == (True, True, True)


def test_the_flow_starts_from_the_first_sentences_of_the_first_batch(model):
  made, by_hand = (small.make(model, flow=True, learning_rate=1e-30, flow_learning_rate=1e-30) for _ in range(2))
  first, _, _ = small.pairs(32)
  by_hand.flow.initialize(by_hand.encoder.encode(first[: small.BATCH], "avg-first-last", max_seq_length=16))
  made.trainer().fit(small.source(made.encoder, 32), shuffle=False)
  for name, value in by_hand.flow.tf1_variables().items():
    np.testing.assert_allclose(made.flow.tf1_variables()[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("steps", "warmup_steps"), [(7, 0), (19, 1)])
def test_the_warm_up_of_a_training_is_rounded_down(model, steps, warmup_steps):
  """Step 0 of a warm-up changes no weight; without one the first step does."""
  made = small.make(model, save_checkpoints_steps=1, train_batch_size=2, warmup_proportion=0.1)
  before, changed = made.encoder.bert.weights_checksum, []
  trainer = SiameseTrainer(
    made.losses, made.settings, on_checkpoint=lambda step: changed.append(made.encoder.bert.weights_checksum != before)
  )
  trainer.fit(small.source(made.encoder, 2 * steps))
  assert changed == [step >= warmup_steps for step in range(steps)]


@pytest.mark.parametrize(("as_published", "copies", "expected"), [(True, 2, True), (True, 1, False), (False, 2, False)])
def test_copies_are_read_in_the_published_order_if_asked_for(model, monkeypatch, as_published, copies, expected):
  def stop(name):
    def order(*arguments):
      raise InterruptedError(name)

    return order

  for name in ("published_order", "distribute_batches"):
    monkeypatch.setattr(siamese_trainer, name, stop(name))
  made = small.make(model, as_published=as_published)
  with pytest.raises(InterruptedError) as stopped:
    made.trainer().fit(small.source(made.encoder, 8, dupe_factor=copies))
  assert (str(stopped.value) == "published_order") == expected
