"""Files of vectors: .npy, and .tfrecord with a feature `embedding`; read and written in parts."""

import contextlib
import dataclasses
import glob
import os
import pathlib
import shutil
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from bert_flow_tf.corpus.formats import Unreadable
from bert_flow_tf.corpus.framing import Stream, frames, to_tfrecord
from bert_flow_tf.corpus.shards import damaged_files
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.io.files import clear_leftovers, writing

NPY, TFRECORD = "npy", "tfrecord"
_KINDS = {".npy": NPY, ".tfrecord": TFRECORD}
_FEATURE = "embedding"
# Rows in memory at once.
ROWS = 8192
_MAX_RECORD_BYTES = 1 << 30


@dataclasses.dataclass(frozen=True)
class VectorFile:
  """File of vectors.

  Attributes:
    path: the file.
    dim: dimensions of a vector.
  """

  path: pathlib.Path
  dim: int

  @property
  def kind(self) -> str:
    """Format: "npy" or "tfrecord"."""
    return _KINDS[self.path.suffix]

  @property
  def ids(self) -> pathlib.Path:
    """Text file of ids, one per line, that run_embed writes with a .npy file."""
    return self.path.with_suffix(".ids.txt")

  def array(self) -> np.ndarray:
    """Returns the memory-mapped array [n, dim] of a .npy file."""
    return _open_npy(self.path)

  def chunks(self) -> Iterator[np.ndarray]:
    """Yields the vectors, float32 [at most ROWS, dim].

    Raises:
      DataError: a record is damaged, has another number of dimensions, or is not finite; with file and row.
    """
    for vectors, _ in self.parts():
      yield vectors

  def parts(self) -> Iterator[tuple[np.ndarray, list]]:
    """Yields the vectors, float32 [at most ROWS, dim], and their Examples; an empty list for a .npy file."""
    row = 0
    for vectors, examples in self._npy_parts() if self.kind == NPY else _example_parts(self.path, self.dim):
      bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
      if bad.size:
        raise DataError(f"{self.path}, row {row + bad[0]} (counted from 0): NaN or infinite, expected finite numbers")
      row += len(vectors)
      yield vectors, examples

  def _npy_parts(self):
    array = self.array()
    for start in range(0, len(array), ROWS):
      with np.errstate(over="ignore"):
        yield np.asarray(array[start : start + ROWS], np.float32), []

  def write(self, path: str | os.PathLike, transform: Any, output_dim: int) -> int:
    """Writes the transformed vectors in the same format, with the same ids; completely or not at all.

    Args:
      path: the new file.
      transform: function of vectors [n, dim] that returns [n, output_dim].
      output_dim: dimensions of the new vectors.

    Returns:
      Number of vectors.

    Raises:
      DataError: see `parts`.
      OSError: the file cannot be written.
    """
    path = pathlib.Path(path)
    for name in (path.name, path.with_suffix(".ids.txt").name):
      clear_leftovers(path.parent, name)
    with writing(path) as file:
      if self.kind == NPY:
        shape = (len(self.array()), output_dim)
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
      count = sum(_write(file, transform(vectors), examples) for vectors, examples in self.parts())
      if self.kind == NPY and self.ids.is_file():
        # Before the vectors get their name.
        with self.ids.open("rb") as ids, writing(path.with_suffix(".ids.txt")) as copy:
          shutil.copyfileobj(ids, copy)
    return count


def find_vector_files(vectors: Sequence[str]) -> list[VectorFile]:
  """Finds files of vectors.

  Args:
    vectors: files, globs or folders.

  Returns:
    The files, all of one kind and one number of dimensions; those of a glob or folder sorted by name.

  Raises:
    ConfigError: nothing matches, or the files are of different kinds.
    DataError: a file cannot be read, or holds something else.
  """
  paths = list(dict.fromkeys(path for name in vectors for path in _expand(name)))
  _check_shards(paths)
  kinds = {path.suffix for path in paths}
  if len(kinds) > 1 or not kinds:
    found = " and ".join(sorted(kinds)) or "nothing"
    raise ConfigError(f"vectors={','.join(vectors)}: found {found}, expected .npy or .tfrecord files", "vectors")
  files = [VectorFile(path, _dim(path)) for path in paths]
  # An empty .tfrecord file has no dimensions of its own.
  known = next((file for file in files if file.dim), None)
  if known is None:
    raise DataError(f"{paths[0]}: no vectors, expected at least one", "vectors")
  for file in files:
    if file.dim not in (0, known.dim):
      raise DataError(f"{file.path}: {file.dim} dimensions, but {known.path} has {known.dim}")
  return [dataclasses.replace(file, dim=known.dim) for file in files]


