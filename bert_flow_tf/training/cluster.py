"""The machines of TF_CONFIG, and the wait until all of them listen."""

import contextlib
import dataclasses
import socket
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
    end = time.monotonic() + seconds
    with self._listening():
      while missing and time.monotonic() < end:
        missing = [address for address in missing if not _answers(address)]
        time.sleep(_PAUSE_SECONDS if missing else 0)
      if missing:
        raise TrainingError(
          f"TF_CONFIG: no worker answers at {', '.join(missing)} after {seconds:g} seconds; start the same command on "
          "every machine, each with its own task index"
        )

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
