"""The original's names and shapes: `Glow.tf1_variables` and `load_tf1_variables`."""

import numpy as np
import pytest

from bert_flow_tf.errors import FlowError
from bert_flow_tf.flow.glow import Glow
from tests.flow.cases import cone, config, tf1_weights
from tests.testing import rejected

STEP = "revnet_0/revnet_step_0"


def reversing(dtype="float32", **arguments):
  return Glow(config(n_levels=1, depth=1), 4, seed=0, dtype=dtype, **arguments)


def mixing():
  return Glow(config(n_levels=1, depth=1, permutation=False, coupling="affine", activation="gatu"), 4, seed=0)


def test_names_and_shapes_are_the_originals():
  def network(step, outputs, *hidden):
    shapes = {f"{step}/zeros/W": (1, 1, 5, outputs), f"{step}/zeros/b": (1, 1, 1, outputs)}
    shapes[f"{step}/zeros/logs"] = (1, outputs)
    for name, inputs in hidden:
      shapes[f"{step}/conv_block/{name}/W"] = (1, 1, inputs, 5)
      shapes[f"{step}/conv_block/{name}/actnorm/actnorm_center/b"] = (1, 1, 1, 5)
      shapes[f"{step}/conv_block/{name}/actnorm/actnorm_scale/logs"] = (1, 1, 1, 5)
    return shapes

  outer = {f"{STEP}/actnorm/actnorm_center/b": (1, 1, 1, 4), f"{STEP}/actnorm/actnorm_scale/logs": (1, 1, 1, 4)}
  permuting = {**outer, f"{STEP}/invertible/w": (4, 4)}
  permuting.update(network(f"{STEP}/additive/nn", 2, ("1_1", 2), ("1_2", 5)))
  assert {name: array.shape for name, array in reversing().tf1_variables().items()} == permuting
  lu = {f"{STEP}/invertible/{name}": (4, 4) for name in "PLU"}
  lu.update({f"{STEP}/invertible/{name}": (4,) for name in ("sign_S", "log_S")})
  lu.update(network(f"{STEP}/affine/nn", 4, ("1_1", 2), ("1_tanh", 5), ("1_sigm", 5)))
  assert {name: array.shape for name, array in mixing().tf1_variables().items()} == {**outer, **lu}


@pytest.mark.parametrize("prefix", ["", "bert/flow/"])
@pytest.mark.parametrize("make", [reversing, mixing])
def test_round_trip(make, prefix):
  flow = make()
  weights = {prefix + name: array.astype(np.float32) for name, array in tf1_weights(flow).items()}
  if make is reversing:
    weights[f"{prefix}{STEP}/invertible/w"] = np.eye(4, dtype=np.float32)[:, [2, 0, 3, 1]]
  flow.load_tf1_variables(weights)
  dumped = flow.tf1_variables()
  assert {prefix + name for name in dumped} == set(weights)
  for name, array in dumped.items():
    assert array.dtype == "float32"
    np.testing.assert_array_equal(array, weights[prefix + name])
  assert not flow.needs_initialization
  assert not flow.initialized


def test_loading_forgets_constant_dimensions():
  """The original has none: its weights are taken as they are, the scale of every dimension included."""
  flow = reversing("float64")
  u = cone(8, 4)
  u[:, 1] = 0.5
  flow.initialize(u)
  assert flow.constant_dimensions == [1]
  other = reversing("float64")
  weights = tf1_weights(other)
  for loaded in (flow, other):
    loaded.load_tf1_variables(weights)
  assert flow.constant_dimensions == []
  assert flow.initialized
  np.testing.assert_array_equal(flow.transform(u), other.transform(u))


B, W = f"{STEP}/actnorm/actnorm_center/b", f"{STEP}/invertible/w"


@pytest.mark.parametrize(
  ("make", "changes"),
  [
    (reversing, {B: None}),
    (reversing, {f"bert/flow/{B}": np.ones([1, 1, 1, 4])}),  # the same name again
    (reversing, {"adam_m": np.zeros(3)}),
    (reversing, {"revnet_1" + B[8:]: np.zeros(4), B: None}),
    (reversing, {B: np.zeros(4)}),
    (reversing, {B: [[[[0.0, np.nan, 0.0, 0.0]]]]}),
    (reversing, {B: np.full([1, 1, 1, 4], 1e300)}),
    (reversing, {B: np.full([1, 1, 1, 4], "one")}),
    (reversing, {B: np.full([1, 1, 1, 4], None)}),
    (reversing, {W: np.eye(5)}),
    (reversing, {W: np.eye(4)[[0, 0, 1, 2]]}),
    (reversing, {W: np.eye(4)[:, [0, 0, 1, 2]]}),
    (reversing, {W: np.full([4, 4], np.nan)}),
    (reversing, {W: np.linalg.qr(cone(4, 4))[0]}),
    (mixing, {f"{STEP}/invertible/P": np.eye(4)[[0, 0, 1, 2]]}),
    (mixing, {f"{STEP}/invertible/P": np.eye(4) * 0.5}),
    (mixing, {f"{STEP}/invertible/sign_S": np.array([1, -1, 0, 1.0])}),
    (mixing, {f"{STEP}/invertible/log_S": np.array([0, 0, -np.inf, 0])}),
  ],
)
def test_what_does_not_fit_is_one_error_and_changes_nothing(make, changes):
  flow = make()
  before = flow.tf1_variables()
  given = {**tf1_weights(flow), **changes}
  with rejected(FlowError, None):
    flow.load_tf1_variables({name: array for name, array in given.items() if array is not None})
  assert flow.needs_initialization
  for name, array in flow.tf1_variables().items():
    np.testing.assert_array_equal(array, before[name])


def test_a_name_given_twice_is_rejected():
  flow = reversing()
  weights = tf1_weights(flow)
  with rejected(FlowError, None):
    flow.load_tf1_variables({**weights, f"bert/flow/{B}": weights[B] + 1})
