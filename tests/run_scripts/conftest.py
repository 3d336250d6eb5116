"""The fixture of all runners' tests: many command lines of a runner, run in one process."""

import json
import subprocess
import sys

import pytest

from tests.testing import REPO


@pytest.fixture(scope="module")
def ran(request, tmp_path_factory):
  """Returns (folder, results) of the test module's `COMMAND_LINES`, a module that prints results as json.

  The module is run with a folder to work in. Results are {case: {"status", "stdout", "stderr"}}, see `run_all`.
  """
  name = request.module.COMMAND_LINES.__name__
  folder = tmp_path_factory.mktemp(name.rpartition(".")[2])
  command = [sys.executable, "-m", name, str(folder)]
  done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=900)
  assert done.returncode == 0, done.stderr[-4000:]
  return folder, json.loads(done.stdout)
