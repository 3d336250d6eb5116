"""Flow of an original checkpoint: its configuration is inferred from its variables' names and shapes."""

import re
from collections.abc import Mapping

import numpy as np
import scipy.linalg

from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.actnorm import LOGSCALE_FACTOR
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.glow import Glow

_STEP = re.compile(r"revnet_(0|[1-9]\d{0,3})/revnet_step_(0|[1-9]\d{0,3})/(.+)")
_ERROR = "variables of the original's flow"


def make_flow(variables: Mapping[str, np.ndarray]) -> Glow:
  """Returns the flow that has these variables, {name below bert/flow/: array}.

  Raises:
    FlowError: a variable is missing, unknown or of a wrong shape; the message names it.
  """
  # Levels, steps, coupling, activation and permutation follow from names, width and dimensions from shapes;
  # coupling_dropout is 0, as no variable depends on it, and actnorm_init the published runner's.
  steps = _steps(variables)
  last_level, last_step = max(steps)
  # All steps have the same layers; read them from the first step.
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
      n_levels=last_level + 1,
      depth=last_step + 1,
      permutation="invertible/P" not in first,  # the factor of an invertible 1x1 convolution
    )
    dim = first["actnorm/actnorm_center/b"].shape[-1]
    flow = Glow(config, dim, "glorot", _permutation(steps, config))
  except KeyError as error:
    raise FlowError(f"{_ERROR}: missing: revnet_0/revnet_step_0/{error.args[0]}") from error
  except ConfigError as error:
    raise FlowError(f"{_ERROR}: {error}") from error
  flow.load_tf1_variables(variables)
  return flow


def start_as_published(flow: Glow, seed: int) -> None:
  """Sets the 1x1 convolutions of a flow to the published code's initial values, in the order of its draws."""
  # Its rotations come from numbers in [0, 1), not from normal ones, so that they favor a direction.
  draws = np.random.RandomState(seed)
  variables = flow.tf1_variables()
  for (level, step), variables_of_step in sorted(_steps(variables).items()):
    if "invertible/P" in variables_of_step:
      rotation, _ = np.linalg.qr(draws.uniform(size=variables_of_step["invertible/P"].shape))
      permutation, lower, upper = scipy.linalg.lu(rotation)
      diagonal = np.diag(upper)
      factors = {"P": permutation, "L": lower, "U": np.triu(upper, 1)}
      factors |= {"sign_S": np.sign(diagonal), "log_S": np.log(np.abs(diagonal))}
      for name, value in factors.items():
        variables[f"revnet_{level}/revnet_step_{step}/invertible/{name}"] = value.astype(np.float32)
  flow.load_tf1_variables(variables)


def without_scale(calibration: FlowCalibration) -> Glow:
  """Returns a flow that includes the scale of the fit, for which checkpoints have no place."""
  flow, fitted = calibration.flow, calibration.scale
  if fitted is None:
    return flow
  # ((u - mean) / rms + b) exp(3 logs) = (u + rms b - mean) exp(3 logs - log rms)
  variables = flow.tf1_variables()
  actnorm = "revnet_0/revnet_step_0/actnorm"
  center, scale = f"{actnorm}/actnorm_center/b", f"{actnorm}/actnorm_scale/logs"
  rms = fitted.rms
  variables[center] = (rms * variables[center] - fitted.mean).astype(np.float32)
  variables[scale] = (variables[scale] - np.log(rms) / LOGSCALE_FACTOR).astype(np.float32)
  return make_flow(variables)


def _steps(variables):
  """Returns {(level, step): {name in it: array}}; all levels must have the same number of steps."""
  steps: dict[tuple[int, int], dict[str, np.ndarray]] = {}
  levels = depth = 1
  for name, array in variables.items():
    match = _STEP.fullmatch(name)
    if not match:
      raise FlowError(f"{_ERROR}: unknown: {name}; expected names such as revnet_0/revnet_step_0/...")
    level, step = int(match[1]), int(match[2])
    steps.setdefault((level, step), {})[match[3]] = array
    levels, depth = max(levels, level + 1), max(depth, step + 1)
  if len(steps) != levels * depth:
    raise FlowError(f"{_ERROR}: {len(steps)} steps, expected {levels} levels of {depth}; some are missing")
  return steps


def _permutation(steps: Mapping, config: FlowConfig) -> str:
  """Returns "reverse" if every fixed permutation reverses the channels, else "random"."""
  if not config.permutation:
    return "reverse"
  for step in steps.values():
    matrix = step["invertible/w"]
    if not np.array_equal(matrix, np.eye(len(matrix))[::-1]):
      return "random"
  return "reverse"
