"""Early stopping by dev's scores, of a variable that stands for the weights."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.training.early_stopping import EarlyStopping


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
    np.testing.assert_equal(stopping.look(step), scores[step - 1])
  assert (step, stopping.best) == (steps, best)
  stopping.take_best()
  assert weight.numpy() == weights
  assert (tmp_path / "best").exists() == ("as_published" not in arguments)  # nobody would read them
