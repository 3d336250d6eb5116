"""Manifest of an output folder: decides whether a run may resume in it."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from bert_flow_tf.corpus.formats import InputFormat
from bert_flow_tf.corpus.index import Index, build_index, changed_input
from bert_flow_tf.corpus.storage import LocalStorage, storage_of
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import WRITING, parse_json
from bert_flow_tf.io.lock import owned
from bert_flow_tf.io.settings import differences

FORMAT_VERSION = 1
MANIFEST, INDEX = "manifest.json", "index.json"


class Manifest:
  """Two json files of an output folder.

  `manifest.json` is for people and for the check: settings, inputs and, when the run has ended, its counters.
  `index.json` says which records are in which shard.

  Args:
    folder: the output.
    settings: dict of json values that decide the vectors, their order and their files.
    about: dict of json values that do not.
  """

  def __init__(self, folder: str, settings: dict[str, Any], about: dict[str, Any] | None = None) -> None:
    self.folder, self._about = folder, about or {}
    self._settings = json.loads(json.dumps(settings))  # as it is read again: lists for tuples
    self._storage = storage_of(folder)

  def check(self) -> bool:
    """Returns True if an earlier run has begun in the folder with the same settings, False if it is empty.

    Raises:
      ConfigError: the folder holds another run's output, or something else.
    """
    manifest = self._read(MANIFEST)
    if manifest is None:
      names = [name for name in self._storage.names(self.folder) if not name.endswith(WRITING)]
      if names:
        self._reject(f"holds {names[0]} and no {MANIFEST}, expected an empty folder or an earlier run's output")
      return False
    if manifest.get("format_version") != FORMAT_VERSION or not isinstance(manifest.get("settings"), dict):
      self._reject(f"holds a {MANIFEST} of another program or version")
    differing = differences(manifest["settings"], self._settings)
    if differing:
      mend = "install the earlier version to resume, or " * any(".versions" in clause for clause in differing[:3])
      self._reject(f"holds the output of another run: {'; '.join(differing[:3])}", mend)
    return True

  def begin(
    self,
    paths: Sequence[str],
    input_format: InputFormat,
    shard_size: int,
    shard_bytes: int,
    show_progress: bool = True,
  ) -> Index:
    """Returns the index of an earlier run in the folder, or builds and writes it; arguments as in `build_index`.

    Raises:
      ConfigError: the earlier run had other input files.
      DataError: a file cannot be read.
    """
    values = self._read(INDEX) if self.check() else None
    if values is None:
      index = build_index(paths, input_format, shard_size, shard_bytes, show_progress)
      self.write(index)  # before the index, which alone would be rejected
      self._write(INDEX, index.to_json())
      return index
    try:
      index = Index.from_json(values)
    except (KeyError, TypeError, ValueError, AttributeError):
      self._reject(f"holds a damaged {INDEX}")
    indexed = [file.path for file in index.inputs]
    if indexed != list(paths):
      other = next(iter(sorted(set(indexed) ^ set(paths))), "their order")
      self._reject(f"holds the output of another run: {len(indexed)} input files, now {len(paths)}; see {other}")
    changed = changed_input(index.inputs)
    if changed is not None:
      self._reject(f"holds the output of an earlier run, and {changed} has changed since")
    return index

  def write(self, index: Index, counters: dict[str, int] | None = None) -> None:
    """Writes `manifest.json`; with the counters when all shards are finished."""
    values: dict[str, Any] = {"format_version": FORMAT_VERSION, "complete": counters is not None}
    if counters is not None:
      values["counters"] = counters
    values |= {"shards": len(index.shards), "records": index.records, "settings": self._settings, **self._about}
    values["inputs"] = [vars(file) for file in index.inputs]
    self._write(MANIFEST, values)

  @contextlib.contextmanager
  def lock(self) -> Iterator[None]:
    """Keeps other runs on this machine out of the folder, see `owned`; first and last, deletes files of killed writers.

    Raises:
      ConfigError: another run uses the folder, it cannot be made, or it holds an incomplete file of another program.
    """
    if not isinstance(self._storage, LocalStorage):
      yield
      return
    with owned(self.folder, "output_dir"):
      others = self._storage.clear(self.folder)
      if others:
        self._reject(f"holds {others[0]}, which is not of this program", "move it, ")
      yield
      self._storage.clear(self.folder)  # of Beam's workers that died during this run

  def _reject(self, reason: str, mend: str = "") -> NoReturn:
    message = f"output_dir={self.folder} {reason}; {mend}choose another folder, or delete this one"
    raise ConfigError(message, argument="output_dir")

  def _read(self, name):
    """Returns the values of a json file; None if it does not exist."""
    path = self._storage.join(self.folder, name)
    if self._storage.stat(path) is None:
      return None
    with self._storage.open(path) as file:
      try:
        return checksums.opened(parse_json(file.read()))
      except ValueError as error:
        self._reject(f"holds a damaged {name} ({error})")

  def _write(self, name, values):
    with self._storage.writing(self._storage.join(self.folder, name)) as file:
      file.write((json.dumps(checksums.sealed(values), indent=1) + "\n").encode("utf-8", "backslashreplace"))
