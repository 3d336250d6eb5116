"""Which flow a checkpoint of the original holds, told from its variables' names and shapes."""

import dataclasses
import itertools
import re

import numpy as np

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.config import FlowConfig

_STEP = re.compile(r"revnet_(0|[1-9]\d{0,3})/revnet_step_(0|[1-9]\d{0,3})/(.+)")
_BELOW = "bert/flow/"
_FIRST = f"{_BELOW}revnet_0/revnet_step_0/"
_HIDDEN = "nn/conv_block/1_1/W"


@dataclasses.dataclass(frozen=True)
class Tf1Flow:
  """The arguments of `Glow` that variables tell.

  Attributes:
    config: `FlowConfig`; its coupling_dropout is 0, which no variable tells.
    dim: dimensions of an embedding.
    permutation: "reverse", or "random" for any other fixed one.
  """

  config: FlowConfig
  dim: int
  permutation: str


def read_config(variables):
  """The flow that variables make up.

  Levels and steps are counted; coupling, activation and permutation show in names, width and dimensions in shapes.

  Args:
    variables: {name below bert/flow/: array}.

  Raises:
    FlowError: they are no flow's. That every variable is there and fits is for `Glow.load_tf1_variables` to see.
  """
  steps = {}
  unknown = sorted(name for name in variables if not _STEP.fullmatch(name))
  if unknown:
    names = ", ".join(_BELOW + name for name in unknown)
    expected = f"{_FIRST}actnorm/actnorm_center/b"
    raise FlowError(f"variables of the original's flow: unknown: {names}; expected names such as {expected}")
  for name, array in variables.items():
    level, step, rest = _STEP.fullmatch(name).groups()
    steps.setdefault((int(level), int(step)), {})[rest] = np.asarray(array)
  n_levels, depth = (1 + max(numbers) for numbers in zip(*steps, strict=True)) if steps else (0, 0)
  places = ((level, step) for level in range(n_levels) for step in range(depth))
  missing = [
    f"{_BELOW}revnet_{level}/revnet_step_{step}/..."
    for level, step in itertools.islice((place for place in places if place not in steps), 20)
  ]
  if missing or not steps:
    raise FlowError(f"variables of the original's flow: missing: {', '.join(missing) or 'all'}")
  first = steps[0, 0]
  coupling = "affine" if any(name.startswith("affine/") for name in first) else "additive"
  mixing = "invertible/P" if "invertible/P" in first else "invertible/w"
  dim = _last_axis(first, "actnorm/actnorm_center/b", [1, 1, 1])
  width = _last_axis(first, f"{coupling}/{_HIDDEN}", [1, 1, dim // 2])
  if _last_axis(first, mixing, [dim]) != dim:
    raise FlowError(f"variables of the original's flow: {_FIRST}{mixing} is not square")
  try:
    config = FlowConfig(
      activation="gatu" if any("/1_tanh/" in name for name in first) else "relu",
      coupling=coupling,
      coupling_width=width,
      n_levels=n_levels,
      depth=depth,
      permutation=mixing == "invertible/w",
    )
  except ConfigError as error:
    raise FlowError(f"variables of the original's flow: {error}") from error
  return Tf1Flow(config, dim, _permutation(steps, config))


def check_config(found, given):
  """Refuses a configuration that is not the one of the variables.

  Args:
    found: `FlowConfig` of `read_config`.
    given: `FlowConfig` that a user says it has; its coupling_dropout is free.

  Raises:
    ConfigError: they differ; the message says where.
  """
  found, given = found.to_dict(), given.to_dict()
  differing = [key for key in found if key != "coupling_dropout" and found[key] != given[key]]
  if differing:
    what = ", ".join(f"{key} {given[key]} there, {found[key]} in the checkpoint" for key in differing)
    raise ConfigError(f"the flow configuration is not the checkpoint's: {what}")


def _last_axis(first, name, others):
  """Size of the last axis of a variable of the first step whose other axes are as given."""
  array = first.get(name)
  if array is None:
    raise FlowError(f"variables of the original's flow: missing: {_FIRST}{name}")
  if list(array.shape[:-1]) != others or not array.shape[-1]:
    expected = ", ".join(map(str, [*others, "..."]))
    raise FlowError(f"variables of the original's flow: {_FIRST}{name} has shape {array.shape}, expected [{expected}]")
  return array.shape[-1]


def _permutation(steps, config):
  """Whether every fixed permutation reverses the channels."""
  if not config.permutation:
    return "reverse"
  matrices = [step["invertible/w"] for step in steps.values() if "invertible/w" in step]
  reversed_all = all(
    matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix))[::-1])
    for matrix in matrices
  )
  return "reverse" if reversed_all else "random"
