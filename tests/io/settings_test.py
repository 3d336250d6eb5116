"""bert_flow_tf/io/settings.py: what of the settings takes part in an experiment's name."""

import dataclasses

from bert_flow_tf.io.settings import changed_values, named_values, setting


@dataclasses.dataclass(frozen=True)
class Old:
  depth: int = setting(3, "Depth of the chain.")
  cached_dir: str | None = setting(None, "Folder of a cache.", named=False)


@dataclasses.dataclass(frozen=True)
class New(Old):
  width: int = setting(32, "Width of the network.")


def test_a_new_field_takes_part_unless_it_says_otherwise():
  assert named_values(Old(cached_dir="cache")) == {"depth": 3}
  assert named_values(New(cached_dir="cache")) == {"depth": 3, "width": 32}


def test_changed_values_are_those_that_differ_from_the_defaults():
  assert changed_values(New(cached_dir="cache")) == {}
  assert changed_values(New(width=64)) == {"width": 64}
