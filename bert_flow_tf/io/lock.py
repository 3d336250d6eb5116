"""Locks of folders: one run at a time owns a folder."""

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Iterator

from bert_flow_tf.errors import ConfigError


@contextlib.contextmanager
def owned(folder: str | os.PathLike, argument: str) -> Iterator[None]:
  """Creates a folder and keeps other runs of this machine out of it until the block ends; removes an empty one."""
  # The folder itself is locked: a lock file would stay after a kill, in folders that have to be empty.
  folder = pathlib.Path(folder)
  made = [path for path in (folder, *folder.parents) if not path.exists()]
  try:
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
  except OSError as error:
    reason = f"cannot be created or read ({error.strerror})"
    raise ConfigError(f"{argument}={folder}: {reason}; choose another folder", argument) from error
  try:
    try:
      fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
      if not os.path.samestat(os.fstat(handle), os.stat(folder)):
        raise FileNotFoundError  # its owner has ended and removed it since it was opened
    except (BlockingIOError, FileNotFoundError) as error:
      message = "another run uses this folder; wait until it ends, or choose another folder"
      raise ConfigError(f"{argument}={folder}: {message}", argument) from error
    except OSError:
      pass  # a file system without locks
    yield
  finally:
    with contextlib.suppress(OSError):  # not empty
      for path in made:
        path.rmdir()
    os.close(handle)
