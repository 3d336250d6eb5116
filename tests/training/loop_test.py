"""training/loop.py: steps, checkpoints, events and errors of a loop whose steps are plain numbers."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.training.loop import LoopResult, TrainingLoop


class Steps:
  """A loop of `total` steps on a weight that counts them; loss i is (10 i, -i) before step i."""

  def __init__(self, total, every, folder=None, summaries=None, bad=None):
    self.weight = tf.Variable(0.0)
    self.asked, self.saving, self.notes = [], [], []
    self._bad = bad
    self.loop = TrainingLoop(
      losses=["first", "second"],
      total=total,
      strategy=tf.distribute.get_strategy(),
      objects={"weight": [self.weight]},
      variables=[self.weight],
      trained=[self.weight],
      identity={"total": total},
      save_checkpoints_steps=every,
      checkpoint_folder=folder,
      summary_folder=summaries,
      show_progress=False,
    )
    self.loop.restore(lambda: self.weight.assign(100.0))

  def advance(self, step, count):
    self.asked.append((step, count))
    self.weight.assign_add(count)
    rows = np.array([[10.0 * i, -i] for i in range(step, step + count)])
    if self._bad in range(step, step + count):
      rows[self._bad - step, 1] = np.nan
    return rows

  def before_saving(self, step, losses):
    self.saving.append((step, losses[:, 0].tolist()))
    return {"dev": step / 2}

  def run(self, **arguments):
    note = lambda losses: self.notes.append(losses[-1].tolist()) or ""  # noqa: E731
    return self.loop.run(self.advance, note, before_saving=self.before_saving, **arguments)


def test_calls_end_at_checkpoints_and_at_the_last_step():
  steps = Steps(total=11, every=4)
  result = steps.run(steps_per_call=3)
  assert steps.asked == [(0, 3), (3, 1), (4, 3), (7, 1), (8, 3)]
  assert [step for step, _ in steps.saving] == [4, 8, 11]
  assert [losses for _, losses in steps.saving] == [[10.0 * i for i in range(step)] for step in (4, 8, 11)]
  assert steps.notes == [[10.0 * (end - 1), 1 - end] for end in (3, 4, 7, 8, 11)]
  np.testing.assert_array_equal(result.losses, [[10 * i, -i] for i in range(11)])
  assert (result.steps, result.first_step, steps.loop.step) == (11, 0, 11)
  assert [count for count, _ in result.calls] == [3, 1, 3, 1, 3]


def test_the_first_call_compiles_and_does_not_count():
  result = LoopResult(30, 0, np.zeros([30, 1]), ((10, 100.0), (10, 1.0), (5, 0.5)))
  assert result.seconds_per_step == pytest.approx(0.1)
  assert np.isnan(LoopResult(10, 0, np.zeros([10, 1]), ((10, 100.0),)).seconds_per_step)


def test_a_stopped_loop_resumes_from_its_last_checkpoint(tmp_path, caplog):
  caplog.set_level("INFO", "absl")
  first = Steps(8, 3, tmp_path)
  assert first.weight.numpy() == 100 and (tmp_path / "ckpt-0.index").exists()
  result = first.run(steps_per_call=2, stopped=lambda: first.weight.numpy() >= 105)
  assert (result.steps, len(result.losses)) == (5, 5) and "stopped early, at step 5 of 8" in caplog.text
  second = Steps(8, 3, tmp_path)
  assert (second.weight.numpy(), second.loop.step) == (103, 3)  # step 4 and 5 were not saved
  assert "resumed at step 3 of 8" in caplog.text
  result = second.run(steps_per_call=2)
  assert (result.steps, result.first_step) == (8, 3) and second.weight.numpy() == 108
  np.testing.assert_array_equal(result.losses[:, 0], np.arange(30, 80, 10))
  assert [step for step, _ in second.saving] == [6, 8]
  assert sorted(path.stem for path in tmp_path.glob("*.index")) == ["ckpt-6", "ckpt-8"]
  assert Steps(8, 3, tmp_path).run().losses.shape == (0, 2)


def test_what_initialized_the_weights_is_saved_before_the_first_step(tmp_path):
  Steps(8, 3, tmp_path).weight.assign(7.0)
  second = Steps(8, 3, tmp_path)
  second.loop.restore(lambda: pytest.fail("initialized again"))
  assert second.weight.numpy() == 100 and second.loop.step == 0


def test_events_have_each_loss_at_its_step_and_the_values_of_checkpoints(tmp_path):
  Steps(5, 2, summaries=tmp_path).run(steps_per_call=4)
  found = {}
  (file,) = tmp_path.iterdir()
  for event in tf.compat.v1.train.summary_iterator(str(file)):
    for value in event.summary.value:
      found[value.tag, event.step] = float(tf.make_ndarray(value.tensor))
  expected = {("first", i + 1): 10.0 * i for i in range(5)} | {("second", i + 1): -float(i) for i in range(5)}
  assert found == expected | {("dev", 2): 1.0, ("dev", 4): 2.0, ("dev", 5): 2.5}


def test_the_message_names_the_step_whose_loss_is_not_finite(tmp_path):
  bad = Steps(8, 3, tmp_path, bad=4)
  with pytest.raises(TrainingError, match=r"second is nan at step 5; .*ckpt-3"):
    bad.run(steps_per_call=2)
  with pytest.raises(TrainingError, match=r"second is nan at step 5; .* learning_rate"):
    Steps(8, 3, bad=4).run(steps_per_call=2)


def test_weights_are_looked_at_when_they_are_saved():
  steps = Steps(6, 3)

  def overflow(step, count):
    steps.weight.assign(np.inf)
    return np.zeros([count, 2])

  steps.advance = overflow
  with pytest.raises(TrainingError, match="at step 3"):
    steps.run()
