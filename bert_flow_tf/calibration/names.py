"""Names of calibrations, such as "whitening-256" and "flow+soft-whitening"."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from bert_flow_tf.calibration.characters import (
  CHARACTERS,
  DEFAULT_DIM,
  MAX_DIM,
  MIN_DIM,
  Characters,
  characters_name,
)
from bert_flow_tf.calibration.linear import METHODS, LinearCalibration
from bert_flow_tf.calibration.step import Calibration, QueryShift, Step
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.errors import ConfigError

FLOW, AUTO = "flow", "auto"
# The calibrations that auto compares: they even the variances out wholly, much and little. The flow is none of
# them: its fit takes minutes, theirs a second, and where it was the best, it was so by 0.2 (docs/results.md).
AUTO_CANDIDATES = ("whitening", "soft-whitening", "soft-whitening-0.2")
# {name: type of the K that may follow}. The flow is fitted in steps, auto chooses a linear calibration, and characters
# are a step after a calibration.
_K_TYPES = {FLOW: None, AUTO: None, CHARACTERS: int, **{name: method.k for name, method in METHODS.items()}}
ALLOWED = ", ".join(name if k is None else f"{name}, {name}-K" for name, k in _K_TYPES.items())
ALLOWED += " (natsv without K: chosen on dev; auto: chosen without labels; "
ALLOWED += f"{CHARACTERS}-K: from {MIN_DIM} to {MAX_DIM})"
ALLOWED += f", {FLOW}+NAME or NAME+{CHARACTERS} (both side by side)"
NOT_AFFINE = f"is not affine, so that no table of vectors can hold it; expected one of {', '.join(METHODS)}"
_FORM = re.compile(r"([a-z+-]*[a-z])(?:-([1-9][0-9]{0,8}|0\.(?!0+$)[0-9]{1,4}))?", re.ASCII)


@dataclasses.dataclass(frozen=True)
class CalibrationSpec:
  """Method and k of a calibration, and the characters after it."""

  method: str | None  # "flow", "auto" or a key of `METHODS`; None for characters alone
  # Dimensions that whitening keeps, directions that NATSV removes, or exponent of soft whitening; None for all, for a
  # choice on dev, or for the form without exponent.
  k: float | None = None
  second: "CalibrationSpec | None" = None  # next to this one, see `SideBySide`
  characters: int | None = None  # dimensions of the characters

  @property
  def name(self) -> str:
    """Name as `parse_calibration` reads it."""
    names = []
    for part in self.parts:
      names.append(str(part.method) if part.k is None else f"{part.method}-{part.k}")
    if self.characters is not None:
      names.append(characters_name(self.characters))
    return "+".join(names)

  @property
  def parts(self) -> "tuple[CalibrationSpec, ...]":
    """The calibrations that are fitted: the first, and `second` if it is given."""
    if self.method is None:
      return ()
    first = CalibrationSpec(self.method, self.k)
    if self.second is None:
      return (first,)
    return first, self.second

  def steps(self, fitted: Calibration | None) -> list[Step]:
    """Returns the steps of a model: the fitted calibration of `parts`, None if there are none, and characters."""
    steps: list[Step] = []
    if fitted is not None:
      steps.append(fitted)
    if self.characters is not None:
      steps.append(Characters(self.characters))
    return steps

  def output_dim_of(self, dim: int) -> int:
    """Returns the dimensions of the calibration of `parts` for embeddings of `dim`, before it is fitted; 0 without."""
    dims = [int(part.k) if part.method == "whitening" and part.k else dim for part in self.parts]
    return sum(dims)

  @property
  def needs_sentences(self) -> bool:
    """True if vectors alone do not do: for auto, which mixes sentences, and characters."""
    return self.method == AUTO or self.characters is not None

  @property
  def is_affine(self) -> bool:
    """True if calibrated embeddings are an affine map of embeddings, which a table of vectors can hold."""
    return self.method in METHODS and self.second is None and self.characters is None

  @property
  def k_on_dev(self) -> bool:
    """True if k is chosen on labeled pairs after the fit (`LinearCalibration.choose_k`)."""
    without_k = [part.method for part in self.parts if part.k is None and part.method in METHODS]
    return any(METHODS[method].k_on_dev for method in without_k)


def fitted_steps(steps: Sequence[Step]) -> list[Step]:
  """Returns the steps of a model that a fit replaces: the first ones, as `CalibrationSpec.steps` makes them.

  Of a model of queries also what comes before them.
  """
  first: list[Step] = []
  for kind in (QueryShift, Calibration, Characters):
    first += [step for step in steps[len(first) : len(first) + 1] if isinstance(step, kind)]
  return first


def parse_calibration(name: str) -> CalibrationSpec:
  """Parses a name in any case: `whitening-256`, `sn+natsv-6`, `flow`, `flow+soft-whitening`, `mean+characters`."""
  lower = name.strip().lower() if isinstance(name, str) else ""
  # First as a single calibration, since "sn+natsv" has a plus, too; then as two.
  spec = _parsed(lower)
  for first, _, second in (lower.partition("+"), lower.rpartition("+")):
    if spec is None:
      spec = _combined(_parsed(first), _parsed(second))
  if spec is None:
    raise ConfigError(f"calibration={name}: expected one of {ALLOWED}", argument="calibration")
  return spec


def _combined(first: CalibrationSpec | None, second: CalibrationSpec | None) -> CalibrationSpec | None:
  """Returns a spec of both: of the flow and another calibration, or of any and characters; else None."""
  if first is None or second is None or first.method is None:
    return None
  if second.method is None:
    return dataclasses.replace(first, characters=second.characters)
  if first.method == FLOW and second.method in METHODS:
    return dataclasses.replace(first, second=second)
  return None


def _parsed(name: str) -> CalibrationSpec | None:
  """Returns a method with or without K; None for another name."""
  match = _FORM.fullmatch(name)
  if match is None or match[1] not in _K_TYPES:
    return None
  method, k = match.groups()
  if k is None and method == CHARACTERS:
    k = str(DEFAULT_DIM)
  if k is None:
    return CalibrationSpec(method)
  # 256 counts directions, 0.3 is an exponent; no method takes both.
  kind = float if "." in k else int
  if _K_TYPES[method] is not kind:
    return None
  if method != CHARACTERS:
    return CalibrationSpec(method, kind(k))
  if not MIN_DIM <= int(k) <= MAX_DIM:
    return None
  return CalibrationSpec(None, characters=int(k))


def parse_calibrations(names: Sequence[str]) -> list[CalibrationSpec]:
  """Parses the names of several calibrations; without "none", as scores without calibration are always shown."""
  if not names:
    raise ConfigError(f"calibration: empty; expected some of {ALLOWED}", argument="calibration")
  # Equal specs may have different spellings.
  specs = [parse_calibration(name) for name in names]
  for spec in specs:
    if specs.count(spec) > 1:
      raise ConfigError(f"calibration: {spec.name} is given twice; expected each once", argument="calibration")
  return [spec for spec in specs if spec.name != "none"]


def check_k_on_dev(specs: Sequence[CalibrationSpec], task: TaskData) -> None:
  """Checks that k can be chosen on a task's dev split, for the specs that leave it open."""
  name = next((spec.name for spec in specs if spec.k_on_dev), None)
  if name is None:
    return
  if "dev" not in task.splits or np.isnan(task.splits["dev"].scores).all():
    reason = f"{task.spec.name} has no dev split with gold scores"
  elif task.spec.eval_split == "dev":
    reason = f"{task.spec.name} is evaluated on dev"
  else:
    return
  example = name.replace("natsv", "natsv-6")
  message = f"calibration={name}: k is chosen on dev, but {reason}; give k, for example {example}"
  raise ConfigError(message, argument="calibration")


def check_affine(spec: CalibrationSpec) -> None:
  """Raises a ConfigError for a calibration that a table of vectors cannot hold."""
  if not spec.is_affine:
    raise ConfigError(f"calibration={spec.name}: {NOT_AFFINE}", argument="calibration")


def make_calibration(spec: CalibrationSpec | str) -> LinearCalibration:
  """Returns a calibration that is not fitted; not the flow or auto, which `training` makes."""
  if isinstance(spec, str):
    spec = parse_calibration(spec)
  if spec.method not in METHODS or spec.needs_sentences:
    needs = "auto and characters need sentences, as SentenceModel.fit takes them; fit_calibration fits flows"
    raise ConfigError(f"calibration={spec.name}: {needs}; for vectors take soft-whitening", "calibration")
  return LinearCalibration(spec.method, spec.k)
