"""Settings: frozen dataclasses whose fields give flags, an experiment's name and the values that resumed fits share."""

import dataclasses
import math
import os
import types
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.checks import shown

if TYPE_CHECKING:
  from _typeshed import DataclassInstance

Value = TypeVar("Value")
Fields = TypeVar("Fields", bound="DataclassInstance")

# {type of a field: (allowed classes of its values, their name in an error)}
_KINDS: dict[type, tuple[tuple[type, ...], str]] = {
  bool: ((bool, np.bool_), "True or False"),
  int: ((int, np.integer), "an integer"),
  float: ((int, float, np.integer, np.floating), "a number"),
  str: ((str, os.PathLike), "a text"),
  tuple: ((tuple, list), "a list of texts"),
  dict: ((dict,), "an object"),
  types.NoneType: ((types.NoneType,), "None"),
}
# Longer values, such as checksums, are shown by their first characters.
_LONGEST, _SHOWN = 48, 12


class Settings:
  """Base of the settings: checks type, choices and range of every field; a ConfigError names the first wrong one."""

  def __post_init__(self) -> None:
    kinds = typing.get_type_hints(type(self))
    for field in dataclasses.fields(self):  # type: ignore[arg-type]
      value = getattr(self, field.name)
      if value is not field.default:
        _check(field, kinds[field.name], value)


def setting(default: Value, help: str, named: bool = True, **metadata: object) -> Value:
  """Returns a dataclass field.

  Args:
    default: its default value.
    help: one or two sentences for the user.
    named: False for a field that does not change the result: paths, batch sizes of prediction, progress.
    **metadata: choices (allowed values), minimum, maximum, alias (a second name of the flag), unnamed (values that,
      like the default, take no part in names).
  """
  return dataclasses.field(default=default, metadata={"help": help, "named": named, **metadata})


def read_fields(kind: type[Fields], values: object, **others: object) -> Fields:
  """Returns a dataclass of the values of a JSON object, which may come from anyone, and of `others`, which are trusted.

  Raises:
    ValueError: a value is missing, unknown or not of its field's type, or a number is not in its field's range.
  """
  if not isinstance(values, dict):
    raise ValueError(f"expected an object, got {_short(values)}")
  kinds = typing.get_type_hints(kind)
  fields = {field.name: field for field in dataclasses.fields(kind) if field.name not in others}
  for name, value in values.items():
    if name not in fields:
      raise ValueError(f"unknown key {_short(name)}")
    try:
      _check(fields[name], kinds[name], value)
    except ConfigError as error:
      raise ValueError(error) from None
  for name, field in fields.items():
    has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    if name not in values and not has_default:
      raise ValueError(f"no {name}")
  return kind(**values, **others)


def named_values(*settings: "DataclassInstance") -> dict[str, object]:
  """Returns {field: value} of all fields that take part in names and resume, of several settings."""
  values = {}
  for part in settings:
    for field in dataclasses.fields(part):
      if field.metadata.get("named", True):
        values[field.name] = getattr(part, field.name)
  return values


def changed_values(*settings: "DataclassInstance") -> dict[str, object]:
  """Returns the part of `named_values` that differs from the fields' defaults and their values `unnamed`."""
  values = named_values(*settings)
  for part in settings:
    for field in dataclasses.fields(part):
      if values.get(field.name) in (field.default, *field.metadata.get("unnamed", ())):
        values.pop(field.name, None)
  return values


def differences(before: Mapping[str, object], now: Mapping[str, object], link: str = ", now ") -> list[str]:
  """Returns the differences of two settings of JSON values: ["flow.depth 3, now 4"]; an absent value is "none".

  `link`: what stands between the values, as " and " where neither is the earlier one.
  """
  result = []
  for name in sorted(before.keys() | now.keys()):
    old, new = before.get(name), now.get(name)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
      result += [f"{name}.{difference}" for difference in differences(old, new, link)]
    elif old != new:
      result.append(f"{name} {_short(old)}{link}{_short(new)}")
  return result


def _short(value):
  text = "none" if value is None else str(value)
  if len(text) > _LONGEST:
    text = f"{text[:_SHOWN]}..."
  return text


def check_positive(settings: object, name: str) -> None:
  """Raises a ConfigError if a field is not a positive, finite number or None."""
  value = getattr(settings, name)
  if value is not None and not 0 < value < math.inf:
    raise ConfigError(f"{name}={value}: expected a positive number", argument=name)


def _check(field, kind, value):
  """Raises a ConfigError if a value has another type than its field, or is not among its choices or in its range."""
  types_of_field = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
  classes: list[type] = []
  names = []
  for each in types_of_field:
    allowed, name = _KINDS.get(typing.get_origin(each) or each, ((each,), each.__name__))
    classes += allowed
    names.append(name)
  choices, low, high = (field.metadata.get(name) for name in ("choices", "minimum", "maximum"))
  # Python's True is an integer.
  is_odd_bool = isinstance(value, bool) and bool not in classes
  if is_odd_bool or not isinstance(value, tuple(classes)):
    raise ConfigError(f"{field.name}={shown(value)}: expected {' or '.join(names)}", argument=field.name)
  if value is None:
    return
  if choices and value not in choices:
    expected = f"one of {', '.join(choices)}"
  elif high is not None and not low <= value <= high:
    expected = f"{low} to {high}"
  elif low is not None and not value >= low:
    expected = f"at least {low}"
  else:
    return
  raise ConfigError(f"{field.name}={_short(value)}: expected {expected}", argument=field.name)
