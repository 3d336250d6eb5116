"""Files that are whole or absent."""

import pathlib


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
