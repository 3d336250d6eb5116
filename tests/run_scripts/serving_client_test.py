"""run_scripts/serving_client.py: the command."""

import subprocess
import sys

from tests.testing import REPO


def test_errors_name_the_flag(tmp_path):
  (tmp_path / "pairs.tsv").write_text("a\tb\n")
  for flag, flags in {
    "--input": [],
    "--server": [f"--input={tmp_path}/pairs.tsv", "--server=http://localhost:1"],
  }.items():
    command = [sys.executable, REPO / "run_scripts/serving_client.py", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.splitlines()[-1].startswith(f"error: {flag}")
