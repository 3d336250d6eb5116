"""bert_flow_tf/io/settings.py: checks of the values, and the fields that take part in an experiment's name."""

import dataclasses
import pathlib

import numpy as np
import pytest

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.settings import Settings, changed_values, differences, setting
from tests.testing import rejected


def test_changed_values_leave_out_a_value_that_equals_the_default_once_it_is_known():
  length = dataclasses.make_dataclass(
    "L", [("length", int | None, setting(None, "", unnamed=(64,)))], bases=(Settings,)
  )
  assert changed_values(length()) == changed_values(length(64)) == {}
  assert changed_values(length(32)) == {"length": 32}


@dataclasses.dataclass(frozen=True)
class Checked(Settings):
  count: int = setting(None, "Has a default of another type.", minimum=1, maximum=9)
  rate: float | None = setting(0.5, "A rate.", minimum=0.0)
  on: bool = setting(False, "A switch.")
  folder: str | None = setting(None, "A folder.")
  kind: str = setting("a", "A choice.", choices=("a", "b"))
  names: tuple[str, ...] = setting((), "A list.")


def test_allowed_values():
  Checked()
  Checked(9, 1, True, "x", "b", ["y"])
  Checked(np.int64(1), np.float32(0), np.bool_(True), pathlib.Path("x"), "b", ("y",))
  Checked(rate=None, folder=None)


@pytest.mark.parametrize(
  "values",
  [
    *({"count": value} for value in ("x", "1", 1.0, True, 0, 10, [1])),
    *({"rate": value} for value in ("0.5", True, -0.1, float("nan"))),
    *({"on": value} for value in (1, "true", None)),
    *({"folder": value} for value in (1, ["x"])),
    *({"kind": value} for value in ("c", None, 1)),
    *({"names": value} for value in ("y", 1, None)),
  ],
)
def test_values_that_are_not_allowed(values):
  ((name, _),) = values.items()
  with rejected(ConfigError, name, match=rf"^{name}=.*: expected "):
    Checked(**values)


def test_differences_of_two_settings():
  before = {"flow": {"depth": 3, "seed": 1}, "data": "a" * 64, "rows": [1, 2], "old": 1}
  now = {"flow": {"depth": 4, "seed": 1}, "data": "b" * 64, "rows": [1, 3], "new": "x"}
  expected = ["data aaaaaaaaaaaa..., now bbbbbbbbbbbb...", "flow.depth 3, now 4", "new none, now x", "old 1, now none"]
  assert differences(before, now) == [*expected, "rows [1, 2], now [1, 3]"]
  assert differences(before, before) == [] and differences({"a": None}, {}) == []
