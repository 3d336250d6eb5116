"""Manifest of a run: decides whether a run resumes an earlier one in its folder, and names what differs."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import NoReturn

from bert_flow_tf.corpus.shard_plan import ShardPlan, changed_input, plan_shards
from bert_flow_tf.data.files.given_columns import joined_columns
from bert_flow_tf.data.files.input_format import InputFormat
from bert_flow_tf.encoder.identity import other_engine
from bert_flow_tf.errors import ConfigError, naming
from bert_flow_tf.io import files, storage
from bert_flow_tf.io.files import owned
from bert_flow_tf.io.settings import differences
from bert_flow_tf.vectors.manifest import FORMAT_VERSION, MANIFEST, check_place, with_names, with_sha256_of_values
from bert_flow_tf.vectors.shards import read_sealed, write_sealed

PLAN = "index.json"


class Manifest:
  """`manifest.json` and `index.json`; `settings` are JSON values that decide vectors and files, `about` others."""

  def __init__(self, folder: str, settings: dict[str, object], about: dict[str, object] | None = None) -> None:
    self.folder = folder
    self._about = about or {}
    # Tuples become lists, as in the manifest that is read.
    self._settings = json.loads(json.dumps(settings))

  def _has_begun(self) -> bool:
    """Returns True if an earlier run has begun in the folder with the same settings, False if it is empty."""
    manifest = self._read(MANIFEST)
    if manifest is None:
      for name in sorted(storage.sizes(self.folder)):
        if name != files.temporary_name(MANIFEST):
          self._reject(f"holds {name} and no {MANIFEST}, expected an empty folder or an earlier run's output")
      return False
    if manifest.get("format_version") != FORMAT_VERSION or not isinstance(manifest.get("settings"), dict):
      self._reject(f"holds a {MANIFEST} of another program or version")
    before = manifest["settings"]
    if isinstance(before.get("embedder"), dict):
      before = {**before, "embedder": with_sha256_of_values(before["embedder"], manifest, self._about)}
    compared = differences(_with_joined_columns(before), _with_joined_columns(self._settings))
    differing = with_names(compared, manifest, self._about)
    if differing:
      is_version = any(".versions" in difference for difference in differing)
      mend = "install the earlier version to resume, or " if is_version else ""
      if len(compared) == 1 and "embedder" in compared[0]:
        engine = other_engine(before["embedder"], self._settings["embedder"])
        mend = f"give {engine} to resume, or " if engine is not None else mend
      self._reject(f"holds the output of another run: {'; '.join(differing)}", mend)
    return True

  def begin(self, paths: Sequence[str], input_format: InputFormat, shard_size: int, shard_bytes: int) -> ShardPlan:
    """Returns the plan of an earlier run in the folder, or makes and writes it; arguments as in `plan_shards`."""
    has_begun = self._has_begun()
    values = self._read(PLAN) if has_begun else None
    if values is None:
      if not has_begun and storage.is_local(self.folder):
        check_place(self.folder, {"settings": self._settings, **self._about}, "output_dir")
      plan = plan_shards(paths, input_format, shard_size, shard_bytes)
      # The manifest first: a folder with a plan alone would be rejected.
      self.write(plan)
      write_sealed(self.folder, PLAN, dataclasses.asdict(plan))
      return plan
    try:
      plan = ShardPlan.from_json(values)
    except (KeyError, TypeError):
      self._reject(f"holds a damaged {PLAN}")
    # The same input files, in the same order, with the same bytes.
    planned = [file.path for file in plan.inputs]
    if planned != list(paths):
      gone = [f"without {path}" for path in planned if path not in paths]
      new = [f"with {path}" for path in paths if path not in planned]
      changes = [*gone[:1], *new[:1]] or ["in another order"]
      self._reject(f"holds the output of another run: its input files, now {' and '.join(changes)}")
    changed = changed_input(plan.inputs)
    if changed is not None:
      self._reject(f"holds the output of an earlier run, and {changed} has changed since")
    return plan

  def write(self, plan: ShardPlan, counters: dict[str, int] | None = None) -> None:
    """Writes `manifest.json`; with the counters when all shards are finished."""
    values: dict[str, object] = {"format_version": FORMAT_VERSION, "complete": counters is not None}
    if counters is not None:
      values["counters"] = counters
    values |= {"shards": len(plan.shards), "records": plan.records, "settings": self._settings, **self._about}
    values["inputs"] = list(map(vars, plan.inputs))
    write_sealed(self.folder, MANIFEST, values)

  @contextlib.contextmanager
  def lock(self) -> Iterator[None]:
    """Keeps other runs on this machine out of the folder."""
    if not storage.is_local(self.folder):
      yield
      return
    with owned(self.folder, "output_dir"):
      yield

  def _reject(self, reason: str, mend: str = "") -> NoReturn:
    message = f"output_dir={self.folder} {reason}; {mend}choose another folder, or delete this one"
    raise ConfigError(message, argument="output_dir")

  def _read(self, name):
    """Returns the values of a JSON file; None if it does not exist."""
    with naming("output_dir"):
      if storage.stat(f"{self.folder}/{name}") is None:
        return None
    try:
      return read_sealed(self.folder, name)
    except ValueError as error:
      self._reject(f"holds a damaged {name} ({error})")


def _with_joined_columns(settings):
  """Returns settings with all columns of the sentence in one value, as a flag gives them."""
  of_input = settings.get("input")
  if not isinstance(of_input, dict) or of_input.get("column") is None:
    return settings
  columns = [str(of_input["column"]), *(of_input.get("more_columns") or [])]
  return {**settings, "input": {**of_input, "column": joined_columns(columns), "more_columns": None}}
