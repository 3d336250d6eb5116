"""Files of vectors: .npy, read and written in parts."""

import contextlib
import dataclasses
import glob
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import clear_leftovers, read_json, writing

# Rows in memory at once.
ROWS = 8192


@dataclasses.dataclass(frozen=True)
class VectorFile:
  """File of vectors of `dim` dimensions."""

  path: pathlib.Path
  dim: int

  def array(self) -> np.ndarray:
    """Returns the memory-mapped array [n, dim]."""
    return _open_npy(self.path)

  def chunks(self) -> Iterator[np.ndarray]:
    """Yields the vectors, float32 [at most ROWS, dim]; a DataError names file and row of a damaged one."""
    array = self.array()
    for start in range(0, len(array), ROWS):
      # A number that is too large becomes infinite.
      with np.errstate(over="ignore"):
        vectors = np.asarray(array[start : start + ROWS], np.float32)
      bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
      if bad.size:
        row = start + bad[0]
        raise DataError(f"{self.path}, row {row} (counted from 0): NaN or infinite, expected finite numbers")
      yield vectors

  def write(self, path: pathlib.Path, transform: Callable[[np.ndarray], np.ndarray], output_dim: int) -> int:
    """Writes what `transform` returns, with the same ids, whole or not at all; returns its rows."""
    # One per line, written by run_embed.
    ids, new_ids = (file.with_suffix(".ids.txt") for file in (self.path, path))
    clear_leftovers(path.parent, path.name)
    clear_leftovers(path.parent, new_ids.name)
    count = len(self.array())
    with writing(path) as file:
      header = {"descr": "<f4", "fortran_order": False, "shape": (count, output_dim)}
      np.lib.format.write_array_header_1_0(file, header)
      for vectors in self.chunks():
        file.write(np.ascontiguousarray(transform(vectors), "<f4").tobytes())
      if ids.is_file():
        # Before the vectors get their name.
        with ids.open("rb") as source, writing(new_ids) as copy:
          shutil.copyfileobj(source, copy)
    return count


def find_vector_files(vectors: Sequence[str]) -> list[VectorFile]:
  """Returns the files that files, globs or folders name; all are readable and have one number of dimensions."""
  paths: dict[pathlib.Path, None] = {}
  for name in vectors:
    paths.update(dict.fromkeys(_expand(name)))
  if not paths:
    raise ConfigError(f"vectors={','.join(vectors)}: expected .npy files, got none", "vectors")
  # Each file is opened once, so that a wrong one is an error before hours of work.
  files: list[VectorFile] = []
  for path in paths:
    _check_shard(path)
    file = VectorFile(path, _open_npy(path).shape[1])
    files.append(file)
    if file.dim != files[0].dim:
      raise DataError(f"{path}: {file.dim} dimensions, but {files[0].path} has {files[0].dim}")
  return files


def _expand(name):
  name = os.path.expanduser(name)
  if os.path.isdir(name):
    return sorted(path for path in pathlib.Path(name).glob("*.npy") if not path.name.startswith("."))
  paths = [pathlib.Path(path) for path in glob.glob(name) or [name]]
  for path in paths:
    if not path.is_file() or path.suffix != ".npy":
      raise ConfigError(f"vectors={path}: no such .npy file", argument="vectors")
  return sorted(paths)


def _check_shard(path):
  """Raises a DataError if a file of run_embed differs from the checksum in its receipt."""
  receipt = path.with_suffix(".json")
  if not (path.name.startswith("shard-") and receipt.is_file()):
    return
  expected = None
  with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):  # no receipt of run_embed
    expected = read_json(receipt).get(checksums.KEY, {}).get(path.name)
  if expected is not None and checksums.of_file(path) != expected:
    message = f"{path}: damaged, it does not have its checksum in {receipt.name}"
    raise DataError(f"{message}; the same run_embed command makes it again", "vectors")


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
