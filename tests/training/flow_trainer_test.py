"""Fits of a flow and their optimizer: initialization, order of the pairs, equations of a step, errors."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import Glow
from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.training.flow_trainer import Trainer
from bert_flow_tf.training.optimizer import AdamWeightDecay, WarmUpLinearDecay, num_steps, num_warmup_steps
from bert_flow_tf.training.pipeline import pair_order
from bert_flow_tf.training.sources import EmbeddingPairs
from bert_flow_tf.training.strategies import make_strategy
from tests.flow import reference
from tests.flow.cases import config, randomize
from tests.testing import rejected
from tests.training import small


@pytest.mark.parametrize(
  ("pairs", "batch_size", "epochs", "steps"), [(70, 8, 2, 17), (8628, 32, 1, 269), (9, 10, 1.2, 1)]
)
def test_number_of_steps(pairs, batch_size, epochs, steps):
  """int(pairs / batch * epochs): not int(pairs / batch) * epochs."""
  assert num_steps(pairs, batch_size, epochs) == steps


def test_fit_on_the_pairs_seen_alone_is_the_same_to_the_bit():
  """The initialization's batch included."""
  a, b = small.embeddings(200)
  whole, expected = small.fit(EmbeddingPairs(a, b), epochs=0.3, seed=5)
  seen = small.make_trainer(seed=5).pairs_seen(200, 0.3)
  assert 48 <= len(seen) <= 56  # 7 steps of 8 pairs, of which the shuffling of repeated epochs may show some twice
  part, found = small.fit(EmbeddingPairs(a[seen], b[seen], "known", seen, 200), epochs=0.3, seed=5)
  small.assert_same_weights(found, expected)
  np.testing.assert_array_equal(part.losses, whole.losses)


def test_another_seed_is_another_fit():
  """With the same seed, two fits are the same to the bit, as in the test above."""
  (_, first), (_, other) = (small.fit(seed=seed) for seed in (5, 6))
  assert any((x != y).any() for x, y in zip(small.weights(other), small.weights(first), strict=True))


@pytest.mark.parametrize(
  ("argument", "pairs", "epochs", "settings"),
  [
    *[("num_train_epochs", 64, epochs, {}) for epochs in (0, 0.0, -1, float("nan"), float("inf"), -float("inf"))],
    *[("train_batch_size", pairs, epochs, {}) for pairs, epochs in ((7, 1), (64, 1e-9), (0, 1))],
    *[("flow_learning_rate", 64, 1, {"flow_learning_rate": rate}) for rate in (0, -1.0, float("nan"), float("inf"))],
  ],
)
def test_rejected_arguments(argument, pairs, epochs, settings):
  with rejected(ConfigError, argument):
    small.make_trainer(**settings).fit(EmbeddingPairs(*small.embeddings(pairs)), epochs)


def test_initializes_on_the_first_batchs_first_sentences_alone():
  a, b = small.embeddings(40)
  _, flow = small.fit(EmbeddingPairs(a, b), flow_learning_rate=1e-9, seed=3)
  expected = small.make_flow()
  expected.initialize(a[next(pair_order(40, 3).batch(small.BATCH).as_numpy_iterator())])
  for found, weight in zip(small.weights(flow), small.weights(expected), strict=True):
    np.testing.assert_allclose(found, weight, atol=1e-6)


@pytest.mark.slow
def test_xla_agrees(tmp_path):
  """However many steps a call makes: calls end where a checkpoint is due."""
  plain, flow = small.fit(epochs=3, use_xla=False)
  compiled, fitted = small.fit(epochs=3, use_xla=True)
  in_parts, _ = small.fit(epochs=3, use_xla=True, checkpoint_folder=tmp_path, save_checkpoints_steps=4)
  assert len(compiled.losses) == 24
  np.testing.assert_array_equal(in_parts.losses, compiled.losses)
  np.testing.assert_allclose(compiled.losses, plain.losses, rtol=1e-5, atol=1e-6)
  for found, weight in zip(small.weights(fitted), small.weights(flow), strict=True):
    np.testing.assert_allclose(found, weight, rtol=1e-4, atol=1e-5)


