"""Files and folders that are whole or absent."""

import contextlib
import pathlib
import shutil


def write_text(path, text):
  """Writes a UTF-8 text file beside its place and renames it; lone surrogates are written as escapes.

  Args:
    path: the file.
    text: its content.

  Raises:
    OSError: it cannot be written; nothing is left behind then.
  """
  write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path, content):
  """Writes a file beside its place and renames it.

  Args:
    path: the file.
    content: bytes.

  Raises:
    OSError: it cannot be written; nothing is left behind then.
  """
  path = pathlib.Path(path)
  beside = path.with_name(f".{path.name}.writing")  # the same each time: a killed process leaves one, not many
  try:
    beside.write_bytes(content)
    beside.replace(path)
  finally:
    beside.unlink(missing_ok=True)


@contextlib.contextmanager
def replaced_folder(folder):
  """Yields an empty folder beside the place of `folder`, which takes that place if the block ends without an error.

  Args:
    folder: the folder; what stands there is gone after that, and there again if anything failed.

  Raises:
    OSError: it cannot be written.
  """
  folder = pathlib.Path(folder).resolve()
  # Names without a process number: what a killed process left is cleared away here.
  beside, older = (folder.with_name(f".{folder.name}.{what}") for what in ("writing", "older"))
  try:
    shutil.rmtree(beside, ignore_errors=True)
    if folder.exists():
      shutil.rmtree(older, ignore_errors=True)
    beside.mkdir(parents=True)
    yield beside
    if folder.exists():
      folder.rename(older)
    beside.rename(folder)
  except BaseException:
    if older.exists() and not folder.exists():
      older.rename(folder)
    raise
  finally:
    shutil.rmtree(beside, ignore_errors=True)
    if folder.exists():
      shutil.rmtree(older, ignore_errors=True)
