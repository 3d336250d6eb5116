"""Access to input and output files: local, or where Apache Beam's file systems reach (gs://, s3://, hdfs://)."""

import contextlib
import glob
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

from bert_flow_tf.errors import ConfigError, DataError, install_command
from bert_flow_tf.io import files

# End of the name of a file that `BeamStorage.writing` has not finished.
_TEMPORARY = re.compile(rf"\.[0-9]+\.[0-9a-f]{{8}}{files.WRITING}$")


class LocalStorage:
  """Files of this machine."""

  def match(self, pattern: str) -> list[str]:
    """Returns the sorted absolute paths of the files that match a glob; `**` matches folders at any depth."""
    pattern = self.absolute(pattern)
    paths = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)  # a name may have brackets
    return sorted(path for path in paths if not os.path.isdir(path))

  def absolute(self, path: str) -> str:
    """Returns the absolute path, with `~` replaced."""
    return os.path.abspath(os.path.expanduser(path))

  def join(self, folder: str, name: str) -> str:
    """Returns the path of a file in a folder."""
    return os.path.join(folder, name)

  def stat(self, path: str) -> tuple[int, float] | None:
    """Returns (size in bytes, seconds of the last change) of a file; None if it does not exist."""
    try:
      stat = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
      return None
    return stat.st_size, stat.st_mtime

  def names(self, folder: str) -> list[str]:
    """Returns the sorted names of a folder's files; [] if the folder does not exist."""
    try:
      return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
      return []

  def sizes(self, folder: str) -> dict[str, int]:
    """Returns {name: size in bytes} of a folder's files, from one listing; {} if the folder does not exist."""
    sizes = {}
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
      for entry in entries:
        with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
          sizes[entry.name] = entry.stat().st_size
    return sizes

  def open(self, path: str) -> BinaryIO:
    """Opens a file to read its bytes.

    Raises:
      DataError: it cannot be opened.
    """
    try:
      return open(path, "rb")
    except OSError as error:
      raise DataError(f"{path} cannot be read: {error.strerror or error}") from error

  @contextlib.contextmanager
  def writing(self, path: str) -> Iterator[BinaryIO]:
    """Yields a file to write to, which gets its name and is on the disk only when the block ends."""
    with files.writing(path) as file:
      yield file

  def clear(self, folder: str) -> list[str]:
    """Deletes the incomplete files of killed writers; returns the names of other programs' incomplete files.

    Those of running processes stay: Beam's workers finish their shards after their run was killed.
    """
    files.clear_leftovers(folder)
    return [name for name in self.names(folder) if name.endswith(files.WRITING) and not files.is_temporary(name)]


class BeamStorage:
  """Files of `apache_beam.io.filesystems`; methods as in `LocalStorage`."""

  def __init__(self):
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    self._files, self._as_stored = FileSystems, CompressionTypes.UNCOMPRESSED

  def match(self, pattern: str) -> list[str]:
    """Returns the sorted paths of the files that match a pattern."""
    return sorted(file.path for file in self._files.match([pattern])[0].metadata_list)

  def absolute(self, path: str) -> str:
    """Returns the path as it is."""
    return path

  def join(self, folder: str, name: str) -> str:
    """Returns the path of a file in a folder."""
    return self._files.join(folder, name)

  def stat(self, path: str) -> tuple[int, float] | None:
    """Returns (size in bytes, seconds of the last change) of a file; None if it does not exist."""
    if not self._files.exists(path):
      return None
    file = self._files.match([path])[0].metadata_list[0]
    return file.size_in_bytes, file.last_updated_in_seconds

  def names(self, folder: str) -> list[str]:
    """Returns the sorted names of a folder's files; [] if the folder does not exist."""
    return sorted(self.sizes(folder))

  def sizes(self, folder: str) -> dict[str, int]:
    """Returns {name: size in bytes} of a folder's files, from one listing; {} if the folder does not exist."""
    files = self._files.match([self.join(folder, "*")])[0].metadata_list
    return {file.path.rstrip("/").rsplit("/", 1)[1]: file.size_in_bytes for file in files}

  def open(self, path: str) -> BinaryIO:
    """Opens a file to read its bytes as they are stored, without unpacking."""
    try:
      return self._files.open(path, compression_type=self._as_stored)
    except OSError as error:
      raise DataError(f"{path} cannot be read: {error}") from error

  @contextlib.contextmanager
  def writing(self, path: str) -> Iterator[BinaryIO]:
    """Yields a file to write to, which gets its name only when the block ends."""
    with tempfile.TemporaryFile() as local:
      yield local
      local.seek(0)
      temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}{files.WRITING}"
      with self._files.create(temporary, compression_type=self._as_stored) as file:
        shutil.copyfileobj(local, file, 1 << 20)
      if self._files.exists(path):  # some of these file systems do not rename onto an existing file
        self._files.delete([path])
      self._files.rename([temporary], [path])

  def clear(self, folder: str) -> list[str]:
    """Deletes the incomplete files of killed writers; returns the names of other programs' incomplete files."""
    names = [name for name in self.names(folder) if name.endswith(files.WRITING)]
    paths = [self.join(folder, name) for name in names if _TEMPORARY.search(name)]
    if paths:
      self._files.delete(paths)
    return [name for name in names if not _TEMPORARY.search(name)]


def storage_of(path: str) -> LocalStorage | BeamStorage:
  """Returns the storage of a path: `BeamStorage` for a path with a scheme, else `LocalStorage`.

  Raises:
    ConfigError: the path has a scheme and Beam is not installed.
  """
  if "://" not in path:
    return LocalStorage()
  try:
    return BeamStorage()
  except ImportError as error:
    raise ConfigError(
      f"{path}: Apache Beam, which reads and writes it, is not installed: {install_command('beam')}"
    ) from error
