"""Machines that train together: the workers of TF_CONFIG, and their shared values."""

import contextlib
import dataclasses
import faulthandler
import hashlib
import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import ConfigError, TrainingError


@dataclasses.dataclass(frozen=True)
class Cluster:
  """The machines that fit a flow together: "host:port" of each, the chief's first, and of this process."""

  addresses: tuple[str, ...]
  address_here: str

  def join(self, seconds: float) -> tf.distribute.MultiWorkerMirroredStrategy:
    """Starts TensorFlow's server and waits for the other workers; called once in a process.

    The process ends with status 1 if a worker is missing after some seconds.
    """
    others = ", ".join(address for address in self.addresses if address != self.address_here)
    logging.warning(
      "waiting for %s: start the same command on every machine, each with its own index. Without them, this process "
      "ends in %d seconds (worker_wait_seconds)",
      others,
      seconds,
    )
    # TensorFlow waits without a limit, and no other Python thread runs meanwhile: these two end the process itself.
    handler = _set_handler(signal.SIGINT, signal.SIG_DFL)
    with open(os.devnull, "w") as nowhere:
      faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
      try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
      except (tf.errors.OpError, RuntimeError, ValueError) as error:
        reason = f"{', '.join(self.addresses)} could not be joined ({_first_line(error)})"
        raise TrainingError(f"TF_CONFIG: {reason}; start all of them again, each in its own process") from error
      finally:
        faulthandler.cancel_dump_traceback_later()
        _set_handler(signal.SIGINT, handler)
    # TensorFlow's own handler of SIGTERM would not end the process.
    _set_handler(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
    logging.info("joined %s", others)
    return strategy


def _set_handler(number, handler):
  """Sets the handler of a signal in the main thread, and returns the earlier handler; does nothing in other threads."""
  with contextlib.suppress(ValueError):
    return signal.signal(number, handler)
  return None


def read_tf_config() -> Cluster:
  """Returns the machines of the environment variable TF_CONFIG, which TensorFlow's resolver reads."""
  resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
  try:
    spec = resolver.cluster_spec()
    if not spec.jobs or set(spec.jobs) - {"chief", "worker"}:
      raise ValueError(f"jobs are {spec.jobs}")
    address_here = spec.task_address(resolver.task_type, resolver.task_id)
    by_job = spec.as_dict()
    addresses = tuple(by_job.get("chief", [])) + tuple(by_job.get("worker", []))
    for address in addresses:
      _check_address(address)
  except (ValueError, TypeError, KeyError, AttributeError) as error:  # json's error is a ValueError
    example = 'json as {"cluster": {"worker": ["HOST0:PORT", "HOST1:PORT"]}, "task": {"type": "worker", "index": 0}}'
    needed = f"distribution_strategy=multi_worker_mirrored needs the environment variable TF_CONFIG ({error})"
    expected = f"expected {example}, the index being this machine's"
    raise ConfigError(f"{needed}; {expected}", argument="distribution_strategy") from error
  return Cluster(addresses, address_here)


def _check_address(address):
  """Raises a ValueError if a text is not "host:port"."""
  host, _, port = address.rpartition(":")
  if not host or "://" in address or not 0 < int(port) < 65536:
    raise ValueError(f"{address!r} is not HOST:PORT")


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
  digests = tf.constant([numbers], tf.int64)

  @tf.function(autograph=False)
  def gather():
    return strategy.run(lambda: tf.distribute.get_replica_context().all_gather(digests, axis=0))

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
  """Waits until every worker calls this function: a worker that ended earlier would count as lost."""
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
