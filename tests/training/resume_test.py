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
    small.fit(epochs=EPOCHS, checkpoint_folder=folder, save_checkpoints_steps=5, **arguments)
  monkeypatch.undo()


def test_resumed_fit_is_the_same_to_the_bit(whole, tmp_path, monkeypatch):
  step = 15
  stopped_fit(tmp_path, monkeypatch, step)
  result, flow = small.fit(epochs=EPOCHS, checkpoint_folder=tmp_path, save_checkpoints_steps=5)
  expected, fitted = whole
  assert (result.first_step, result.steps, result.initialization_rows) == (step, 24, 0)
  small.assert_same_weights(flow, fitted)
  np.testing.assert_array_equal(result.losses, expected.losses[step:])


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


def test_stopped_again_and_again_and_by_other_chunks(whole, tmp_path, monkeypatch):
  stopped_fit(tmp_path, monkeypatch, 5)
  stopped_fit(tmp_path, monkeypatch, 10)
  result, flow = small.fit(epochs=EPOCHS, checkpoint_folder=tmp_path, save_checkpoints_steps=3)
  assert result.first_step == 10
  small.assert_same_weights(flow, whole[1])


def test_finished_fit_is_loaded_and_not_made_again(whole, tmp_path):
  small.fit(epochs=EPOCHS, checkpoint_folder=tmp_path)
  result, flow = small.fit(epochs=EPOCHS, checkpoint_folder=tmp_path)
  assert (result.first_step, result.steps, len(result.losses)) == (24, 24, 0)
  small.assert_same_weights(flow, whole[1])


def test_more_than_the_shuffle_buffer(tmp_path, monkeypatch):
  """The order is resumed too if the pairs do not fit into the buffer."""
  source = EmbeddingPairs(*small.embeddings(3000))
  arguments = {"train_batch_size": 250}
  expected, fitted = small.fit(source, **arguments)
  interrupt_at(monkeypatch, 8)
  with pytest.raises(Interrupt):
    small.fit(source, checkpoint_folder=tmp_path, save_checkpoints_steps=4, **arguments)
  monkeypatch.undo()
  result, flow = small.fit(source, checkpoint_folder=tmp_path, save_checkpoints_steps=4, **arguments)
  assert (result.first_step, expected.steps) == (8, 12)
  small.assert_same_weights(flow, fitted)


def test_glorot_flow(tmp_path, monkeypatch):
  expected = small.make_flow(actnorm_init="glorot")
  small.fit(epochs=EPOCHS, flow=expected)
  stopped_fit(tmp_path, monkeypatch, 10, flow=small.make_flow(actnorm_init="glorot"))
  flow = small.make_flow(actnorm_init="glorot")
  result, _ = small.fit(epochs=EPOCHS, flow=flow, checkpoint_folder=tmp_path)
  assert result.first_step == 10
  small.assert_same_weights(flow, expected)


def test_constant_dimension_is_remembered(tmp_path, monkeypatch):
  """Its scale is held at 1 by a weight that is not trained."""
  a, b = small.embeddings()
  a[:, 1] = b[:, 1] = 0.25
  source = EmbeddingPairs(a, b)
  _, expected = small.fit(source, epochs=EPOCHS)
  stopped_fit(tmp_path, monkeypatch, 10, source=source)
  _, flow = small.fit(source, epochs=EPOCHS, checkpoint_folder=tmp_path)
  assert flow.constant_dimensions == expected.constant_dimensions == [1]
  small.assert_same_weights(flow, expected)
