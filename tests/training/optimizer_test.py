"""training/optimizer.py: against a float64 NumPy step written from the equations."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.training.optimizer import AdamWeightDecay, WarmUpLinearDecay, num_warmup_steps
from tests.flow import reference

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
  for step in range(STEPS):
    gradients = random(step + 1, scale)
    expected = theirs.step(expected, gradients)
    optimizer.apply_gradients([(tf.constant(gradients[name], dtype), ours[name]) for name in SHAPES])
  assert int(optimizer.iterations) == STEPS
  for name, value in ours.items():
    moved = np.abs(expected[name] - start[name]).max()
    assert moved > 0.1 or scale == 1e-5
    np.testing.assert_allclose(value, expected[name], atol=tolerance * moved, err_msg=name)


@pytest.mark.parametrize(("steps", "proportion", "warmup"), [(10, 0.3, 3), (10, 0.0, 0), (19, 0.1, 1), (4, 1.0, 4)])
def test_rises_and_falls_in_lines(steps, proportion, warmup):
  assert num_warmup_steps(steps, proportion) == warmup
  rate = WarmUpLinearDecay(2e-5, steps, warmup)
  expected = [2e-5 * step / warmup if step < warmup else 2e-5 * (1 - step / steps) for step in range(steps)]
  np.testing.assert_allclose([rate(step).numpy() for step in range(steps)], expected, rtol=1e-5, atol=1e-12)
  assert rate(steps).numpy() == 0.0
