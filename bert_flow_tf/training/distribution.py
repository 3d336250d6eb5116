"""Devices and machines that train together: strategies, the workers of TF_CONFIG, and what they share."""

import contextlib
import dataclasses
import faulthandler
import hashlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.data.pipeline import batched
from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.training.devices import grow_memory
from bert_flow_tf.training.settings import STRATEGIES

_PAUSE_SECONDS = 0.2
_LOG_SECONDS = 30

# Once every worker listens, a start takes a second or two. TensorFlow's own limit, the first, does not end a chief.
_REGISTER_SECONDS = 60
_START_SECONDS = 90
# TensorFlow's default of 10 does not outlast a link that is cut for 5 seconds: TCP then waits about as long again.
_HEARTBEAT_SECONDS = 40

# Strategies of this process, by their devices or `Cluster`. A second one of the same devices would number its
# collective operations as the first one does, and TensorFlow aborts where two of a number have different shapes.
_strategies: dict[Any, tf.distribute.Strategy] = {}


def make_strategy(
  wanted: tf.distribute.Strategy | str = "default",
  wait_seconds: float = 600,
  deterministic: bool = False,
  memory_growth: bool = True,
  all_gpus: bool = False,
) -> tf.distribute.Strategy:
  """Returns the strategy of a training: an object as it is, or that of a name; within a scope always the current one.

  "default": the first GPU, or with `all_gpus` every one, else the CPU. "mirrored": all GPUs, else all logical CPUs,
  even of a single device. "multi_worker_mirrored": the workers of TF_CONFIG, in a process that has not used TensorFlow
  yet. A name has one strategy a process. With `deterministic`, all operations of this process are from now on.
  """
  if deterministic:
    tf.random.set_seed(0)  # TensorFlow wants one, though all random numbers here have seeds of their own
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
      "a MirroredStrategy, a MultiWorkerMirroredStrategy or that of one device",
      "strategy",
    )
  if tf.distribute.has_strategy() and strategy is not current:
    raise ConfigError("strategy: this is within another strategy's scope; pass that one, or none", "strategy")
  return strategy


def embedding_scope(fit: tf.distribute.Strategy | None = None) -> contextlib.AbstractContextManager:
  """Returns the scope in which an encoder gets a copy on each device that embeds: those of a fit, or all GPUs."""
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
      cluster.wait(wait_seconds)
      _strategies[cluster] = cluster.join()
    return _strategies[cluster]
  if os.environ.get("TF_CONFIG"):
    logging.warning("TF_CONFIG is ignored; distribution_strategy=multi_worker_mirrored uses it")
  gpus = tf.config.list_logical_devices("GPU")
  if name == "default" and not (all_gpus and len(gpus) > 1):
    # TensorFlow's own default places everything on the first GPU, or on the CPU, and allows XLA for a whole step.
    return tf.distribute.get_strategy()
  # Without collective operations, CPUs do not disturb the user's own strategies either.
  reduction = None if gpus else tf.distribute.ReductionToOneDevice()
  devices = tuple(device.name for device in gpus or tf.config.list_logical_devices("CPU"))
  if devices not in _strategies:
    _strategies[devices] = tf.distribute.MirroredStrategy(devices, reduction)
  return _strategies[devices]


@dataclasses.dataclass(frozen=True)
class Cluster:
  """The machines that fit a flow together: "host:port" of each, the chief's first, and of this process."""

  addresses: tuple[str, ...]
  own: str

  def wait(self, seconds: float) -> None:
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
        waited = f"no worker answers at {', '.join(missing)} after {seconds:g} seconds"
        mend = "start the same command on every machine, each with its own index; worker_wait_seconds sets the wait"
        raise TrainingError(f"TF_CONFIG: {waited}; {mend}")

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
      reason = f"{workers} could not be joined ({_first_line(error)})"
      raise TrainingError(f"TF_CONFIG: {reason}; start all of them again, each in its own process") from error
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
      raise ConfigError(f"TF_CONFIG: cannot listen at {self.own} ({error.strerror}); choose a free port") from error
    with server:
      yield


