"""bert_flow_tf/io/quiet.py: what TensorFlow prints at its import is hidden, and nothing else."""

import os
import subprocess
import sys

import pytest

from tests.testing import REPO

# A package of that name, which prints as TensorFlow's C++ does, while another thread writes.
_TENSORFLOW = """
import os, types
os.write(2, b"I0000 00:00:1795424436.987574 18478 port.cc:153] oneDNN custom operations are on.\\n")
os.write(2, b"2026-01-01 00:00:00.1: I tensorflow/core/platform/cpu_feature_guard.cc:210] This binary\\n")
os.write(2, b"a line of another thread\\n")
config = types.SimpleNamespace(list_physical_devices=lambda kind: [])
{end}
"""
_IMPORT = "from bert_flow_tf.io import quiet; {before}import tensorflow"


@pytest.mark.parametrize(
  ("end", "before", "shown"),
  [
    ("", "", ["a line of another thread"]),
    ("", "import tempfile; tempfile.tempdir = '/absent'; ", ["I0000", "2026", "a line"]),
    ("os.abort()", "quiet._CPU_INFO = '{cpu}'; ", ["I0000", "2026", "a line"]),
    ("raise ImportError('broken')", "", ["I0000", "2026", "a line", "ImportError: broken"]),
  ],
)
def test_only_lines_of_tensorflow_are_hidden(tmp_path, end, before, shown):
  package = tmp_path / "tensorflow"
  package.mkdir()
  (package / "__init__.py").write_text(_TENSORFLOW.format(end=end))
  cpu = tmp_path / "cpuinfo"
  cpu.write_text("flags\t\t: fpu sse sse2\n")
  path = f"{tmp_path}{os.pathsep}{REPO}"
  done = subprocess.run(
    [sys.executable, "-c", _IMPORT.format(before=before.format(cpu=cpu))],
    env={**os.environ, "PYTHONPATH": path},
    capture_output=True,
    text=True,
  )
  lines = [line for line in done.stderr.splitlines() if not line.startswith(("Traceback", " "))]
  assert len(lines) == len(shown), done.stderr
  assert all(line.startswith(start) for line, start in zip(lines, shown, strict=True))
