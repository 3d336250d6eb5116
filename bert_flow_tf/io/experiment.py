"""Experiments' folders and names, and the seconds that their parts took."""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.settings import Settings, changed_values, setting

if TYPE_CHECKING:
  from _typeshed import DataclassInstance

# Names of an encoder's folder within an experiment's folder.
_OWN_FOLDERS = ("encoder", "model")
_HASH_LENGTH = 8
# First part of the names of static encoders.
STATIC = "static:"
# And of text encoders that are SavedModels.
SAVED_MODEL = "saved_model:"
# And of files of word vectors.
WORD_VECTORS = "glove:"


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
  """Returns the name of an experiment: the texts of {field: text}, and a hash of what else is not a default."""
  changed = changed_values(*settings)
  rest = {name: value for name, value in changed.items() if name not in parts} | others
  texts = [text for text in parts.values() if text]
  if rest:
    texts.append(hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()[:_HASH_LENGTH])
  return "_".join(texts)


def encoder_label(name: str) -> str:
  """Returns an encoder's name in tables and folders' names: the last part of its path; of `encoder`, `model` two."""
  if name.startswith(STATIC):
    return f"static-{encoder_label(name.removeprefix(STATIC))}"  # TensorBoard gives a colon another meaning
  path = pathlib.Path(name.removeprefix(SAVED_MODEL).removeprefix(WORD_VECTORS))
  folder = path.expanduser()
  if folder.is_dir():
    path = folder.absolute()
  if (path.name in _OWN_FOLDERS or path.name.isdigit()) and path.parent.name:  # a number is a version's
    return f"{path.parent.name}-{path.name}"
  return path.name


def public_name(name: str) -> str:
  """Returns an encoder's name without the path of a folder or file on this machine, which others have no use for."""
  path = os.path.expanduser(name.removeprefix(STATIC).removeprefix(SAVED_MODEL))
  if os.path.isabs(path) or os.path.exists(path) or os.path.isfile(f"{path}.index"):
    return encoder_label(name)
  return name


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
