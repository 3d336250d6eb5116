"""A flow, pairs and trainers small enough that a fit takes a second or two."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import FlowConfig, Glow
from bert_flow_tf.progress import Progress
from bert_flow_tf.training.flow_trainer import Trainer
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import EmbeddingPairs

DIM = 4
BATCH = 8


def embeddings(pairs=64, dim=DIM, seed=0):
  """Returns two float32 [pairs, dim], neither centered nor alike in scale."""
  rng = np.random.default_rng(seed)
  scale = rng.uniform(0.2, 3.0, dim)
  return tuple((rng.normal(size=[pairs, dim]) * scale + 2.0).astype(np.float32) for _ in range(2))


def make_flow(dim=DIM, seed=7, coupling_dropout=0.0, **arguments):
  config = FlowConfig(n_levels=1, depth=1, coupling_width=4, coupling_dropout=coupling_dropout)
  return Glow(config, dim, seed=seed, **arguments)


def make_trainer(flow=None, *, strategy=None, checkpoint_folder=None, summary_folder=None, **settings):
  settings = FlowSettings(**{"flow_learning_rate": 0.01, "train_batch_size": BATCH, "seed": 0, **settings})
  folders = {"checkpoint_folder": checkpoint_folder, "summary_folder": summary_folder}
  return Trainer(flow or make_flow(), settings, strategy, **folders, show_progress=False)


def fit(source=None, epochs=1.0, shuffle=True, flow=None, **arguments):
  """Fits a flow from the start; returns the result and the flow."""
  flow = flow or make_flow()
  trainer = make_trainer(flow, **arguments)
  return trainer.fit(source or EmbeddingPairs(*embeddings()), epochs, shuffle), flow


def weights(flow):
  """Returns every weight, also those that are not trained, in their order."""
  return [tf.convert_to_tensor(weight).numpy() for weight in flow.weights]


def assert_same_weights(found, expected):
  """Asserts that all weights are the same to the bit."""
  assert len(found.weights) == len(expected.weights)
  for one, other in zip(weights(found), weights(expected), strict=True):
    np.testing.assert_array_equal(one, other)


@contextlib.contextmanager
def eagerly():
  """Lets functions of TensorFlow run without their graphs: tracing a fit takes longer than some steps of it."""
  tf.config.run_functions_eagerly(True)
  try:
    yield
  finally:
    tf.config.run_functions_eagerly(False)


@contextlib.contextmanager
def interrupted_at(step):
  """Interrupts the training in the block once its progress shows `step` steps, which is after a checkpoint is saved."""
  update = Progress.update

  def stopping(self, count, note=""):
    update(self, count, note)
    if self._work == "training" and self._done >= step:
      raise KeyboardInterrupt

  with pytest.MonkeyPatch.context() as monkeypatch, pytest.raises(KeyboardInterrupt):
    monkeypatch.setattr(Progress, "update", stopping)
    yield
