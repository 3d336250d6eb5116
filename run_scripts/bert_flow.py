"""The installed command `bert-flow`: a name for each runner of this folder.

bert-flow fit --task=STS-B --model=large

`python -m bert_flow_tf` and `python run_scripts/bert_flow.py` are the same command.
"""

import importlib
import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import bert_flow_tf
from run_scripts import help_page

NAME = "bert-flow"
# {command: (module of run_scripts, description)}
COMMANDS = {
  "fit": ("run_flow", "fit a flow or another calibration on a task's sentences, and evaluate it"),
  "eval": ("run_eval", "evaluate saved calibrations on tasks, or a file of similarities"),
  "report": ("run_report", "draw the page of a run again, from the files of its folder"),
  "score": ("run_score", "add the similarity of each pair to a file"),
  "search": ("run_search", "find the sentences of a file that are nearest to queries"),
  "dedupe": ("run_dedupe", "leave out the near-duplicates of a file of sentences"),
  "embed": ("run_embed", "embed files of any size to shards of vectors"),
  "index": ("run_index", "write an index of the vectors of embed, for search"),
  "calibrate": ("run_calibrate", "fit or apply a calibration on vectors of any origin"),
  "export": ("run_export", "write an encoder and its calibration for TensorFlow Serving or model2vec"),
  "distill": ("run_distill", "distill an encoder into a table of vectors for model2vec"),
  "serve-check": ("serving_client", "ask a model server for the similarity of sentence pairs"),
  "siamese": ("run_siamese", "fine-tune an encoder on pairs: the published runner"),
  "table": ("run_table", "compute the paper's tables and figures with your encoders"),
  "convert": ("run_convert", "convert TensorFlow 1 checkpoints to folders and back"),
}


def command_list() -> str:
  """Returns the list of the commands."""
  lines = ["Calibrated sentence embeddings: BERT-flow for TensorFlow 2.", "", f"{NAME} COMMAND --FLAG=VALUE ...", ""]
  lines += [f"  {command:<12} {purpose}" for command, (_, purpose) in COMMANDS.items()]
  lines += ["", f"{NAME} help COMMAND lists the flags of a command, {NAME} --version prints the version."]
  return "\n".join(lines)


def program_name() -> str:
  """Returns the command that runs, such as "bert-flow fit", also if it was started as a file of this folder."""
  module = pathlib.Path(sys.argv[0]).stem
  for command, (name, _) in COMMANDS.items():
    if name == module:
      return f"{NAME} {command}"
  return sys.argv[0]


def main() -> None:
  """Starts the command that the first argument names."""
  command, *rest = sys.argv[1:] or ["--help"]
  if command == "help" and rest:
    command, rest = rest[0], ["--help"]
  if command in ("--help", "-help", "-h", "help"):
    help_page.show(command_list())
  elif command == "--version":
    help_page.show(f"bert-flow-tf {bert_flow_tf.__version__}")
  elif command in COMMANDS:
    sys.argv = [f"{NAME} {command}", *rest]
    importlib.import_module(f"run_scripts.{COMMANDS[command][0]}").console()
  else:
    sys.exit(
      f"error: {command[:80]!r} is no command; expected one of {', '.join(COMMANDS)}; {NAME} --help explains them"
    )


if __name__ == "__main__":
  main()
