"""Devices and machines that train together: strategies, the workers of TF_CONFIG, and what they share."""

import contextlib
import dataclasses
import faulthandler
import hashlib
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.data.pipeline import batched
from bert_flow_tf.errors import ConfigError, TrainingError

_EXPECTED = (
  'json as {"cluster": {"worker": ["HOST0:PORT", "HOST1:PORT"]}, "task": {"type": "worker", "index": 0}}, the index '
  "being this machine's"
)

# People start machines by hand, and one may read more data than another before it gets here.
WAIT_SECONDS = 600
_PAUSE_SECONDS = 0.2
_LOG_SECONDS = 30

# Once every worker listens, a start takes a second or two. TensorFlow's own limit, the first, does not end a chief.
_REGISTER_SECONDS = 60
_START_SECONDS = 90
# TensorFlow's default of 10 does not outlast a link that is cut for 5 seconds: TCP then waits about as long again.
_HEARTBEAT_SECONDS = 40


def make_strategy(
  name: str = "default", wait_seconds: float = WAIT_SECONDS, deterministic: bool = False
) -> tf.distribute.Strategy:
  """Returns the strategy of a name; with `deterministic`, all operations of this process are from now on.

  "default": all GPUs, or the CPU. "mirrored": the same through a MirroredStrategy even on a single device (logical CPU
  devices included). "multi_worker_mirrored": the workers of TF_CONFIG, in a process that has not used TensorFlow yet.
  """
  if deterministic:
    tf.random.set_seed(0)  # TensorFlow wants one, though all random numbers here have seeds of their own
    tf.config.experimental.enable_op_determinism()
  if name == "multi_worker_mirrored":
    cluster = read_tf_config()
    cluster.wait(wait_seconds)
    return cluster.join()
  if os.environ.get("TF_CONFIG"):
    logging.warning("TF_CONFIG is ignored; distribution_strategy=multi_worker_mirrored uses it")
  gpus = tf.config.list_logical_devices("GPU")
  if name == "mirrored":
    devices = gpus or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])
  if len(gpus) > 1:
    return tf.distribute.MirroredStrategy()
  # TensorFlow's own default places everything on the one GPU, or on the CPU, and allows XLA for a whole step.
  return tf.distribute.get_strategy()


@dataclasses.dataclass(frozen=True)
class Cluster:
  """The machines that fit a flow together: "host:port" of each, the chief's first, and of this process."""

  addresses: tuple[str, ...]
  own: str

  def wait(self, seconds: float = WAIT_SECONDS) -> None:
    """Waits until every other process listens at its address; TensorFlow does so without a limit, deaf to Ctrl-C."""
    missing = [address for address in self.addresses if address != self.own]
    end = time.monotonic() + seconds
    with self._listening():
      while missing and time.monotonic() < end:
        logging.log_every_n_seconds(
          logging.INFO, "waiting for %s, at most %d seconds", _LOG_SECONDS, ", ".join(missing), end - time.monotonic()
        )
        missing = [address for address in missing if not _answers(address)]
        if missing:
          time.sleep(_PAUSE_SECONDS)
      if missing:
        raise TrainingError(
          f"TF_CONFIG: no worker answers at {', '.join(missing)} after {seconds:g} seconds; start the same command on "
          "every machine, each with its own task index; worker_wait_seconds sets the wait"
        )

  def join(self) -> tf.distribute.MultiWorkerMirroredStrategy:
    """Starts TensorFlow's server and joins the workers, all of which listen; called once in a process."""
    workers = ", ".join(self.addresses)
    logging.info("joining %s; without an answer within %d seconds this process ends", workers, _START_SECONDS)
    # TensorFlow's start ends neither by Ctrl-C nor by itself if a worker is lost during it, and no other Python thread
    # runs meanwhile.
    faulthandler.dump_traceback_later(_START_SECONDS, exit=True)
    try:
      _configure_heartbeats()
      strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
      raise TrainingError(
        f"TF_CONFIG: the workers {workers} could not be joined ({_first_line(error)}); start all of them again, each "
        "in a process of its own"
      ) from error
    finally:
      faulthandler.cancel_dump_traceback_later()
    with contextlib.suppress(ValueError):  # not the main thread
      # TensorFlow's own handler of SIGTERM would not end the process.
      signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
    return strategy

  @contextlib.contextmanager
  def _listening(self):
    """Listens at this process's address until TensorFlow's server does."""
    family = {}
    if socket.has_dualstack_ipv6():
      family = {"family": socket.AF_INET6, "dualstack_ipv6": True}
    try:
      server = socket.create_server(("", _host_and_port(self.own)[1]), backlog=len(self.addresses), **family)
    except OSError as error:
      raise ConfigError(
        f"TF_CONFIG: cannot listen at {self.own} ({error.strerror}); give this task a free port"
      ) from error
    with server:
      yield


