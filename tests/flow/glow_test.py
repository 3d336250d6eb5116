"""`Glow` against the equations (`reference.py`), its density, its initialisation and its arguments."""

import math

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.training.optimizer import AdamWeightDecay
from tests.flow import cases, reference
from tests.flow.cases import cone, config, fresh, tf1_weights

# (dim, permutation, changes of `cases.config`): every option with every other at least once, unequal widths.
SHAPES = [
  (8, "reverse", {"n_levels": 1, "depth": 1, "coupling_width": 3}),
  (6, "random", {"n_levels": 1, "depth": 3, "activation": "gatu"}),
  (12, "random", {"n_levels": 2, "depth": 2, "coupling_width": 7}),
  (16, "reverse", {"n_levels": 3, "depth": 1}),
  (24, "random", {"n_levels": 3, "depth": 1, "coupling": "affine", "coupling_width": 9}),
  (8, "reverse", {"n_levels": 2, "depth": 1, "coupling": "affine", "activation": "gatu"}),
  (16, "reverse", {"n_levels": 3, "depth": 1, "permutation": False}),
  (12, "reverse", {"n_levels": 2, "depth": 1, "permutation": False, "coupling": "affine", "activation": "gatu"}),
  (4, "random", {"n_levels": 2, "depth": 1, "coupling_width": 1}),
  (2, "reverse", {"n_levels": 1, "depth": 1, "coupling": "affine"}),
]


@pytest.mark.parametrize(("dim", "permutation", "changes"), SHAPES, ids=[str(shape) for shape in SHAPES])
def test_flow_is_its_equations(dim, permutation, changes):
  """Latents, inverse, likelihood, bits and data-dependent initialisation, to float64's last digits."""
  settings = config(**changes)
  flow = Glow(settings, dim, permutation=permutation, seed=5, dtype="float64")
  weights, u = tf1_weights(flow, seed=1), cone(6, dim, seed=2)
  flow.load_tf1_variables(weights)
  z, _ = reference.forward(settings.to_dict(), weights, u)
  np.testing.assert_allclose(flow.transform(u), z, rtol=1e-10, atol=1e-10)
  np.testing.assert_allclose(flow.inverse(z), u, rtol=1e-10, atol=1e-10)
  np.testing.assert_allclose(reference.inverse(settings.to_dict(), weights, z), u, rtol=1e-10, atol=1e-10)
  bits = flow.bits_per_dim(u).numpy()
  np.testing.assert_allclose(bits, reference.bits_per_dim(settings.to_dict(), weights, u), rtol=1e-10)
  flow.initialize(u)
  expected = reference.initialize(settings.to_dict(), weights, u)
  for name, array in flow.tf1_variables().items():
    np.testing.assert_allclose(array, expected[name], rtol=1e-10, atol=1e-10, err_msg=name)


def test_permutations_of_the_reference_are_what_they_are_called():
  """`reference` takes the permutation from the flow: here it is looked at."""
  reverse = Glow(config(), 8).tf1_variables()
  random = Glow(config(), 8, permutation="random", seed=0).tf1_variables()
  names = [name for name in reverse if name.endswith("invertible/w")]
  assert len(names) == 4
  for name in names:
    dim = len(reverse[name])
    np.testing.assert_array_equal(reverse[name], np.eye(dim)[::-1])
    np.testing.assert_array_equal(random[name].sum(axis=0), np.ones(dim))
    np.testing.assert_array_equal(random[name].sum(axis=1), np.ones(dim))
  assert len({random[name].argmax(axis=0)[:4].tobytes() for name in names}) > 1


