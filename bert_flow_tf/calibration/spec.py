"""Names of calibrations, as `--calibration` takes them."""

import dataclasses
import re
from collections.abc import Sequence

from bert_flow_tf.calibration import storage
from bert_flow_tf.calibration.methods import MeanRemoval, NoCalibration, StandardNormalization, Whitening
from bert_flow_tf.calibration.natsv import Natsv, StandardizedNatsv
from bert_flow_tf.errors import CalibrationError, ConfigError

FLOW = "flow"
METHODS = {
  method.METHOD: method
  for method in (Whitening, StandardNormalization, Natsv, StandardizedNatsv, MeanRemoval, NoCalibration)
}
# What a list of the allowed names shows.
ALLOWED = "flow, whitening, whitening-K, sn, natsv, natsv-K, sn+natsv, sn+natsv-K, mean, none (natsv without K: on dev)"


@dataclasses.dataclass(frozen=True)
class CalibrationSpec:
  """A calibration by name.

  Attributes:
    method: "flow" or a key of `METHODS`.
    k: dimensions that whitening keeps or directions that NATSV removes; None for all that there are, or the choice on
      dev.
  """

  method: str
  k: int | None = None

  @property
  def name(self):
    """What `parse_calibration` reads as this."""
    return self.method if self.k is None else f"{self.method}-{self.k}"

  @property
  def k_on_dev(self):
    """Whether k is chosen on labelled pairs after the fit (`Natsv.choose_k`)."""
    return self.k is None and self.method in METHODS and issubclass(METHODS[self.method], Natsv)


def parse_calibration(name):
  """Reads a value of `--calibration`: `whitening-256`, `sn+natsv-6`, `flow`, in any case.

  Raises:
    ConfigError: unknown name, or a k that the method does not take.
  """
  found = (
    re.fullmatch(r"([a-z+]+)(?:-([1-9][0-9]{0,8}))?", name.strip().lower(), re.ASCII) if isinstance(name, str) else None
  )
  method, k = found.groups() if found else (None, None)
  known = method in METHODS or method == FLOW
  if not known or (k and (method == FLOW or not METHODS[method].TAKES_K)):
    raise ConfigError(f"calibration={name}: expected one of {ALLOWED}", argument="calibration")
  return CalibrationSpec(method, int(k) if k else None)


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


def make_calibration(spec):
  """A calibration to be fitted.

  Args:
    spec: CalibrationSpec, or a name; not the flow, which the caller makes (`interface.Calibration`).

  Raises:
    ConfigError: unknown name, or the flow.
  """
  spec = parse_calibration(spec.name if isinstance(spec, CalibrationSpec) else spec)
  if spec.method == FLOW:
    raise ConfigError("calibration 'flow' is fitted by the Trainer and is not made here")
  return METHODS[spec.method](spec.k)


def load_calibration(folder):
  """The calibration that `save` wrote, of whichever method.

  Raises:
    CalibrationError: the folder is absent, incomplete, damaged or holds something else.
  """
  settings, arrays = storage.read(folder)
  method = settings.get("method")
  if not isinstance(method, str) or method not in METHODS:
    raise CalibrationError(f"calibration folder {folder}: method is {method!r}, expected one of {', '.join(METHODS)}")
  return METHODS[method].restore(folder, settings, arrays)
