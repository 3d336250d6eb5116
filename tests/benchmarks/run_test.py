"""benchmarks/run.py: as a user starts it."""

import json
import subprocess
import sys

import pytest

from tests.testing import REPO

pytestmark = pytest.mark.slow


def run(*flags):
  command = [sys.executable, "benchmarks/run.py", *flags]
  return subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=300)


def test_main_writes_what_it_prints(tmp_path):
  (tmp_path / "small.json").write_text('{"n_levels": 1, "depth": 1, "coupling_width": 4}')
  small = [f"--flow_model_config={tmp_path}/small.json", "--dim=8", "--steps=30", "--repeats=1"]
  done = run("--benchmark=step", *small, f"--output_dir={tmp_path}/out")
  assert done.returncode == 0, done.stderr[-2000:]
  out = tmp_path / "out"
  assert (out / "step.md").read_text() + "\n" == done.stdout
  result = json.loads((out / "step.json").read_text())
  assert result["dim"] == 8 and result["cores"] > 0 and result["flags"]["steps"] == 30 and "numpy" in result["versions"]
  assert sorted(file.name for file in out.iterdir()) == ["step.json", "step.md"]


@pytest.mark.parametrize("flag", ["--sentence_counts=10,x", "--tasks=custom"])
def test_wrong_flags_are_one_line(tmp_path, flag):
  done = run(flag, f"--output_dir={tmp_path}/out")
  (line,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
  assert done.returncode == 1 and flag.partition("=")[0] in line and not (tmp_path / "out").exists()
