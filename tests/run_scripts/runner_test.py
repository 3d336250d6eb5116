"""run_scripts/runner.py: help, errors as one line, signals, and TensorFlow's start-up."""

import logging
import os
import re
import signal
import subprocess
import sys
import types

import pytest

import bert_flow_tf
from bert_flow_tf.errors import ConfigError
from run_scripts import runner
from tests.testing import REPO


def test_an_argument_of_the_library_becomes_its_flag(monkeypatch, capsys):
  monkeypatch.setattr(runner, "FLAGS", {"number": None})

  def main(argv):
    raise ConfigError("number=0: expected at least 1", argument="number")

  assert runner._guarded(main, []) == 1
  assert capsys.readouterr().err == "error: --number=0: expected at least 1\n"


@pytest.mark.parametrize(
  ("error", "status", "text"),
  [
    (OSError(28, "No space left on device"), 1, "the disk is full; free some space"),
    (OSError(36, "File name too long"), 1, "File name too long"),
    (KeyboardInterrupt(), 130, "the same command resumes"),
  ],
)
def test_errors_that_a_user_can_mend_are_one_line(capsys, error, status, text):
  def main(argv):
    raise error

  assert runner._guarded(main, []) == status
  (line,) = capsys.readouterr().err.splitlines()
  assert line.startswith("error: ") and text in line


@pytest.mark.parametrize(
  ("reason", "line"),
  [
    ("OOM when allocating tensor", "error: out of memory (OOM when allocating tensor); use a smaller batch size\n"),
    (
      "x/part; No space left on device",
      "error: the disk is full; free some space, and the same command resumes from what is saved\n",
    ),
  ],
)
def test_exhausted_resources_are_one_line(reason, line, capsys):
  import tensorflow as tf

  def main(argv):
    raise tf.errors.ResourceExhaustedError(None, None, reason)

  assert runner._guarded(main, []) == 1
  assert capsys.readouterr().err == line


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_runner_that_does_not_resume_does_not_promise_it(capsys, error):
  def main(argv):
    raise error

  assert runner._guarded(main, [], resumes=False) != 0
  line = capsys.readouterr().err
  assert "start the same command again" in line and "resume" not in line


def test_an_interrupt_that_became_another_error(capsys):
  def main(argv):
    try:
      signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:  # as TensorFlow does while it traces
      raise SystemError("bad argument to internal function") from error

  assert runner._guarded(main, []) == 130
  assert "the same command resumes" in capsys.readouterr().err


def test_a_bug_is_not_hidden():
  with pytest.raises(ZeroDivisionError):
    runner._guarded(lambda argv: 1 / 0, [])


def test_help_ends_with_0(monkeypatch, capsys):
  root = logging.getLogger()
  monkeypatch.setattr(root, "handlers", list(root.handlers))  # absl adds its own
  monkeypatch.setattr(sys, "argv", ["runner.py", "--help"])
  with pytest.raises(SystemExit) as stop:
    runner.run(test_help_ends_with_0)
  assert stop.value.code == 0 and "--helpfull" in capsys.readouterr().out


def test_help_whose_reader_stops_ends_without_an_error():
  """As `--help | head`: nobody reads the pipe."""
  reading, writing = os.pipe()
  os.close(reading)
  command = [sys.executable, "run_scripts/run_flow.py", "--help"]
  try:
    done = subprocess.run(command, cwd=REPO, stdout=writing, stderr=subprocess.PIPE, timeout=60)
  finally:
    os.close(writing)
  assert (done.returncode, done.stderr) == (0, b"")


def test_a_python_without_tensorflow_is_rejected_with_the_reason(monkeypatch, capsys):
  monkeypatch.setattr(runner, "sys", types.SimpleNamespace(**{**vars(sys), "version_info": (3, 14, 0)}))
  with pytest.raises(SystemExit) as stop:
    runner.run(None)
  assert stop.value.code == 1
  assert capsys.readouterr().err.startswith("error: this is Python 3.14: TensorFlow has no build for 3.14 or later")


