"""Atomic writes of files and folders: after an error or a kill the old content is complete."""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator


def write_text(path: str | os.PathLike, text: str) -> None:
  """Writes a UTF-8 text file atomically; lone surrogates are written as escapes.

  Raises:
    OSError: it cannot be written.
  """
  write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
  """Writes a file atomically: into a temporary file in the same folder, which is then renamed.

  Raises:
    OSError: it cannot be written.
  """
  path = pathlib.Path(path)
  # The name is the same each time, so that killed processes leave one file, not many.
  temporary = path.with_name(f".{path.name}.writing")
  try:
    temporary.write_bytes(content)
    temporary.replace(path)
  finally:
    temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def replaced_folder(folder: str | os.PathLike) -> Iterator[pathlib.Path]:
  """Yields an empty folder that replaces `folder` if the block ends without an error.

  Args:
    folder: the folder; its old content is deleted at the end, or stays after an error.

  Raises:
    OSError: it cannot be written.
  """
  folder = pathlib.Path(folder).resolve()
  # Names without a process number, so that the next write deletes what a killed process left.
  temporary, older = (folder.with_name(f".{folder.name}.{suffix}") for suffix in ("writing", "older"))
  try:
    shutil.rmtree(temporary, ignore_errors=True)
    if folder.exists():
      shutil.rmtree(older, ignore_errors=True)
    temporary.mkdir(parents=True)
    yield temporary
    if folder.exists():
      folder.rename(older)
    temporary.rename(folder)
  except BaseException:
    if older.exists() and not folder.exists():
      older.rename(folder)
    raise
  finally:
    shutil.rmtree(temporary, ignore_errors=True)
    if folder.exists():
      shutil.rmtree(older, ignore_errors=True)
