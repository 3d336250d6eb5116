"""Experiments' folders and names, and the seconds that their parts took."""

import contextlib
import dataclasses
import hashlib
import json
import pathlib
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.settings import Settings, changed_values, setting

if TYPE_CHECKING:
  from _typeshed import DataclassInstance

_HASH_LENGTH = 8


@dataclasses.dataclass(frozen=True)
class OutputSettings(Settings):
  """The folder of an experiment."""

  output_parent_dir: str = setting("exp", "Folder of the experiments' folders.", named=False)
  exp_name: str | None = setting(
    None, "Name of this experiment's folder; default: made from the other flags.", named=False
  )
  exp_name_prefix: str = setting("exp", "First part of a name made from the flags.", named=False)
  output: str | None = setting(
    None, "Folder of this experiment, in place of output_parent_dir and exp_name.", named=False
  )

  def folder(self, name: str) -> pathlib.Path:
    """Returns the experiment's folder, which has the name `name` if neither output nor exp_name is given."""
    if self.output is not None and self.exp_name is not None:
      raise ConfigError(f"output={self.output}: exp_name names a folder, too; leave one of them out", argument="output")
    if self.output is not None:
      return pathlib.Path(self.output).expanduser()
    return pathlib.Path(self.output_parent_dir).expanduser() / (self.exp_name or name)


def experiment_name(parts: Mapping[str, str], *settings: "DataclassInstance", **others: object) -> str:
  """Returns the name of an experiment: the texts of {field: text}, and a hash of the other values unlike defaults."""
  changed = changed_values(*settings)
  rest = {name: value for name, value in changed.items() if name not in parts} | others
  texts = [text for text in parts.values() if text]
  if rest:
    texts.append(hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()[:_HASH_LENGTH])
  return "_".join(texts)


class Stopwatch:
  """Clock whose `seconds` are {kind of work: seconds}."""

  def __init__(self) -> None:
    self.seconds: dict[str, float] = {}

  @contextlib.contextmanager
  def timing(self, work: str) -> Iterator[None]:
    """Adds the seconds of the block to a kind of work, without the seconds of blocks inside it."""
    start, before = time.monotonic(), sum(self.seconds.values())
    yield
    inside = sum(self.seconds.values()) - before
    self.seconds[work] = self.seconds.get(work, 0.0) + time.monotonic() - start - inside
