"""Siamese training: losses against NumPy, and the weights that change; golden_siamese_test has the gradients."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from bert_flow_tf.encoder import fine_tuning
from bert_flow_tf.encoder.pooling import parse_pooling
from bert_flow_tf.errors import ConfigError, TrainingError
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
  sides = [fine_tuning.embed(made.encoder.bert, *source.tokens(ids), pooling) for ids in features[:2]]
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
    fine_tuning.use_mixed_precision(made.encoder.bert, precision)
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
