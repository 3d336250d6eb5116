"""Folders of vectors that `bert-flow embed` wrote, read without loading them; the files that paths and globs name."""

import dataclasses
import functools
import glob
import os
import pathlib
from collections.abc import Sequence

import numpy as np
from absl import logging

from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.io import checksums, storage
from bert_flow_tf.io.files import Json, check_path, read_json
from bert_flow_tf.progress import counted
from bert_flow_tf.vectors.manifest import (
  MANIFEST,
  check_same_model,
  embedder_in,
  is_of_another_program,
  is_of_embed,
  read_manifest,
)
from bert_flow_tf.vectors.shards import EMBEDDED, IDS, TEXTS, UNREAD, ShardFolder
from bert_flow_tf.vectors.unit_rows import UnitRows
from bert_flow_tf.vectors.vector_file import AGAIN, VectorFile


@dataclasses.dataclass(frozen=True)
class VectorFolder:
  """Vectors of one encoder and calibration, in a folder of `bert-flow embed`, and in all such folders inside it.

  Attributes:
    folder: the folder.
    files: the files of vectors, in their order.
    manifest: JSON values of the (first) run, which decide the vectors and name the model.
  """

  folder: str
  files: tuple[VectorFile, ...]
  manifest: Json

  @classmethod
  def open(cls, folder: str, leave_out: str | None = None) -> "VectorFolder":
    """Returns the complete folder of a run, or of several runs with the same model.

    Args:
      folder: the folder.
      leave_out: folder inside it that is not read.

    Raises:
      ConfigError: it is no such folder, a shard is missing, or two runs differ in encoder, calibration or dimensions.
      DataError: a manifest is damaged.
    """
    if not storage.is_local(folder) or not check_path(folder, "vectors").is_dir():
      raise ConfigError(f"vectors={folder}: no such folder; expected a folder on this machine", argument="vectors")
    manifests = []
    for path in _manifests_in(folder, leave_out):
      if path.parent != pathlib.Path(folder) and _is_foreign(path):
        logging.info("%s: is of another program, and passed over", path)
      else:
        manifests.append(path)
    if not manifests:
      message = f"vectors={folder}: no {MANIFEST} in it; expected a folder that bert-flow embed wrote"
      raise ConfigError(message, argument="vectors")
    files: list[VectorFile] = []
    opened = [read_manifest(path) for path in manifests]
    for path, manifest in zip(manifests, opened, strict=True):
      check_same_model(folder, manifests[0], opened[0], path, manifest)
      files += _files_of(folder, path.parent, manifest)
    if not sum(map(len, files)):
      raise DataError(f"vectors={folder}: no vectors; expected vectors of sentences", "vectors")
    return cls(folder, tuple(files), opened[0])

  @property
  def rows(self) -> UnitRows:
    """The vectors, divided by their lengths; `check` tells whether they are damaged."""
    return UnitRows(self.files, self.files[0].dim)

  @property
  def runs(self) -> list[str]:
    """The folders of `bert-flow embed`, by their paths in the folder; "" for the folder itself."""
    return sorted({_run_of(file) for file in self.files})

  @property
  def embedder(self) -> Json:
    """JSON values that decide the vectors, without versions."""
    return embedder_in(self.manifest)

  def check(self) -> None:
    """Raises a DataError if a file of vectors is damaged; it reads them all."""
    for file in self.files:
      file.check()

  def unread_keys(self) -> np.ndarray:
    """Returns the `unread_keys` of the texts, int64 [n]; an info in the log says if a file has none."""
    unknown = sum(file.unread is None for file in self.files)
    if unknown:
      message = "%s: %s of %d without keys of what was not read, as version 0.2 wrote them: texts that differ in it "
      message += "alone count as duplicates; embed them again to keep them"
      logging.info(message, self.folder, counted(unknown, "shard"), len(self.files))
    return np.concatenate([file.unread_keys() for file in self.files])

  def check_against(self, other: "VectorFolder") -> None:
    """Raises a ConfigError if the vectors of another folder cannot be compared with these, or some of them are these.

    The other's would be left out as duplicates of themselves.
    """
    files = {file.path.resolve() for file in self.files}
    same = [file for file in other.files if file.path.resolve() in files]
    if same:
      message = f"vectors={self.folder}: holds {same[0].path.parent}, which is compared with it: each of its vectors "
      message += "would be a duplicate of itself; expected a folder without it"
      raise ConfigError(message, argument="vectors")
    paths = (pathlib.Path(self.folder, MANIFEST), pathlib.Path(other.folder, MANIFEST))
    check_same_model(self.folder, paths[0], self.manifest, paths[1], other.manifest)

  @functools.cached_property
  def _starts(self):
    return np.cumsum([0, *map(len, self.files)])

  def id_of(self, row: int, with_run: bool = True) -> str:
    """Returns the id of a vector; `with_run`: after the path of its run, if that is inside the folder."""
    number = int(np.searchsorted(self._starts, row, side="right")) - 1
    file = self.files[number]
    name = file.ids[row - self._starts[number]]
    prefix = _run_of(file)
    return f"{prefix}/{name}" if with_run and prefix else name

  def id_of_several_runs(self) -> str | None:
    """Returns an id that vectors of two runs have, None without one; it reads all ids."""
    runs: dict[str, str] = {}
    for file in self.files:
      run = _run_of(file)
      for name in file.ids:
        if runs.setdefault(name, run) != run:
          return name
    return None