def _expand(name):
  name = os.path.expanduser(name)
  if os.path.isdir(name):
    paths = [path for path in pathlib.Path(name).iterdir() if path.suffix in _KINDS and not path.name.startswith(".")]
  else:
    paths = [pathlib.Path(path) for path in glob.glob(name)] or [pathlib.Path(name)]
  for path in paths:
    if not path.is_file() or path.suffix not in _KINDS:
      raise ConfigError(f"vectors={path}: no such .npy or .tfrecord file", argument="vectors")
  return sorted(paths)


def _check_shards(paths):
  """Raises a DataError if a .npy file of run_embed differs from the checksum in its receipt; records have their own."""
  for path in paths:
    receipt = path.with_suffix(".json")
    if path.suffix != ".npy" or not (path.name.startswith("shard-") and receipt.is_file()):
      continue
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):  # no receipt of run_embed
      damaged = damaged_files(receipt)
      if damaged:
        message = f"{path.parent / damaged[0]}: damaged, it does not have its checksum in {receipt.name}"
        raise DataError(f"{message}; the same run_embed command makes it again", "vectors")


def _dim(path):
  """Returns the dimensions of a file's vectors; 0 for a .tfrecord file without records."""
  if path.suffix == ".npy":
    return _open_npy(path).shape[1]
  vectors, _ = next(_example_parts(path, None, rows=1), (np.zeros([0, 0]), []))
  return vectors.shape[1]


def _open_npy(path):
  try:
    try:
      array = np.lib.format.open_memmap(path, "r")
    except ValueError:  # an array without rows cannot be mapped
      array = np.load(path, allow_pickle=False)
  except Exception as error:  # a damaged header raises more kinds of error than NumPy documents
    # NumPy's advice to load a pickle is none for files of vectors.
    reason = "not in NumPy's format" if "pickle" in str(error) else " ".join(str(error).split())[:200]
    raise DataError(f"{path}: not a .npy file of numbers ({reason})") from error
  if not isinstance(array, np.ndarray) or array.ndim != 2 or not array.shape[1] or array.dtype.kind not in "fiu":
    found = f"{array.dtype} of shape {list(array.shape)}" if isinstance(array, np.ndarray) else "an archive"
    raise DataError(f"{path}: {found}, expected numbers of shape [n, dim]")
  return array


def _example_parts(path, dim, rows=ROWS):
  """Yields (vectors, Examples) of a .tfrecord file."""
  import tensorflow as tf
  from google.protobuf.message import DecodeError

  stream = Stream(str(path), TFRECORD)
  vectors, examples, row = [], [], 0
  try:
    for raw, _ in frames(stream, TFRECORD, _MAX_RECORD_BYTES):
      where = f"{path}, row {row} (counted from 0)"
      if isinstance(raw, Unreadable):
        raise DataError(f"{where}: {raw}")
      try:
        example = tf.train.Example.FromString(raw)
      except DecodeError as error:
        raise DataError(f"{where}: not a tf.train.Example") from error
      vector = _vector(example.features.feature[_FEATURE], where)
      dim = dim or len(vector)
      if len(vector) != dim:
        raise DataError(f"{where}: {len(vector)} numbers in the feature {_FEATURE!r}, expected {dim}")
      vectors.append(vector)
      examples.append(example)
      row += 1
      if len(vectors) == rows:
        yield np.stack(vectors), examples
        vectors, examples = [], []
  finally:
    stream.close()
  if vectors:
    yield np.stack(vectors), examples


def _vector(feature, where):
  """Returns the float32 vector of a feature: a list of floats, or the bytes of little-endian float32 numbers."""
  kind = feature.WhichOneof("kind")
  if kind == "float_list" and feature.float_list.value:
    return np.array(feature.float_list.value, np.float32)
  if kind == "bytes_list" and len(feature.bytes_list.value) == 1:
    (raw,) = feature.bytes_list.value
    if raw and len(raw) % 4 == 0:
      return np.frombuffer(raw, "<f4")
  raise DataError(f"{where}: expected a feature {_FEATURE!r} of floats, or of the bytes of float32 numbers")


def _write(file: BinaryIO, vectors: np.ndarray, examples: list) -> int:
  """Writes vectors, as rows or in place of those of their Examples; returns their number."""
  vectors = np.ascontiguousarray(vectors, "<f4")
  if not examples:
    file.write(vectors.tobytes())
  for vector, example in zip(vectors if examples else (), examples, strict=True):
    feature = example.features.feature[_FEATURE]
    if feature.WhichOneof("kind") == "bytes_list":
      feature.bytes_list.value[:] = [vector.tobytes()]
    else:
      feature.float_list.value[:] = vector
    file.write(to_tfrecord(example.SerializeToString(deterministic=True)))
  return len(vectors)
