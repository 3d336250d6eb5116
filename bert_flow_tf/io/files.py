"""Atomic writes of files and folders, after an error or a kill the old content is complete; and reading of JSON."""

import contextlib
import json
import math
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO

# Suffixes of the names of incomplete files and folders, and of folders that are being replaced.
WRITING, OLDER = ".writing", ".older"
# .NAME.PID.XXXXXXXX.writing
_TEMPORARY = re.compile(rf"\.(?P<name>.+)\.(?P<pid>[0-9]+)\.[a-z0-9_]{{8}}({WRITING}|{OLDER})")


def read_json(path: str | os.PathLike) -> Any:
  """Returns the values of a JSON file.

  Raises:
    OSError: it cannot be read.
    ValueError: as `parse_json`.
  """
  return parse_json(pathlib.Path(path).read_bytes())


def parse_json(content: bytes) -> Any:
  """Returns the values of JSON, which may come from anyone.

  Raises:
    ValueError: it is not UTF-8 or not JSON, is nested too deeply, or has a number that is NaN or that no float64 holds.
  """
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
  """Writes a UTF-8 text file atomically; lone surrogates are written as escapes.

  Raises:
    OSError: it cannot be written.
  """
  write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
  """Writes a file atomically.

  Raises:
    OSError: it cannot be written.
  """
  path = pathlib.Path(path)
  clear_leftovers(path.parent, path.name)
  with writing(path) as file:
    file.write(content)


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[BinaryIO]:
  """Yields a file to write to, which gets its name when the block ends without an error.

  Each writer has its own temporary file in the same folder: of two that write the same path, each replaces the other's
  whole file.

  Raises:
    OSError: it cannot be written.
  """
  path = pathlib.Path(path)
  descriptor, temporary = tempfile.mkstemp(WRITING, _prefix(path), path.parent)
  try:
    with open(descriptor, "wb") as file:
      yield file
      file.flush()
      os.fsync(file.fileno())
    os.chmod(temporary, 0o666 & ~_umask())
    os.replace(temporary, path)
  finally:
    pathlib.Path(temporary).unlink(missing_ok=True)


@contextlib.contextmanager
def temporary_folder(folder: str | os.PathLike) -> Iterator[pathlib.Path]:
  """Yields an empty folder next to `folder`, to be renamed; it is deleted when the block ends, if it is there still.

  Raises:
    OSError: it cannot be made.
  """
  folder = pathlib.Path(folder)
  folder.parent.mkdir(parents=True, exist_ok=True)
  clear_leftovers(folder.parent, folder.name)
  temporary = pathlib.Path(tempfile.mkdtemp(WRITING, _prefix(folder), folder.parent))
  try:
    temporary.chmod(0o777 & ~_umask())
    yield temporary
  finally:
    shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def replaced_folder(folder: str | os.PathLike) -> Iterator[pathlib.Path]:
  """Yields an empty folder that replaces `folder` if the block ends without an error.

  Args:
    folder: the folder; its old content is deleted at the end, or stays after an error.

  Raises:
    OSError: it cannot be written.
  """
  folder = pathlib.Path(folder).resolve()
  with temporary_folder(folder) as temporary:
    older = temporary.with_suffix(OLDER)
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


def clear_leftovers(folder: str | os.PathLike, name: str | None = None) -> list[str]:
  """Deletes what killed processes of this machine left while they wrote into a folder; other files stay.

  A folder that one of them was replacing gets its name back, if the new one does not have it yet.

  Args:
    folder: the folder.
    name: of the file or folder that was written; None for any.

  Returns:
    Sorted names of incomplete files that stay: of running processes, or not written by `writing`.
  """
  others: list[str] = []
  with contextlib.suppress(FileNotFoundError), os.scandir(os.fspath(folder)) as entries:
    for entry in entries:
      match = _TEMPORARY.fullmatch(entry.name)
      if match is None or name not in (None, match["name"]) or _runs(int(match["pid"])):
        others += [entry.name] * entry.name.endswith(WRITING)
      elif entry.name.endswith(OLDER) and not os.path.lexists(whole := os.path.join(folder, match["name"])):
        with contextlib.suppress(OSError):  # another process was faster
          os.rename(entry.path, whole)  # killed between the two renames of `replaced_folder`
      elif entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
      else:
        pathlib.Path(entry.path).unlink(missing_ok=True)
  return sorted(others)


def is_temporary(name: str) -> bool:
  """Returns whether a name is that of an incomplete file of this package's."""
  return _TEMPORARY.fullmatch(name) is not None


def _prefix(path):
  return f".{path.name}.{os.getpid()}."


def _runs(pid):
  """Returns whether a process of this machine runs; a killed one that no parent has waited for does not."""
  with contextlib.suppress(OSError, IndexError):  # only Linux has the file
    if pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()[0] == "Z":
      return False
  try:
    os.kill(pid, 0)
  except ProcessLookupError:
    return False
  except (OSError, OverflowError):
    return True  # of another user
  return True


def _umask():
  """Returns the process's umask, which only Linux lets read without setting it; elsewhere the usual one."""
  with contextlib.suppress(OSError):
    match = re.search(r"^Umask:\s*([0-7]+)", pathlib.Path("/proc/self/status").read_text(), re.MULTILINE)
    if match:
      return int(match[1], 8)
  return 0o022
