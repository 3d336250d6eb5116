"""Siamese training: losses and gradients against NumPy, and the weights that change."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from bert_flow_tf.encoder import fine_tuning
from bert_flow_tf.encoder.pooling import parse_pooling
from bert_flow_tf.encoder.saving import pytorch_weights
from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.training.labelled_pairs import LabelledPairs
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


def numpy_embeddings(weights, sides):
  """Returns u and v of `avg-first-last`, float64 [2, batch, dim]."""
  embeddings = []
  for ids, mask in sides:
    states, _ = tiny.numpy_bert(weights, ids, mask, small.CONFIG)
    means = [(states[block] * mask[..., None]).sum(1) / mask.sum(1, keepdims=True) for block in (1, 2)]
    embeddings.append((means[0] + means[1]) / 2)
  return np.array(embeddings)


def numpy_loss(embeddings, output_weights, targets):
  """Returns the siamese loss in float64: softmax if there are output weights, else the cosine's squared error."""
  u, v = embeddings
  if output_weights is None:
    cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    losses = (cosines - np.nan_to_num(targets)) ** 2
  else:
    logits = np.concatenate([u, v, np.abs(u - v)], axis=1) @ output_weights.T
    losses = -special.log_softmax(logits, axis=1)[np.arange(len(u)), np.nan_to_num(targets).astype(int)]
  return np.where(np.isnan(targets), 0.0, losses).sum() / len(u)


def terms_of_the_derivative(embeddings, rates, output_weights):
  """Returns the size of the terms whose sum is the loss's derivative, mean over the batch, before they cancel.

  The cosine's derivative is (v / |v| - cos u / |u|) du / |u|: of nearly parallel u and v, the terms are a hundred times
  their difference. That of a logit is W du. The derivative of the loss by a cosine or by the logits is at most 2.

  Args:
    embeddings: u and v, float64 [2, batch, dim].
    rates: their derivatives, float64 [2, batch, dim].
    output_weights: W, or None for the cosine.
  """
  sizes = np.linalg.norm(rates, axis=2)
  if output_weights is None:
    return 2 * np.sum(sizes / np.linalg.norm(embeddings, axis=2)) / sizes.shape[1]
  return 2 * np.sum(sizes) * np.linalg.norm(output_weights) / sizes.shape[1]


@pytest.mark.parametrize("kind", ["softmax", "cosine"])
def test_gradients_are_those_of_the_loss_in_numpy(without_dropout, kind):
  """Compares with a float64 loss that shares no code with ours; one pair of the batch has no label.

  The reference is a central difference in float64. A float32 sum of n terms is off by at most n 2^-24 times the terms'
  sizes (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1), in whatever order a CPU adds them.
  """
  encoder, objective, _, make_trainer = small.make(without_dropout, kind, train_batch_size=4)
  trainer = make_trainer()
  targets = np.array([0.0, 2.0, np.nan, 1.0] if kind == "softmax" else [0.0, 0.7, np.nan, 1.0])
  a, b, _ = small.pairs(4)
  source = LabelledPairs(encoder, a, b, targets, 16)
  features = next(iter(source.features(tf.data.Dataset.range(4).batch(4))))
  variables = trainer._variables
  with tf.GradientTape() as tape:
    losses = trainer._losses(source, features, tf.constant([1, 2]))
    total = tf.reduce_sum(losses)
  gradients = [tf.convert_to_tensor(gradient).numpy() for gradient in tape.gradient(total, variables)]

  weights = {f"bert.{name}": value for name, value in pytorch_weights(encoder.bert.tf1_variables()).items()}
  head = None if kind == "cosine" else objective.output_weights.numpy().astype(np.float64)
  sides = [[array.numpy() for array in source.tokens(ids)] for ids in features[:2]]
  embeddings = numpy_embeddings(weights, sides)
  loss = numpy_loss(embeddings, head, targets)
  assert losses[0].numpy() == pytest.approx(loss, rel=1e-5)
  assert losses[1].numpy() == 0.0

  # Each weight by its place in the model: its name in NumPy is that of the same place in the saved file.
  names = dict(zip([id(w) for w in encoder.bert.model.weights], weights, strict=True))
  rng, step, longest_sum = np.random.default_rng(3), 1e-5, 3 * small.CONFIG["hidden_size"]
  for variable, gradient in zip(variables, gradients, strict=True):
    name = names.get(id(variable))
    direction = rng.normal(size=variable.shape)
    direction /= np.linalg.norm(direction)
    moved = direction.T if variable.name.endswith("kernel:0") else direction
    shifted, shifted_losses = [], []
    for change in (step * moved, -step * moved):
      new_weights = weights if name is None else {**weights, name: weights[name].astype(np.float64) + change}
      shifted.append(numpy_embeddings(new_weights, sides))
      shifted_losses.append(numpy_loss(shifted[-1], head + change if name is None else head, targets))
    expected = (shifted_losses[0] - shifted_losses[1]) / (2 * step)
    terms = terms_of_the_derivative(embeddings, (shifted[0] - shifted[1]) / (2 * step), head)
    rounding = 2.0**-24 * (terms + np.linalg.norm(gradient)) + 2.0**-53 * loss / step
    assert abs(np.sum(gradient * direction) - expected) < longest_sum * rounding, variable.name


