"""The machines of TF_CONFIG, and the wait until all of them listen."""

import contextlib
import dataclasses
import faulthandler
import socket
import subprocess
import time

import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import ConfigError, TrainingError

EXPECTED = (
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


@dataclasses.dataclass(frozen=True)
class Cluster:
  """The machines that fit a flow together.

  Attributes:
    addresses: "host:port" of each machine, the chief's first.
    own: the address of this process.
  """

  addresses: tuple[str, ...]
  own: str

  def wait(self, seconds: float = WAIT_SECONDS) -> None:
    """Waits until every other process listens at its address.

    TensorFlow waits too, but without a limit and without reacting to Ctrl-C.

    Raises:
      ConfigError: this process cannot listen at its own address.
      TrainingError: a process did not listen in time.
    """
    missing = [address for address in self.addresses if address != self.own]
    if missing:
      logging.info("waiting for %s, at most %g seconds", ", ".join(missing), seconds)
    start = logged = time.monotonic()
    with self._listening():
      while missing and time.monotonic() < start + seconds:
        missing = [address for address in missing if not _answers(address)]
        time.sleep(_PAUSE_SECONDS if missing else 0)
        now = time.monotonic()
        if missing and now >= logged + _LOG_SECONDS:
          logged = now
          logging.info("still waiting for %s: %d of %g seconds", ", ".join(missing), now - start, seconds)
      if missing:
        raise TrainingError(
          f"TF_CONFIG: no worker answers at {', '.join(missing)} after {seconds:g} seconds; start the same command on "
          "every machine, each with its own task index; worker_wait_seconds sets the wait"
        )

  def join(self) -> tf.distribute.MultiWorkerMirroredStrategy:
    """Starts TensorFlow's server and joins the workers, all of which listen; called once in a process.

    Raises:
      TrainingError: a worker was lost meanwhile.
    """
    message = f"TF_CONFIG: the workers {', '.join(self.addresses)} could not be joined (%s); start all of them again"
    with _limited_start(message % f"no answer in {_START_SECONDS} seconds"):
      try:
        _configure_heartbeats()
        return tf.distribute.MultiWorkerMirroredStrategy()
      except (tf.errors.OpError, RuntimeError, ValueError) as error:
        raise TrainingError(f"{message % first_line(error)}, each in a process of its own") from error

  @contextlib.contextmanager
  def _listening(self):
    """Listens at this process's address until TensorFlow's server does."""
    both = {"family": socket.AF_INET6, "dualstack_ipv6": True} if socket.has_dualstack_ipv6() else {}
    try:
      server = socket.create_server(("", _host_and_port(self.own)[1]), backlog=len(self.addresses), **both)
    except OSError as error:
      raise ConfigError(
        f"TF_CONFIG: cannot listen at {self.own} ({error.strerror}); give this task a free port"
      ) from error
    with server:
      yield


def read_tf_config() -> Cluster:
  """Returns the machines of the environment variable TF_CONFIG, which TensorFlow's resolver reads.

  Raises:
    ConfigError: TF_CONFIG is absent or malformed.
  """
  resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
  try:
    spec = resolver.cluster_spec()
    if not spec.jobs or {*spec.jobs} - {"chief", "worker"}:
      raise ValueError(f"jobs are {spec.jobs}")
    own = spec.task_address(resolver.task_type, resolver.task_id)
    addresses = (*spec.as_dict().get("chief", ()), *spec.as_dict().get("worker", ()))
    for address in addresses:
      _host_and_port(address)
  except (ValueError, TypeError, KeyError, AttributeError) as error:  # json's error is a ValueError
    raise ConfigError(
      f"distribution_strategy=multi_worker_mirrored needs the environment variable TF_CONFIG ({error}); expected "
      f"{EXPECTED}",
      argument="distribution_strategy",
    ) from error
  return Cluster(addresses, own)


def first_line(error):
  """Returns TensorFlow's reason in one line, without its list of places in the code."""
  lines = [line.strip() for line in str(error).splitlines() if line.strip()]
  start = next((i for i, line in enumerate(lines) if "aborted by" in line), 0)
  # The line before the lost task's name ends with a colon.
  count = 2 if lines and lines[start].endswith(":") else 1
  return (" ".join(lines[start : start + count]) or repr(error))[:300]


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


@contextlib.contextmanager
def _limited_start(message):
  """Ends the process with an error if the block takes too long.

  TensorFlow's start ends neither by Ctrl-C nor by itself if a worker is lost during it, and no other Python thread runs
  meanwhile. So faulthandler ends the process, and a shell prints the message as soon as faulthandler says something.
  """
  shell = ["sh", "-c", 'read -r line && echo "error: $1" >&2', "sh", message]
  with subprocess.Popen(shell, stdin=subprocess.PIPE) as process:
    faulthandler.dump_traceback_later(_START_SECONDS, exit=True, file=process.stdin)
    try:
      yield
    finally:
      faulthandler.cancel_dump_traceback_later()


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