def test_fitting_follows_the_equations():
  """Initialise, then clipped AdamWeightDecay steps on the sum of two means; all gradients by finite differences."""
  settings = config(n_levels=2, depth=1, coupling_width=3)
  flow = Glow(settings, 4, seed=3, dtype="float64")
  weights = tf1_weights(flow, seed=4)
  flow.load_tf1_variables(weights)
  sides = [cone(5, 4, seed) for seed in (0, 1)]
  flow.initialize(sides[0])
  weights = reference.initialize(settings.to_dict(), weights, sides[0])
  ours, theirs = AdamWeightDecay(0.02), reference.AdamWeightDecay(0.02)
  norms = []
  for _ in range(3):
    gradients = reference.gradient(lambda w: reference.loss(settings.to_dict(), w, *sides), weights)
    norms.append(np.sqrt(sum(np.sum(g**2) for g in gradients.values())))
    with tf.GradientTape() as tape:
      loss = sum(tf.reduce_mean(flow.bits_per_dim(side)) for side in sides)
    np.testing.assert_allclose(loss, reference.loss(settings.to_dict(), weights, *sides), rtol=1e-7)
    found = tape.gradient(loss, flow.trainable_variables)
    ours.apply_gradients(zip(found, flow.trainable_variables, strict=True))
    weights = theirs.step(weights, gradients)
  for name, array in flow.tf1_variables().items():
    np.testing.assert_allclose(array, weights[name], rtol=0, atol=1e-6, err_msg=name)
  assert max(norms) > 1, "clipping was never seen"


# ---- density


@pytest.fixture(scope="module")
def plane():
  """A flow of two dimensions with an affine coupling and a learned mixing: nothing about its density is trivial."""
  flow = Glow(config(n_levels=1, depth=2, coupling="affine", permutation=False), 2, seed=0, dtype="float64")
  return cases.randomize(flow, seed=3)


def test_log_prob_is_bits_in_nats(plane):
  u = cone(7, 2)
  expected = -plane.bits_per_dim(u) * 2 * math.log(2)
  np.testing.assert_allclose(plane.distribution.log_prob(fresh(u)), expected, rtol=1e-12)


def test_samples_come_from_the_density(plane):
  """The density integrates to one, its moments are those of samples, and samples transform to standard normal."""
  samples = plane.distribution.sample(20000, seed=1).numpy()
  assert samples.shape == (20000, 2)
  z = plane.transform(samples).numpy()
  np.testing.assert_allclose(z.mean(axis=0), 0, atol=0.03)
  np.testing.assert_allclose(np.cov(z.T), np.eye(2), atol=0.05)
  np.testing.assert_allclose((z**4).mean(axis=0), 3, atol=0.25)
  low, high = samples.min(axis=0) - 1, samples.max(axis=0) + 1
  axes = [np.linspace(*bounds, 500) for bounds in zip(low, high, strict=True)]
  grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
  mass = np.exp(plane.distribution.log_prob(grid)) * np.prod([axis[1] - axis[0] for axis in axes])
  np.testing.assert_allclose(mass.sum(), 1, atol=1e-3)
  np.testing.assert_allclose(mass @ grid, samples.mean(axis=0), atol=0.03 * samples.std())


def test_sample_shapes_and_leading_dimensions(plane):
  distribution = plane.distribution
  assert distribution.event_shape == [2]
  assert distribution.batch_shape == []
  assert distribution.sample(seed=1).shape == [2]
  block = distribution.sample([3, 4], seed=1)
  assert block.shape == [3, 4, 2]
  flat = plane.distribution.log_prob(tf.reshape(block, [12, 2]))
  np.testing.assert_allclose(tf.reshape(plane.distribution.log_prob(fresh(block)), [12]), flat, rtol=1e-10)


def test_new_weights_give_new_results_for_the_same_tensor():
  """Bijectors remember results by tensor: neither a flow nor its density may answer from that memory."""
  flow = cases.randomize(Glow(config(n_levels=1, depth=1), 4, seed=0, dtype="float64"))
  u = tf.constant(cone(3, 4))
  calls = [flow, flow.transform, flow.inverse, flow.bits_per_dim, lambda x: flow.distribution.log_prob(x)]
  before = [call(u).numpy() for call in calls]
  flow.levels[0][0][0].logs.assign_add([0.3] * 4)
  for call, old in zip(calls, before, strict=True):
    assert np.abs(call(u).numpy() - old).max() > 1e-3
  # The result is fed back as the very tensor that the bijector gave: it must be computed, not remembered.
  z = flow.transform(u)
  flow.levels[0][0][0].b.assign_add([1.0] * 4)
  assert np.abs(flow.inverse(z).numpy() - u.numpy()).max() > 0.5


# ---- initialisation