def test_a_runner_starts_without_messages_of_tensorflow():
  """Neither the import nor the look for devices prints; our own lines have no file names and thread ids."""
  code = (
    "import sys\nfrom absl import logging\nfrom run_scripts import runner\n"
    "def main(argv):\n"
    "  import tensorflow as tf\n  tf.constant(1.0) + 1\n"
    "  logging.info('hello')\n  logging.warning('careful')\n  print('error', file=sys.stderr)\n"
    "runner.run(main)\n"
  )
  environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
  done = subprocess.run(
    [sys.executable, "-c", code], cwd=REPO, env=environment, capture_output=True, text=True, timeout=120, check=True
  )
  assert re.fullmatch(r"\d\d:\d\d:\d\d hello\n\d\d:\d\d:\d\d warning: careful\nerror\n", done.stderr)


def test_the_reason_why_tensorflow_does_not_start_is_printed(tmp_path):
  lines = "import os\nos.write(2, b'its own reason\\n')\nraise ImportError('no library')\n"
  (tmp_path / "tensorflow.py").write_text(lines)
  code = "from run_scripts import runner\nrunner.run(lambda argv: __import__('tensorflow'))"
  environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
  environment["PYTHONPATH"] = f"{tmp_path}:{REPO}"
  done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
  assert done.returncode != 0 and done.stderr.startswith("its own reason\n") and "no library" in done.stderr


def test_a_runner_works_with_a_closed_standard_error():
  """As `2>&-`, or a daemon that has closed it."""
  code = (
    "from absl import logging\nfrom bert_flow_tf.progress import Progress\nfrom run_scripts import runner\n"
    "def main(argv):\n"
    "  logging.info('hello')\n  with Progress(1) as progress:\n    progress.update(1)\n  print('done')\n"
    "runner.run(main)\n"
  )
  for flag, expected in (("", (0, "done\n")), ("--no-such-flag", (1, ""))):
    command = ["sh", "-c", f'exec "$0" -c "$1" {flag} 2>&-', sys.executable, code]
    done = subprocess.run(command, cwd=REPO, stdout=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stdout) == expected


def test_python_without_docstrings():
  command = [sys.executable, "-OO", "run_scripts/run_embed.py"]
  page = subprocess.run([*command, "--help"], cwd=REPO, capture_output=True, text=True, timeout=60, check=True).stdout
  assert page.startswith("python run_scripts/run_embed.py --FLAG=VALUE ...\n") and "\n  --input=" in page
  done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60)
  assert (done.returncode, done.stderr.count("\n")) == (1, 1) and done.stderr.startswith("error: this is python -OO")


@pytest.mark.parametrize("name", ["flow", "eval", "siamese"])
def test_help_has_every_flag_once_under_a_heading(name):
  """In a process of its own, as the flags of runners are global; no other heading is needed than those of the page."""
  command = [sys.executable, f"run_scripts/run_{name}.py"]
  page = subprocess.run([*command, "--help"], cwd=REPO, capture_output=True, text=True, timeout=60, check=True).stdout
  first, _, example = page.splitlines()[:3]
  assert first.endswith((".", "runner.")) and example.startswith(f"  python run_scripts/run_{name}.py --")
  names = re.findall(r"^  --(?:\[no\])?(\w+)", page, re.MULTILINE)
  assert len(names) == len(set(names)) and {"model", "data_dir", "seed" if name != "eval" else "flow_folder"} <= {
    *names
  }
  if name == "eval":
    assert re.search(r"--model=TEXT\n.*\n.*\n.*Default: from the calibration; without one, mini\.", page)
  version = subprocess.run([*command, "--version"], cwd=REPO, capture_output=True, text=True, timeout=60, check=True)
  assert version.stdout == f"bert-flow-tf {bert_flow_tf.__version__}\n"
