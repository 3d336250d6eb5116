"""A flow's folder on disk, and which weights belong into it."""

from bert_flow_tf.errors import FlowError
from bert_flow_tf.io.folders import FolderFormat

FLOW_FOLDER = FolderFormat("flow", "flow.json", "weights.npz", FlowError, "Glow.save")


def read(folder):
  """Settings and weights of a folder that `Glow.save` made: (dict, {name: array}).

  Raises:
    FlowError: a file is absent, damaged, or of another format.
  """
  settings, arrays = FLOW_FOLDER.read(folder)
  missing = [key for key in ("state", "config") if key not in settings]
  if missing:
    raise FlowError(f"flow folder {folder}: damaged, no {missing[0]} in {FLOW_FOLDER.settings_file}")
  return settings, arrays


def check_size(config, dim, arrays):
  """Refuses a configuration that asks for far more weights than there are, before memory is taken for them.

  Args:
    config: `FlowConfig`.
    dim: dimensions of an embedding, whatever the settings have there.
    arrays: {name: array} of the folder.

  Raises:
    FlowError: as said.
  """
  numbers = sum(array.size for array in arrays.values())
  steps = config.n_levels * config.depth
  if steps > len(arrays) or config.coupling_width > numbers or (isinstance(dim, int) and dim > numbers):
    raise FlowError(
      f"{len(arrays)} weights of {numbers} numbers, expected more for {steps} steps on {dim} dimensions, width "
      f"{config.coupling_width}"
    )


def check_names(given, expected, what):
  """Refuses a set of names that is not the expected one.

  Raises:
    FlowError: names are missing or unknown; the message lists them.
  """
  missing = sorted(set(expected) - set(given))
  unknown = sorted(set(given) - set(expected))
  if missing or unknown:
    found = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"unknown: {', '.join(unknown)}"] * bool(unknown)
    raise FlowError(f"{what} do not fit this flow's configuration; {'; '.join(found)}")
