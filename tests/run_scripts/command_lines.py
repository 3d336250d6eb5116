"""Runs the right and the wrong command lines of a runner in one process, and checks how they ended.

    python -m tests.run_scripts.command_lines MODULE FOLDER

MODULE is a test module of this folder. It has RUNNER (as in run_RUNNER.py), `prepare(folder)`, which writes files, and
`right(folder)`, {name: flags} of command lines that work; `wrong` has the others. It may have `always(folder)`, flags
before each line's own, CACHED = False where right command lines change the encoder, and `finish(folder)`, what the
tests need besides. Prints json: {name or flags of a line: {"status", "stdout", "stderr"}}, and what `finish` returns.
"""

import contextlib
import functools
import importlib
import io
import json
import pathlib
import re
import sys
import traceback

from bert_flow_tf.io import files
from tests.run_scripts.wrong import wrong


def run_all(main, command_lines, always=(), cached=True):
  """Runs command lines {name: flags}, behind the flags `always`; returns {name: {"status", "stdout", "stderr"}}."""
  from absl import flags

  import bert_flow_tf
  from run_scripts import runner

  load = bert_flow_tf.SentenceEncoder.from_pretrained
  if cached:
    bert_flow_tf.SentenceEncoder.from_pretrained = functools.cache(load)
  results = {}
  for name, arguments in command_lines.items():
    flags.FLAGS.unparse_flags()
    for flag in flags.FLAGS:
      flags.FLAGS[flag].unparse()
    sys.argv = ["runner.py", *last_of_each([*always, *arguments])]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
      try:
        runner.run(main)
        status = "returned"
      except SystemExit as stop:
        status = stop.code
      except BaseException:
        status = "raised"
        traceback.print_exc()
    results[name] = {"status": status, "stdout": out.getvalue(), "stderr": err.getvalue()}
  return results


def last_of_each(words):
  """Leaves out a word --FLAG=VALUE that a later one replaces: a flag that is given twice is an error."""
  last = {word.partition("=")[0]: position for position, word in enumerate(words) if re.match("--.*=", word)}
  return [word for position, word in enumerate(words) if last.get(word.partition("=")[0], position) == position]


def check_succeeded(ran, right):
  """Asserts exit status 0 of the right command lines of `ran`, (folder, results)."""
  folder, results = ran
  failed = {name: results[name]["stderr"][-2000:] for name in right(folder) if results[name]["status"] != 0}
  assert not failed, failed


def check_rejected(ran, runner, alone=True):
  """Asserts exit status 1 and one line "error: ..." that names what is wrong; `alone` if nothing is logged before."""
  folder, results = ran
  failures = []
  for name, (_, text) in wrong(runner, folder).items():
    status, out, err = (results[name][key] for key in ("status", "stdout", "stderr"))
    lines = err.splitlines() or [""]
    errors = [line for line in lines if line.startswith("error: ")]
    one_line = errors == [lines[-1]] and "Traceback" not in err and (len(lines) == 1 or not alone)
    if status != 1 or out or not one_line or not any(part in lines[-1] for part in (text, *text.split("|"))):
      failures.append(f"{name}: expected {text!r}, status {status}, stdout {out!r}, stderr {err[-1000:]}")
  assert not failures, "\n".join(failures)


def run_module(module, folder):
  """Runs the command lines of a test module and returns its results."""
  cases = importlib.import_module(f"tests.run_scripts.{module}")
  cases.prepare(folder)
  script = importlib.import_module(f"run_scripts.run_{cases.RUNNER}")
  script.define_flags()
  always = cases.always(folder) if hasattr(cases, "always") else []
  results = {}
  if hasattr(cases, "run_right"):
    results |= cases.run_right(folder, functools.partial(run_all, script.main, always=always))
  else:
    results |= run_all(script.main, cases.right(folder), always, getattr(cases, "CACHED", True))
  rejected = {name: flags for name, (flags, _) in wrong(cases.RUNNER, folder).items()}
  with files.owned(folder / "held", "held"):  # as another run does
    results |= run_all(script.main, rejected, always)
  return results | (cases.finish(folder) if hasattr(cases, "finish") else {})


if __name__ == "__main__":
  print(json.dumps(run_module(sys.argv[1], pathlib.Path(sys.argv[2]))))
