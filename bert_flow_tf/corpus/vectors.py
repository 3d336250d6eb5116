"""Files of vectors: .npy, and .tfrecord with a feature `embedding`; read and written in parts."""

import contextlib
import dataclasses
import glob
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bert_flow_tf.corpus.reading import TFRECORD, InputFormat, Stream, Unreadable, frames, to_tfrecord
from bert_flow_tf.corpus.shards import NPY
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import clear_leftovers, read_json, writing

_KINDS = {".npy": NPY, ".tfrecord": TFRECORD}
_FEATURE = "embedding"
# Rows in memory at once.
ROWS = 8192
_RECORDS = InputFormat(TFRECORD, max_bytes=1 << 30)


@dataclasses.dataclass(frozen=True)
class VectorFile:
  """File of vectors of `dim` dimensions."""

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
    """Yields the vectors, float32 [at most ROWS, dim]; a DataError names file and row of a damaged one."""
    for vectors, _ in self.parts():
      yield vectors

  def parts(self) -> Iterator[tuple[np.ndarray, list]]:
    """Yields the vectors, float32 [at most ROWS, dim], and their Examples; an empty list for a .npy file."""
    parts = self._npy_parts()
    if self.kind == TFRECORD:
      parts = _example_parts(self.path, self.dim)
    row = 0
    for vectors, examples in parts:
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

  def write(self, path: str | os.PathLike, transform: Callable[[np.ndarray], np.ndarray], output_dim: int) -> int:
    """Writes what `transform` returns in the same format, with the same ids, whole or not at all; returns its rows."""
    path = pathlib.Path(path)
    new_ids = path.with_suffix(".ids.txt")
    clear_leftovers(path.parent, path.name)
    clear_leftovers(path.parent, new_ids.name)
    count = 0
    with writing(path) as file:
      if self.kind == NPY:
        shape = (len(self.array()), output_dim)
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
      for vectors, examples in self.parts():
        _write(file, np.ascontiguousarray(transform(vectors), "<f4"), examples)
        count += len(vectors)
      if self.kind == NPY and self.ids.is_file():
        # Before the vectors get their name.
        with self.ids.open("rb") as ids, writing(new_ids) as copy:
          shutil.copyfileobj(ids, copy)
    return count


def find_vector_files(vectors: Sequence[str]) -> list[VectorFile]:
  """Returns the files that files, globs or folders name; all are readable, of one kind and one number of dimensions."""
  paths: dict[pathlib.Path, None] = {}
  for name in vectors:
    paths.update(dict.fromkeys(_expand(name)))
  kinds = sorted({path.suffix for path in paths})
  if len(kinds) != 1:
    message = f"vectors={','.join(vectors)}: expected .npy or .tfrecord files"
    raise ConfigError(f"{message}, got {' and '.join(kinds) or 'none'}", "vectors")
  # Each file is opened once, so that a wrong one is an error before hours of work.
  dims = {}
  for path in paths:
    _check_shard(path)
    dims[path] = _dim(path)
  # An empty .tfrecord file has no dimensions of its own.
  known = [path for path, dim in dims.items() if dim]
  if not known:
    raise DataError(f"{next(iter(paths))}: no vectors, expected at least one", "vectors")
  expected = dims[known[0]]
  for path, dim in dims.items():
    if dim not in (0, expected):
      raise DataError(f"{path}: {dim} dimensions, but {known[0]} has {expected}")
  return [VectorFile(path, expected) for path in paths]


def _expand(name):
  name = os.path.expanduser(name)
  if os.path.isdir(name):
    paths = [path for path in pathlib.Path(name).iterdir() if path.suffix in _KINDS and not path.name.startswith(".")]
  else:
    paths = [pathlib.Path(path) for path in glob.glob(name) or [name]]
  for path in paths:
    if not path.is_file() or path.suffix not in _KINDS:
      raise ConfigError(f"vectors={path}: no such .npy or .tfrecord file", argument="vectors")
  return sorted(paths)


def _check_shard(path):
  """Raises a DataError if a .npy file of run_embed differs from the checksum in its receipt; records have their own."""
  receipt = path.with_suffix(".json")
  if path.suffix != ".npy" or not (path.name.startswith("shard-") and receipt.is_file()):
    return
  expected = None
  with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):  # no receipt of run_embed
    expected = read_json(receipt).get(checksums.KEY, {}).get(path.name)
  if expected is not None and checksums.of_file(path) != expected:
    message = f"{path}: damaged, it does not have its checksum in {receipt.name}"
    raise DataError(f"{message}; the same run_embed command makes it again", "vectors")


def _dim(path):
  """Returns the dimensions of a file's vectors; 0 for a .tfrecord file without records."""
  if path.suffix == ".npy":
    return _open_npy(path).shape[1]
  for vectors, _ in _example_parts(path, None, rows=1):
    return vectors.shape[1]
  return 0


def _open_npy(path):
  try:
    try:
      array = np.lib.format.open_memmap(path, "r")
    except ValueError:  # an array without rows cannot be mapped
      array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray):
      raise ValueError("an archive")
  except Exception as error:  # a damaged header raises more kinds of error than NumPy documents
    reason = " ".join(str(error).split())[:200]
    # NumPy's advice to load a pickle is none for files of vectors.
    if "pickle" in reason:
      reason = "not in NumPy's format"
    raise DataError(f"{path}: not a .npy file of numbers ({reason})") from error
  if array.ndim != 2 or not array.shape[1] or array.dtype.kind not in "fiu":
    raise DataError(f"{path}: {array.dtype} of shape {list(array.shape)}, expected numbers of shape [n, dim]")
  return array


def _example_parts(path, dim, rows=None):
  """Yields (vectors, Examples) of a .tfrecord file, at most `rows` or ROWS at a time."""
  import tensorflow as tf
  from google.protobuf.message import DecodeError

  stream = Stream(str(path))
  vectors, examples = [], []
  try:
    for row, (raw, _) in enumerate(frames(stream, _RECORDS)):
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
      if len(vectors) == (rows or ROWS):
        yield np.stack(vectors), examples
        vectors, examples = [], []
  finally:
    stream.close()
  if vectors:
    yield np.stack(vectors), examples


def _vector(feature, where):
  """Returns the float32 vector of a feature: a list of floats, or the bytes of little-endian float32 numbers."""
  if feature.float_list.value:
    return np.array(feature.float_list.value, np.float32)
  if len(feature.bytes_list.value) == 1:
    (raw,) = feature.bytes_list.value
    if raw and len(raw) % 4 == 0:
      return np.frombuffer(raw, "<f4")
  raise DataError(f"{where}: expected a feature {_FEATURE!r} of floats, or of the bytes of float32 numbers")


def _write(file, vectors, examples):
  """Writes vectors, as rows or in place of those of their Examples."""
  if not examples:
    file.write(vectors.tobytes())
    return
  for vector, example in zip(vectors, examples, strict=True):
    feature = example.features.feature[_FEATURE]
    if feature.WhichOneof("kind") == "bytes_list":
      feature.bytes_list.value[:] = [vector.tobytes()]
    else:
      feature.float_list.value[:] = vector
    file.write(to_tfrecord(example.SerializeToString(deterministic=True)))
