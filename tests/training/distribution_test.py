"""training/distribution.py, and a fit on two logical CPU devices."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import config

from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.io.settings import changed_values
from bert_flow_tf.training.distribution import (
  has_several_workers,
  is_chief,
  make_strategy,
  worker_failures,
)
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.siamese_settings import SiameseSettings
from tests.training import small, two_replicas


def test_names():
  with pytest.raises(ConfigError, match="distribution_strategy=tpu"):
    FlowSettings(distribution_strategy="tpu")


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="about a machine without GPUs")
def test_default_is_the_cpu_itself():
  assert make_strategy() is tf.distribute.get_strategy()
  assert make_strategy().num_replicas_in_sync == 1


def test_deterministic_is_of_the_process_and_of_no_name():
  for settings in (FlowSettings, SiameseSettings):
    assert changed_values(settings(deterministic=True)) == {}
  try:
    make_strategy(deterministic=True)
    assert config.is_op_determinism_enabled()
  finally:
    config.disable_op_determinism()
    tf.random.set_seed(None)


@pytest.mark.parametrize(
  ("jobs", "job", "index", "chief", "several"),
  [
    ({}, None, None, True, False),
    ({"worker": ["a:1"]}, "worker", 0, True, False),
    ({"worker": ["a:1", "b:1"]}, "worker", 0, True, True),
    ({"worker": ["a:1", "b:1"]}, "worker", 1, False, True),
    ({"chief": ["a:1"], "worker": ["b:1"]}, "chief", 0, True, True),
    ({"chief": ["a:1"], "worker": ["b:1"]}, "worker", 0, False, True),
  ],
)
def test_one_worker_is_the_chief(jobs, job, index, chief, several):
  class Strategy:
    cluster_resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
      tf.train.ClusterSpec(jobs), task_type=job, task_id=index
    )

  assert (is_chief(Strategy), has_several_workers(Strategy)) == (chief, several)


def test_lost_worker_is_one_line_where_there_are_workers():
  class Alone:
    cluster_resolver = None

  class Two:
    cluster_resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
      tf.train.ClusterSpec({"worker": ["a", "b"]})
    )

  said = "Graph execution error:\n\nDetected at node x\nCollective ops is aborted by: it left\n\t [[{{node x}}]]"
  expected = r"another worker .* \(Collective ops is aborted by: it left\); see its"
  with pytest.raises(TrainingError, match=expected), worker_failures(Two):
    raise tf.errors.UnavailableError(None, None, said)
  for strategy, error in ((Alone, tf.errors.UnavailableError), (Two, tf.errors.ResourceExhaustedError)):
    with pytest.raises(error), worker_failures(strategy):
      raise error(None, None, said)


@pytest.mark.slow
def test_two_replicas_are_one():
  """The same global batch: the same losses and weights to float rounding, both replicas alike to the bit."""
  found = two_replicas.results()["fits"]
  expected, flow = small.fit(epochs=two_replicas.EPOCHS)
  assert len(found["losses"]) == 24
  np.testing.assert_allclose(found["losses"], expected.losses, rtol=1e-5, atol=1e-6)
  for replicas, weight in zip(found["weights"], small.weights(flow), strict=True):
    assert len(replicas) == 2 and replicas[0] == replicas[1]
    np.testing.assert_allclose(replicas[0], weight, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_two_replicas_resume_exactly():
  found = two_replicas.results()["fits"]
  assert found["resumed_at"] == 10
  assert found["resumed"] == [replicas[0] for replicas in found["weights"]]


@pytest.mark.slow
@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="about a machine without GPUs")
def test_logical_cpus_alone_do_not_change_the_default():
  assert two_replicas.results()["default"] == type(tf.distribute.get_strategy()).__name__


def test_batch_that_replicas_cannot_share_evenly():
  class Three:
    num_replicas_in_sync = 3

  with pytest.raises(ConfigError) as raised:
    small.make_trainer(strategy=Three())
  assert raised.value.argument == "train_batch_size"
