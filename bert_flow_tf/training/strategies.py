"""Devices that train together, or embed: a strategy, and each replica's share of a batch."""

import contextlib
import os
import resource
import sys
from typing import Any

import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.training.pipeline import batched
from bert_flow_tf.training.settings import STRATEGIES
from bert_flow_tf.training.workers import has_several_workers, read_tf_config

# Strategies of this process, by their devices or `Cluster`. A second strategy of the same devices would number its
# collective operations as the first one does, and TensorFlow aborts if operations of the same number differ in shape.
_strategies: dict[Any, tf.distribute.Strategy] = {}


def make_strategy(
  wanted: tf.distribute.Strategy | str = "default",
  wait_seconds: float = 600,
  deterministic: bool = False,
  memory_growth: bool = True,
  all_gpus: bool = False,
) -> tf.distribute.Strategy:
  """Returns the strategy of a training: an object as it is, or by its name; within a scope the current strategy.

  "default": the first GPU, or with `all_gpus` every one, else the CPU. "mirrored": all GPUs, else all logical CPUs,
  even of a single device. "multi_worker_mirrored": the workers of TF_CONFIG, in a process that has not used TensorFlow
  yet. A name has one strategy per process. `deterministic` makes all later operations of this process deterministic.
  """
  if deterministic:
    tf.random.set_seed(0)  # TensorFlow requires a global seed, although this package seeds all its random numbers
    tf.config.experimental.enable_op_determinism()
  if memory_growth:
    grow_memory()
  current = tf.distribute.get_strategy()
  if isinstance(wanted, str):
    if wanted not in STRATEGIES:
      raise ConfigError(f"strategy={wanted}: expected one of {', '.join(STRATEGIES)}, or an object", "strategy")
    strategy = current if tf.distribute.has_strategy() else _named(wanted, wait_seconds, all_gpus)
  else:
    strategy = wanted
  if not isinstance(strategy, tf.distribute.Strategy):
    raise ConfigError(f"strategy={strategy!r}: expected tf.distribute.Strategy or {', '.join(STRATEGIES)}", "strategy")
  if isinstance(strategy, tf.distribute.ParameterServerStrategy):
    raise ConfigError(
      "strategy: a ParameterServerStrategy's workers do not wait for each other, so a step has no one batch; expected "
      "a MirroredStrategy, a MultiWorkerMirroredStrategy or a OneDeviceStrategy",
      "strategy",
    )
  if tf.distribute.has_strategy() and strategy is not current:
    raise ConfigError("strategy: this is within another strategy's scope; pass that one, or none", "strategy")
  return strategy


def embedding_scope(fit: tf.distribute.Strategy | None = None) -> contextlib.AbstractContextManager:
  """Returns the scope in which an encoder gets a copy on each device that embeds: the devices of a fit, or all GPUs."""
  if fit is None or fit is tf.distribute.get_strategy():
    return make_strategy(memory_growth=False, all_gpus=True).scope()
  if has_several_workers(fit):
    return contextlib.nullcontext()  # each machine embeds by itself, on its first device
  return fit.scope()


def _named(name, wait_seconds, all_gpus):
  """Returns the process's strategy of a name."""
  if name == "multi_worker_mirrored":
    cluster = read_tf_config()
    if cluster not in _strategies:
      _strategies[cluster] = cluster.join(wait_seconds)
    return _strategies[cluster]
  if os.environ.get("TF_CONFIG"):
    logging.warning("TF_CONFIG is ignored; distribution_strategy=multi_worker_mirrored uses it")
  gpus = tf.config.list_logical_devices("GPU")
  if name == "default" and not (all_gpus and len(gpus) > 1):
    # TensorFlow's own default places everything on the first GPU, or on the CPU, and allows XLA for a whole step.
    return tf.distribute.get_strategy()
  # On CPUs no collective operations are used, which could disturb the user's own strategies.
  reduction = None if gpus else tf.distribute.ReductionToOneDevice()
  devices = tuple(device.name for device in gpus or tf.config.list_logical_devices("CPU"))
  if devices not in _strategies:
    _strategies[devices] = tf.distribute.MirroredStrategy(devices, reduction)
  return _strategies[devices]


def distribute_batches(
  strategy: tf.distribute.Strategy, source: Any, order: tf.data.Dataset, batch_size: int, start_step: int
) -> tf.distribute.DistributedDataset:
  """Returns the features of each step for each replica: `source.features` of its share of the positions in `order`."""
  replicas = strategy.num_replicas_in_sync
  # XLA compiles a share of known size once.
  share = None if batch_size % replicas else batch_size // replicas

  def pipeline(context):
    rows = batched(order, batch_size, start_step)
    replicas_here = replicas // context.num_input_pipelines
    first = replicas_here * context.input_pipeline_id

    def shares(positions):
      def of_replica(replica):
        part = positions[batch_size * replica // replicas : batch_size * (replica + 1) // replicas]
        return tf.ensure_shape(part, [share])

      return tf.data.Dataset.range(first, first + replicas_here).map(of_replica)

    if replicas > 1:
      rows = rows.flat_map(shares)
    return source.features(rows).prefetch(tf.data.AUTOTUNE)

  return strategy.distribute_datasets_from_function(pipeline)


def seed_of_step(seed: tf.Tensor, step: tf.Tensor, replica: tf.Tensor) -> tf.Tensor:
  """Returns the seed of a step's dropout on a replica, int32 [2]."""
  seed = tf.stack([seed, tf.cast(step, tf.int32)])
  return tf.random.experimental.stateless_fold_in(seed, tf.cast(replica, tf.int32))


def grow_memory() -> None:
  """Lets TensorFlow take a GPU's memory as it is needed, unless it has started the GPUs or the user divides them."""
  for gpu in tf.config.list_physical_devices("GPU"):
    with contextlib.suppress(RuntimeError, ValueError):
      tf.config.experimental.set_memory_growth(gpu, True)


def peak_memory() -> dict[str, int]:
  """Returns {"host": bytes, "GPU:0": bytes}: the most memory that this process held so far."""
  unit = 1 if sys.platform == "darwin" else 1024
  memory = {"host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}
  for index, _ in enumerate(tf.config.list_logical_devices("GPU")):
    memory[f"GPU:{index}"] = tf.config.experimental.get_memory_info(f"GPU:{index}")["peak"]
  return memory