def _run_of(file):
  """Returns the path of the run's folder in the folder of vectors; "" for the folder itself."""
  return file.name.rpartition("/")[0]


def _manifests_in(folder, leave_out=None):
  """Returns the manifests of a folder and of those inside it that are not hidden, its own first; links are followed."""
  manifests, visited = [], set()
  if leave_out is not None:
    visited = {os.path.realpath(leave_out)} - {os.path.realpath(folder)}
  for path, names, files in os.walk(folder, followlinks=True):
    if os.path.realpath(path) in visited:  # a link to a folder that was read, perhaps around this one
      names.clear()
      continue
    visited.add(os.path.realpath(path))
    names[:] = sorted(name for name in names if not name.startswith("."))
    if MANIFEST in files:
      manifests.append(pathlib.Path(path, MANIFEST))
  return sorted(manifests, key=lambda path: path.parent.parts)


def _is_foreign(manifest):
  """Returns whether a manifest is of another program; one that cannot be read may be ours, and damaged."""
  try:
    return is_of_another_program(manifest)
  except (OSError, ValueError):
    return False


def _files_of(folder, run, manifest):
  """Returns the files of a run; a ConfigError if shards are missing."""
  settings, number_of_shards = manifest["settings"], manifest["shards"]
  shards = ShardFolder(str(run), number_of_shards, settings["output_format"], settings["dim"])
  sizes = storage.sizes(str(run))
  receipts = [name for name in sizes if shards.is_receipt(name)]
  if len(receipts) < number_of_shards:
    found = f"{len(receipts)} of {number_of_shards} shards"
    raise ConfigError(f"vectors={run}: {found}; the same bert-flow embed command makes the others", "vectors")
  files = []
  for number in range(number_of_shards):
    path = run / shards.name(number, settings["output_format"])
    receipt = shards.name(number, "json")
    counters = shards.finished(number, sizes)
    if counters is None or counters.get(EMBEDDED, -1) < 0:
      raise DataError(f"vectors={path}: damaged, its files are not as {receipt} says; {AGAIN}", "vectors")
    values = read_json(run / receipt)
    sums = values.get(checksums.KEY, {})
    name = path.relative_to(folder).as_posix()
    known = [sums.get(path.name), sums.get(path.with_suffix(f".{IDS}").name)]
    known += [values.get("unread"), sums.get(path.with_suffix(f".{UNREAD}").name)]
    known.append(sums.get(path.with_suffix(f".{TEXTS}").name))
    files.append(VectorFile(folder, name, counters[EMBEDDED], settings["dim"], *known))
    files[-1].check_shape()
  return files


def holds_vectors(folder: str) -> bool:
  """Returns whether a folder is one of `bert-flow embed`, or holds one and no .npy files of its own."""
  if is_of_embed(folder) or any(pathlib.Path(folder).glob("*.npy")):
    return is_of_embed(folder)
  return any(is_of_embed(str(path.parent)) for path in _manifests_in(folder))


def find_vector_files(vectors: Sequence[str], leave_out: str | None = None) -> list[VectorFile]:
  """Returns the files that files, globs or folders name; all are readable and have one number of dimensions.

  `leave_out`: see `VectorFolder.open`.
  """
  paths: dict[pathlib.Path, VectorFile] = {}
  for name in vectors:
    paths |= {file.path: file for file in _expand(name, leave_out)}
  if not paths:
    expected = "expected .npy files, or a folder of bert-flow embed"
    raise ConfigError(f"vectors={','.join(vectors)}: {expected}, got none", "vectors")
  # Each file is opened once, so that a wrong one is an error before hours of work.
  files: list[VectorFile] = []
  for path, file in paths.items():
    file.check()
    files.append(file)
    if file.dim != files[0].dim:
      raise DataError(f"{path}: {file.dim} dimensions, but {files[0].path} has {files[0].dim}")
  return files


def _expand(name, leave_out):
  """Returns the files of a file, a glob or a folder; of `bert-flow embed`, too."""
  name = os.path.expanduser(name)
  check_path(name, "vectors")
  if holds_vectors(name):
    return VectorFolder.open(name, leave_out).files
  if os.path.isdir(name):
    paths = sorted(path for path in pathlib.Path(name).glob("*.npy") if not path.name.startswith("."))
    return list(map(VectorFile.of_npy, paths))
  paths = list(map(pathlib.Path, glob.glob(name) or [name]))
  for path in paths:
    if not path.is_file():
      mend = ""
      if storage.is_list(name):
        mend = f"; several are a list of the flag: --input={name}"
      raise ConfigError(f"vectors={path}: no such .npy file{mend}", argument="vectors")
    if path.suffix != ".npy":
      raise ConfigError(
        f"vectors={path}: is no .npy file; expected vectors, as bert-flow embed or numpy.save writes them", "vectors"
      )
  return list(map(VectorFile.of_npy, sorted(paths)))
