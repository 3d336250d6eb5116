"""Two machines as network namespaces of this one, and a link between them that delays, loses and is cut.

It needs Linux, root and iproute2. Debian's kernel has `tc netem` for this, but not every kernel does: here a thread
carries each packet from one side to the other.
"""

import array
import contextlib
import fcntl
import heapq
import os
import random
import selectors
import socket
import struct
import subprocess
import threading
import time

_ETH_P_ALL, _SIOCETHTOOL, _ETHTOOL_STXCSUM = 3, 0x8946, 0x17
_LONGEST_PACKET = 65600


def _ip(*words):
  """Runs iproute2's `ip`; raises OSError with its message."""
  done = subprocess.run(["ip", *map(str, words)], capture_output=True, text=True)
  if done.returncode:
    raise OSError(f"ip {' '.join(map(str, words))}: {done.stderr.strip()}")


class Link:
  """The link; a context manager. Its attributes may be changed at any time."""

  def __init__(self) -> None:
    self.addresses = ("198.18.0.1", "198.18.0.2")
    self._names = [f"bertflow{os.getpid()}-{index}" for index in range(2)]
    self._sockets, self._stack, self._stopped = [], contextlib.ExitStack(), threading.Event()
    self.reset()

  def reset(self) -> None:
    """Makes the link fast, complete and whole."""
    self.delay, self.loss, self.cut, self._random = 0.0, 0.0, False, random.Random(0)

  def command(self, index: int) -> list[str]:
    """Returns the words that start a command on a machine, 0 or 1."""
    return ["ip", "netns", "exec", self._names[index]]

  def __enter__(self) -> "Link":
    try:
      for index in range(2):
        self._add_machine(index)
    except BaseException:
      self._stack.close()
      raise
    thread = threading.Thread(target=self._carry, daemon=True)
    thread.start()
    self._stack.callback(lambda: (self._stopped.set(), thread.join()))
    return self

  def __exit__(self, *unused: object) -> None:
    self._stack.close()

  def _add_machine(self, index):
    name, end = self._names[index], f"bfl{os.getpid()}-{index}"
    _ip("netns", "add", name)
    self._stack.callback(_ip, "netns", "del", name)
    _ip("link", "add", end, "type", "veth", "peer", "name", "uplink")
    self._stack.callback(_ip, "link", "del", end)
    # Packets of a veth have no checksum, which only the kernel's own path to the other end allows.
    value = array.array("B", struct.pack("II", _ETHTOOL_STXCSUM, 0))
    with socket.socket() as any_socket:
      fcntl.ioctl(any_socket, _SIOCETHTOOL, struct.pack("16sP", b"uplink", value.buffer_info()[0]))
    _ip("link", "set", "uplink", "netns", name)
    _ip("-n", name, "address", "add", f"{self.addresses[index]}/24", "dev", "uplink")
    for device in ("lo", "uplink"):
      _ip("-n", name, "link", "set", device, "up")
    # This machine must not answer in place of the other one.
    _ip("link", "set", end, "arp", "off", "addrgenmode", "none", "up")
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    self._stack.callback(packets.close)
    packets.bind((end, 0))
    self._sockets.append(packets)

  def _carry(self):
    waiting, number = [], 0
    with selectors.DefaultSelector() as selector:
      for packets, other in zip(self._sockets, reversed(self._sockets), strict=True):
        selector.register(packets, selectors.EVENT_READ, other)
      while not self._stopped.is_set():
        pause = min(0.1, max(0.0, waiting[0][0] - time.monotonic())) if waiting else 0.1
        for key, _ in selector.select(pause):
          packet, (_, _, kind, *_) = key.fileobj.recvfrom(_LONGEST_PACKET)
          if kind != socket.PACKET_OUTGOING and not self.cut and self._random.random() >= self.loss:
            number += 1
            heapq.heappush(waiting, (time.monotonic() + self.delay, number, packet, key.data))
        while waiting and waiting[0][0] <= time.monotonic():
          *_, packet, other = heapq.heappop(waiting)
          other.send(packet)
