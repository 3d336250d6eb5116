"""Folders of vectors that `bert-flow embed` wrote, read without loading them: their rows, ids and model."""

import dataclasses
import functools
import pathlib

import numpy as np
from absl import logging

from bert_flow_tf.corpus.shards import EMBEDDED, FORMAT_VERSION, MANIFEST, NPY, ShardFolder, with_names
from bert_flow_tf.corpus.vector_files import AGAIN, IDS, UNREAD, VectorFile
from bert_flow_tf.data.files.input_format import JSONL, PARQUET
from bert_flow_tf.errors import ConfigError, DataError, one_line
from bert_flow_tf.io import checksums, storage
from bert_flow_tf.io.checks import is_integer
from bert_flow_tf.io.files import Json, check_path, read_json
from bert_flow_tf.io.settings import differences
from bert_flow_tf.neighbors.unit_rows import UnitRows
from bert_flow_tf.progress import counted


@dataclasses.dataclass(frozen=True)
class VectorFolder:
  """Vectors of one encoder and calibration, in a folder of `bert-flow embed` or in several that one folder holds.

  Attributes:
    folder: the folder.
    files: the files of vectors, in their order.
    manifest: JSON values of the (first) run, which decide the vectors and name the model.
  """

  folder: str
  files: tuple[VectorFile, ...]
  manifest: Json

  @classmethod
  def open(cls, folder: str) -> "VectorFolder":
    """Returns the complete folder of a run, or of several runs with the same model.

    Raises:
      ConfigError: it is no such folder, a shard is missing, or two runs differ in encoder, calibration or dimensions.
      DataError: a manifest is damaged.
    """
    if not storage.is_local(folder) or not check_path(folder, "vectors").is_dir():
      raise ConfigError(f"vectors={folder}: no such folder; expected a folder on this machine", argument="vectors")
    base = pathlib.Path(folder)
    manifests = [base / MANIFEST] if (base / MANIFEST).is_file() else sorted(base.glob(f"*/{MANIFEST}"))
    if not manifests:
      message = f"vectors={folder}: no {MANIFEST} in it; expected a folder that bert-flow embed wrote"
      raise ConfigError(message, argument="vectors")
    files: list[VectorFile] = []
    opened = [_read_manifest(path) for path in manifests]
    for path, manifest in zip(manifests, opened, strict=True):
      _check_same(folder, manifests[0], opened[0], path, manifest)
      files += _files_of(folder, path.parent, manifest)
    if not sum(map(len, files)):
      raise DataError(f"vectors={folder}: no vectors; expected vectors of sentences", "vectors")
    return cls(folder, tuple(files), opened[0])

  @property
  def rows(self) -> UnitRows:
    """The vectors, divided by their lengths; `check` tells whether they are damaged."""
    return UnitRows(self.files, self.files[0].dim)

  @property
  def embedder(self) -> Json:
    """JSON values that decide the vectors, without versions."""
    return _embedder_of(self.manifest)

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

  def check_same(self, other: "VectorFolder") -> None:
    """Raises a ConfigError if the vectors of another folder have other dimensions, encoders or calibrations."""
    paths = (pathlib.Path(self.folder, MANIFEST), pathlib.Path(other.folder, MANIFEST))
    _check_same(self.folder, paths[0], self.manifest, paths[1], other.manifest)

  @functools.cached_property
  def _starts(self):
    return np.cumsum([0, *map(len, self.files)])

  def id_of(self, row: int) -> str:
    """Returns the id of a vector, after the name of its run's folder if there are several."""
    number = int(np.searchsorted(self._starts, row, side="right")) - 1
    file = self.files[number]
    prefix = file.name.rpartition("/")[0]
    name = file.ids[row - self._starts[number]]
    return f"{prefix}/{name}" if prefix else name


def _read_manifest(path):
  """Returns the values of a manifest."""
  try:
    manifest = checksums.opened(read_json(path))
    if manifest["format_version"] != FORMAT_VERSION:
      raise ValueError(f"of version {str(manifest['format_version'])[:40]}")
    _check_values(manifest, {"settings": dict, "encoder": dict, "shards": int}, {"calibration": dict})
    deciding = manifest["settings"]
    _check_values(deciding, {"embedder": dict, "dim": int, "output_format": str})
    kind = deciding["output_format"]
  except (OSError, ValueError, KeyError) as error:
    message = f"vectors={path}: damaged, or of another program ({one_line(error)}); {AGAIN}"
    raise DataError(message, argument="vectors") from error
  if kind not in (NPY, PARQUET, JSONL):
    message = f"vectors={path.parent}: its shards are {kind}; expected {NPY}, {PARQUET} or {JSONL}"
    raise ConfigError(message, argument="vectors")
  return manifest


def _check_values(values, required, optional=None):
  """Raises a ValueError for a value of a JSON object that has not its type; an integer is positive."""
  kinds = {**required, **(optional or {})}
  for name, kind in kinds.items():
    value = values.get(name)
    if value is None and name not in required:
      continue
    if not isinstance(value, kind) or (kind is int and not is_integer(value, 1)):
      raise ValueError(f"{name} is {str(value)[:40]}")


def _embedder_of(manifest):
  return {name: value for name, value in manifest["settings"]["embedder"].items() if name != "versions"}


def _check_same(folder, first_path, first, path, manifest):
  """Raises a ConfigError if two runs have other dimensions, encoders or calibrations."""
  values = []
  for each in (first, manifest):
    values.append({"dimensions": each["settings"]["dim"], **_embedder_of(each)})
  different = differences(*values)
  if different:
    runs = f"{first_path.parent.name} and {path.parent.name}"
    shown = "; ".join(with_names(different, first, manifest))
    message = f"vectors={folder}: {runs} are of different encoders or calibrations ({shown}); name one of the two"
    raise ConfigError(message, argument="vectors")


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
    known = [sums.get(path.name), sums.get(path.with_suffix(IDS).name)]
    known += [values.get("unread"), sums.get(path.with_suffix(UNREAD).name)]
    files.append(VectorFile(folder, name, counters[EMBEDDED], settings["dim"], *known))
    files[-1].check_shape()
  return files
