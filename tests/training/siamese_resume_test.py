"""A siamese fit that was stopped at any step goes on to the same weights, losses and choice of the best on dev."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.training.early_stopping import EarlyStopping
from tests.training import small_siamese as small
from tests.training import two_replicas
from tests.training.interrupting import Interrupt, interrupt_at

# Dev's figure by step: a fit of 16 steps with 3 in a pass over the pairs stops at 12, step 6 being the best.
DEV = {3: 50.0, 6: 60.0, 9: float("nan"), 12: 60.0, 15: 99.0, 16: 99.0}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  return small.save(tmp_path_factory.mktemp("tiny") / "model")


class ListedScores(EarlyStopping):
  """Early stopping by the scores of `DEV`."""

  def look(self, step):
    self._evaluate = lambda: DEV[step]
    return super().look(step)


def fit(model, folder, **settings):
  """A fit with dropout, a flow and early stopping: its result, and all weights there are after it."""
  made = small.make(model, flow=True, flow_learning_rate=0.01, **settings)
  result = made.trainer(folder).fit(small.source(made.encoder, 24), 16 / 3, ListedScores(None, patience=2))
  weights = [*made.encoder.bert.model.weights, made.classifier.output_weights, *made.flow.weights]
  return result, [weight.numpy() for weight in weights]


def stopped_fit(model, folder, monkeypatch, step):
  """A fit that an exception stops after `step` steps."""
  interrupt_at(monkeypatch, step)
  with pytest.raises(Interrupt):
    fit(model, folder)
  monkeypatch.undo()


def assert_same(found, expected):
  for one, other in zip(found, expected, strict=True):
    np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_resumed_fit_is_the_same_to_the_bit(model, tmp_path, monkeypatch):
  """Stopped at 4; then at 8 and, the best weights being saved but not the fit itself, at 6."""
  expected, best = fit(model, tmp_path / "whole")
  assert (expected.steps, expected.planned_steps, expected.best) == (12, 16, (60.0, 6))
  folder = tmp_path / "stopped"
  stopped_fit(model, folder, monkeypatch, 4)
  names = (folder / "checkpoint").read_text()
  stopped_fit(model, folder, monkeypatch, 8)
  for file in folder.glob("ckpt-6.*"):
    file.unlink()
  (folder / "checkpoint").write_text(names)
  assert list((folder / "best").glob("ckpt-6.index"))
  result, weights = fit(model, folder)
  assert (result.first_step, result.steps, result.best) == (3, 12, (60.0, 6))
  np.testing.assert_array_equal(result.losses, expected.losses[3:])
  assert_same(weights, best)
  finished, weights = fit(model, folder)  # loaded and not made again
  assert (finished.first_step, finished.best, len(finished.losses)) == (12, (60.0, 6), 0)
  assert_same(weights, best)
  with pytest.raises(TrainingError, match=r"belongs to another fit \(learning_rate 0.01, now 0.02\)"):
    fit(model, folder, learning_rate=0.02)


@pytest.mark.slow
def test_two_replicas_find_what_one_does():
  one, two = two_replicas.siamese(tf.distribute.get_strategy()), two_replicas.results()["siamese"]
  np.testing.assert_allclose(two["losses"], one["losses"], rtol=1e-4)
  for name, value in one["weights"].items():
    np.testing.assert_allclose(two["weights"][name], value, atol=2e-5, err_msg=name)
  np.testing.assert_allclose(two["embedded"], one["embedded"], atol=1e-5)
