"""Computes the paper's tables and figures with our encoders, next to the published numbers.

bert-flow table --table=2 --model=base,large
"""

import dataclasses
import pathlib
import shlex
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.tables import registry, run
from bert_flow_tf.tables.inputs import TableInputs
from bert_flow_tf.tables.plan import Plan, canonical
from bert_flow_tf.tables.registry import FIGURES, TABLES
from bert_flow_tf.training.settings import FlowSettings
from run_scripts import common_flags, quiet, runner

FLAGS = flags.FLAGS

# Left out of a table's command, which makes only that table.
_NOT_IN_COMMAND = ("table", "figure", "output")
# Flags of another name than the field of `Plan`.
_FIELDS = {"table_tasks": "task", "table_calibrations": "calibration"}
_FOLDER = "exp/tables"
# The tables choose models, poolings and weights of tokens themselves.
_CHOSEN = ("model", "init_checkpoint", "sentence_embedding_type", "token_weights", "low_dim")
_CHOSEN += ("hidden_act", "max_input_chars_per_word", "bert_config_file", "vocab_file")


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_settings(Plan, [field.name for field in dataclasses.fields(Plan) if field.name != "seed"])
  common_flags.define_data_flags()
  common_flags.define_encoder_flags(leave_out=_CHOSEN)
  common_flags.define_settings(FlowSettings)
  text = f"Folder of the tables; a run that was stopped resumes from it. Default: {_FOLDER}."
  common_flags.define_output_folder(text)


def _check_flags(plan: Plan) -> None:
  """Checks that every given flag is used; raises a ConfigError."""
  if not (plan.table or plan.figure):
    raise ConfigError(
      f"table: nothing to do; give one of {', '.join(TABLES)}, or a figure of {', '.join(FIGURES)}", "table"
    )
  if FLAGS.model_revision is not None and (len(plan.model) > 1 or plan.nli_model):
    raise ConfigError(
      f"model_revision={FLAGS.model_revision}: is a revision of one encoder; give one model, and no nli_model",
      "model_revision",
    )
  names = set(plan.table)
  names.update(f"figure {name}" for name in plan.figure)
  # A flag that only some tables and figures use, and none of these, would be ignored without a word.
  for flag in common_flags.runner_flags():
    users = _users_of(flag)
    if flag.present and users and not names & set(users):
      options = " or ".join(f"--table={name}" for name in users).replace("--table=figure ", "--figure=")
      raise ConfigError(f"{flag.name}: is not used by this run; only by {options}", flag.name)


def _users_of(flag: flags.Flag) -> list[str]:
  """Returns the tables and figures that use a flag; [] for flags that all of them use."""
  return registry.users_of(_FIELDS.get(flag.name, flag.name))


def _about(name: str) -> dict[str, object]:
  """Returns the command that makes one table, and the versions of the packages."""
  command = ["bert-flow", "table", f"--table={name}"]
  for flag in common_flags.runner_flags():
    users = _users_of(flag) or [name]
    if flag.present and flag.name not in _NOT_IN_COMMAND and name in users:
      command += flag.serialize().splitlines()
  return {"command": shlex.join(command), "versions": common_flags.versions()}


def main() -> None:
  """Makes the tables and figures."""
  plan = common_flags.settings(Plan)
  _check_flags(plan)
  plan = canonical(plan)
  # The flags task and model are the plan's, lists.
  names = ("data_dir", "tfds_data_dir", "stsb_gold", "max_record_bytes")
  data = DataSettings(**{name: FLAGS[name].value for name in names})
  embedding = EncoderSettings(**{name: FLAGS[name].value for name in common_flags.encoder_flags(leave_out=_CHOSEN)})
  flow = common_flags.settings(FlowSettings)
  flow.check()
  tasks = run.load_tasks(plan, data)
  quiet.import_tensorflow()  # takes seconds: the errors above come before
  run.make(plan, TableInputs(tasks, data, embedding, flow), pathlib.Path(FLAGS.output or _FOLDER), _about)


console = runner.command(define_flags, main)

if __name__ == "__main__":
  console()