def constant_columns(columns, rows=32, dim=8):
  u = cone(rows, dim, seed=7)
  u[:, columns] = np.linspace(-0.8, 90.0, len(columns))
  return u


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("changes", [{}, {"coupling": "affine", "permutation": False}])
def test_initialisation_standardises_what_every_actnorm_gives(dtype, changes):
  flow = Glow(config(n_levels=1, depth=2, **changes), 8, seed=0, dtype=dtype)
  assert flow.needs_initialization
  assert not flow.initialized
  batch = cone(64, 8)
  flow.initialize(batch)
  assert flow.initialized
  assert not flow.needs_initialization
  x = fresh(batch, dtype)
  for layer in (layer for step in flow.levels[0] for layer in step):
    x = layer(fresh(x))
    if layer.name == "actnorm":
      np.testing.assert_allclose(tf.reduce_mean(x, axis=0), np.zeros(8), atol=1e-5)
      np.testing.assert_allclose(tf.math.reduce_std(x, axis=0), np.ones(8), atol=1e-4)


def test_second_initialisation_is_refused_wherever_the_weights_went(tmp_path):
  u = cone(8, 4)
  flow = Glow(config(n_levels=1, depth=1), 4, seed=0)
  flow.initialize(u)
  before = flow.tf1_variables()
  flow.save(tmp_path / "flow")
  checkpoint = tf.train.Checkpoint(flow=flow).save(str(tmp_path / "checkpoint"))
  restored = Glow(config(n_levels=1, depth=1), 4, seed=1)
  tf.train.Checkpoint(flow=restored).restore(checkpoint).assert_consumed()
  for again in (flow, Glow.load(tmp_path / "flow"), restored):
    assert again.initialized
    with pytest.raises(FlowError, match="already initialized"):
      again.initialize(u + 1)
    for name, array in again.tf1_variables().items():
      np.testing.assert_array_equal(array, before[name])


def test_glorot_flow_needs_no_data():
  flow = Glow(config(n_levels=1, depth=1), 4, "glorot", seed=0)
  assert not flow.needs_initialization
  assert not flow.initialized
  with pytest.raises(FlowError, match="glorot"):
    flow.initialize(cone(8, 4))


@pytest.mark.parametrize(
  "rows",
  [
    cone(1, 4),
    cone(0, 4),
    np.where(np.arange(20).reshape(5, 4) == 9, np.nan, cone(5, 4)),
    np.where(np.arange(20).reshape(5, 4) == 13, -np.inf, cone(5, 4)),
    np.repeat(cone(1, 4), 6, axis=0),
    cone(5, 6),
    cone(5, 4)[0],
    cone(6, 4).reshape(2, 3, 4),
    1.0,
    np.full([5, 4], "0.5"),
    [["a", "b", "c", "d"]] * 5,
    [[1.0, 2.0, 3.0, 4.0], [1.0]],
    np.array([[object()] * 4] * 5),
    None,
  ],
)
def test_initialization_rejects_and_changes_nothing(rows):
  flow = Glow(config(n_levels=1, depth=1), 4, seed=0)
  before = flow.tf1_variables()
  with pytest.raises(FlowError) as caught:
    flow.initialize(rows)
  assert caught.value.argument == "embeddings" and "\n" not in str(caught.value)
  assert flow.needs_initialization
  for name, array in flow.tf1_variables().items():
    np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("call", ["transform", "inverse", "bits_per_dim"])
def test_wrong_inputs_are_refused_in_one_line(call):
  flow = Glow(config(n_levels=1, depth=1), 4, seed=0)
  for wrong in (cone(5, 6), cone(5, 4)[0], [["a"] * 4], tf.constant([["a"] * 4]), None, "abcd", [[1.0], [1.0, 2.0]]):
    with pytest.raises(FlowError, match="shape") as caught:
      getattr(flow, call)(wrong)
    assert "\n" not in str(caught.value)


def test_input_types_and_empty_batches():
  flow = cases.randomize(Glow(config(n_levels=1, depth=1), 4, seed=0))
  u = np.round(cone(3, 4) * 10)
  expected = flow.transform(u)
  assert expected.dtype == "float32"
  for same in (u.tolist(), u.astype(np.int64), u.astype(np.float16), tf.constant(u), tf.Variable(u, dtype=tf.float32)):
    np.testing.assert_array_equal(flow.transform(same), expected)
  assert flow.transform(u[:0]).shape == [0, 4]
  assert flow.bits_per_dim(u[:0]).shape == [0]


