"""Atomic writes of files and folders: after an error or a kill the old content is complete; JSON; locks of folders.

Content is written to `.NAME.writing`, which is then renamed. Its writer locks it, and a lock ends with its process: a
second writer waits, and what a killed process left is overwritten.
"""

import contextlib
import errno
import fcntl
import json
import math
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from bert_flow_tf.errors import ConfigError

# Numbers of the errors of a write that has no room; they do not name the file.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
Json = dict[str, Any]  # a JSON object, as `parse_json` gives it


def check_path(path: str | os.PathLike, argument: str) -> pathlib.Path:
  """Returns a path of the user's; a ConfigError if no file can have it: too long, or with a NUL or half a character.

  None and other values that are no paths are a ConfigError, too.
  """
  if not isinstance(path, str | os.PathLike):
    raise ConfigError(f"{argument}={repr(path)[:60]}: expected a path, as a str or a pathlib.Path", argument)
  try:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
      os.stat(path)
  except (ValueError, OSError) as error:  # UnicodeEncodeError is a ValueError
    reason = getattr(error, "strerror", None) or error
    shown = ascii(os.fspath(path))[1:61]
    raise ConfigError(f"{argument}={shown}: no path of a file ({reason}); choose another", argument) from error
  return pathlib.Path(path)


def check_new_folder(folder: str | os.PathLike, argument: str) -> pathlib.Path:
  """Returns the absolute path of a folder that is new or empty; raises a ConfigError for another one."""
  path = pathlib.Path(os.path.expanduser(check_path(folder, argument))).resolve()
  if path.exists() and (not path.is_dir() or any(path.iterdir())):
    raise ConfigError(f"{argument}={folder}: exists, and is no empty folder; choose another one", argument)
  return path


def read_json(path: str | os.PathLike) -> Any:
  """Returns the values of a JSON file; raises an OSError, or a ValueError as `parse_json`."""
  return parse_json(pathlib.Path(path).read_bytes())


def parse_json(content: bytes) -> Any:
  """Returns the values of JSON, which may come from anyone; wrong JSON and numbers out of range are a ValueError."""
  try:
    return json.loads(content.decode("utf-8"), parse_constant=_finite, parse_float=_finite, parse_int=_integer)
  except RecursionError:
    raise ValueError("nested too deeply") from None


def _finite(text):
  value = float(text)
  if not math.isfinite(value):
    raise ValueError(f"the number {text[:20]} is NaN or out of range")
  return value


def _integer(text):
  _finite(text)
  return int(text)


def write_text(path: str | os.PathLike, text: str) -> None:
  """Writes a UTF-8 text file atomically; lone surrogates are written as escapes."""
  write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
  """Writes a file atomically."""
  with writing(path) as file:
    file.write(content)


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[BinaryIO]:
  """Yields a file to write to, which gets its name when the block ends without an error."""
  path = pathlib.Path(path)
  temporary = _temporary(path)
  try:
    with _locked(temporary, _open_file) as handle, open(handle, "wb", closefd=False) as file:
      os.ftruncate(handle, 0)
      with contextlib.suppress(OSError):  # a new file; one that is replaced keeps its permissions
        shutil.copymode(path, temporary)
      yield file
      file.flush()
      os.fsync(handle)
      temporary.replace(path)
  except OSError as error:
    if error.filename == str(temporary) or (error.filename is None and error.errno in NO_ROOM):
      error.filename = os.fspath(path)  # the name that a user knows
    raise


@contextlib.contextmanager
def temporary_folder(folder: str | os.PathLike) -> Iterator[pathlib.Path]:
  """Yields an empty folder next to `folder`, to be renamed; it is deleted when the block ends, if it still exists."""
  folder = pathlib.Path(folder)
  folder.parent.mkdir(parents=True, exist_ok=True)
  temporary = _temporary(folder)
  with _locked(temporary, _open_folder):
    for path in temporary.iterdir():
      _delete(path)
    yield temporary


@contextlib.contextmanager
def replaced_folder(folder: str | os.PathLike) -> Iterator[pathlib.Path]:
  """Yields an empty folder that replaces `folder` if the block ends without an error; else the old content stays."""
  folder = pathlib.Path(folder).resolve()
  older = folder.with_name(f".{folder.name}.older")
  with temporary_folder(folder) as temporary:
    # An earlier process may have been killed between the two renames.
    if older.exists() and not folder.exists():
      older.rename(folder)
    shutil.rmtree(older, ignore_errors=True)
    try:
      yield temporary
      if folder.exists():
        folder.rename(older)
      temporary.rename(folder)
    except BaseException:
      if older.exists() and not folder.exists():
        older.rename(folder)
      raise
    finally:
      shutil.rmtree(older, ignore_errors=True)


def temporary_name(name: str) -> str:
  """Returns the name that a file or folder has until it is complete."""
  return f".{name}.writing"


def _temporary(path: pathlib.Path) -> pathlib.Path:
  return path.with_name(temporary_name(path.name))


@contextlib.contextmanager
def _locked(temporary: pathlib.Path, open_: Callable[[pathlib.Path], int]) -> Iterator[int]:
  """Yields the handle of a temporary file or folder with an exclusive lock; deletes it if it was not renamed."""
  while True:
    handle = open_(temporary)
    with contextlib.suppress(OSError):  # a file system without locks
      fcntl.flock(handle, fcntl.LOCK_EX)
    if _is_at(temporary, handle):
      break
    os.close(handle)  # another writer has renamed or deleted it meanwhile
  try:
    yield handle
  finally:
    # After a rename, the name may belong to the next writer.
    if _is_at(temporary, handle):
      _delete(temporary)
    os.close(handle)


def _open_file(path: pathlib.Path) -> int:
  return os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)


def _open_folder(path: pathlib.Path) -> int:
  while True:
    path.mkdir(exist_ok=True)
    with contextlib.suppress(FileNotFoundError):  # another writer has renamed it meanwhile
      return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def _is_at(path: pathlib.Path, handle: int) -> bool:
  """Returns whether an opened file or folder is still at its path."""
  try:
    return os.path.samestat(os.fstat(handle), os.stat(path))
  except (FileNotFoundError, NotADirectoryError):
    return False


def _delete(path: pathlib.Path) -> None:
  """Deletes a file or folder, as far as the file system allows it."""
  if path.is_dir() and not path.is_symlink():
    shutil.rmtree(path, ignore_errors=True)
    return
  with contextlib.suppress(OSError):
    path.unlink()


@contextlib.contextmanager
def owned(folder: str | os.PathLike, argument: str) -> Iterator[None]:
  """Creates a folder and keeps other runs of this machine out of it until the block ends; removes an empty one."""
  # The folder itself is locked: a lock file would stay after a kill, in folders that have to be empty.
  folder = check_path(folder, argument)
  created = [path for path in (folder, *folder.parents) if not path.exists()]
  try:
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
  except OSError as error:
    reason = f"cannot be created or read ({error.strerror})"
    raise ConfigError(f"{argument}={folder}: {reason}; choose another folder", argument) from error
  try:
    try:
      fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
      if not _is_at(folder, handle):
        raise FileNotFoundError  # its owner has ended and removed it since it was opened
    except (BlockingIOError, FileNotFoundError) as error:
      message = "another run uses this folder; wait until it ends, or choose another folder"
      raise ConfigError(f"{argument}={folder}: {message}", argument) from error
    except OSError:
      pass  # a file system without locks
    try:
      yield
    finally:
      with contextlib.suppress(OSError):  # not empty
        for path in created:
          path.rmdir()
  finally:
    os.close(handle)
