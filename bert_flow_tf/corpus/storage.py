"""Where input and output lie: on this machine's file systems, or wherever Apache Beam reaches (gs://, s3://, hdfs://)."""

import contextlib
import glob
import os
import pathlib
import shutil
import tempfile

from bert_flow_tf.errors import ConfigError, DataError

# The end of the names of files that are not whole yet.
WRITING = ".writing"
INSTALL_BEAM = "install the extra, pip install 'bert-flow-tf[beam]'"


def storage_of(path):
  """The storage of a path: `BeamStorage` where it has a scheme, else `LocalStorage`.

  Raises:
    ConfigError: it has one, and Beam is not installed.
  """
  if "://" not in path:
    return LocalStorage()
  try:
    import apache_beam.io.filesystems  # noqa: F401
  except ImportError as error:
    raise ConfigError(f"{path}: found no Apache Beam, which reads and writes such places; {INSTALL_BEAM}") from error
  return BeamStorage()


class LocalStorage:
  """Files of this machine."""

  def match(self, pattern):
    """Sorted absolute paths of the files that a glob pattern names; `**` stands for any depth of folders."""
    pattern = os.path.abspath(os.path.expanduser(pattern))
    found = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)  # a name may have brackets
    return sorted(path for path in found if not os.path.isdir(path))

  def join(self, folder, name):
    """A path below a folder."""
    return os.path.join(folder, name)

  def stat(self, path):
    """(bytes, seconds of the last change) of a file; None where there is none."""
    try:
      found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
      return None
    return found.st_size, found.st_mtime

  def names(self, folder):
    """Sorted names of what is in a folder; [] where there is none."""
    try:
      return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
      return []

  def open(self, path):
    """A file to read bytes from.

    Raises:
      DataError: it cannot be opened.
    """
    try:
      return open(path, "rb")
    except OSError as error:
      raise DataError(f"{path} cannot be read: {error.strerror or error}") from error

  @contextlib.contextmanager
  def writing(self, path):
    """A file to write bytes to, which is there under its name, on the disk, after the block alone.

    Its name beside is another in each process: of two that write the same, each replaces the other's whole.
    """
    folder, name = os.path.split(path)
    descriptor, beside = tempfile.mkstemp(WRITING, f".{name}.", folder)
    try:
      with open(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
      os.chmod(beside, 0o666 & ~_umask())
      os.replace(beside, path)
    finally:
      pathlib.Path(beside).unlink(missing_ok=True)

  def clear(self, folder):
    """Deletes what killed writers left."""
    for name in self.names(folder):
      if name.endswith(WRITING):
        pathlib.Path(folder, name).unlink(missing_ok=True)


class BeamStorage:
  """Whatever `apache_beam.io.filesystems` knows; methods as in `LocalStorage`."""

  def match(self, pattern):
    """Sorted paths of the files that a pattern names."""
    files = self._files()
    return sorted(found.path for found in files.match([pattern])[0].metadata_list)

  def join(self, folder, name):
    """A path below a folder."""
    return self._files().join(folder, name)

  def stat(self, path):
    """(bytes, seconds of the last change) of a file; None where there is none."""
    files = self._files()
    if not files.exists(path):
      return None
    found = files.match([path])[0].metadata_list[0]
    return found.size_in_bytes, found.last_updated_in_seconds

  def names(self, folder):
    """Sorted names of what is in a folder; [] where there is none."""
    found = self.match(self.join(folder, "*"))
    return [path.rstrip("/").rsplit("/", 1)[1] for path in found]

  def open(self, path):
    """A file to read bytes from, as they are, packed or not."""
    from apache_beam.io.filesystem import CompressionTypes

    try:
      return self._files().open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    except OSError as error:
      raise DataError(f"{path} cannot be read: {error}") from error

  @contextlib.contextmanager
  def writing(self, path):
    """A file to write bytes to, which is there under its name after the block alone."""
    from apache_beam.io.filesystem import CompressionTypes

    files = self._files()
    with tempfile.TemporaryFile() as local:
      yield local
      local.seek(0)
      beside = f"{path}.{os.getpid()}.{os.urandom(4).hex()}{WRITING}"
      with files.create(beside, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        shutil.copyfileobj(local, file, 1 << 20)
      if files.exists(path):  # some of these file systems rename onto nothing that is there
        files.delete([path])
      files.rename([beside], [path])

  def clear(self, folder):
    """Deletes what killed writers left."""
    left = [self.join(folder, name) for name in self.names(folder) if name.endswith(WRITING)]
    if left:
      self._files().delete(left)

  @staticmethod
  def _files():
    from apache_beam.io.filesystems import FileSystems

    return FileSystems


def _umask():
  """The process's mask of permissions, which only setting one tells."""
  mask = os.umask(0)
  os.umask(mask)
  return mask
