"""run_scripts/common_flags.py: flags made from settings, and read back."""

import dataclasses

import pytest
from absl import flags

from bert_flow_tf.io.settings import setting
from run_scripts import common_flags


@dataclasses.dataclass(frozen=True)
class Everything:
  text: str = setting("a", "A text.", alias="other_text")
  path: str | None = setting(None, "A path.")
  number: int | None = setting(None, "A number.", minimum=1)
  rate: float = setting(0.5, "A rate.")
  on: bool | None = setting(None, "A switch.")
  kind: str = setting("x", "A choice.", choices=("x", "y"))
  names: tuple[str, ...] = setting((), "A list.")


@pytest.fixture
def values(monkeypatch):
  """Flags of their own for a test, in place of the process's."""
  values = flags.FlagValues()
  monkeypatch.setattr(common_flags, "FLAGS", values)
  for kind in ("string", "integer", "float", "boolean", "enum", "list", "alias"):
    name = f"DEFINE_{kind}"
    define = getattr(flags, name)
    monkeypatch.setattr(flags, name, lambda *given, define=define: define(*given, flag_values=values))
  return values


def test_settings_are_the_values_of_the_flags(values):
  common_flags.define_settings(Everything, rate=0.25)
  values(["program", "--other_text=b", "--number=3", "--noon", "--kind=y", "--names=c,d"])
  assert common_flags.settings(Everything) == Everything("b", None, 3, 0.25, False, "y", ("c", "d"))


def test_a_field_without_a_flag_has_its_default(values):
  common_flags.define_settings(Everything, ["text"])
  values(["program", "--text=b"])
  assert common_flags.settings(Everything) == Everything("b")
  assert "rate" not in values


@pytest.mark.parametrize("argument", ["--number=0", "--kind=z", "--rate=fast", "--on=perhaps"])
def test_a_value_outside_the_settings_is_rejected(values, argument):
  common_flags.define_settings(Everything)
  with pytest.raises(flags.Error, match=argument.partition("=")[0].lstrip("-")):
    values(["program", argument])