def read_tf_config() -> Cluster:
  """Returns the machines of the environment variable TF_CONFIG, which TensorFlow's resolver reads."""
  resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
  try:
    spec = resolver.cluster_spec()
    if not spec.jobs or set(spec.jobs) - {"chief", "worker"}:
      raise ValueError(f"jobs are {spec.jobs}")
    own = spec.task_address(resolver.task_type, resolver.task_id)
    by_job = spec.as_dict()
    addresses = tuple(by_job.get("chief", [])) + tuple(by_job.get("worker", []))
    for address in addresses:
      _host_and_port(address)
  except (ValueError, TypeError, KeyError, AttributeError) as error:  # json's error is a ValueError
    example = 'json as {"cluster": {"worker": ["HOST0:PORT", "HOST1:PORT"]}, "task": {"type": "worker", "index": 0}}'
    needed = f"distribution_strategy=multi_worker_mirrored needs the environment variable TF_CONFIG ({error})"
    expected = f"expected {example}, the index being this machine's"
    raise ConfigError(f"{needed}; {expected}", argument="distribution_strategy") from error
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
  """Turns the loss of a worker, and operations of two strategies that TensorFlow mixes up, into a `TrainingError`."""
  try:
    yield
  except tf.errors.ResourceExhaustedError:
    raise  # memory of this machine
  except tf.errors.OpError as error:
    if not has_several_workers(strategy) and "Collective ops is aborted" in str(error):
      several = "two MirroredStrategies of one process, whose operations TensorFlow mixes up"
      raise TrainingError(f"{several}: make one, train in its scope, and start the program again") from error
    if not has_several_workers(strategy):
      raise
    lost = f"another worker of TF_CONFIG has stopped or cannot be reached ({_first_line(error)}); see its message"
    again = "start the same command on every machine again: it resumes from the last checkpoint"
    raise TrainingError(f"{lost}, and {again}") from error


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
    raise TrainingError(f"the workers of TF_CONFIG differ in {names}: give each the same flags, data and versions")


def from_chief(strategy: tf.distribute.Strategy, value: Any) -> np.ndarray:
  """Returns the chief's value of a number or tensor, in every worker."""
  if has_several_workers(strategy):
    with strategy.scope():
      value = tf.Variable(value, trainable=False)  # starts with the chief's value everywhere
  return tf.convert_to_tensor(value).numpy()


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
  """Waits until every worker calls this: one that ended before would count as lost."""
  with worker_failures(strategy):
    from_chief(strategy, 0)


def copy_from_chief(strategy: tf.distribute.Strategy, variables: Sequence[tf.Variable]) -> None:
  """Copies the chief's values of mirrored variables to every worker."""
  # Only the chief reads checkpoints, so that the machines need no shared folder. Values that each machine computes for
  # itself, such as the initialization, may differ in the last bit.
  if not has_several_workers(strategy):
    return
  for dtype in sorted({variable.dtype for variable in variables}, key=str):
    same = [variable for variable in variables if variable.dtype == dtype]
    vector = from_chief(strategy, tf.concat([tf.reshape(tf.convert_to_tensor(each), [-1]) for each in same], axis=0))
    sizes = [variable.shape.num_elements() for variable in same]
    for variable, values in zip(same, tf.split(vector, sizes), strict=True):
      variable.assign(tf.reshape(values, variable.shape))


def distribute_batches(
  strategy: tf.distribute.Strategy, source: Any, order: tf.data.Dataset, batch_size: int, start_step: int
) -> tf.distribute.DistributedDataset:
  """Returns the features of each step for each replica: `source.features` of its share of the positions in `order`."""
  replicas = strategy.num_replicas_in_sync
  # XLA compiles a share of known size once.
  share = None if batch_size % replicas else batch_size // replicas

  def pipeline(context):
    rows = batched(order, batch_size, start_step)
    own = replicas // context.num_input_pipelines
    first = own * context.input_pipeline_id

    def shares(positions):
      def of_replica(replica):
        part = positions[batch_size * replica // replicas : batch_size * (replica + 1) // replicas]
        return tf.ensure_shape(part, [share])

      return tf.data.Dataset.range(first, first + own).map(of_replica)

    if replicas > 1:
      rows = rows.flat_map(shares)
    return source.features(rows).prefetch(tf.data.AUTOTUNE)

  return strategy.distribute_datasets_from_function(pipeline)


def seed_of_step(seed: tf.Tensor, step: tf.Tensor, replica: tf.Tensor) -> tf.Tensor:
  """Returns the seed of a step's dropout on a replica, int32 [2]."""
  seed = tf.stack([seed, tf.cast(step, tf.int32)])
  return tf.random.experimental.stateless_fold_in(seed, tf.cast(replica, tf.int32))
