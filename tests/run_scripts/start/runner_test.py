"""run_scripts/runner.py: help, errors as one line, signals, and TensorFlow's start-up."""

import os
import re
import signal
import subprocess
import sys
import types

import numpy as np
import pytest
from absl import flags

from bert_flow_tf.errors import ConfigError
from run_scripts import runner
from tests.testing import REPO, finished_python

FULL = OSError(28, "No space left on device")
RESUMES = "the same command resumes from what is saved, if anything is"


def unwritten():
  error = ConfigError("flow.npz: cannot be written (No space left on device)")
  error.__cause__ = FULL
  return error


def exhausted(reason):
  import tensorflow as tf

  return tf.errors.ResourceExhaustedError(None, None, reason)


@pytest.mark.parametrize(
  ("message", "argument", "line"),
  [
    ("verbosity=x: expected a number", "verbosity", "--verbosity=x: expected a number"),
    ("a: as exp_name=b, ./exp_name=c or other=d", None, "a: as --exp_name=b, ./exp_name=c or other=d"),
    ("verbosity=pairs.tsv: no such file", "verbosity", "pairs.tsv: no such file"),
    ("verbosity: pairs.tsv does not exist", "verbosity", "pairs.tsv does not exist"),
  ],
)
def test_arguments_in_a_message_are_the_flags_that_a_user_types(monkeypatch, capsys, message, argument, line):
  """A file of the command line that stands without a flag has none in the message, either."""
  flag = types.SimpleNamespace(name="exp_name")
  monkeypatch.setattr(runner.common_flags, "runner_flags", lambda: [flag])
  monkeypatch.setattr(runner, "_name_as_given", lambda name: name)

  def main():
    raise ConfigError(message, argument)

  assert runner._guarded(main, files=["pairs.tsv"]) == 1
  assert capsys.readouterr().err == f"error: {line}\n"


@pytest.mark.parametrize(
  ("make_error", "resumes", "status", "line"),
  [
    (lambda: ConfigError("caf\u00e9 \x1b[2J"), True, 1, "caf\u00e9 \\x1b[2J"),
    (lambda: FULL, True, 1, f"the disk is full; free some space, and {RESUMES}"),
    (lambda: FULL, False, 1, "the disk is full; free some space, and start the same command again"),
    (unwritten, True, 1, f"the disk is full; free some space, and {RESUMES}"),
    (lambda: OSError("9 requested and 2 written"), True, 1, f"the disk is full; free some space, and {RESUMES}"),
    (
      lambda: OSError("Not enough free space to write 9 bytes"),
      True,
      1,
      f"the disk is full; free some space, and {RESUMES}",
    ),
    (lambda: OSError(*FULL.args, "a"), True, 1, f"a: the disk is full; free some space, and {RESUMES}"),
    (lambda: OSError(36, "File name too long", "a"), True, 1, "a: File name too long"),
    (KeyboardInterrupt, True, 130, f"interrupted; {RESUMES}"),
    (KeyboardInterrupt, False, 130, "interrupted; start the same command again"),
    (lambda: exhausted("OOM when"), True, 1, "out of memory (OOM when); use a smaller batch size"),
    (MemoryError, False, 1, "out of memory; give fewer records at once, or more memory"),
    (lambda: exhausted("x; No space left on device"), True, 1, f"the disk is full; free some space, and {RESUMES}"),
  ],
)
def test_errors_that_a_user_can_mend_are_one_line(capsys, make_error, resumes, status, line):
  def main():
    raise make_error()

  assert runner._guarded(main, resumes) == status
  assert capsys.readouterr().err == f"error: {line}\n"


@pytest.mark.parametrize(("given", "way"), [(None, True), ("vectors", False)])
def test_a_lack_of_memory_names_the_way_that_needs_less(monkeypatch, capsys, given, way):
  values = flags.FlagValues()
  flags.DEFINE_string("vectors", given, "", flag_values=values)
  values.mark_as_parsed()
  monkeypatch.setattr(runner, "FLAGS", values)

  def main():
    np.empty([2**40, 2**20], np.float32)  # more than any machine has

  assert runner._guarded(main, resumes=False) == 1
  message = capsys.readouterr().err
  assert message.startswith("error: out of memory (Unable to allocate 4.00 EiB") and message.count("\n") == 1
  assert ("--vectors=FOLDER" in message) == way


def test_an_interrupt_that_became_another_error(capsys):
  def main():
    try:
      signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:  # as TensorFlow does while it traces
      raise SystemError("bad argument to internal function") from error

  assert runner._guarded(main) == 130
  assert "the same command resumes" in capsys.readouterr().err


def test_a_bug_is_not_hidden():
  with pytest.raises(ZeroDivisionError):
    runner._guarded(lambda: 1 / 0)


def test_an_error_is_one_line_of_the_process():
  done = finished_python("run_scripts/run_flow.py", "--task=STS-C", status=1, TF_CPP_MIN_LOG_LEVEL=None)
  assert done.stdout == "" and re.fullmatch("error: --task=STS-C.*\n", done.stderr)


def test_a_published_flag_without_a_meaning_says_so():
  done = finished_python("run_scripts/run_siamese.py", "--task=SICK-E", "--label_max=4", status=1)
  assert "label_max" in done.stderr


def test_help_whose_reader_stops_ends_without_an_error():
  """`--help | head` closes the pipe early."""
  reading, writing = os.pipe()
  os.close(reading)
  done = finished_python("run_scripts/run_flow.py", "--help", stdout=writing)
  os.close(writing)
  assert done.stderr == ""


def test_numpys_error_of_a_full_disk_names_the_output(monkeypatch, capsys):
  values = flags.FlagValues()
  flags.DEFINE_string("output", "vectors", "", flag_values=values)
  values.mark_as_parsed()
  monkeypatch.setattr(runner, "FLAGS", values)

  def main():
    raise OSError("Not enough free space to write 16777216 bytes after offset 128")

  assert runner._guarded(main) == 1
  assert capsys.readouterr().err.startswith("error: --output=vectors: the disk is full; free some space, and the same")


@pytest.mark.parametrize("command", [["bert_flow.py", "--version"], ["run_flow.py", "--help"]])
def test_help_on_a_full_disk_is_one_line(command):
  with open("/dev/full", "wb") as full:
    done = finished_python(f"run_scripts/{command[0]}", command[1], stdout=full, status=1)
  assert re.fullmatch("error: standard output: the disk is full; free some space, and start .* again\n", done.stderr)


def test_a_python_without_tensorflow_is_rejected_with_the_reason(monkeypatch, capsys):
  monkeypatch.setattr(runner, "sys", types.SimpleNamespace(**{**vars(sys), "version_info": (3, 14, 0)}))
  with pytest.raises(SystemExit) as stop:
    runner.run(None)
  assert stop.value.code == 1
  assert capsys.readouterr().err.startswith("error: this is Python 3.14: TensorFlow has no build for 3.14 or later")


def test_output_that_nobody_reads_is_no_error():
  """`bert-flow search corpus.txt < questions | head -1` closes the pipe early."""
  code = "from run_scripts import runner\ndef main():\n  for line in range(100000):\n    print(line, flush=True)\n"
  code += "runner.run(main)\n"
  command = ["bash", "-c", '"$0" -c "$1" | head -1; exit ${PIPESTATUS[0]}', sys.executable, code]
  done = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
  assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
