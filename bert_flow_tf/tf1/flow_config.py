"""Configuration of the flow in an original checkpoint, inferred from its variables' names and shapes."""

import dataclasses
import re

import numpy as np

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.config import FlowConfig

_STEP = re.compile(r"revnet_(0|[1-9]\d{0,3})/revnet_step_(0|[1-9]\d{0,3})/(.+)")
_ERROR = "variables of the original's flow"
_BELOW = "bert/flow/"


@dataclasses.dataclass(frozen=True)
class Tf1Flow:
  """Arguments of `Glow` that follow from variables.

  Attributes:
    config: the configuration; its coupling_dropout is 0, as no variable depends on it.
    dim: dimensions of an embedding.
    permutation: "reverse", or "random" for any other fixed permutation.
  """

  config: FlowConfig
  dim: int
  permutation: str


def infer_config(variables: dict[str, np.ndarray]) -> Tf1Flow:
  """Returns the arguments of the flow that has these variables.

  The numbers of levels and steps, coupling, activation and permutation follow from names, width and dimensions from
  shapes. `Glow.load_tf1_variables` checks the other names and shapes.

  Args:
    variables: {name below bert/flow/: array}.

  Raises:
    FlowError: a name is unknown, or a step is missing.
  """
  unknown = sorted(name for name in variables if not _STEP.fullmatch(name))
  if unknown:
    names = ", ".join(_BELOW + name for name in unknown)
    raise FlowError(f"{_ERROR}: unknown: {names}; expected names such as {_BELOW}revnet_0/revnet_step_0/actnorm/...")
  steps = {}
  for name, array in variables.items():
    level, step, rest = _STEP.fullmatch(name).groups()  # type: ignore[union-attr]  # checked above
    steps.setdefault((int(level), int(step)), {})[rest] = array
  n_levels, depth = (1 + max(numbers) for numbers in zip(*steps, strict=True)) if steps else (1, 1)
  missing = [
    f"{_BELOW}revnet_{level}/revnet_step_{step}/..."
    for level in range(n_levels)
    for step in range(depth)
    if (level, step) not in steps
  ]
  if missing:
    raise FlowError(f"{_ERROR}: missing: {', '.join(missing)}")
  first = steps[0, 0]
  coupling = "affine" if any(name.startswith("affine/") for name in first) else "additive"
  try:
    dim = first["actnorm/actnorm_center/b"].shape[-1]
    config = FlowConfig(
      activation="gatu" if any("/1_tanh/" in name for name in first) else "relu",
      coupling=coupling,
      coupling_width=first[f"{coupling}/nn/conv_block/1_1/W"].shape[-1],
      n_levels=n_levels,
      depth=depth,
      permutation="invertible/P" not in first,
    )
    return Tf1Flow(config, dim, _permutation(steps, config))
  except KeyError as error:
    raise FlowError(f"{_ERROR}: missing: {_BELOW}revnet_0/revnet_step_0/{error.args[0]}") from error
  except ConfigError as error:
    raise FlowError(f"{_ERROR}: {error}") from error


def check_config(config: FlowConfig, inferred: FlowConfig) -> None:
  """Compares a configuration with the one that follows from the variables; coupling_dropout may differ.

  Raises:
    ConfigError: they differ; the message names every difference.
  """
  ours, theirs = config.to_dict(), inferred.to_dict()
  differing = [key for key in ours if key != "coupling_dropout" and ours[key] != theirs[key]]
  if differing:
    differences = ", ".join(f"{key} is {ours[key]}, in the checkpoint {theirs[key]}" for key in differing)
    raise ConfigError(
      f"flow_model_config: does not describe the checkpoint's flow: {differences}", argument="flow_model_config"
    )


def _permutation(steps: dict, config: FlowConfig) -> str:
  """Returns "reverse" if every fixed permutation reverses the channels, else "random"."""
  if not config.permutation:
    return "reverse"
  matrices = [step["invertible/w"] for step in steps.values()]
  return "reverse" if all(np.array_equal(matrix, np.eye(len(matrix))[::-1]) for matrix in matrices) else "random"
