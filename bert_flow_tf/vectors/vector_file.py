"""Files of vectors [rows, dim] with ids, read in parts: .npy of any program, and the files of `bert-flow embed`."""

import contextlib
import dataclasses
import functools
import json
import pathlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bert_flow_tf.data.files.input_format import PARQUET
from bert_flow_tf.data.files.parquet import import_parquet
from bert_flow_tf.errors import ConfigError, DataError, one_line
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import read_json, writing
from bert_flow_tf.vectors.shards import IDS, NPY, TEXTS, UNREAD, write_lines

AGAIN = "the same bert-flow embed command makes it again"
# Rows of a file in memory at once.
ROWS = 8192


@dataclasses.dataclass(frozen=True)
class VectorFile:
  """File of vectors, which is read as an array [rows, dim].

  Attributes:
    folder: the folder that was named.
    name: path in the folder, with "/".
    rows: number of vectors.
    dim: their dimensions.
    checksum: hexadecimal SHA-256 of the file; None if it is not known, as of a file in an object store.
    ids_checksum: hexadecimal SHA-256 of the file of ids; None if it is not known, or the ids are in this file.
    unread: number of vectors whose text was not read whole, with keys in a file of their own; None if it is not known.
    unread_checksum: hexadecimal SHA-256 of the file of keys; None if it is not known, or there is none.
    texts_checksum: hexadecimal SHA-256 of the file of texts; None if it is not known, or there is none.
  """

  folder: str
  name: str
  rows: int
  dim: int
  checksum: str | None = None
  ids_checksum: str | None = None
  unread: int | None = None
  unread_checksum: str | None = None
  texts_checksum: str | None = None

  @classmethod
  def of_npy(cls, path: pathlib.Path) -> "VectorFile":
    """Returns a .npy file of any program; a DataError says why it has no vectors."""
    rows, dim = _open_npy(path).shape
    checksum = None
    with contextlib.suppress(OSError, ValueError, AttributeError):  # no receipt of bert-flow embed
      checksum = read_json(path.with_suffix(".json")).get(checksums.KEY, {}).get(path.name)
    return cls(str(path.parent), path.name, rows, dim, checksum)

  def __len__(self) -> int:
    return self.rows

  def __getitem__(self, rows: np.ndarray | slice) -> np.ndarray:
    with np.errstate(over="ignore"):  # a number that is too large for float32 becomes infinite
      vectors = np.asarray(self.array()[rows], np.float32)
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if bad.size:
      row = np.arange(self.rows)[rows][bad[0]]
      raise DataError(f"{self.path}, row {row} (counted from 0): NaN or infinite, expected finite numbers", "vectors")
    return vectors

  @property
  def path(self) -> pathlib.Path:
    """Path of the file."""
    return pathlib.Path(self.folder, self.name)

  def array(self) -> np.ndarray:
    """Returns the numbers as they are stored, mapped anew: pages of a long-lived map would count as memory."""
    if self.path.suffix != f".{NPY}":
      return self._copy
    array = _open_npy(self.path)
    if array.shape != (self.rows, self.dim):
      raise self._damaged(f"it has the shape {list(array.shape)}, expected {[self.rows, self.dim]}")
    return array

  def blocks(self) -> Iterator[np.ndarray]:
    """Yields the vectors, float32 [at most ROWS, dim]."""
    for start in range(0, self.rows, ROWS):
      yield self[start : start + ROWS]

  @functools.cached_property
  def ids(self) -> list[str]:
    """Ids of the vectors."""
    if self.path.suffix == f".{NPY}":
      path = self.path.with_suffix(f".{IDS}")
      _check(path, self.ids_checksum)
      names = path.read_bytes().decode(errors="replace").split("\n")[:-1]
    else:
      names = [name for name, _ in self._records()]
    if len(names) != self.rows:
      raise self._damaged(f"it has {len(names)} ids, expected {self.rows}")
    return names

  def unread_keys(self) -> np.ndarray:
    """Returns the `unread_keys` of the texts, int64 [rows]; zeros if they are not known."""
    if not self.unread:
      return np.zeros(self.rows, np.int64)
    path = self.path.with_suffix(f".{UNREAD}")
    _check(path, self.unread_checksum)
    return np.array(path.read_text(encoding="utf-8").split(), np.int64)

  @property
  def has_texts(self) -> bool:
    """Returns whether bert-flow embed kept the texts of the vectors."""
    return self.path.with_suffix(f".{TEXTS}").is_file()

  def texts(self) -> list[str]:
    """Returns the texts of the vectors; a ConfigError if bert-flow embed did not keep them."""
    path = self.path.with_suffix(f".{TEXTS}")
    if not self.has_texts:
      message = f"vectors={self.folder}: {self.name} has no texts, whose words are compared; expected a folder of "
      raise ConfigError(f"{message}bert-flow embed --keep_text", argument="vectors")
    _check(path, self.texts_checksum)
    try:
      texts = list(map(json.loads, path.read_bytes().splitlines()))
    except ValueError as error:
      raise self._damaged(f"{path.name}: {one_line(error)}") from error
    if len(texts) != self.rows:
      raise self._damaged(f"it has {len(texts)} texts, expected {self.rows}")
    return texts

  def copy_ids(self, path: pathlib.Path) -> list[str]:
    """Writes ids, keys and texts next to a .npy file with other vectors for them; returns the names of the files."""
    written = []
    for ending in (IDS, UNREAD, TEXTS):
      source, copy = self.path.with_suffix(f".{ending}"), path.with_suffix(f".{ending}")
      if source.is_file():
        with source.open("rb") as file, writing(copy) as copied:
          shutil.copyfileobj(file, copied)
      elif ending == IDS and self.path.suffix != f".{NPY}":  # the ids are in the file of the vectors
        with writing(copy) as copied:
          write_lines(copied, self.ids)
      else:
        continue
      written.append(copy.name)
    return written

  def check_shape(self) -> None:
    """Raises a DataError if the file has another number of vectors or dimensions; it reads no vector."""
    if self.path.suffix == f".{NPY}":
      self.array()
      return
    try:
      if self.path.suffix == f".{PARQUET}":
        file = import_parquet("vectors").ParquetFile(self.path)
        shape = (file.metadata.num_rows, file.schema_arrow.field("embedding").type.list_size)
        is_possible = shape == (self.rows, self.dim)
      else:  # a number and what follows it
        is_possible = 2 * self.rows * self.dim <= self.path.stat().st_size
    except Exception as error:  # of pyarrow
      raise self._damaged(one_line(error)) from error
    if not is_possible:
      raise self._damaged(f"it has not {self.rows} vectors of {self.dim} numbers")

  def check(self) -> None:
    """Raises a DataError if the file is damaged."""
    _check(self.path, self.checksum)

  @functools.cached_property
  def _copy(self):
    """Returns the vectors of records, which cannot be mapped, mapped from a temporary file."""
    self.check()  # all of it is read
    file = tempfile.TemporaryFile()  # noqa: SIM115 (the map keeps it)
    rows = 0
    for _, vector in self._records():
      file.write(vector.tobytes())
      rows += 1
    if rows != self.rows:
      raise self._damaged(f"it has {rows} vectors, expected {self.rows}")
    file.flush()
    return np.memmap(file, np.float32, "r", shape=(self.rows, self.dim))

  def _records(self) -> Iterator[tuple[str, np.ndarray]]:
    """Yields (id, vector float32 [dim]) of each record."""
    records = self._json_records
    if self.path.suffix == f".{PARQUET}":
      records = self._parquet_records
    try:
      for name, values in records():
        vector = np.asarray(values, np.float32)
        if not isinstance(name, str) or vector.shape != (self.dim,):
          raise ValueError(f"the record {str(name)[:40]!r} has no vector of {self.dim} numbers")
        yield name, vector
    except Exception as error:  # of pyarrow, JSON and NumPy
      raise self._damaged(one_line(error)) from error

  def _parquet_records(self):
    for batch in import_parquet("vectors").ParquetFile(self.path).iter_batches():
      vectors = batch["embedding"].flatten().to_numpy().reshape([-1, self.dim])
      yield from zip(batch["id"].to_pylist(), vectors, strict=True)

  def _json_records(self):
    with self.path.open("rb") as file:
      for line in file:
        values = json.loads(line)
        yield values["id"], values["embedding"]

  def _damaged(self, reason):
    return DataError(f"vectors={self.path}: damaged, {reason}; {AGAIN}", "vectors")


