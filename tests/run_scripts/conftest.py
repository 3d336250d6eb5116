"""The fixture of all runners' tests: many command lines of a runner, run in one process."""

import json

import pytest

from tests.testing import run_python


@pytest.fixture(scope="module")
def ran(request, tmp_path_factory):
  """Returns (folder, results) of the test module's command lines; see `command_lines`."""
  name = request.module.__name__.rpartition(".")[2]
  folder = tmp_path_factory.mktemp(name)
  return folder, json.loads(run_python("-m", "tests.run_scripts.command_lines", name, folder))
