"""Text of --help: the runner's purpose and example, then its flags, grouped and with their defaults."""

import re
import textwrap

from absl import flags

_WIDTH = 100
# {part of bert_flow_tf that has the settings: heading of their flags}, in the order of the page.
_HEADINGS = {
  "": "This command",
  "tables": "Tables",
  "data": "Data",
  "encoder": "Encoder",
  "calibration": "Calibration",
  "training": "Training",
  "corpus": "Input and output",
  "io": "Output",
  "serving": "Export",
}
# Flags that runners define one by one, and fields whose flags have another heading than the rest of their settings.
_PART_OF_FLAG = {
  **dict.fromkeys(("task", "split", "metric"), "data"),
  **dict.fromkeys(("calibration", "flow_model_config", "actnorm_init", "permutation"), "calibration"),
  **dict.fromkeys(("flow_folder", "calibration_folder", "allow_other_encoder"), "calibration"),
  **dict.fromkeys(("output_dir", "results_page"), "io"),
  "export_dir": "serving",
}
# Flags that a saved calibration decides if they are not on the command line.
_DECIDED = ("model", "sentence_embedding_type", "max_seq_length", "low_dim", "precision", "token_weights")


def put_under(name: str, part: str) -> None:
  """Puts a flag under the heading of a part of bert_flow_tf, such as "encoder", unless it has its own."""
  _PART_OF_FLAG.setdefault(name, part)


def text(purpose: str, own: list[flags.Flag]) -> str:
  """Returns the page.

  Args:
    purpose: docstring of the runner: a sentence, then examples.
    own: the runner's flags.
  """
  groups: dict[str, list[flags.Flag]] = {heading: [] for heading in _HEADINGS.values()}
  names = {flag.name for flag in own}
  for flag in own:
    part = _PART_OF_FLAG.get(flag.name, "")
    groups[_HEADINGS.get(part, _HEADINGS[""])].append(flag)
  first, *examples = purpose.strip().splitlines()
  lines = [first, *(f"  {line.strip()}" if line.strip() else "" for line in examples)]
  for heading, members in groups.items():
    if members:
      lines += ["", heading]
      lines += [line for flag in members for line in _flag(flag, "flow_folder" in names)]
  return "\n".join([*lines, "", "--version prints the version; --helpfull lists also the flags of absl."])


def _flag(flag, calibrated):
  """Returns the lines of a flag."""
  if isinstance(flag.default, bool) or flag.flag_type() == "bool":
    name = f"--[no]{flag.name}"
  else:
    values = getattr(flag.parser, "enum_values", None)
    kind = {"int": "N", "float": "X"}.get(flag.flag_type(), "TEXT")
    name = f"--{flag.name}={'|'.join(values) if values else kind}"
  help_text = re.sub(r"^<[^>]*>: ", "", " ".join((flag.help or "").split()))  # absl puts the values of an enum there
  described = re.search(r" Default: (.*)\.$", help_text)
  default = flag.default_as_str and flag.default_as_str.strip("'")
  if calibrated and flag.name in _DECIDED:
    without = described.group(1) if described else default
    help_text = help_text[: described.start()] if described else help_text
    help_text += " Default: from the calibration" + (f"; without one, {without}." if without else ".")
  elif default and not described and not re.search(r"; default|by default", help_text):
    help_text += f" Default: {default}."
  lines = textwrap.wrap(help_text, _WIDTH, break_on_hyphens=False)
  return [f"  {name}", *(f"      {line}" for line in lines)]
