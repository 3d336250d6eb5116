"""training/distribution.py, and a fit on two logical CPU devices."""

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.training.distribution import STRATEGIES, make_strategy
from tests.training import small, two_replicas


def test_names():
  assert STRATEGIES == ("default", "mirrored", "multi_worker_mirrored")
  with pytest.raises(ConfigError, match="distribution_strategy=tpu: expected one of default, mirrored, multi_worker"):
    make_strategy("tpu")


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="about a machine without GPUs")
def test_default_is_the_cpu_itself():
  assert make_strategy() is tf.distribute.get_strategy()
  assert make_strategy().num_replicas_in_sync == 1


@pytest.mark.slow
def test_two_replicas_are_one():
  """The same global batch: the same losses and weights to float rounding, both replicas alike to the bit."""
  found = two_replicas.results()["fits"]
  expected, flow = small.fit(epochs=two_replicas.EPOCHS)
  assert found["rows"] == small.BATCH == expected.initialization_rows
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

  with pytest.raises(ConfigError, match="train_batch_size is 8, expected a positive multiple of the 3 replicas"):
    small.make_trainer(strategy=Three())
