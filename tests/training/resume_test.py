"""A resumed fit ends with the weights of an uninterrupted one."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.training.optimizer import AdamWeightDecay
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
  assert (result.first_step, result.steps, result.initialization_rows) == (steps[-1], expected.steps, 0)
  assert flow.constant_dimensions == fitted.constant_dimensions
  small.assert_same_weights(flow, fitted)
  np.testing.assert_array_equal(result.losses, expected.losses[steps[-1] :])


def test_checkpoints_hold_an_optimizer_of_single_weights(whole, tmp_path, monkeypatch):
  """As those of earlier versions: such an optimizer restores one, and the fit resumes what it saves."""
  stopped_fit(tmp_path, monkeypatch, 15)
  flow, step, optimizer = small.make_flow(), tf.Variable(0, dtype=tf.int64), AdamWeightDecay(0.5)
  optimizer.build(flow.trainable_variables)
  checkpoint = tf.train.Checkpoint(flow=flow, optimizer=optimizer, step=step)
  checkpoint.restore(str(tmp_path / "ckpt-15")).assert_consumed()
  assert (int(step), int(optimizer.iterations), float(optimizer.learning_rate)) == (15, 15, np.float32(0.01))
  assert all(np.abs(moment).max() > 0 for moment in optimizer.variables[2:])
  for file in tmp_path.glob("ckpt-15.*"):
    file.unlink()
  checkpoint.write(str(tmp_path / "ckpt-15"))
  result, flow = small.fit(epochs=EPOCHS, checkpoint_folder=tmp_path, save_checkpoints_steps=5)
  assert result.first_step == 15
  small.assert_same_weights(flow, whole[1])
  np.testing.assert_array_equal(result.losses, whole[0].losses[15:])


def test_stopped_before_the_first_steps_are_saved(whole, tmp_path, monkeypatch):
  """Only the checkpoint of the initialization is there."""

  class Broken:
    def __init__(self, *unused):
      raise Interrupt

  monkeypatch.setattr("bert_flow_tf.training.loop.Progress", Broken)
  with pytest.raises(Interrupt):
    small.fit(epochs=EPOCHS, checkpoint_folder=tmp_path)
  monkeypatch.undo()
  result, flow = small.fit(epochs=EPOCHS, checkpoint_folder=tmp_path)
  assert (result.first_step, result.initialization_rows, len(result.losses)) == (0, 0, 24)
  small.assert_same_weights(flow, whole[1])


def test_finished_fit_is_loaded_and_not_made_again(whole, tmp_path):
  small.fit(epochs=EPOCHS, checkpoint_folder=tmp_path)
  result, flow = small.fit(epochs=EPOCHS, checkpoint_folder=tmp_path)
  assert (result.first_step, result.steps, len(result.losses)) == (24, 24, 0)
  small.assert_same_weights(flow, whole[1])
