"""Devices and machines that train together, and the settings on which they must agree."""

import contextlib
import hashlib
import json
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.data.pipeline import batched
from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.training.cluster import WAIT_SECONDS, first_line, read_tf_config

STRATEGIES = ("default", "mirrored", "multi_worker_mirrored")


def is_chief(strategy: tf.distribute.Strategy) -> bool:
  """Returns True if this process writes the files of all workers: checkpoints, events, results."""
  resolver = strategy.cluster_resolver
  if resolver is None or resolver.task_type in (None, "", "chief"):
    return True
  return resolver.task_id == 0 and "chief" not in resolver.cluster_spec().jobs


def has_several_workers(strategy: tf.distribute.Strategy) -> bool:
  """Returns True if other processes take part."""
  resolver = strategy.cluster_resolver
  return resolver is not None and sum(map(len, resolver.cluster_spec().as_dict().values())) > 1


def make_strategy(
  name: str = "default", wait_seconds: float = WAIT_SECONDS, deterministic: bool = False
) -> tf.distribute.Strategy:
  """Returns the strategy of a name.

  Args:
    name: "default": all GPUs, or the CPU. "mirrored": the same through a MirroredStrategy even on a single device
      (logical CPU devices included). "multi_worker_mirrored": the workers of TF_CONFIG, in a process that has not used
      TensorFlow yet.
    wait_seconds: largest time to wait for the other workers.
    deterministic: whether all operations of this process are deterministic from now on.

  Raises:
    ConfigError: another name, or TF_CONFIG is absent or malformed.
    TrainingError: a worker did not start in time, or stopped meanwhile.
  """
  if name not in STRATEGIES:
    raise ConfigError(
      f"distribution_strategy={name}: expected one of {', '.join(STRATEGIES)}", argument="distribution_strategy"
    )
  if deterministic:
    tf.random.set_seed(0)  # TensorFlow wants one, though all random numbers here have seeds of their own
    tf.config.experimental.enable_op_determinism()
  if name == "multi_worker_mirrored":
    return _multi_worker_strategy(wait_seconds)
  if os.environ.get("TF_CONFIG"):
    logging.warning("TF_CONFIG is ignored; distribution_strategy=multi_worker_mirrored uses it")
  gpus = tf.config.list_logical_devices("GPU")
  if name == "mirrored":
    return tf.distribute.MirroredStrategy([device.name for device in gpus or tf.config.list_logical_devices("CPU")])
  # TensorFlow's own default places everything on the one GPU, or on the CPU, and allows XLA for a whole step.
  return tf.distribute.MirroredStrategy() if len(gpus) > 1 else tf.distribute.get_strategy()


def _multi_worker_strategy(wait_seconds):
  cluster = read_tf_config()
  cluster.wait(wait_seconds)
  strategy = cluster.join()
  with contextlib.suppress(ValueError):  # not the main thread
    # TensorFlow's own handler of SIGTERM would not end the process.
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
  return strategy


@contextlib.contextmanager
def worker_failures(strategy: tf.distribute.Strategy) -> Iterator[None]:
  """Turns the loss of a worker, which TensorFlow notices within a minute or two, into a `TrainingError`."""
  try:
    yield
  except tf.errors.ResourceExhaustedError:
    raise  # memory of this machine
  except tf.errors.OpError as error:
    if not has_several_workers(strategy):
      raise
    raise TrainingError(
      f"another worker of TF_CONFIG has stopped or cannot be reached ({first_line(error)}); see its message, and "
      "start the same command on every machine again: it resumes from the last checkpoint"
    ) from error


def check_agreement(strategy: tf.distribute.Strategy, settings: Mapping[str, Any]) -> None:
  """Checks that all workers have the same settings.

  Args:
    strategy: strategy of several workers.
    settings: {name: json value}, of the same names everywhere.

  Raises:
    TrainingError: a value differs between two workers.
  """
  values = (hashlib.sha256(json.dumps(settings[name], sort_keys=True).encode()).digest() for name in sorted(settings))
  own = tf.constant([[int.from_bytes(value[:7], "big") for value in values]], tf.int64)

  @tf.function(autograph=False)
  def gather():
    return strategy.run(lambda: tf.distribute.get_replica_context().all_gather(own, axis=0))

  everywhere = strategy.experimental_local_results(gather())[0].numpy()
  differing = np.flatnonzero((everywhere != everywhere[0]).any(axis=0))
  if differing.size:
    names = ", ".join(sorted(settings)[i] for i in differing)
    raise TrainingError(
      f"the workers of TF_CONFIG differ in {names}: start each with the same flags, encoder, data and versions"
    )


