"""Settings: frozen dataclasses whose fields are what a user may choose, each with its default and help.

A runner's flags, an experiment's name and what a resumed fit must share all derive from the fields. A new field takes
part in names and resume unless it is declared with `named=False`.
"""

import dataclasses
import math
from typing import Any

from bert_flow_tf.errors import ConfigError


def setting(default: Any, help: str, named: bool = True, **metadata: Any) -> Any:
  """Returns a dataclass field.

  Args:
    default: its default value.
    help: one or two sentences for the user.
    named: False for a field that does not change the result: paths, batch sizes of prediction, progress.
    **metadata: choices (allowed values), minimum, maximum, alias (a second name of the flag).
  """
  return dataclasses.field(default=default, metadata={"help": help, "named": named, **metadata})


def named_values(*settings: Any) -> dict[str, Any]:
  """Returns {field: value} of all fields that take part in names and resume, of several settings."""
  return {
    field.name: getattr(part, field.name)
    for part in settings
    for field in dataclasses.fields(part)
    if field.metadata.get("named", True)
  }


def changed_values(*settings: Any) -> dict[str, Any]:
  """Returns the part of `named_values` that differs from the fields' defaults."""
  defaults = {field.name: field.default for part in settings for field in dataclasses.fields(part)}
  return {name: value for name, value in named_values(*settings).items() if value != defaults[name]}


def check_ranges(settings: Any) -> None:
  """Checks the fields that have a minimum or maximum; None passes.

  Raises:
    ConfigError: a value is outside its range.
  """
  for field in dataclasses.fields(settings):
    value = getattr(settings, field.name)
    low, high = field.metadata.get("minimum", -math.inf), field.metadata.get("maximum", math.inf)
    if value is not None and (low, high) != (-math.inf, math.inf) and not low <= value <= high:
      expected = f"at least {low}" if high == math.inf else f"{low} to {high}"
      raise ConfigError(f"{field.name}={value}: expected {expected}", argument=field.name)


def check_positive(settings: Any, *names: str) -> None:
  """Checks that fields are positive, finite numbers or None.

  Raises:
    ConfigError: one is not.
  """
  for name in names:
    value = getattr(settings, name)
    if value is not None and not 0 < value < math.inf:
      raise ConfigError(f"{name}={value}: expected a positive number", argument=name)
