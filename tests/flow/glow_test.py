"""`Glow` against the equations (`reference.py`), its density and its arguments."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import bijectors as tfb
from tensorflow_probability import distributions as tfd

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.chain import chain_bijector, dropout_seeds, forward_and_log_det
from bert_flow_tf.flow.glow import Glow
from tests.flow import reference
from tests.flow.cases import cone, config, fresh, randomize, tf1_weights
from tests.testing import rejected

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
  """Latents, inverse, likelihood, bits and data-dependent initialization, to float64's last digits."""
  settings = config(**changes)
  flow = Glow(settings, dim, permutation=permutation, seed=5, dtype="float64")
  weights, u = tf1_weights(flow, seed=1), cone(6, dim, seed=2)
  flow.load_tf1_variables(weights)
  z, _ = reference.forward(settings.to_dict(), weights, u)
  np.testing.assert_allclose(flow.transform(u), z, rtol=1e-10, atol=1e-10)
  np.testing.assert_allclose(flow.inverse(z), u, rtol=1e-10, atol=1e-10)
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


# ---- density


@pytest.fixture(scope="module")
def plane():
  """Returns a flow of two dimensions whose density is not trivial: affine coupling, learned mixing."""
  flow = Glow(config(n_levels=1, depth=2, coupling="affine", permutation=False), 2, seed=0, dtype="float64")
  return randomize(flow, seed=3)


def test_samples_come_from_the_density(plane):
  """The density integrates to one, samples have its moments, and they transform to standard normal."""
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


def test_new_weights_give_new_results_for_the_same_tensor():
  """Bijectors of TFP remember results by tensor: no flow, kept density or kept bijector may answer from that memory."""
  flow = randomize(Glow(config(n_levels=1, depth=1), 4, seed=0, dtype="float64"))
  u = tf.constant(cone(3, 4))
  kept = flow.distribution
  inverted = tfb.Invert(tfb.Chain([flow.make_bijector()]))  # a chain of the user's needs a copy
  own = tfd.TransformedDistribution(kept.distribution, inverted)
  densities = [kept.log_prob, kept.prob, tf.function(kept.log_prob), lambda u: own.log_prob(tf.identity(u))]
  calls = [flow, flow.transform, flow.inverse, flow.bits_per_dim, *densities]
  for part in (flow, flow.levels[0][0][0]):
    bijector = part.make_bijector()
    log_dets = (bijector.forward_log_det_jacobian, bijector.inverse_log_det_jacobian)
    calls += [bijector.forward, bijector.inverse, *(functools.partial(log_det, event_ndims=1) for log_det in log_dets)]
    density = tfd.TransformedDistribution(kept.distribution, tfb.Invert(bijector))
    calls += [density.log_prob, bijector(kept.distribution).log_prob]
  assert isinstance(flow.make_bijector(), tfb.Chain)
  before = [call(u) for call in calls]  # kept alive, as TFP forgets what nobody else holds
  flow.levels[0][0][0].logs.assign_add([0.3] * 4)
  for call, old in zip(calls, before, strict=True):
    assert np.abs(call(u).numpy() - old.numpy()).max() > 1e-3 * np.abs(old).max()
  # A new flow and a new tensor have no memory.
  expected = flow.copy().distribution.log_prob(fresh(u))
  for density, value in zip(densities, (expected, tf.exp(expected), expected, expected), strict=True):
    np.testing.assert_allclose(density(u), value, rtol=1e-12)
  # The result is fed back as the very tensor that the bijector gave: it must be computed, not remembered.
  z = flow.transform(u)
  flow.levels[0][0][0].b.assign_add([1.0] * 4)
  assert np.abs(flow.inverse(z).numpy() - u.numpy()).max() > 0.5


