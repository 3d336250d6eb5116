"""Atomic writes of files and folders: after an error or a kill the old content is complete; JSON; locks of folders."""

import contextlib
import fcntl
import json
import math
import os
import pathlib
import re
import secrets
import shutil
import socket
from collections.abc import Iterator
from typing import Any, BinaryIO

from bert_flow_tf.errors import ConfigError

# Suffix of folders that are being replaced.
_OLDER = ".older"
# .NAME.HOST.PID.XXXXXXXX.writing; of other hosts that share the folder, nobody here knows which processes run.
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<host>[\w-]*)\.(?P<pid>[0-9]+)\.[0-9a-f]{8}(\.writing|\.older)", re.ASCII)
# {folder that this process owns: (its handle, the argument that named it)}
_OWNED: dict[pathlib.Path, tuple[int, str]] = {}
HOST = re.sub(r"[^\w-]", "-", socket.gethostname(), flags=re.ASCII)[:64]


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
  path = pathlib.Path(path)
  clear_leftovers(path.parent, path.name)
  with writing(path) as file:
    file.write(content)


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[BinaryIO]:
  """Yields a file to write to, which gets its name when the block ends without an error; each writer has its own."""
  temporary = _temporary(pathlib.Path(path))
  try:
    with temporary.open("xb") as file:
      with contextlib.suppress(OSError):  # a new file; one that is replaced keeps its permissions
        shutil.copymode(path, temporary)
      yield file
      file.flush()
      os.fsync(file.fileno())
    temporary.replace(path)
  except OSError as error:
    if error.filename == str(temporary):
      error.filename = os.fspath(path)  # the name that a user knows
    raise
  finally:
    with contextlib.suppress(OSError):  # a read-only file system, which the error above has named
      temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def temporary_folder(folder: str | os.PathLike) -> Iterator[pathlib.Path]:
  """Yields an empty folder next to `folder`, to be renamed; it is deleted when the block ends, if it still exists."""
  folder = pathlib.Path(folder)
  folder.parent.mkdir(parents=True, exist_ok=True)
  clear_leftovers(folder.parent, folder.name)
  temporary = _temporary(folder)
  temporary.mkdir()
  try:
    yield temporary
  finally:
    shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def replaced_folder(folder: str | os.PathLike) -> Iterator[pathlib.Path]:
  """Yields an empty folder that replaces `folder` if the block ends without an error; else the old content stays."""
  folder = pathlib.Path(folder).resolve()
  with temporary_folder(folder) as temporary:
    older = temporary.with_suffix(_OLDER)
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


def clear_leftovers(folder: str | os.PathLike, name: str | None = None) -> None:
  """Deletes what killed processes of this host left in a folder, or only what was to become `name` in it."""
  folder = pathlib.Path(folder)
  if not folder.is_dir():
    return
  for path in list(folder.iterdir()):
    match = _TEMPORARY.fullmatch(path.name)
    if match is None or match["host"] != HOST or name not in (None, match["name"]) or _runs(int(match["pid"])):
      continue
    whole = folder / match["name"]
    # Killed between the two renames of `replaced_folder`: the old one gets its name back.
    if path.suffix == _OLDER and not os.path.lexists(whole):
      with contextlib.suppress(OSError):  # another process was faster
        path.rename(whole)
    elif path.is_dir() and not path.is_symlink():
      shutil.rmtree(path, ignore_errors=True)
    else:
      path.unlink(missing_ok=True)


def is_temporary(name: str) -> bool:
  """Returns whether a name is the name of an incomplete file or folder that this package writes."""
  return _TEMPORARY.fullmatch(name) is not None


def check_owned() -> None:
  """Raises a ConfigError if a folder that this process owns was moved, so that its path may be another run's."""
  for folder, (handle, argument) in _OWNED.items():
    if not _is_at(folder, handle):
      message = f"{argument}={folder}: was moved or deleted during this run, which ends here; start it again"
      raise ConfigError(message, argument)


def _is_at(folder, handle):
  """Returns whether an opened folder is still at its path."""
  try:
    return os.path.samestat(os.fstat(handle), os.stat(folder))
  except (FileNotFoundError, NotADirectoryError):
    return False


def _temporary(path):
  return path.with_name(f".{path.name}.{HOST}.{os.getpid()}.{secrets.token_hex(4)}.writing")


def _runs(pid):
  """Returns whether a process of this host runs; a killed one that no parent has waited for does not."""
  with contextlib.suppress(OSError, IndexError):  # only Linux has the file
    state = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()[0]
    if state == "Z":
      return False
  try:
    os.kill(pid, 0)
  except ProcessLookupError:
    return False
  except (OSError, OverflowError):
    return True  # of another user
  return True


@contextlib.contextmanager
def owned(folder: str | os.PathLike, argument: str) -> Iterator[None]:
  """Creates a folder and keeps other runs of this machine out of it until the block ends; removes an empty one."""
  # The folder itself is locked: a lock file would stay after a kill, in folders that have to be empty.
  folder = pathlib.Path(folder)
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
    _OWNED[folder] = handle, argument
    try:
      yield
    finally:
      _OWNED.pop(folder, None)
  finally:
    if not _is_at(folder, handle):
      created = []
    with contextlib.suppress(OSError):  # not empty
      for path in created:
        path.rmdir()
    os.close(handle)