def read_tf_config() -> Cluster:
  """Returns the machines of the environment variable TF_CONFIG, which TensorFlow's resolver reads."""
  resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
  try:
    spec = resolver.cluster_spec()
    if not spec.jobs or {*spec.jobs} - {"chief", "worker"}:
      raise ValueError(f"jobs are {spec.jobs}")
    own = spec.task_address(resolver.task_type, resolver.task_id)
    by_job = spec.as_dict()
    addresses = tuple(by_job.get("chief", [])) + tuple(by_job.get("worker", []))
    for address in addresses:
      _host_and_port(address)
  except (ValueError, TypeError, KeyError, AttributeError) as error:  # json's error is a ValueError
    raise ConfigError(
      f"distribution_strategy=multi_worker_mirrored needs the environment variable TF_CONFIG ({error}); expected "
      f"{_EXPECTED}",
      argument="distribution_strategy",
    ) from error
  return Cluster(addresses, own)


def _configure_heartbeats():
  """Sets how long TensorFlow waits for a worker's registration and heartbeats, for which it has no public function."""
  from tensorflow.compiler.xla.tsl.protobuf.coordination_config_pb2 import CoordinatedJob
  from tensorflow.python.distribute.multi_worker_util import coordination_leader
  from tensorflow.python.eager.context import context

  spec = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
  context().configure_coordination_service(
    service_type="standalone",
    service_leader=coordination_leader(spec),
    coordinated_jobs=[CoordinatedJob(name=job, num_tasks=spec.num_tasks(job)) for job in spec.jobs],
    cluster_register_timeout_in_ms=1000 * _REGISTER_SECONDS,
    heartbeat_timeout_in_ms=1000 * _HEARTBEAT_SECONDS,
  )


def _host_and_port(address):
  """Splits "host:port"; raises ValueError if it is not such a text."""
  host, _, port = address.rpartition(":")
  if not host or "://" in address or not 0 < int(port) < 65536:
    raise ValueError(f"{address!r} is not HOST:PORT")
  return host.strip("[]"), int(port)


def _answers(address):
  try:
    with socket.create_connection(_host_and_port(address), timeout=2):
      return True
  except OSError:
    return False


def _first_line(error):
  """Returns TensorFlow's reason in one line, without its list of places in the code."""
  lines = [line.strip() for line in str(error).splitlines() if line.strip()]
  for index, line in enumerate(lines):
    if "aborted by" in line:
      lines = lines[index:]
      break
  if not lines:
    return repr(error)[:300]
  reason = lines[0]
  if reason.endswith(":"):  # the lost task's name follows
    reason = " ".join(lines[:2])
  return reason[:300]


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
      f"another worker of TF_CONFIG has stopped or cannot be reached ({_first_line(error)}); see its message, and "
      "start the same command on every machine again: it resumes from the last checkpoint"
    ) from error


def check_agreement(strategy: tf.distribute.Strategy, settings: Mapping[str, Any]) -> None:
  """Raises a TrainingError if a value of {name: json value} differs between two workers."""
  numbers = []
  for name in sorted(settings):
    digest = hashlib.sha256(json.dumps(settings[name], sort_keys=True).encode()).digest()
    numbers.append(int.from_bytes(digest[:7], "big"))
  own = tf.constant([numbers], tf.int64)

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
  """Waits until every worker calls this: one that ended before would count as lost."""
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
  """Returns the features of each step for each replica: `source.features` of the positions in `order`."""

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
  """Raises a ConfigError unless the replicas can share a batch equally."""
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