def write_npy(file: Any, rows: int, dim: int, blocks: Iterable[np.ndarray]) -> None:
  """Writes blocks of vectors as a .npy of float32 [rows, dim]."""
  np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, dim)})
  for block in blocks:
    file.write(np.ascontiguousarray(block, "<f4").tobytes())


def _check(path, checksum):
  """Raises a DataError if a file does not have its checksum; None is no checksum."""
  try:
    is_whole = path.is_file() and checksum in (None, checksums.of_file(path))
  except OSError as error:
    raise DataError(f"vectors={path}: cannot be read ({error.strerror}); {AGAIN}", "vectors") from error
  if not is_whole:
    raise DataError(f"vectors={path}: damaged, it does not have its checksum; {AGAIN}", "vectors")


def _open_npy(path):
  """Returns the mapped array of a .npy file; a DataError if it has no numbers [n, dim]."""
  try:
    try:
      array = np.lib.format.open_memmap(path, "r")
    except ValueError:  # an array without rows cannot be mapped
      with path.open("rb") as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
  except Exception as error:  # a damaged header raises more kinds of error than NumPy documents
    raise DataError(f"{path}: not a .npy file of numbers, as numpy.save writes them ({one_line(error)})") from error
  if array.ndim != 2 or not array.shape[1] or array.dtype.kind not in "fiu":
    raise DataError(f"{path}: {array.dtype} of shape {list(array.shape)}, expected numbers of shape [n, dim]")
  return array
