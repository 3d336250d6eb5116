"""Defaults of the flags of all commands."""

import json

from run_scripts.bert_flow import COMMANDS
from tests.run_scripts.run_siamese_test import PUBLISHED
from tests.testing import run_python

# Prints {command: {flag: default as text}}, without aliases.
_FLAGS = """
import importlib, json
from absl import flags
from run_scripts import bert_flow, common_flags, runner
table, known = {}, set(flags.FLAGS)
for command, (module, _) in bert_flow.COMMANDS.items():
  importlib.import_module(f"run_scripts.{module}").define_flags()
  names = set(flags.FLAGS) - known
  flags_of_runner = {flag.name for flag in common_flags.runner_flags()}
  table[command] = {name: flags.FLAGS[name].default_as_str for name in names & flags_of_runner}
  for name in names:
    delattr(flags.FLAGS, name)
print(json.dumps(table))
"""


def test_a_flag_has_one_default():
  """But for those of the published runner, which `run_siamese_test` has; and every command names its output so."""
  table, defaults = json.loads(run_python("-c", _FLAGS)), {}
  for command, of_command in table.items():
    for name, default in of_command.items():
      fits_if_asked = command in ("score", "search", "dedupe", "distill") and name == "calibration"
      is_safe = (command, name) == ("dedupe", "model")  # which deletes records
      is_of_hits = (command, name) == ("search", "output_format")  # embed's is of vectors
      is_of_table = (command, name) == ("distill", "normalize")  # which the calibration decides
      has_other = fits_if_asked or is_safe or is_of_hits or is_of_table
      if (command != "siamese" or name not in {"task", *PUBLISHED}) and not has_other:
        defaults.setdefault(name, set()).add(default)
  assert {name: values for name, values in defaults.items() if len(values) > 1} == {}
  assert [command for command in COMMANDS if "output" not in table[command]] == [
    "report",
    "index",
    "export",
    "serve-check",
  ]
