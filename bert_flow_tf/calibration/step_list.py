"""Steps of a model, read from the arguments and the identity that name them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from bert_flow_tf.calibration.characters import Characters
from bert_flow_tf.calibration.low_dim import LowDim
from bert_flow_tf.calibration.step import Calibration, Step
from bert_flow_tf.encoder.identity import EncoderIdentity
from bert_flow_tf.errors import ConfigError

if TYPE_CHECKING:
  from bert_flow_tf.flow.glow import Glow

# A calibration, a flow, or a list of steps; None for no step.
Calibrating: TypeAlias = "Calibration | Glow | Sequence[Step] | None"


def as_calibration(calibration: Calibration | Glow) -> Calibration:
  """Returns a calibration as it is, a flow as `FlowCalibration`."""
  if _is_flow(calibration):
    from bert_flow_tf.calibration.flow import FlowCalibration

    return FlowCalibration(calibration)
  if not isinstance(calibration, Calibration):
    kind = type(calibration).__name__
    raise ConfigError(f"calibration={kind}: expected a Calibration, a Glow or None", argument="calibration")
  return calibration


def read_steps(
  calibration: Calibrating = None,
  characters: int | None = None,
  steps: Sequence[Step] = (),
  low_dim: int | None = None,
) -> list[Step]:
  """Returns the steps of the arguments of `SentenceModel`, in the order of these arguments.

  Raises:
    ConfigError: an argument is not allowed.
  """
  found: list[Step] = []
  if isinstance(calibration, Calibration) or _is_flow(calibration):
    found.append(as_calibration(calibration))
  elif calibration is not None:
    found += _checked("calibration", calibration, "a Calibration, a Glow or a list of objects of calibration.Step")
  if characters is not None:
    found.append(Characters(characters))
  found += _checked("steps", steps, "a list of objects of calibration.Step")
  if low_dim is not None:
    found.append(LowDim(low_dim))
  return found


def steps_of_identity(identity: EncoderIdentity) -> list[Step]:
  """Returns the steps that an identity holds: the last ones of a model."""
  return read_steps(low_dim=identity.low_dim)


def without_identity(steps: Sequence[Step], identity: EncoderIdentity) -> list[Step]:
  """Returns a model's steps without `steps_of_identity`, as its file holds them."""
  return list(steps[: len(steps) - len(steps_of_identity(identity))])


def _is_flow(calibration: object) -> TypeGuard[Glow]:
  """Returns whether an object is a `Glow`, whose module, which needs TensorFlow, was imported by who made it."""
  return isinstance(calibration, getattr(sys.modules.get("bert_flow_tf.flow.glow"), "Glow", ()))


def _checked(argument, steps, expected):
  """Returns the steps of an argument; a ConfigError says what is expected."""
  is_list = isinstance(steps, Sequence) and not isinstance(steps, str)
  given = list(steps) if is_list else [steps]
  for step in given:
    if not isinstance(step, Step):
      raise ConfigError(f"{argument}: got {step!r}, expected {expected}", argument)
  return given
