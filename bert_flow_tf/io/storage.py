"""Input and output files: on this machine, standard input, or where fsspec reaches (gs://, s3://, hdfs://)."""

import contextlib
import functools
import glob
import io
import itertools
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.io import files

_STANDARD_INPUT = ("-", "/dev/stdin")
# Folders in which a shell names the pipes of `<(command)`.
_OPEN_FILES = ("/dev/fd/", "/proc/self/fd/")
# Files of a folder of datasets' save_to_disk.
_OF_DATASETS = ("state.json", "dataset_dict.json")


def is_local(path: str) -> bool:
  """Returns whether a path is on this machine."""
  return "://" not in path


def is_stream(path: str) -> bool:
  """Returns whether a path is standard input, or the pipe of a shell's `<(command)`; both are read whole, and once."""
  return path in _STANDARD_INPUT or (path.startswith(_OPEN_FILES) and pathlib.Path(path).is_fifo())


def absolute(path: str) -> str:
  """Returns the absolute path, with `~` replaced, or the address without a slash at its end."""
  if is_local(path):
    return os.path.abspath(os.path.expanduser(path))
  return path.rstrip("/")


def find_files(pattern: str) -> list[str]:
  """Returns the sorted paths of the files that match a glob; `**` matches folders at any depth.

  Names that begin with _ or . are left out, as of the files that Spark and other programs put next to their output,
  unless the glob begins with the same mark.
  """
  if is_stream(pattern):
    return [pattern]
  pattern = absolute(pattern)
  system, name = _system(pattern)
  # A name may have brackets.
  names = [name]
  if not system.isfile(name):
    names = glob.glob(name, recursive=True) if is_local(pattern) else system.glob(name)
    names = [found for found in names if not _is_hidden(found, name)]
  paths = []
  for name in sorted(names):
    # Folders are left out, and pipes, which could be read only once.
    if system.isfile(name):
      paths.append(name if is_local(pattern) else system.unstrip_protocol(name))
  return paths


def is_list(text: str) -> bool:
  """Returns whether a text is a list of existing files, with commas, which is no name of a file."""
  parts = text.split(",")
  return len(parts) > 1 and all(part and is_local(part) and find_files(part) for part in parts)


def _is_hidden(path, pattern):
  """Returns whether a path that matches a glob has a name that begins with _ or ., where the glob has another one."""
  parts = pattern.split("/")
  fixed = len(list(itertools.takewhile(lambda part: not glob.has_magic(part), parts)))
  marks = {"_", "."} - {part[:1] for part in parts[fixed:]}
  return any(part[:1] in marks for part in path.split("/")[fixed:])


def stat(path: str) -> tuple[int, float] | None:
  """Returns (size in bytes, seconds of the last change) of a file; None if it does not exist."""
  if is_stream(path):
    return len(_content(path)), 0.0
  system, name = _system(path)
  try:
    return system.info(name)["size"], system.modified(name).timestamp()
  except (FileNotFoundError, NotADirectoryError):
    return None


def sizes(folder: str) -> dict[str, int]:
  """Returns {name: size in bytes} of a folder's files, from one listing; {} if the folder does not exist."""
  result = {}
  if is_local(folder):
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
      for entry in entries:
        with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
          result[entry.name] = entry.stat().st_size
    return result
  system, name = _system(folder)
  with contextlib.suppress(FileNotFoundError, NotADirectoryError):
    for entry in system.ls(name, detail=True):
      result[entry["name"].rsplit("/", 1)[1]] = entry["size"]
  return result


def open_file(path: str) -> IO[bytes]:
  """Opens a file to read its bytes as they are stored; see `is_stream`."""
  if is_stream(path):
    return io.BytesIO(_content(path))
  if os.path.exists(path) and pathlib.Path(path).is_char_device():
    raise DataError(f"{path} is a device; expected a file")  # /dev/zero is one line without an end
  try:
    if is_local(path):
      # Python's own file: the lines of fsspec's take twice the time.
      return open(path, "rb")
    system, name = _system(path)
    return system.open(name, "rb")
  except (FileNotFoundError, NotADirectoryError) as error:
    raise DataError(f"{path} does not exist; expected a file") from error
  except IsADirectoryError as error:
    raise DataError(f"{path} is a folder; expected {expected_file(path, 'a file')}") from error
  except OSError as error:
    raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def expected_file(folder: str, expected: str) -> str:
  """Returns what is expected in place of a folder: `expected`, for a folder of datasets' save_to_disk Parquet."""
  if any(os.path.isfile(os.path.join(folder, name)) for name in _OF_DATASETS):
    return "a file, as Dataset.to_parquet(FILE) of Hugging Face's datasets writes it"
  return expected


@contextlib.contextmanager
def create_file(path: str) -> Iterator[IO[bytes]]:
  """Yields a file to write to, which gets its name, and is on the disk, when the block ends without an error."""
  if is_local(path):
    with files.writing(path) as file:
      yield file
    return
  system, name = _system(path)
  with tempfile.TemporaryFile() as local:
    yield local
    local.seek(0)
    with system.open(name, "wb") as file:  # an object appears when it is closed
      shutil.copyfileobj(local, file, 1 << 20)


def _content(path):
  """Returns the bytes of a stream, which can be read only once."""
  if path in _STANDARD_INPUT:
    if sys.stdin is None:
      raise DataError(f"{path}: standard input is closed (<&-); expected a file, or < FILE")
    return _content_of(sys.stdin)
  return _content_of_pipe(path, os.stat(path).st_ino)


@functools.cache
def _content_of(stream):
  return stream.buffer.read()


@functools.cache
def _content_of_pipe(path, inode):
  """Returns the bytes of a pipe; another one may have the same path later, and has another inode."""
  return pathlib.Path(path).read_bytes()


def _system(path):
  """Returns fsspec's file system of a path, and the path's name there."""
  import fsspec  # only for patterns of files, and files elsewhere

  if is_local(path):
    return fsspec.filesystem("file"), path
  try:
    system, name = fsspec.core.url_to_fs(path)
  except (ImportError, ValueError) as error:  # a protocol without its package, or unknown
    raise ConfigError(f"{path}: {error}") from error
  # Other processes change the folders whose listings fsspec caches.
  system.invalidate_cache()
  return system, name
