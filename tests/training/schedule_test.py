import numpy as np
import pytest

from bert_flow_tf.training.optimizer import WarmUpLinearDecay


@pytest.mark.parametrize(("steps", "proportion", "warmup"), [(10, 0.3, 3), (10, 0.0, 0), (7, 0.1, 0), (4, 1.0, 4)])
def test_rises_and_falls_in_lines(steps, proportion, warmup):
  rate = WarmUpLinearDecay(2e-5, steps, int(steps * proportion))
  expected = [2e-5 * step / warmup if step < warmup else 2e-5 * (1 - step / steps) for step in range(steps)]
  np.testing.assert_allclose([rate(step).numpy() for step in range(steps)], expected, rtol=1e-5, atol=1e-12)
  assert rate(steps).numpy() == 0.0
  again = WarmUpLinearDecay(**rate.get_config())
  assert again(1).numpy() == rate(1).numpy()