def test_losses_with_a_flow_and_a_penalty(without_dropout):
  encoder, objective, flow, make_trainer = small.make(without_dropout, flow=True, l2_penalty=0.01)
  source, trainer = small.source(encoder), make_trainer()
  features = next(iter(source.features(tf.data.Dataset.range(8).batch(8))))
  u, v = (
    fine_tuning.embed(encoder.bert, *source.tokens(ids), parse_pooling("avg-first-last", 2)) for ids in features[:2]
  )
  flow.initialize(u)
  loss, bits = trainer._losses(source, features, tf.constant([1, 2]))
  latents = [flow(side).numpy() for side in (u, v)]
  penalty = 0.01 * sum(np.linalg.norm(z, axis=1) for z in latents)
  assert loss.numpy() == pytest.approx(np.mean(objective.losses(*latents, features[2]) + penalty), rel=1e-5)
  assert bits.numpy() == pytest.approx(sum(flow.bits_per_dim(side).numpy().mean() for side in (u, v)), rel=1e-5)


def test_weights_that_the_pooling_does_not_read_are_not_trained(tmp_path):
  model = small.save(tmp_path / "model", blocks=2)
  encoder, _, _, make_trainer = small.make(model, pooling="avg-last-last-2")
  before = {name: value.copy() for name, value in encoder.bert.tf1_variables().items()}
  make_trainer().fit(small.source(encoder), 0.5)
  after = encoder.bert.tf1_variables()
  changed = {name for name in before if (before[name] != after[name]).any()}
  assert changed == {name for name in before if name.startswith(("bert/embeddings/", "bert/encoder/layer_0/"))}
  assert len(fine_tuning.trained_weights(encoder.bert, encoder.pooling("cls"))) == len(encoder.bert.model.weights)


def test_loss_falls_on_a_fixed_batch(model):
  encoder, _, _, make_trainer = small.make(model)
  result = make_trainer().fit(small.source(encoder, small.BATCH), 150)
  assert (result.steps, result.first_step, result.losses.shape) == (150, 0, (150, 4))
  assert result.losses[0, 0] == pytest.approx(np.log(3), abs=0.1) and result.losses[-10:, 0].mean() < 0.4
  assert result.seconds_per_step > 0


def test_half_precision_is_close_and_its_weights_are_float32(without_dropout):
  found = {}
  for precision in ("float32", "bfloat16"):
    encoder, _, _, make_trainer = small.make(without_dropout)
    fine_tuning.use_mixed_precision(encoder.bert, precision)
    trainer, source = make_trainer(), small.source(encoder, 8)
    features = next(iter(source.features(tf.data.Dataset.range(8).batch(8))))
    with tf.GradientTape() as tape:
      loss = trainer._losses(source, features, tf.constant([1, 2]))[0]
    gradients = tape.gradient(loss, trainer._variables)
    assert {weight.dtype for weight in trainer._variables} == {tf.float32}
    found[precision] = np.concatenate([tf.convert_to_tensor(gradient).numpy().ravel() for gradient in gradients])
    assert encoder.precision == precision
  one, other = found.values()
  cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
  assert 0.99 < cosine < 1 - 1e-9


def test_labelled_pairs(model):
  encoder = small.make(model)[0]
  source = LabelledPairs(encoder, ["a dog", "b"], ["cats", "a a a"], [1.0, np.nan], 16)
  a, b, targets = next(iter(source.features(tf.data.Dataset.from_tensor_slices([1, 0]).batch(2))))
  vocabulary = {piece: i for i, piece in enumerate(tiny.VOCABULARY)}
  ids = [
    [vocabulary.get(piece, -1) for piece in row]
    for row in (["[CLS]", "b", "[SEP]", "-"], ["[CLS]", "a", "dog", "[SEP]"])
  ]
  assert a.numpy().tolist() == ids and b.shape == (2, 5) and np.isnan(targets.numpy()[0]) and targets.numpy()[1] == 1
  tokens, mask = source.tokens(a)
  assert mask.numpy().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]] and tokens.numpy()[0, 3] == vocabulary["[PAD]"]
  assert (len(source), source.labelled) == (2, 1)
  padded = LabelledPairs(encoder, ["a dog", "b"], ["cats", "a a a"], [1.0, 1.0], 16, pad_to_max=True)
  assert next(iter(padded.features(tf.data.Dataset.range(2).batch(2))))[0].shape == (2, 16)
  assert padded.fingerprint() != source.fingerprint()


def test_nothing_to_learn_and_a_loss_that_is_not_finite(model, tmp_path):
  encoder, _, _, make_trainer = small.make(model)
  nothing = small.source(encoder, 8, np.full(8, np.nan))
  with pytest.raises(ConfigError, match=r"nothing can be learned$"):
    make_trainer().fit(nothing)
  with pytest.raises(ConfigError) as raised:
    make_trainer().fit(nothing, 0.5)
  assert raised.value.argument == "train_batch_size"
  encoder, _, _, make_trainer = small.make(model, learning_rate=1e30, warmup_proportion=0.0)
  with pytest.raises(
    TrainingError,
    match=r"training stopped: .* at step [23]; the checkpoint before it, .*ckpt-0, is kept; lower learning_rate$",
  ):
    make_trainer(tmp_path).fit(small.source(encoder))


def test_dropout_while_only_a_flow_is_fitted(model):
  """BERT has none, except as_published: losses of the same batch with different seeds."""
  for as_published in (False, True):
    encoder, _, _, make_trainer = small.make(
      model, objective="cosine", flow=True, num_examples=0, actnorm_init="glorot", as_published=as_published
    )
    trainer, source = make_trainer(), small.source(encoder, 8, np.full(8, np.nan))
    features = next(iter(source.features(tf.data.Dataset.range(8).batch(8))))
    one, other = (trainer._losses(source, features, tf.constant([seed, 0]))[1].numpy() for seed in (1, 2))
    assert (one != other) == as_published
