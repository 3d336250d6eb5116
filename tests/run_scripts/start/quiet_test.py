"""run_scripts/quiet.py: what TensorFlow prints at its import is hidden, and nothing else."""

import os
import signal

import pytest

from tests.testing import REPO, finished_python

# A package of that name, which prints as TensorFlow's C++ does, while another thread writes.
_TENSORFLOW = """
import os
import signal
os.write(2, b"I0000 00:00:1795424436.987574 18478 port.cc:153] oneDNN custom operations are on.\\n")
os.write(2, b"a line of another thread\\n")
{end}
"""


def printed_lines(code, **options):
  """Returns what Python prints to standard error, with TensorFlow's log as a user has it."""
  return finished_python("-c", code, **{"TF_CPP_MIN_LOG_LEVEL": None, **options}).stderr.splitlines()


@pytest.mark.parametrize(
  ("end", "code", "options", "shown"),
  [
    ("", "", {}, ["a line"]),
    ("", "", {"TF_CPP_MIN_LOG_LEVEL": "0"}, ["I0000", "a line"]),
    ("", "", {"TF_CPP_MIN_LOG_LEVEL": "1"}, ["a line"]),
    ("os.write(2, b'W0000 00:00:1\\nE0000 00:00:2\\n')", "", {"TF_CPP_MIN_LOG_LEVEL": "2"}, ["a line", "E0000"]),
    ("os.abort()", "quiet._CPU_INFO = '{cpu}'\n", {"status": -signal.SIGABRT}, ["I0000", "a line"]),
    ("raise KeyboardInterrupt", "", {"status": -signal.SIGINT}, ["a line", "KeyboardInterrupt"]),
    ("raise ImportError('broken')", "", {"status": 1}, ["I0000", "a line", "ImportError: broken"]),
  ],
)
def test_only_lines_of_tensorflow_are_hidden(tmp_path, end, code, options, shown):
  package = tmp_path / "tensorflow"
  package.mkdir()
  (package / "__init__.py").write_text(_TENSORFLOW.format(end=end))
  cpu = tmp_path / "cpuinfo"
  cpu.write_text("flags\t\t: fpu sse sse2\n")
  code = f"import bert_flow_tf\nfrom run_scripts import quiet\n{code.format(cpu=cpu)}quiet.import_tensorflow()"
  printed = printed_lines(code, PYTHONPATH=f"{tmp_path}{os.pathsep}{REPO}", **options)
  lines = [line for line in printed if not line.startswith(("Traceback", " "))]
  assert len(lines) == len(shown), printed
  assert all(line.startswith(start) for line, start in zip(lines, shown, strict=True))


def test_a_runner_prints_its_own_lines_alone():
  """Neither the import nor the first operations print; our lines have no file names and thread ids."""
  code = (
    "import sys\nfrom absl import logging\nfrom run_scripts import quiet, runner\n"
    "def main():\n"
    "  quiet.import_tensorflow()\n  import tensorflow as tf\n  tf.constant(1.0) + 1\n  tf.cast(1.0, tf.float16)\n"
    "  logging.info('hello')\n  logging.warning('careful')\n  print('error', file=sys.stderr)\n"
    "runner.run(main)\n"
  )
  lines = [line.split(" ", 1) for line in printed_lines(code)]
  assert [line[-1] for line in lines] == ["hello", "warning: careful", "error"]


def test_quiet_leaves_warnings_and_errors_alone():
  code = (
    "import sys\nfrom absl import flags, logging\nfrom bert_flow_tf.errors import ConfigError\n"
    "from bert_flow_tf.progress import Progress\nfrom run_scripts import runner\n"
    "def main():\n"
    "  logging.info('hello')\n  logging.warning('careful')\n"
    "  with Progress(2) as progress:\n    progress.update(2)\n"
    "  raise ConfigError('seed: missing')\n"
    "for flag in ('--quiet', '-q', '--verbosity=-1'):\n"
    "  for name in flags.FLAGS:\n    flags.FLAGS[name].unparse()\n"
    "  sys.argv = ['x', flag]\n"
    "  try:\n    runner.run(main)\n  except SystemExit as stop:\n    assert stop.code == 1\n"
  )
  lines = [line.split(" ", 1)[-1] for line in printed_lines(code)]
  assert lines == ["warning: careful", "seed: missing"] * 3
