"""Configuration of the flow in an original checkpoint, inferred from its variables' names and shapes."""

import dataclasses
import re
from collections.abc import Mapping

import numpy as np

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.io.settings import differences

_STEP = re.compile(r"revnet_(0|[1-9]\d{0,3})/revnet_step_(0|[1-9]\d{0,3})/(.+)")
_ERROR = "variables of the original's flow"
_BELOW = "bert/flow/"


@dataclasses.dataclass(frozen=True)
class Tf1Flow:
  """Arguments of `Glow` that follow from variables; coupling_dropout is 0, as no variable depends on it."""

  config: FlowConfig
  dim: int
  permutation: str


def infer_config(variables: Mapping[str, np.ndarray]) -> Tf1Flow:
  """Returns the arguments of the flow that has these variables, {name below bert/flow/: array}.

  The numbers of levels and steps, coupling, activation and permutation follow from names, width and dimensions from
  shapes. `Glow.load_tf1_variables` checks the other names and shapes.
  """
  steps = _steps(variables)
  # All steps are alike, so that the first one tells the layers.
  first = steps[0, 0]
  coupling = "additive"
  activation = "relu"
  for name in first:
    if name.startswith("affine/"):
      coupling = "affine"
    if "/1_tanh/" in name:
      activation = "gatu"
  try:
    config = FlowConfig(
      activation=activation,
      coupling=coupling,
      coupling_width=first[f"{coupling}/nn/conv_block/1_1/W"].shape[-1],
      n_levels=1 + max(level for level, _ in steps),
      depth=1 + max(step for _, step in steps),
      permutation="invertible/P" not in first,  # the factor of an invertible 1x1 convolution
    )
    return Tf1Flow(config, first["actnorm/actnorm_center/b"].shape[-1], _permutation(steps, config))
  except KeyError as error:
    raise FlowError(f"{_ERROR}: missing: {_BELOW}revnet_0/revnet_step_0/{error.args[0]}") from error
  except ConfigError as error:
    raise FlowError(f"{_ERROR}: {error}") from error


def _steps(variables):
  """Returns {(level, step): {name in it: array}}; a FlowError names the steps that are missing."""
  steps: dict[tuple[int, int], dict[str, np.ndarray]] = {}
  for name, array in variables.items():
    match = _STEP.fullmatch(name)
    if not match:
      raise FlowError(f"{_ERROR}: unknown: {_BELOW}{name}; expected names such as {_BELOW}revnet_0/revnet_step_0/...")
    number = int(match[1]), int(match[2])
    steps.setdefault(number, {})[match[3]] = array
  # Every level has as many steps as the longest one.
  levels = 1 + max((level for level, _ in steps), default=0)
  depth = 1 + max((step for _, step in steps), default=0)
  for level, step in np.ndindex(levels, depth):
    if (level, step) not in steps:
      raise FlowError(f"{_ERROR}: missing: {_BELOW}revnet_{level}/revnet_step_{step}/...")
  return steps


def check_config(config: FlowConfig, inferred: FlowConfig) -> None:
  """Raises a ConfigError if a configuration is not the one of the variables; coupling_dropout may differ."""
  expected = {**inferred.to_dict(), "coupling_dropout": config.coupling_dropout}
  differing = differences(expected, config.to_dict())
  if differing:
    raise ConfigError(
      f"flow_model_config: does not describe the checkpoint's flow, which has {'; '.join(differing)}",
      argument="flow_model_config",
    )


def _permutation(steps: Mapping, config: FlowConfig) -> str:
  """Returns "reverse" if every fixed permutation reverses the channels, else "random"."""
  if not config.permutation:
    return "reverse"
  for step in steps.values():
    matrix = step["invertible/w"]
    if not np.array_equal(matrix, np.eye(len(matrix))[::-1]):
      return "random"
  return "reverse"