def test_constant_dimensions_keep_scale_one_and_are_named_once(caplog):
  logging.get_absl_logger().propagate = True
  flow = Glow(config(n_levels=2, depth=1), 8, seed=0)
  with caplog.at_level("WARNING"):
    flow.initialize(constant_columns([1, 4, 6]))
  messages = [record.getMessage() for record in caplog.records if "no variance" in record.getMessage()]
  assert messages == ["3 of 8 embedding dimensions have no variance and keep scale 1: index 1, 4, 6"]
  assert flow.constant_dimensions == [1, 4, 6]
  assert Glow(config(n_levels=1, depth=1), 8).constant_dimensions == []
  logs = flow.levels[0][0][0].logs.numpy()
  np.testing.assert_array_equal(logs[[1, 4, 6]], 0)
  assert np.all(logs[[0, 2, 3, 5, 7]] != 0)
  # A scale of 1 means: what a constant dimension is moved by arrives as it is.
  probe = constant_columns([1, 4, 6])
  z = flow.levels[0][0][0](fresh(probe, "float32")).numpy()
  np.testing.assert_allclose(z[:, [1, 4, 6]], 0, atol=1e-5)
  np.testing.assert_allclose(z[:, [0, 2, 3, 5, 7]].std(axis=0), 1, atol=1e-3)


@pytest.mark.parametrize(("offset", "constant"), [(0.0, False), (1.0, False), (300.0, True)])
def test_what_counts_as_constant_grows_with_the_magnitude(offset, constant):
  """A spread of 1e-5 is a spread around 0 and rounding around 300, whose neighbour in float32 is 3e-5 away."""
  u = cone(64, 4).astype(np.float32)
  u[:, 2] = offset + 1e-5 * np.random.default_rng(0).standard_normal(64)
  flow = Glow(config(n_levels=1, depth=1), 4, seed=0)
  flow.initialize(u)
  assert flow.constant_dimensions == ([2] if constant else [])


@pytest.mark.parametrize("columns", [[0, 2, 5, 7], list(range(8))])
def test_fitting_with_constant_dimensions_stays_finite(columns):
  """All dimensions constant up to rounding included: rows that are exactly alike are refused before."""
  u = constant_columns(columns, rows=64).astype(np.float32)
  if len(columns) == 8:
    u[::2] *= np.float32(1 + 2e-7)
  flow = Glow(config(n_levels=2, depth=1), 8, seed=0)
  flow.initialize(u[:32])
  assert flow.constant_dimensions == columns
  optimizer = AdamWeightDecay(0.05)
  optimizer.build(flow.trainable_variables)
  first = flow.levels[0][0][0]

  @tf.function(autograph=False)
  def fit(u, steps):
    def step(index, losses):
      with tf.GradientTape() as tape:
        loss = tf.reduce_mean(flow.bits_per_dim(u))
      optimizer.apply_gradients(
        zip(tape.gradient(loss, flow.trainable_variables), flow.trainable_variables, strict=True)
      )
      return index + 1, losses.write(index, loss)

    losses = tf.TensorArray(tf.float32, steps, element_shape=[])
    return tf.while_loop(lambda index, _: index < steps, step, [0, losses])[1].stack()

  losses = fit(tf.constant(u), tf.constant(400)).numpy()
  assert np.isfinite(losses).all()
  # The likelihood of a constant at scale 1 is bounded: 1/2 log2(2 pi) bits a dimension, no gain from the scale.
  assert losses.min() > -6
  if len(columns) == 8:
    assert losses.min() > 0.5 * math.log2(2 * math.pi) - 0.02
  scale = tf.exp(3 * first.logs * first.varying).numpy()
  np.testing.assert_array_equal(scale[columns], 1)
  np.testing.assert_array_equal(first.logs.numpy()[columns], 0)


