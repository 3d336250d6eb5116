"""Machines of a test: network namespaces of this one, and links between them that delay, lose and are cut.

They need Linux, root and iproute2. Debian's kernel has `tc netem` for this, but not every kernel does: here a thread
carries each packet from one machine to the others.
"""

import array
import contextlib
import fcntl
import heapq
import os
import pathlib
import random
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

_ETH_P_ALL, _SIOCETHTOOL, _ETHTOOL_STXCSUM = 3, 0x8946, 0x17
_LONGEST_PACKET = 65600


class Machines(contextlib.ExitStack):
  """Machines that run commands. `delay`, `loss` and `cut` of their links may be changed at any time."""

  def __init__(self, names, log):
    super().__init__()
    self._log = self.enter_context(open(log, "ab"))  # noqa: SIM115 closed with the others
    self._running, self._sockets, self._stopped = [], [], threading.Event()
    self.addresses = {name: f"198.18.0.{number}" for number, name in enumerate(names, start=1)}
    self.reset()
    try:
      for name in names:
        self._add(name)
    except BaseException:
      self.close()
      raise
    thread = threading.Thread(target=self._carry, daemon=True)
    thread.start()
    self.callback(lambda: (self._stopped.set(), thread.join()))
    self.callback(self.stop)

  def reset(self):
    """Makes the links fast, complete and whole."""
    self.delay, self.loss, self.cut, self._random = 0.0, 0.0, False, random.Random(0)

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

  def _add(self, name):
    inside, number = _namespace(name), len(self._sockets)
    end = f"bfl{os.getpid()}-{number}"
    _ip("netns", "add", inside)
    self.callback(_ip, "netns", "del", inside)
    # Beam's job server tells its workers this machine's name. For them, that is the first machine.
    hosts = pathlib.Path("/etc/netns", inside, "hosts")
    hosts.parent.mkdir(parents=True)
    self.callback(shutil.rmtree, hosts.parent)
    hosts.write_text(f"127.0.0.1 localhost\n{next(iter(self.addresses.values()))} {socket.gethostname()}\n")
    _ip("link", "add", end, "type", "veth", "peer", "name", "uplink")
    self.callback(_ip, "link", "del", end)
    # Packets of a veth have no checksum, which only the kernel's own path to the other end allows.
    value = array.array("B", struct.pack("II", _ETHTOOL_STXCSUM, 0))
    with socket.socket() as any_socket:
      fcntl.ioctl(any_socket, _SIOCETHTOOL, struct.pack("16sP", b"uplink", value.buffer_info()[0]))
    _ip("link", "set", "uplink", "netns", inside)
    _ip("-n", inside, "address", "add", f"{self.addresses[name]}/24", "dev", "uplink")
    for device in ("lo", "uplink"):
      _ip("-n", inside, "link", "set", device, "up")
    # This machine must not answer in place of another one.
    _ip("link", "set", end, "arp", "off", "addrgenmode", "none", "up")
    packets = self.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL)))
    packets.bind((end, 0))
    self._sockets.append(packets)

  def _carry(self):
    waiting, number = [], 0
    with selectors.DefaultSelector() as selector:
      for packets in self._sockets:
        selector.register(packets, selectors.EVENT_READ)
      while not self._stopped.is_set():
        pause = 0.1
        if waiting:
          pause = min(pause, max(0.0, waiting[0][0] - time.monotonic()))
        for key, _ in selector.select(pause):
          packet, (_, _, kind, *_) = key.fileobj.recvfrom(_LONGEST_PACKET)
          if kind != socket.PACKET_OUTGOING and not self.cut and self._random.random() >= self.loss:
            number += 1
            heapq.heappush(waiting, (time.monotonic() + self.delay, number, packet, key.fileobj))
        while waiting and waiting[0][0] <= time.monotonic():
          *_, packet, sender = heapq.heappop(waiting)
          # Each machine takes the packets that have its hardware address.
          for other in self._sockets:
            if other is not sender:
              other.send(packet)


def _namespace(name):
  return f"bertflow{os.getpid()}-{name}"


def _ip(*words):
  """Runs iproute2's `ip`; raises OSError with its message."""
  done = subprocess.run(["ip", *map(str, words)], capture_output=True, text=True)
  if done.returncode:
    raise OSError(f"ip {' '.join(map(str, words))}: {done.stderr.strip()}")


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