def test_training_by_a_kept_density():
  """Gradients on one tensor, step by step, are those of the loss, which has no memory."""
  flow, u = (
    randomize(Glow(config(n_levels=2, depth=1, coupling="affine"), 4, seed=0, dtype="float64")),
    tf.constant(cone(5, 4)),
  )
  kept, held = flow.distribution, []
  for _ in range(3):
    found = []
    for loss in (
      lambda: -tf.reduce_mean(kept.log_prob(u)),
      lambda: tf.reduce_mean(flow.bits_per_dim(u)) * 4 * np.log(2),
    ):
      with tf.GradientTape() as tape:
        value = loss()
      found.append([value, *tape.gradient(value, flow.trainable_variables)])
    for value, expected in zip(*found, strict=True):
      np.testing.assert_allclose(value, expected, rtol=1e-8, atol=1e-10)
    held.append(kept.bijector.inverse(u))
    for weight, gradient in zip(flow.trainable_variables, found[1][1:], strict=True):
      weight.assign_sub(0.05 * gradient)


@pytest.mark.parametrize("call", ["transform", "inverse", "bits_per_dim"])
def test_wrong_inputs_are_one_line(call):
  flow = Glow(config(n_levels=1, depth=1), 4, seed=0)
  missing = np.ma.masked_greater(cone(5, 4), 0.0)
  for wrong in (cone(5, 6), 1.0, [["a"] * 4], tf.constant([["a"] * 4]), None, "abcd", [[1.0], [1.0, 2.0]], missing):
    with rejected(FlowError, "embeddings"):
      getattr(flow, call)(wrong)


def test_input_types_and_empty_batches():
  flow = randomize(Glow(config(n_levels=1, depth=1), 4, seed=0))
  u = np.round(cone(3, 4) * 10)
  expected = flow.transform(u)
  assert expected.dtype == "float32"
  for same in (u.tolist(), u.astype(np.int64), u.astype(np.float16), tf.constant(u), tf.Variable(u, dtype=tf.float32)):
    np.testing.assert_array_equal(flow.transform(same), expected)
  assert flow.transform(u[:0]).shape == [0, 4]
  assert flow.bits_per_dim(u[:0]).shape == [0]


# ---- arguments and seeds


@pytest.mark.parametrize(
  ("arguments", "error"),
  [
    ({"config": None}, ConfigError),
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


def test_numpy_arguments_can_be_saved(tmp_path):
  flow = Glow(config(n_levels=1, depth=1), np.int64(4), seed=np.int64(3))
  flow.save(tmp_path / "flow")
  assert Glow.load(tmp_path / "flow").settings() == flow.settings()


# ---- dropout


def test_coupling_dropout_only_where_a_seed_is_given():
  flow = randomize(Glow(config(n_levels=1, coupling_dropout=0.5), 8, seed=0, dtype="float64"))
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


@pytest.mark.parametrize("seed", [None, [3, 4]])
@pytest.mark.parametrize("coupling", ["additive", "affine"])
def test_the_loop_is_the_chain(coupling, seed):
  """A fit computes the z, log-determinant and gradients of TensorFlow Probability's chain.

  Every coupling has a dropout mask of its own, the same one for output, log-determinant and inverse.
  """
  flow = Glow(
    config(n_levels=3, depth=1, coupling=coupling, coupling_dropout=0.2), 16, "glorot", "random", 1, "float64"
  )
  randomize(flow)
  seed = None if seed is None else tf.constant(seed)
  u = cone(6, 16)

  def chain(x):
    bijector = chain_bijector(flow.levels, 16, seed)
    return bijector.forward(x), bijector.forward_log_det_jacobian(x, event_ndims=1)

  found = []
  for both in (chain, lambda x: forward_and_log_det(flow.levels, x, dropout_seed=seed)):
    with tf.GradientTape() as tape:
      z, log_det = both(fresh(u))
      loss = tf.reduce_sum(z**3) + tf.reduce_sum(tf.broadcast_to(log_det, [6]))
    found.append([z, tf.broadcast_to(log_det, [6]), *tape.gradient(loss, flow.trainable_variables)])
  for expected, value in zip(*found, strict=True):
    np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)
  np.testing.assert_allclose(chain_bijector(flow.levels, 16, seed).inverse(fresh(found[0][0])), u, atol=1e-10)
  seeds = [
    None if layer_seed is None else tuple(layer_seed.numpy()) for layer_seed in itertools.islice(dropout_seeds(seed), 3)
  ]
  assert len(set(seeds)) == (1 if seed is None else 3)
