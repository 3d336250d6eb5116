"""Machines of a test: network namespaces of their own, joined by a bridge; without root, processes on loopback."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

_NETWORK = "10.97.0"
_PREFIX = "bert-flow-"


class Machines:
  """Machines that run commands. The first has the address 10.97.0.1, the next 10.97.0.2, and so on."""

  def __init__(self, names, log):
    self._log = open(log, "ab")  # noqa: SIM115 closed by __exit__
    self._running = []
    self.real = os.geteuid() == 0 and shutil.which("ip") is not None
    self._numbers = {name: number for number, name in enumerate(names, start=1)}
    if self.real:
      self._remove()
      self._join()

  def address(self, name):
    """Returns a machine's address."""
    return f"{_NETWORK}.{self._numbers[name]}" if self.real else "127.0.0.1"

  def start(self, name, *command, **options):
    """Starts a command on a machine, in a process group of its own; returns its Popen."""
    inside = ["ip", "netns", "exec", _PREFIX + name] if self.real else []
    options = {"stdout": self._log, "stderr": subprocess.STDOUT, **options}
    process = subprocess.Popen([*inside, *map(str, command)], start_new_session=True, **options)
    self._running.append(process)
    return process

  def stop(self, *processes):
    """Kills commands, all if none are given, and the processes that they started."""
    for process in processes or list(self._running):
      if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
      self._running.remove(process)

  def wait_for(self, name, port, host=None, seconds=90):
    """Waits until a server on a machine accepts connections, at the machine's address if no host is given."""
    code = f"import socket; socket.create_connection(({host or self.address(name)!r}, {port}), 1)"
    end = time.monotonic() + seconds
    while time.monotonic() < end:
      if self.start(name, "python3", "-c", code, stderr=subprocess.DEVNULL).wait() == 0:
        return
      time.sleep(0.5)
    raise TimeoutError(f"no server on port {port} of {name}; see {self._log.name}")

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self.stop()
    self._remove()
    self._log.close()

  def _join(self):
    first, *others = self._numbers
    for name in self._numbers:
      _ip("netns", "add", _PREFIX + name)
      self._inside(name, "link", "set", "lo", "up")
      # Beam's job server tells its workers this machine's name. For them, that is the first machine.
      hosts = pathlib.Path("/etc/netns", _PREFIX + name, "hosts")
      hosts.parent.mkdir(parents=True, exist_ok=True)
      hosts.write_text(f"127.0.0.1 localhost\n{self.address(first)} {socket.gethostname()}\n")
    self._inside(first, "link", "add", "bridge", "type", "bridge")
    for name in others:
      wire = f"wire{self._numbers[name]}"
      self._inside(first, "link", "add", wire, "type", "veth", "peer", "name", "wire", "netns", _PREFIX + name)
      self._inside(first, "link", "set", wire, "master", "bridge", "up")
    for name in self._numbers:
      device = "bridge" if name == first else "wire"
      self._inside(name, "addr", "add", f"{self.address(name)}/24", "dev", device)
      self._inside(name, "link", "set", device, "up")

  def _inside(self, name, *arguments):
    _ip("-n", _PREFIX + name, *arguments)

  def _remove(self):
    """Removes the namespaces, also those that a killed test left; their devices go with them."""
    for name in self._numbers if self.real else ():
      subprocess.run(["ip", "netns", "del", _PREFIX + name], stderr=subprocess.DEVNULL, check=False)
      shutil.rmtree(pathlib.Path("/etc/netns", _PREFIX + name), ignore_errors=True)


def _ip(*arguments):
  subprocess.run(["ip", *arguments], check=True)


def descendants(process):
  """Returns the ids of the processes that a process started, directly or not, oldest first."""
  parents, started = {}, {}
  for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
    with contextlib.suppress(OSError):
      fields = stat.read_text().rsplit(")", 1)[1].split()
      parents[int(stat.parent.name)], started[int(stat.parent.name)] = int(fields[1]), int(fields[19])
  found = [process.pid]
  for pid in found:
    found += [child for child, parent in parents.items() if parent == pid]
  return sorted(found[1:], key=started.get)
