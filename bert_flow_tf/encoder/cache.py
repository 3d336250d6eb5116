"""Embeddings kept on disk, under a key made of everything that changes them."""

import contextlib
import hashlib
import json
import os
import pathlib
import tempfile

import numpy as np
from absl import logging

from bert_flow_tf.errors import EncoderError

_DIGEST_BYTES = hashlib.sha256().digest_size


class EmbeddingCache:
  """A folder of `KEY.npy` files.

  Each file is what `np.save` writes followed by the sha256 of it, which `np.load` does not mind: a file that
  was cut off or damaged is recognised, reported and computed again.
  """

  def __init__(self, folder):
    """Creates the folder where needed, and checks that it can be written before anything is computed.

    Raises:
      EncoderError: the folder cannot be created or written.
    """
    self.folder = pathlib.Path(folder)
    try:
      self.folder.mkdir(parents=True, exist_ok=True)
      with tempfile.TemporaryFile(dir=self.folder):
        pass
    except OSError as error:
      raise EncoderError(
        f"embedding cache {folder}: cannot be written ({error.strerror}), expected a writable folder: choose "
        "another one, or none."
      ) from error

  @staticmethod
  def key(settings, sentences):
    """Hexadecimal sha256 of the settings (a dict for JSON) and of the sentences, in their order."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for sentence in sentences:
      text = sentence.encode("utf-8", "surrogatepass")
      digest.update(b"%d:" % len(text))  # lengths: ["a", "b"] and ["ab"] differ
      digest.update(text)
    return digest.hexdigest()

  def path(self, key):
    """Path of the file of a key."""
    return self.folder / f"{key}.npy"

  def load(self, key, shape):
    """Embeddings of a key.

    Args:
      key: what `key` returned.
      shape: the expected [n, dim].

    Returns:
      float32 array of that shape, or None if there is none that can be trusted.
    """
    path = self.path(key)
    if not path.exists():
      return None
    try:
      if not _intact(path):
        raise ValueError("its checksum does not match its content")
      embeddings = np.load(path, allow_pickle=False)
      if embeddings.shape != tuple(shape) or embeddings.dtype != np.float32:
        raise ValueError(f"found {embeddings.dtype} {embeddings.shape}, expected float32 {tuple(shape)}")
    except (OSError, ValueError, EOFError) as error:
      logging.warning("%s is damaged (%s): computing these embeddings again", path, error)
      return None
    logging.info("Embeddings of %d sentences read from %s", len(embeddings), path)
    return embeddings

  def save(self, key, embeddings):
    """Writes embeddings beside, then renames: other processes see the whole file or none.

    A full disk costs the next run its cache, not this one its result: it is logged.
    """
    temporary = None
    try:
      with tempfile.NamedTemporaryFile(dir=self.folder, suffix=".tmp", delete=False) as file:
        temporary = file.name
        np.save(file, embeddings, allow_pickle=False)
        file.flush()
        digest = _digest(temporary, os.path.getsize(temporary))
        file.write(digest)
      os.replace(temporary, self.path(key))
    except OSError as error:
      logging.warning("Embeddings could not be cached in %s: %s", self.folder, error)
      if temporary is not None:
        with contextlib.suppress(OSError):
          os.unlink(temporary)


def _digest(path, size):
  """sha256 of the first `size` bytes of a file."""
  digest = hashlib.sha256()
  with open(path, "rb") as file:
    while size > 0 and (block := file.read(min(size, 1 << 20))):
      digest.update(block)
      size -= len(block)
  return digest.digest()


def _intact(path):
  """Whether a file ends with the sha256 of what comes before."""
  size = path.stat().st_size - _DIGEST_BYTES
  if size < 0:
    return False
  with path.open("rb") as file:
    file.seek(size)
    return file.read() == _digest(path, size)
