"""The output folder as a whole: what decides its content, and whether a run may go on in it."""

import contextlib
import json
import os

from bert_flow_tf.corpus.index import Index, build_index, changed_input
from bert_flow_tf.corpus.storage import WRITING, LocalStorage, storage_of
from bert_flow_tf.errors import ConfigError

FORMAT_VERSION = 1
MANIFEST, INDEX, LOCK = "manifest.json", "index.json", ".lock"


class Manifest:
  """The two json files of an output folder.

  `manifest.json` is for people and for the check: settings, inputs, and when the run is over its counters. `index.json`
  says which records are in which shard.

  Args:
    folder: the output.
    settings: dict of json values that decide the vectors, their order and their files.
    about: dict of json values that do not.
  """

  def __init__(self, folder, settings, about=None):
    self.folder, self._about = folder, about or {}
    self._settings = json.loads(json.dumps(settings))  # as it will be read: lists for tuples
    self._storage = storage_of(folder)

  def check(self):
    """Whether an earlier run has begun here with the same settings; raises before anything slow is done.

    Raises:
      ConfigError: the folder is another run's, or holds something else.
    """
    there = self._read(MANIFEST)
    if there is None:
      names = [name for name in self._storage.names(self.folder) if name != LOCK and not name.endswith(WRITING)]
      if names:
        self._refuse(f"holds {names[0]} and no {MANIFEST}, expected an empty folder or an earlier run's output")
      return False
    if there.get("format_version") != FORMAT_VERSION or not isinstance(there.get("settings"), dict):
      self._refuse(f"holds a {MANIFEST} that is not of this program, or of another version of it")
    differing = differences(there["settings"], self._settings)
    if differing:
      self._refuse(f"holds the output of another run: {'; '.join(differing[:3])}")
    return True

  def begin(self, paths, wanted, shard_records, shard_bytes, show_progress=True):
    """The `Index` of this run: the earlier run's, else made anew and written.

    Args: as for `build_index`.

    Raises:
      ConfigError: an earlier run has begun here with other input files.
      DataError: a file cannot be read.
    """
    there = self._read(INDEX) if self.check() else None
    if there is not None:
      try:
        index = Index.from_json(there)
      except (KeyError, TypeError, AttributeError):
        self._refuse(f"holds an {INDEX} that is not of this program, or damaged")
      before = [file.path for file in index.inputs]
      if before != paths:
        other = next(iter(sorted(set(before) ^ set(paths))), "their order")
        self._refuse(f"holds the output of another run, of {len(before)} input files, now {len(paths)}: see {other}")
      changed = changed_input(index.inputs)
      if changed is not None:
        self._refuse(f"holds the output of a run on other input: {changed} was changed since")
      return index
    index = build_index(paths, wanted, shard_records, shard_bytes, show_progress)
    self.write(index)  # first: an index alone would be refused
    self._write(INDEX, index.to_json())
    return index

  def write(self, index, counters=None):
    """Writes `manifest.json`; with the counters when all shards are finished."""
    values = {"format_version": FORMAT_VERSION, "complete": counters is not None}
    if counters is not None:
      values["counters"] = counters
    values |= {"shards": len(index.shards), "records": index.records, "settings": self._settings, **self._about}
    values["inputs"] = [vars(file) for file in index.inputs]
    self._write(MANIFEST, values)

  @contextlib.contextmanager
  def lock(self):
    """Keeps other runs on this machine out of the folder, which is made; clears away what killed writers left.

    Raises:
      ConfigError: another run is at work there, or it cannot be made.
    """
    if not isinstance(self._storage, LocalStorage):
      yield
      return
    import fcntl  # not on Windows, where TensorFlow 2.21's packages for Linux are not either

    try:
      os.makedirs(self.folder, exist_ok=True)
      lock = open(self._storage.join(self.folder, LOCK), "w")  # noqa: SIM115 (closed below; its opening may fail)
    except OSError as error:
      raise ConfigError(f"--output_dir={self.folder} cannot be made ({error.strerror}); choose another") from error
    with lock:
      try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
      except OSError as error:
        raise ConfigError(f"--output_dir={self.folder}: another run is at work there; wait for it") from error
      self._storage.clear(self.folder)
      yield

  def _refuse(self, what):
    raise ConfigError(f"--output_dir={self.folder} {what}; choose another folder, or delete this one")

  def _read(self, name):
    path = self._storage.join(self.folder, name)
    if self._storage.stat(path) is None:
      return None
    with self._storage.open(path) as file:
      try:
        return dict(json.loads(file.read()))
      except (ValueError, TypeError):
        self._refuse(f"holds a {name} that cannot be read as json")

  def _write(self, name, values):
    with self._storage.writing(self._storage.join(self.folder, name)) as file:
      file.write((json.dumps(values, indent=1) + "\n").encode("utf-8", "backslashreplace"))


def differences(there, here, above=""):
  """What differs between two dicts of json values, one clause each."""
  found = []
  for key in sorted(there.keys() | here.keys()):
    one, other = there.get(key), here.get(key)
    if isinstance(one, dict) and isinstance(other, dict):
      found += differences(one, other, f"{above}{key}.")
    elif one != other:
      found.append(f"{above}{key} {_short(one)} there, {_short(other)} now")
  return found


def _short(value):
  text = json.dumps(value)
  return f"{text[:20]}..." if len(text) > 24 else text
