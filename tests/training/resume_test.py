"""A resumed fit ends with the weights of an uninterrupted one."""

import numpy as np
import pytest

from bert_flow_tf.training.sources import EmbeddingPairs
from tests.training import small
from tests.training.interrupting import Interrupt, interrupt_at

EPOCHS = 3  # 24 steps


@pytest.fixture(scope="module")
def whole():
  """Returns the uninterrupted fit."""
  return small.fit(epochs=EPOCHS)


def stopped_fit(folder, monkeypatch, step, **arguments):
  """Fits until an exception after `step` steps."""
  interrupt_at(monkeypatch, step)
  with pytest.raises(Interrupt):
    small.fit(epochs=EPOCHS, checkpoint_folder=folder, **{"save_checkpoints_steps": 5, **arguments})
  monkeypatch.undo()


def embeddings_with_a_constant_dimension():
  a, b = small.embeddings()
  a[:, 1] = b[:, 1] = 0.25
  return EmbeddingPairs(a, b)


# {what is special: (steps at which it is stopped, source, settings, the flow's settings)}
STOPPED = {
  "plain": ([15], None, {}, {}),
  "again and again": ([5, 10], None, {}, {}),
  "other chunks": ([10], None, {"save_checkpoints_steps": 3}, {}),
  "a flow that is not initialized from data": ([10], None, {}, {"actnorm_init": "glorot"}),
  "a constant dimension, whose scale of 1 is no trained weight": ([10], embeddings_with_a_constant_dimension(), {}, {}),
  "more pairs than the shuffle buffer holds": (
    [20],
    EmbeddingPairs(*small.embeddings(3000)),
    {"train_batch_size": 250},
    {},
  ),
}


@pytest.mark.parametrize("case", STOPPED)
def test_resumed_fit_is_the_same_to_the_bit(case, whole, tmp_path, monkeypatch):
  steps, source, settings, flow_settings = STOPPED[case]
  expected, fitted = whole
  if source or flow_settings:
    expected, fitted = small.fit(source, EPOCHS, flow=small.make_flow(**flow_settings), **settings)
  for step in steps:
    flow = small.make_flow(**flow_settings)
    stopped_fit(
      tmp_path, monkeypatch, step, **{**settings, "source": source, "flow": flow, "save_checkpoints_steps": 5}
    )
  flow = small.make_flow(**flow_settings)
  settings = {"save_checkpoints_steps": 5, **settings}
  result, _ = small.fit(source, EPOCHS, flow=flow, checkpoint_folder=tmp_path, **settings)
  assert (result.first_step, result.steps) == (steps[-1], expected.steps)
  assert flow.constant_dimensions == fitted.constant_dimensions
  small.assert_same_weights(flow, fitted)
  np.testing.assert_array_equal(result.losses, expected.losses[steps[-1] :])
