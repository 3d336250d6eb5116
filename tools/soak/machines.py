"""Machines of a test: network namespaces of this one on a bridge, whose links may be slow, lossy or cut.

They need Linux, root and iproute2; delay and loss also a kernel with netem, as Debian's has.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

_BRIDGE = f"bflow{os.getpid()}"


class Machines(contextlib.ExitStack):
  """Machines that run commands."""

  def __init__(self, names, log):
    super().__init__()
    self._log = self.enter_context(open(log, "ab"))  # noqa: SIM115 closed with the others
    self._running, self._ends = [], []
    self.addresses = {name: f"198.18.0.{number}" for number, name in enumerate(names, start=1)}
    with contextlib.ExitStack() as cleanup:
      _ip("link", "add", _BRIDGE, "type", "bridge")
      cleanup.callback(_ip, "link", "del", _BRIDGE)
      _ip("link", "set", _BRIDGE, "up")
      for name in names:
        self._add(name, cleanup)
      cleanup.callback(self.stop)
      self.push(cleanup.pop_all())

  def slow(self, delay=0.0, loss=0.0):
    """Gives every link a delay in seconds and a share of lost packets; fast and whole without them."""
    for end in self._ends:
      subprocess.run(["tc", "qdisc", "del", "dev", end, "root"], capture_output=True)
      if delay or loss:
        settings = ["netem", "delay", f"{1000 * delay:g}ms", "loss", f"{100 * loss:g}%"]
        _run("tc", "qdisc", "add", "dev", end, "root", *settings)

  def cut(self, cut=True):
    """Cuts the links, or mends them."""
    for end in self._ends:
      _ip("link", "set", end, "down" if cut else "up")

  def start(self, name, *command, **options):
    """Starts a command on a machine, in a process group of its own; returns its Popen."""
    command = ["ip", "netns", "exec", _namespace(name), *map(str, command)]
    options = {"stdout": self._log, "stderr": subprocess.STDOUT, **options}
    process = subprocess.Popen(command, start_new_session=True, **options)
    self._running.append(process)
    return process

  def stop(self):
    """Kills all commands and the processes that they started."""
    for process in self._running:
      if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    self._running.clear()

  def wait_for(self, name, port, host=None, seconds=90):
    """Waits until a server on a machine accepts connections, at the machine's address if no host is given."""
    code = f"import socket; socket.create_connection(({host or self.addresses[name]!r}, {port}), 1)"
    end = time.monotonic() + seconds
    while time.monotonic() < end:
      if self.start(name, "python3", "-c", code, stderr=subprocess.DEVNULL).wait() == 0:
        return
      time.sleep(0.5)
    raise TimeoutError(f"no server on port {port} of {name}; see {self._log.name}")

  def _add(self, name, cleanup):
    inside, end = _namespace(name), f"{_BRIDGE}-{len(self._ends)}"
    _ip("netns", "add", inside)
    cleanup.callback(_ip, "netns", "del", inside)
    # Beam's job server tells its workers this machine's name. For them, that is the first machine.
    hosts = pathlib.Path("/etc/netns", inside, "hosts")
    hosts.parent.mkdir(parents=True)
    cleanup.callback(shutil.rmtree, hosts.parent)
    hosts.write_text(f"127.0.0.1 localhost\n{next(iter(self.addresses.values()))} {socket.gethostname()}\n")
    _ip("link", "add", end, "type", "veth", "peer", "name", "uplink", "netns", inside)
    _ip("link", "set", end, "master", _BRIDGE, "up")
    _ip("-n", inside, "address", "add", f"{self.addresses[name]}/24", "dev", "uplink")
    for device in ("lo", "uplink"):
      _ip("-n", inside, "link", "set", device, "up")
    self._ends.append(end)


def _namespace(name):
  return f"{_BRIDGE}-{name}"


def _ip(*words):
  _run("ip", *words)


def _run(*words):
  """Runs a command of iproute2; raises OSError with its message."""
  done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
  if done.returncode:
    raise OSError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


def descendants(process):
  """Returns the ids of the processes that a process started, directly or not, oldest first."""
  found = [process.pid]
  for pid in found:
    children = subprocess.run(["pgrep", "--parent", str(pid)], capture_output=True, text=True).stdout
    found += map(int, children.split())
  return sorted(found[1:])
