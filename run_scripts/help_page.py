"""Text of --help: the runner's purpose and example, then its flags, grouped and with their defaults."""

import errno
import os
import re
import sys
import textwrap

from absl import flags

_WIDTH = 100
# {number of the error of a write without room: what it is, and what mends it}
FULL = "the disk is full; free some space"
TOO_LARGE = "a file is larger than the file system or the limit of this process (ulimit -f) allows; raise the limit"
UNWRITTEN = {errno.ENOSPC: FULL, errno.EDQUOT: FULL, errno.EFBIG: TOO_LARGE}
# {part of bert_flow_tf that has the settings: heading of their flags}, in the order of the page.
_HEADINGS = {
  "": "This command",
  "tables": "Tables",
  "data": "Data",
  "encoder": "Encoder",
  "calibration": "Calibration",
  "training": "Training",
  "runs": "Training",
  "corpus": "Input and output",
  "io": "Output",
  "serving": "Export",
}
# Flags that runners define one by one, and fields whose flags have another heading than the rest of their settings.
_PART_OF_FLAG = {
  **dict.fromkeys(("task", "split", "metric"), "data"),
  **dict.fromkeys(("recipe", "calibration", "flow_model_config", "actnorm_init", "permutation"), "calibration"),
  **dict.fromkeys(("flow_folder", "allow_other_encoder"), "calibration"),
  **dict.fromkeys(("output",), "io"),
  **dict.fromkeys(("export_dir", "calibration_only", "reference"), "serving"),
}
# {flag that a saved calibration decides if it is not on the command line: what it sets}
DECIDED = {
  "model": "encoder",
  "sentence_embedding_type": "pooling",
  **{name: name for name in ("max_seq_length", "low_dim", "precision", "engine", "token_weights")},
}


def put_under(name: str, part: str) -> None:
  """Puts a flag under the heading of a part of bert_flow_tf, such as "encoder", unless it has its own."""
  _PART_OF_FLAG.setdefault(name, part)


def show(page: str) -> None:
  """Prints a page and ends the program."""
  try:
    print(page, flush=True)
  except BrokenPipeError:  # --help | head
    close_output()
  except OSError as error:
    if error.errno not in UNWRITTEN:
      raise
    close_output()
    sys.exit(f"error: standard output: {UNWRITTEN[error.errno]}, and start the same command again")
  sys.exit(0)


def close_output() -> None:
  """Gives up standard output that nobody reads; Python would flush it again at its end, and print an error."""
  os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def text(purpose: str, runner_flags: list[flags.Flag]) -> str:
  """Returns the page of the runner's docstring (a sentence, then examples) and its flags."""
  names = {flag.name for flag in runner_flags}
  sentence, _, examples = purpose.strip().partition("\n")
  lines = [sentence]
  for line in examples.splitlines():
    lines.append(f"  {line}".rstrip())
  # A converter writes a calibration and loads nothing by it.
  decides = "flow_folder" in names and "checkpoint" not in names
  # Several parts of the package may share a heading.
  for heading in dict.fromkeys(_HEADINGS.values()):
    members = [flag for flag in runner_flags if _HEADINGS[_PART_OF_FLAG.get(flag.name, "")] == heading]
    if members:
      lines += ["", heading]
    for flag in members:
      lines += _flag(flag, decides)
  lines += ["", "--version prints the version; --helpfull lists also the flags of absl."]
  return "\n".join(lines)


def _flag(flag, calibrated):
  """Returns the lines of a flag; `calibrated` says whether a saved calibration may decide its default."""
  # The name with its kind of value, as in --seed=N.
  if isinstance(flag.default, bool) or flag.flag_type() == "bool":
    name = f"--[no]{flag.name}"
  else:
    kind = {"int": "N", "float": "X"}.get(flag.flag_type(), "TEXT")
    values = getattr(flag.parser, "enum_values", None) or [kind]
    name = f"--{flag.name}={'|'.join(values)}"
  # absl puts the values of an enum before the help.
  help_text = re.sub(r"^<[^>]*>: ", "", " ".join((flag.help or "").split()))
  # The default stands at the end, unless the help has it.
  default = flag.default_as_str and flag.default_as_str.strip("'")
  described = re.search(r" Default: (.*)\.$", help_text)
  if calibrated and flag.name in DECIDED:
    if described:
      default = described.group(1)
      help_text = help_text[: described.start()]
    without = f"; without one, {default}" if default else ""
    help_text += f" Default: from the calibration{without}."
  elif default and not described and not re.search(r"; default|by default", help_text):
    help_text += f" Default: {default}."
  indent = " " * 6
  lines = textwrap.wrap(
    help_text, _WIDTH + len(indent), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
  )
  lines.insert(0, f"  {name}")
  return lines