def test_constant_dimensions_survive_save_and_checkpoint(tmp_path):
  flow = Glow(config(n_levels=1, depth=1), 8, seed=0)
  flow.initialize(constant_columns([2, 3]))
  flow.save(tmp_path / "flow")
  checkpoint = tf.train.Checkpoint(flow=flow).save(str(tmp_path / "checkpoint"))
  restored = Glow(config(n_levels=1, depth=1), 8, seed=1)
  tf.train.Checkpoint(flow=restored).restore(checkpoint).assert_consumed()
  for again in (Glow.load(tmp_path / "flow"), restored):
    assert again.constant_dimensions == [2, 3]


# ---- arguments and seeds


@pytest.mark.parametrize(
  ("arguments", "error"),
  [
    *(({"config": value}, ConfigError) for value in ({}, None)),
    ({"actnorm_init": "zeros"}, ConfigError),
    *(({"permutation": value}, ConfigError) for value in ("shuffle", True)),
    ({"permutation": "random", "config": config(permutation=False)}, ConfigError),
    *(({"dtype": value}, ConfigError) for value in ("float16", "bfloat16")),
    *(({"seed": value}, ConfigError) for value in (-1, "1", 1.5)),
    *(({"dim": value}, FlowError) for value in (7, 6, 2, 0, -8, 8.0, True, None)),
    ({"dim": 8, "config": config(n_levels=20000)}, FlowError),
  ],
)
def test_arguments_are_checked_by_name(arguments, error):
  with pytest.raises(error) as caught:
    Glow(**{"config": config(), "dim": 8, **arguments})
  argument = next(iter(arguments))
  assert caught.value.argument == argument and str(caught.value).startswith(argument)


def test_seeds_reproduce_and_differ():
  def weights(**arguments):
    return Glow(config(depth=1, n_levels=2), 8, "glorot", permutation="random", **arguments).tf1_variables()

  first, same, other, unseeded = weights(seed=1), weights(seed=1), weights(seed=2), weights()
  for name, array in first.items():
    np.testing.assert_array_equal(array, same[name])
    if "zeros" not in name and array.size > 16:
      assert not np.array_equal(array, other[name]), name
      assert not np.array_equal(array, unseeded[name]), name
  drawn = [array.ravel()[:4] for name, array in first.items() if "zeros" not in name and "invertible" not in name]
  assert len({array.tobytes() for array in drawn}) == len(drawn), "two weights were drawn from one seed"


def test_any_name_will_do():
  flow = Glow(config(n_levels=1, depth=1), 4, seed=0, name="1st")
  np.testing.assert_array_equal(flow(fresh(cone(2, 4), "float32")), flow.transform(cone(2, 4)))


def test_numpy_arguments_can_be_saved(tmp_path):
  flow = Glow(config(n_levels=1, depth=1), np.int64(4), seed=np.int64(3))
  flow.save(tmp_path / "flow")
  assert Glow.load(tmp_path / "flow").settings() == flow.settings()


def test_settings_make_the_same_flow():
  flow = Glow(config(n_levels=1, depth=1), 8, "glorot", "random", 3, "float64")
  again = Glow.from_config(flow.get_config())
  for name, array in flow.tf1_variables().items():
    np.testing.assert_array_equal(array, again.tf1_variables()[name])


# ---- dropout


def test_coupling_dropout_only_where_a_seed_is_given():
  flow = cases.randomize(Glow(config(n_levels=1, coupling_dropout=0.5), 8, seed=0, dtype="float64"))
  plain = Glow(config(n_levels=1), 8, seed=1, dtype="float64")
  plain.load_tf1_variables(flow.tf1_variables())
  u = cone(6, 8)
  np.testing.assert_array_equal(flow.transform(u), plain.transform(u))
  evaluated = flow.bits_per_dim(u).numpy()
  np.testing.assert_array_equal(evaluated, plain.bits_per_dim(u))
  seeds = [tf.constant([1, 2]), tf.constant([1, 3])]
  first, again, other = (flow.bits_per_dim(u, seed).numpy() for seed in (seeds[0], seeds[0], seeds[1]))
  np.testing.assert_array_equal(first, again)
  assert np.abs(first - other).max() > 1e-3
  assert np.abs(first - evaluated).max() > 1e-3
  np.testing.assert_array_equal(plain.bits_per_dim(u, seeds[0]), evaluated)  # rate 0
