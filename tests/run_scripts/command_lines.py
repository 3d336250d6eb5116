"""Runs many command lines of a runner in one process, and checks what they ended with."""

import contextlib
import functools
import io
import sys
import traceback


def run_all(main, command_lines, always=(), cached=True):
  """Runs command lines and returns {name: {"status", "stdout", "stderr"}}.

  Args:
    main: the runner's.
    command_lines: {name: flags}.
    always: flags before each case's own.
    cached: whether an encoder is loaded once for all.
  """
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
    sys.argv = ["runner.py", *always, *arguments]
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


def check_succeeded(results, names):
  """Asserts exit status 0 of the cases."""
  failed = {name: results[name]["stderr"][-2000:] for name in names if results[name]["status"] != 0}
  assert not failed


def check_rejected(results, cases, alone=True):
  """Asserts exit status 1, no output, and one line "error: ..." that names what is wrong.

  Args:
    results: of `run_all`.
    cases: {name: (flags, text of that line)}; several texts of which one suffices have "|" between them.
    alone: whether nothing is logged before that line.
  """
  failures = []
  for name, (_, text) in cases.items():
    status, out, err = (results[name][key] for key in ("status", "stdout", "stderr"))
    lines = err.splitlines() or [""]
    errors = [line for line in lines if line.startswith("error: ")]
    one_line = errors == [lines[-1]] and "Traceback" not in err and (len(lines) == 1 or not alone)
    if status != 1 or out or not one_line or not any(part in lines[-1] for part in (text, *text.split("|"))):
      failures.append(f"{name}: expected {text!r}, status {status}, stdout {out!r}, stderr {err[-1000:]}")
  assert not failures, "\n".join(failures)
