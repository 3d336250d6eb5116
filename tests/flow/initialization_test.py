"""Data-dependent initialization of `Glow`: standardized outputs, constant dimensions, once for all, and errors."""

import math

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import FlowError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.training.flow_trainer import Trainer
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import EmbeddingPairs
from tests.flow.cases import cone, config
from tests.testing import rejected


def constant_columns(columns, rows=32, dim=8):
  u = cone(rows, dim, seed=7)
  u[:, columns] = np.linspace(-0.8, 90.0, len(columns))
  return u


def test_second_initialization_is_rejected_also_after_save_and_checkpoint(tmp_path):
  u = constant_columns([2, 3])
  flow = Glow(config(n_levels=1, depth=1), 8, seed=0)
  flow.initialize(u)
  before = flow.tf1_variables()
  flow.save(tmp_path / "flow")
  checkpoint = tf.train.Checkpoint(flow=flow).save(str(tmp_path / "checkpoint"))
  restored = Glow(config(n_levels=1, depth=1), 8, seed=1)
  tf.train.Checkpoint(flow=restored).restore(checkpoint).assert_consumed()
  for again in (flow, Glow.load(tmp_path / "flow"), restored):
    assert again.initialized and again.constant_dimensions == [2, 3]
    with rejected(FlowError, None):
      again.initialize(u + 1)
    for name, array in again.tf1_variables().items():
      np.testing.assert_array_equal(array, before[name])


def test_glorot_flow_needs_no_data():
  flow = Glow(config(n_levels=1, depth=1), 4, "glorot", seed=0)
  assert not flow.needs_initialization
  assert not flow.initialized
  with rejected(FlowError, "actnorm_init"):
    flow.initialize(cone(8, 4))


def test_a_column_of_pandas_is_its_rows():
  rows, cells = cone(8, 4), np.empty(8, object)
  cells[:] = list(rows)
  flow, expected = (Glow(config(n_levels=1, depth=1), 4, seed=0) for _ in range(2))
  flow.adapt(cells)
  expected.adapt(rows)
  np.testing.assert_array_equal(flow(cells), expected(rows))
  np.testing.assert_array_equal(flow.bits_per_dim(cells), expected.bits_per_dim(rows))


@pytest.mark.parametrize(
  "rows",
  [
    cone(1, 4),
    cone(0, 4),
    np.where(np.arange(20).reshape(5, 4) == 9, np.nan, cone(5, 4)),
    np.repeat(cone(1, 4), 6, axis=0),
    cone(5, 6),
  ],
)
def test_initialization_rejects_and_changes_nothing(rows):
  flow = Glow(config(n_levels=1, depth=1), 4, seed=0)
  before = flow.tf1_variables()
  with rejected(FlowError, "embeddings"):
    flow.initialize(rows)
  assert flow.needs_initialization
  for name, array in flow.tf1_variables().items():
    np.testing.assert_array_equal(array, before[name])


def test_constant_dimensions_are_named_once(caplog):
  logging.get_absl_logger().propagate = True
  flow = Glow(config(n_levels=2, depth=1), 8, seed=0)
  with caplog.at_level("WARNING"):
    flow.initialize(constant_columns([1, 4, 6]))
  (message,) = [record.getMessage() for record in caplog.records if "no variance" in record.getMessage()]
  assert "1, 4, 6" in message
  assert flow.constant_dimensions == [1, 4, 6]
  assert Glow(config(n_levels=1, depth=1), 8).constant_dimensions == []


@pytest.mark.parametrize("columns", [[0, 2, 5, 7], list(range(8))])
def test_fitting_with_constant_dimensions_stays_finite(columns):
  """All dimensions constant up to rounding included: rows that are exactly alike are rejected before."""
  u = constant_columns(columns, rows=64).astype(np.float32)
  if len(columns) == 8:
    u[::2] *= np.float32(1 + 2e-7)
  flow = Glow(config(n_levels=2, depth=1), 8, seed=0)
  trainer = Trainer(flow, FlowSettings(flow_learning_rate=0.05), show_progress=False)
  losses = trainer.fit(EmbeddingPairs(u, u), num_train_epochs=100).losses / 2
  assert flow.constant_dimensions == columns
  assert len(losses) == 200
  assert np.isfinite(losses).all()
  # The likelihood of a constant at scale 1 is bounded: 1/2 log2(2 pi) bits a dimension, no gain from the scale.
  assert losses.min() > -6
  if len(columns) == 8:
    assert losses.min() > 0.5 * math.log2(2 * math.pi) - 0.02
  first = flow.levels[0][0][0]
  scale = tf.exp(3 * first.logs * first.varying).numpy()
  np.testing.assert_array_equal(scale[columns], 1)
  np.testing.assert_array_equal(first.logs.numpy()[columns], 0)
