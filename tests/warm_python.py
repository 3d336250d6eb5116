"""A `python` for command lines that starts at once: a fork of a process that has imported everything.

    python -m tests.warm_python SOCKET

answers the programs `python` that `install` writes: it forks, and the child runs the script, module or code of the
command line with the standard streams, folder and environment of the program, as Python would.
"""

import array
import contextlib
import json
import os
import pathlib
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

from tests.testing import REPO

# The program `python`: sends its command line, and its streams, and ends with the status that comes back.
_PROGRAM = """#!{python} -ISE
import array, json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
server.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
server.sendall(request)
server.shutdown(socket.SHUT_WR)
sys.exit(int(server.makefile().read() or 99))
"""


@contextlib.contextmanager
def install(folder, environment):
  """Writes `python` and `python3` into the folder, for the context; packages read `environment` when imported."""
  home = tempfile.mkdtemp(prefix="py", dir="/tmp")  # a socket's path has at most 108 bytes
  address = f"{home}/socket"
  for name in ("python", "python3"):
    (folder / name).write_text(_PROGRAM.format(python=sys.executable, address=address))
    (folder / name).chmod(0o755)
  command = [sys.executable, "-m", "tests.warm_python", address]
  with (
    open(folder / "stderr", "w+") as log,
    subprocess.Popen(command, cwd=REPO, env={**os.environ, **environment}, stderr=log) as server,
  ):
    try:
      while not os.path.exists(address):
        assert server.poll() is None, pathlib.Path(log.name).read_text()[-4000:]
        time.sleep(0.1)
      yield
    finally:
      server.terminate()
      shutil.rmtree(home)


def _python(arguments):
  """Does what `python ARGUMENTS` does."""
  first, *rest = arguments
  if first == "-c":
    sys.argv = ["-c", *rest[1:]]
    exec(rest[0], {"__name__": "__main__"})
  elif first == "-m":
    sys.argv = rest
    runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
  else:
    sys.argv = arguments
    runpy.run_path(first, run_name="__main__")


def _answer(connection):
  """Becomes the program: runs its command line, and exits with its status."""
  _, (rights,), *_ = connection.recvmsg(1, socket.CMSG_LEN(3 * array.array("i").itemsize))
  streams = array.array("i", rights[2])
  with connection.makefile() as file:
    arguments, folder, environment = json.loads(file.read())
  for number, stream in enumerate(streams):
    os.dup2(stream, number)
    os.close(stream)
  connection.close()
  os.chdir(folder)
  os.environ.clear()
  os.environ.update(environment)
  status = 0
  try:
    _python(arguments)
  except SystemExit as stop:
    if isinstance(stop.code, str):
      print(stop.code, file=sys.stderr)
    status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
  except BaseException:
    traceback.print_exc()
    status = 1
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(status)


def main(address):
  """Imports everything, then answers until it or its parent is ended."""
  server = socket.socket(socket.AF_UNIX)
  server.bind(f"{address}.tmp")
  server.listen()
  os.rename(f"{address}.tmp", address)  # the programs wait for the imports
  from tools.soak import forks

  forks.import_all()
  signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
  server.settimeout(1)
  parent = os.getppid()
  while os.getppid() == parent:
    try:
      connection, _ = server.accept()
    except TimeoutError:
      continue
    if not os.fork():
      server.close()
      signal.signal(signal.SIGCHLD, signal.SIG_DFL)
      pid = os.fork()
      if not pid:
        _answer(connection)
      connection.sendall(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
      os._exit(0)
    connection.close()


if __name__ == "__main__":
  main(*sys.argv[1:])