def with_dropout():
  """Returns a flow whose loss shows the mask of its coupling's dropout."""
  return randomize(Glow(config(coupling_dropout=0.5), 8, "glorot", seed=1))


def test_each_side_of_each_step_has_a_coupling_dropout_of_its_own(monkeypatch):
  flow, seeds = with_dropout(), []
  bits_per_dim = flow.bits_per_dim

  def spy(side, dropout_seed):
    tf.py_function(lambda seed: seeds.append(tuple(seed.numpy())), [dropout_seed], [])
    return bits_per_dim(side, dropout_seed)

  monkeypatch.setattr(flow, "bits_per_dim", spy)
  small.fit(EmbeddingPairs(*small.embeddings(dim=8)), flow=flow, use_xla=False)
  assert len(seeds) == len(set(seeds)) == 16


@pytest.mark.slow
def test_compiled_steps_have_a_coupling_dropout_of_their_own():
  """The same pairs and weights in each step."""
  source = EmbeddingPairs(*small.embeddings(8, dim=8))
  result, _ = small.fit(source, 4, flow=with_dropout(), use_xla=True, flow_learning_rate=1e-30)
  assert len(result.losses) == 4 == len(set(result.losses))


def test_xla_where_it_pays(monkeypatch):
  """From 1500 steps on, unless the user says; what is compiled says so to tf.function."""
  compiled = []
  function = tf.function

  def spy(*arguments, **options):
    compiled.append(bool(options.get("jit_compile")))
    return function(*arguments, **options)

  monkeypatch.setattr(tf, "function", spy)
  for use_xla, steps, expected in [(None, 1499, False), (None, 1500, True), (True, 1, True), (False, 10**6, False)]:
    compiled.clear()
    small.make_trainer(use_xla=use_xla)._advance(EmbeddingPairs(*small.embeddings()), steps)
    assert any(compiled) == expected, (use_xla, steps)


def test_cached_embeddings_on_one_device_alone_compile_all_steps_of_a_call(monkeypatch):
  monkeypatch.setattr(Trainer, "_make_compiled_advance", lambda self: "compiled")
  strategy, pairs = make_strategy("mirrored", memory_growth=False), EmbeddingPairs(*small.embeddings())
  with strategy.scope():
    flow = small.make_flow()
  one, mirrored = small.make_trainer(use_xla=True), small.make_trainer(flow, strategy=strategy, use_xla=True)
  assert one._advance(pairs, 1) == "compiled"
  for advance in (mirrored._advance(pairs, 1), one._advance(object(), 1)):
    assert advance != "compiled"


def test_embeddings_of_another_dimension():
  for init in ("data", "glorot"):
    with rejected(FlowError, "embeddings"):
      small.fit(EmbeddingPairs(*small.embeddings(dim=6)), flow=small.make_flow(actnorm_init=init))


def test_fit_again_goes_on_from_the_weights_there_are():
  flow = small.make_flow()
  trainer = small.make_trainer(flow)
  first = trainer.fit(EmbeddingPairs(*small.embeddings()))
  again = trainer.fit(EmbeddingPairs(*small.embeddings()))
  assert len(again.losses) == len(first.losses) > 0 and again.first_step == 0
  assert again.losses.mean() < first.losses.mean()


SHAPES = {"kernel": [3, 4], "logs": [4], "LayerNorm/gamma": [2], "layer_norm/beta": [2], "dense/bias": [3]}
DECAYED = {"kernel", "logs"}
STEPS = 6


def random(seed, scale):
  rng = np.random.default_rng(seed)
  return {name: rng.normal(0, scale, shape) for name, shape in SHAPES.items()}


