"""TF_CONFIG: which machines fit the flow together, and the wait until all of them are there."""

import contextlib
import dataclasses
import json
import os
import socket
import time

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
  """The machines of a fit.

  Attributes:
    addresses: tuple of "host:port", the chief's first.
    position: which of them is this process.
  """

  addresses: tuple[str, ...]
  position: int

  def wait(self, seconds=WAIT_SECONDS):
    """Returns once every other process listens at its address.

    TensorFlow waits for them too, but deaf to Ctrl-C and for ever, so this comes before it.

    Raises:
      ConfigError: this process cannot listen at its own address.
      TrainingError: one was not there in time.
    """
    missing = [address for i, address in enumerate(self.addresses) if i != self.position]
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
    """While TensorFlow's server is not there yet, shows the others that this process is."""
    address = self.addresses[self.position]
    both = {"family": socket.AF_INET6, "dualstack_ipv6": True} if socket.has_dualstack_ipv6() else {}
    try:
      server = socket.create_server(("", _host_and_port(address)[1]), backlog=len(self.addresses), **both)
    except OSError as error:
      raise ConfigError(
        f"TF_CONFIG: cannot listen at {address} ({error.strerror}); give this task a free port"
      ) from error
    with server:
      yield


def read_tf_config(environment=os.environ):
  """The `Cluster` that TF_CONFIG describes.

  Raises:
    ConfigError: it is absent or malformed.
  """
  text = environment.get("TF_CONFIG")
  if not text:
    raise ConfigError(f"--distribution_strategy=multi_worker_mirrored needs the variable TF_CONFIG, {EXPECTED}")
  try:
    config = json.loads(text)
  except ValueError as error:
    raise _malformed(f"it is not json ({error})") from error
  jobs = config.get("cluster") if isinstance(config, dict) else None
  if not isinstance(jobs, dict) or not jobs:
    raise _malformed("it has no cluster")
  unknown = sorted(set(jobs) - {"chief", "worker"})
  if unknown:
    raise _malformed(f"its cluster has {', '.join(unknown)}, which may only have chief and worker")
  for job, addresses in jobs.items():
    if not isinstance(addresses, list) or not addresses or not all(_host_and_port(address) for address in addresses):
      raise _malformed(f"its {job} is {json.dumps(addresses)}, expected a list of HOST:PORT")
  if len(jobs.get("chief", [])) > 1:
    raise _malformed(f"it has {len(jobs['chief'])} chiefs, expected one at most")
  addresses = (*jobs.get("chief", []), *jobs.get("worker", []))
  twice = sorted({address for address in addresses if addresses.count(address) > 1})
  if twice:
    raise _malformed(f"it has {', '.join(twice)} twice")
  return Cluster(addresses, _position(config.get("task"), jobs))


def _position(task, jobs):
  """Number of this process among all of them."""
  if not isinstance(task, dict) or not {"type", "index"} <= set(task):
    raise _malformed(f"its task is {json.dumps(task)}, expected a type and an index")
  job, index = task["type"], task["index"]
  if not isinstance(job, str) or job not in jobs:
    raise _malformed(f"its task is of type {json.dumps(job)}, which its cluster does not have")
  if isinstance(index, str) and index.isascii() and index.isdigit():
    index = int(index)
  if type(index) is not int or not 0 <= index < len(jobs[job]):
    raise _malformed(f"its task index is {json.dumps(index)}, expected 0 to {len(jobs[job]) - 1}")
  return index + (len(jobs.get("chief", [])) if job == "worker" else 0)


def _malformed(what):
  return ConfigError(f"TF_CONFIG: {what}; expected {EXPECTED}")


def _host_and_port(address):
  """(host, port) of "host:port"; None for what is no address."""
  host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
  if not host or "://" in address or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
    return None
  return host.strip("[]"), int(port)


def _answers(address):
  """Whether something listens at an address."""
  try:
    with socket.create_connection(_host_and_port(address), timeout=2):
      return True
  except OSError:
    return False
