"""Two runs of the same command have the same result, to the bit."""

import json
import os
import subprocess
import sys

import pytest

from tests.testing import REPO
from tools.soak.cases import prepare


@pytest.mark.slow
def test_a_seed_decides_every_bit(tmp_path):
  """Results, weights, checkpoints and predictions of two processes, which order Python's sets differently."""
  prepare(tmp_path / "inputs")
  runners = "run_flow,run_siamese,run_calibrate"
  command, found = [sys.executable, "-m", "tools.soak.forks", str(tmp_path), runners], []
  for hashes in ("1", "2"):
    environment = {**os.environ, "PYTHONHASHSEED": hashes}
    done = subprocess.run(command, cwd=REPO, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found.append(json.loads(done.stdout.splitlines()[-1]))
  assert found[0] == found[1] and all(found[0].values())
  assert "damaged" not in json.dumps(found)