def variables(values, dtype):
  return {name: tf.Variable(value, dtype=dtype, name=name) for name, value in values.items()}


# Gradients far above the clip, far below it, and so small that epsilon counts; other constants.
@pytest.mark.parametrize("scale", [10.0, 0.01, 1e-5])
@pytest.mark.parametrize("constants", [{}, {"decay": 0.3, "clip": 0.5}])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-5)])
def test_steps_are_those_of_the_equations(constants, scale, dtype, tolerance):
  expected = start = random(0, 1.0)
  ours, theirs = variables(expected, dtype), reference.AdamWeightDecay(0.125, **constants, decayed=DECAYED)
  # The rate is exact in float32, which it is kept in.
  optimizer = AdamWeightDecay(0.125, constants.get("decay", 0.01), constants.get("clip", 1.0))
  optimizer.build(list(ours.values()))
  for step in range(STEPS):
    gradients = random(step + 1, scale)
    expected = theirs.step(expected, gradients)
    optimizer.apply_gradients([(tf.constant(gradients[name], dtype), ours[name]) for name in SHAPES])
  assert int(optimizer.iterations) == STEPS
  for name, value in ours.items():
    moved = np.abs(expected[name] - start[name]).max()
    assert moved > 0.1 or scale == 1e-5
    np.testing.assert_allclose(value, expected[name], atol=tolerance * moved, err_msg=name)


@pytest.mark.parametrize("jit_compile", [None, True], ids=["plain", "XLA"])
def test_steps_of_a_schedule_in_a_graph(jit_compile):
  """Also after a restart, which sets steps and moments to 0."""
  rates = [0.0, 0.125, 0.25, 0.125, 0.0625, 0.5]
  start = random(0, 1.0)
  ours = variables(start, "float64")
  optimizer = AdamWeightDecay(lambda step: tf.gather(rates, step))
  optimizer.build(list(ours.values()))

  @tf.function(autograph=False, jit_compile=jit_compile)
  def step(gradients):
    optimizer.apply_gradients([(gradients[name], ours[name]) for name in SHAPES])

  for _ in range(2):
    theirs, expected = reference.AdamWeightDecay(0.0, decayed=DECAYED), start
    for name, variable in ours.items():
      variable.assign(start[name])
    for number, rate in enumerate(rates):
      theirs.learning_rate = rate
      gradients = random(number + 1, 1.0)
      expected = theirs.step(expected, gradients)
      step({name: tf.constant(value) for name, value in gradients.items()})
      assert optimizer.learning_rate.numpy() == rate
    for name, variable in ours.items():
      np.testing.assert_allclose(variable, expected[name], atol=1e-10, err_msg=name)
    optimizer.restart()


@pytest.mark.parametrize(("steps", "proportion", "warmup"), [(10, 0.3, 3), (10, 0.0, 0), (19, 0.1, 1), (4, 1.0, 4)])
def test_rises_and_falls_in_lines(steps, proportion, warmup):
  assert num_warmup_steps(steps, proportion) == warmup
  rate = WarmUpLinearDecay(2e-5, steps, warmup)
  expected = [2e-5 * step / warmup if step < warmup else 2e-5 * (1 - step / steps) for step in range(steps)]
  np.testing.assert_allclose([rate(step).numpy() for step in range(steps)], expected, rtol=1e-5, atol=1e-12)
  assert rate(steps).numpy() == 0.0


def test_pairs_of_one_query_start_from_both_sides():
  """Their first sentences, which start the flow as published, are all equal."""
  rows, _ = small.embeddings(BATCH := 8)
  query = np.repeat(rows[:1], BATCH, axis=0)
  expected = small.make_flow()
  expected.initialize(np.concatenate([query, rows]))
  _, flow = small.fit(EmbeddingPairs(query, rows), shuffle=False, flow_learning_rate=1e-9)
  np.testing.assert_allclose(flow.transform(rows), expected.transform(rows), atol=1e-6)
