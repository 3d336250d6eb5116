"""The fixture of all runners' tests: many command lines of a runner, run in one process."""

import json
import subprocess
import sys

import pytest

from tests.testing import REPO


@pytest.fixture(scope="module")
def ran(request, tmp_path_factory):
  """Returns (folder, results) of the test module's command lines; see `command_lines`."""
  name = request.module.__name__.rpartition(".")[2]
  folder = tmp_path_factory.mktemp(name)
  command = [sys.executable, "-m", "tests.run_scripts.command_lines", name, str(folder)]
  done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=900)
  assert done.returncode == 0, done.stderr[-4000:]
  return folder, json.loads(done.stdout)
