"""Two runs of the same command have the same result, to the bit."""

import subprocess
import sys

import pytest

from tests.testing import REPO


@pytest.mark.slow
def test_a_seed_decides_every_bit(tmp_path):
  """Results, weights, checkpoints and predictions; tests/soak compares more, after kills."""
  runners = "run_flow,run_siamese,run_pretraining,run_calibrate"
  command = [sys.executable, "-m", "tests.soak.kills", f"--runner={runners}", "--kills=0", "--signals=0"]
  done = subprocess.run([*command, f"--folder={tmp_path}"], cwd=REPO, capture_output=True, text=True, timeout=900)
  assert done.returncode == 0 and done.stdout.count("the second identical: True") == 4, done.stdout + done.stderr
