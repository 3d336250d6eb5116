"""Names of calibrations, and the table of their classes."""

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.calibration import storage
from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.calibration.methods import MeanRemoval, NoCalibration, SoftWhitening, StandardNormalization, Whitening
from bert_flow_tf.calibration.natsv import Natsv, StandardizedNatsv
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.errors import CalibrationError, ConfigError

FLOW, AUTO = "flow", "auto"
METHODS = {
  method.METHOD: method
  for method in (Whitening, SoftWhitening, StandardNormalization, Natsv, StandardizedNatsv, MeanRemoval, NoCalibration)
}
# {name: whether "-K" may follow}. The flow is fitted in steps, and auto chooses one of the others: METHODS has neither.
_TAKES_K = {FLOW: False, AUTO: False, **{name: method.TAKES_K for name, method in METHODS.items()}}
ALLOWED = ", ".join(form for name, takes_k in _TAKES_K.items() for form in [name, f"{name}-K"][: 1 + takes_k])
ALLOWED += " (natsv without K: chosen on dev; auto: chosen without labels)"
ALLOWED += f", {FLOW}+NAME ({FLOW} and another one side by side)"


@dataclasses.dataclass(frozen=True)
class CalibrationSpec:
  """Method and k of a calibration.

  Attributes:
    method: "flow", "auto" or a key of `METHODS`.
    k: dimensions that whitening keeps, directions that NATSV removes, or exponent of soft whitening; None for all, for
      a choice on dev, or for the form without exponent.
    beside: another calibration next to the flow, see `SideBySide`; None for none.
  """

  method: str
  k: float | None = None
  beside: "CalibrationSpec | None" = None

  @property
  def name(self) -> str:
    """Name as `parse_calibration` reads it."""
    name = self.method if self.k is None else f"{self.method}-{self.k}"
    return name if self.beside is None else f"{name}+{self.beside.name}"

  @property
  def parts(self) -> "tuple[CalibrationSpec, ...]":
    """The calibrations that are fitted: the flow and the one beside it, or this one alone."""
    return (self,) if self.beside is None else (dataclasses.replace(self, beside=None), self.beside)

  @property
  def k_on_dev(self) -> bool:
    """True if k is chosen on labeled pairs after the fit (`Natsv.choose_k`)."""
    last = self.parts[-1]
    return last.k is None and last.method in METHODS and issubclass(METHODS[last.method], Natsv)


def parse_calibration(name: str) -> CalibrationSpec:
  """Parses a name in any case: `whitening-256`, `sn+natsv-6`, `flow`, `flow+soft-whitening`.

  Raises:
    ConfigError: unknown name, or a k that the method does not take.
  """
  lower = name.strip().lower() if isinstance(name, str) else ""
  if lower.startswith(f"{FLOW}+") and not lower.startswith((f"{FLOW}+{FLOW}", f"{FLOW}+{AUTO}")):
    try:
      return CalibrationSpec(FLOW, beside=parse_calibration(lower.removeprefix(f"{FLOW}+")))
    except ConfigError:
      lower = ""  # named whole below
  match = re.fullmatch(r"([a-z+-]*[a-z])(?:-([1-9][0-9]{0,8}|0\.(?!0+$)[0-9]{1,4}))?", lower, re.ASCII)
  method, k = match.groups() if match else (None, None)
  if method not in _TAKES_K or (k and not _TAKES_K[method]) or (k and ("." in k) != (method == SoftWhitening.METHOD)):
    raise ConfigError(f"calibration={name}: expected one of {ALLOWED}", argument="calibration")
  number = None if not k else float(k) if "." in k else int(k)
  return CalibrationSpec(method, number)


def parse_calibrations(names: Sequence[str]) -> list[CalibrationSpec]:
  """Parses the names of several calibrations; "none" is left out, as the scores without calibration are always shown.

  Raises:
    ConfigError: no name, an unknown name, or a name twice.
  """
  if not names:
    raise ConfigError(f"calibration: empty; expected one or more of {ALLOWED}", argument="calibration")
  specs = [parse_calibration(name) for name in names]
  twice = next((spec.name for spec in specs if specs.count(spec) > 1), None)
  if twice:
    raise ConfigError(f"calibration: {twice} is given twice; expected each once", argument="calibration")
  return [spec for spec in specs if spec.name != "none"]


def check_k_on_dev(specs: Sequence[CalibrationSpec], task: TaskData) -> None:
  """Checks that k can be chosen on a task's dev split, for the specs that leave it open."""
  chosen = next((spec.name for spec in specs if spec.k_on_dev), None)
  if chosen is None:
    return
  if "dev" not in task.splits or np.isnan(task.splits["dev"].scores).all():
    reason = f"{task.spec.name} has no dev split with gold scores"
  elif task.spec.eval_split == "dev":
    reason = f"{task.spec.name} is evaluated on dev"
  else:
    return
  raise ConfigError(
    f"calibration={chosen}: k is chosen on dev, but {reason}; give k, for example {chosen}-6", argument="calibration"
  )


def make_calibration(spec: CalibrationSpec | str, shares: Sequence[float] = ()) -> LinearCalibration:
  """Returns a calibration that is not fitted.

  Args:
    spec: CalibrationSpec or name; not the flow or auto, which `training` makes.
    shares: share of each view if embeddings are concatenated views, see `Mix`; () if not.

  Raises:
    ConfigError: unknown name, the flow, auto, or shares that are not positive numbers with sum 1.
  """
  spec = parse_calibration(spec.name if isinstance(spec, CalibrationSpec) else spec)
  if spec.method == FLOW:
    raise ConfigError(f"calibration={spec.name}: the flow is fitted by a Trainer", argument="calibration")
  if spec.method == AUTO:
    raise ConfigError(
      "calibration=auto: compares calibrations on mixtures of sentences, so it needs text, as run_flow and "
      "SentenceModel.fit have it; for vectors give the name of one, such as soft-whitening",
      argument="calibration",
    )
  return METHODS[spec.method](spec.k, shares)


def load_linear_calibration(folder: str | os.PathLike) -> LinearCalibration:
  """Loads the calibration that `save` wrote, of any method but the flow.

  Raises:
    CalibrationError: the folder is missing, incomplete, damaged or something else.
  """
  return restore_linear_calibration(folder, *storage.read(folder))


def restore_linear_calibration(
  folder: str | os.PathLike, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> LinearCalibration:
  """Returns the calibration of settings and arrays that were read in `folder`; see `load_linear_calibration`."""
  method = settings.get("method")
  if not isinstance(method, str) or method not in METHODS:
    raise CalibrationError(f"calibration folder {folder}: method is {method!r}, expected one of {', '.join(METHODS)}")
  return METHODS[method].restore(folder, settings, arrays)