def from_chief(strategy: tf.distribute.Strategy, value: int) -> int:
  """Returns the chief's value of an integer, in every worker."""
  if not has_several_workers(strategy):
    return value
  with strategy.scope():
    shared = tf.Variable(value, dtype=tf.int64, trainable=False)  # starts with the chief's value everywhere
  return int(tf.convert_to_tensor(shared).numpy())


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
  """Waits until every worker calls this: one that ended before would count as lost.

  Raises:
    TrainingError: a worker was lost.
  """
  with worker_failures(strategy):
    from_chief(strategy, 0)


def copy_from_chief(strategy: tf.distribute.Strategy, variables: Sequence[tf.Variable]) -> None:
  """Copies the chief's values of mirrored variables to every worker.

  Only the chief reads checkpoints, so that the machines need no shared folder. Values that each machine computes for
  itself, such as the initialization, may differ in the last bit.
  """
  if not has_several_workers(strategy):
    return
  mine = tf.constant(is_chief(strategy))

  @tf.function(autograph=False)
  def chiefs(vector):
    def replica(vector):
      context = tf.distribute.get_replica_context()
      # The first replica of all belongs to the chief.
      first = tf.logical_and(mine, tf.equal(context.replica_id_in_sync_group, 0))
      return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.where(first, vector, tf.zeros_like(vector)))

    return strategy.run(replica, args=[vector])

  for dtype in sorted({variable.dtype for variable in variables}, key=str):  # TensorFlow packs one alone
    same = [variable for variable in variables if variable.dtype == dtype]
    vector = tf.concat([tf.reshape(tf.convert_to_tensor(variable), [-1]) for variable in same], axis=0)
    vector = strategy.experimental_local_results(chiefs(vector))[0]
    sizes = [variable.shape.num_elements() for variable in same]
    for variable, values in zip(same, tf.split(vector, sizes), strict=True):
      variable.assign(tf.reshape(values, variable.shape))


def distribute_batches(
  strategy: tf.distribute.Strategy, source: Any, order: tf.data.Dataset, batch_size: int, start_step: int
) -> tf.distribute.DistributedDataset:
  """Returns the features of each step for each replica.

  Args:
    strategy: the strategy.
    source: object whose `features` maps a dataset of positions to one of features.
    order: positions of the pairs, as `pair_order` gives them.
    batch_size: pairs of a step, over all replicas.
    start_step: number of steps to skip.
  """

  def pipeline(context):
    per_worker = strategy.num_replicas_in_sync // context.num_input_pipelines
    rows = batched(order, batch_size, start_step, context.num_input_pipelines, context.input_pipeline_id)
    if per_worker > 1:
      rows = rows.unbatch().batch(context.get_per_replica_batch_size(batch_size), drop_remainder=True)
    return source.features(rows).prefetch(tf.data.AUTOTUNE)

  return strategy.distribute_datasets_from_function(pipeline)


def seed_of_step(seed: tf.Tensor, step: tf.Tensor, replica: tf.Tensor) -> tf.Tensor:
  """Returns the seed of a step's dropout on a replica, int32 [2]."""
  seed = tf.stack([seed, tf.cast(step, tf.int32)])
  return tf.random.experimental.stateless_fold_in(seed, tf.cast(replica, tf.int32))


def check_batch_size(strategy: tf.distribute.Strategy, train_batch_size: int) -> None:
  """Checks that the replicas can share a batch equally.

  Raises:
    ConfigError: they cannot.
  """
  replicas = strategy.num_replicas_in_sync
  if train_batch_size % replicas:
    raise ConfigError(
      f"train_batch_size={train_batch_size}: expected a multiple of the {replicas} replicas",
      argument="train_batch_size",
    )


def peak_memory() -> dict[str, int]:
  """Returns {"host": bytes, "GPU:0": bytes}: the most memory that this process held so far."""
  unit = 1 if sys.platform == "darwin" else 1024
  memory = {"host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}
  for index, _ in enumerate(tf.config.list_logical_devices("GPU")):
    memory[f"GPU:{index}"] = tf.config.experimental.get_memory_info(f"GPU:{index}")["peak"]
  return memory
