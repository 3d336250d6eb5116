"""Cache of sentence embeddings on disk, one folder for each identity of the encoder."""

import contextlib
import hashlib
import json
import os
import pathlib
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.errors import EncoderError

# Largest number of sentences of a file, which a killed run loses: 50 MB at 768 dimensions.
CHUNK_SENTENCES = 16384

# After the embeddings, a record for each row: digest of its sentence; digest of that digest and the row's bytes.
_RECORD = np.dtype([("sentence", "S16"), ("check", "S16")])
_DAY_SECONDS = 24 * 60 * 60


class EmbeddingCache:
  """Cache with a folder `KEY/` for each key of settings, of files `CHUNK.npy` with embeddings of some sentences.

  A file is a float32 array [n, dim] as `np.save` writes it, then n records (which `np.load` does not mind). Its
  name is the digest of the records, which have digests of the rows. So damaged or foreign files are detected by reading
  only the records and the requested rows, and processes that write the same sentences write the same file. Nothing is
  ever unpickled.

  If two files have the same sentence, from concurrent processes, the older one is used.
  """

  def __init__(self, folder: str | os.PathLike) -> None:
    """Creates the folder if needed, and checks that it is writable before anything is computed.

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
        f"cached_dir={folder}: cannot be written ({error.strerror}); use a writable folder, or no cache",
        argument="cached_dir",
      ) from error

  @staticmethod
  def key(settings: Mapping[str, Any], sentences: Sequence[str] = ()) -> str:
    """Returns the hexadecimal SHA-256 of the settings (JSON values) and of the sentences in their order."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for sentence in sentences:
      text = sentence.encode("utf-8", "surrogatepass")
      digest.update(b"%d:" % len(text))  # lengths: ["a", "b"] and ["ab"] differ
      digest.update(text)
    return digest.hexdigest()

  def load(self, key: str, sentences: Sequence[str], dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Looks up the embeddings of sentences.

    Args:
      key: `key` of the settings alone.
      sentences: n distinct sentences.
      dim: size of their embeddings.

    Returns:
      Embeddings, float32 array of shape [n, dim], and bool array of shape [n], True for the rows that are cached.
    """
    embeddings, cached = np.empty([len(sentences), dim], np.float32), np.zeros(len(sentences), bool)
    digests = _digests(sentences)
    order = np.argsort(digests)
    for path in _files(self.folder / key):
      try:
        stored, records = _open(path, dim)
        near = order[np.minimum(np.searchsorted(digests, records["sentence"], sorter=order), len(digests) - 1)]
        rows = np.flatnonzero((digests[near] == records["sentence"]) & ~cached[near])
        values = np.asarray(stored[rows])
        valid = (_checks(records["sentence"][rows], values) == records["check"][rows]) & _finite(values)
        embeddings[near[rows[valid]]] = values[valid]
        cached[near[rows[valid]]] = True
        if not valid.all():
          raise ValueError(f"{(~valid).sum()} of {len(rows)} rows do not match their checksums")
      except Exception as error:  # NumPy raises errors of many classes for a damaged file
        logging.warning("%s is damaged (%s): its embeddings are computed again; it may be deleted", path, error)
      if cached.all():
        break
    if cached.any():
      logging.info("Embeddings of %d of %d sentences read from %s", cached.sum(), len(cached), self.folder)
    return embeddings, cached

  def save(self, key: str, sentences: Sequence[str], embeddings: np.ndarray) -> None:
    """Writes embeddings as one file, atomically. A file that cannot be written is logged and not an error.

    Args:
      key: `key` of the settings alone.
      sentences: n distinct sentences.
      embeddings: array of shape [n, dim]; rows that are not finite are not written.
    """
    finite = _finite(embeddings)
    if not finite.any():
      return
    embeddings = np.ascontiguousarray(embeddings[finite], "<f4")
    records = np.empty(len(embeddings), _RECORD)
    records["sentence"] = _digests(sentences)[finite]
    records["check"] = _checks(records["sentence"], embeddings)
    path = self.folder / key / f"{_name(records.tobytes())}.npy"
    # A name for each writer: of two writers of the same file, the slower would write into the renamed file.
    temporary = path.with_name(f".{uuid.uuid4().hex}.writing")
    try:
      path.parent.mkdir(exist_ok=True)
      _clean(path.parent)
      with temporary.open("xb") as file:
        np.save(file, embeddings, allow_pickle=False)
        file.write(records.tobytes())
      temporary.replace(path)
    except OSError as error:
      logging.warning("Embeddings could not be cached in %s: %s", self.folder, error)
    finally:
      with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)


def _open(path, dim):
  """Returns the embeddings of a file, float32 [n, dim], memory-mapped, and its n records.

  Raises:
    ValueError: it is not a file of this cache.
    Exception: NumPy cannot read it.
  """
  embeddings = np.lib.format.open_memmap(path, "r")  # unlike np.load, it opens neither archives nor pickles
  if embeddings.dtype != np.dtype("<f4") or embeddings.ndim != 2 or embeddings.shape[1] != dim:
    raise ValueError(f"expected float32 (n, {dim}), got {embeddings.dtype} {embeddings.shape}")
  with path.open("rb") as file:
    file.seek(embeddings.offset + embeddings.nbytes)
    records = file.read(len(embeddings) * _RECORD.itemsize)
  if f"{_name(records)}.npy" != path.name:
    raise ValueError("its records do not match its name")
  return embeddings, np.frombuffer(records, _RECORD)


def _files(folder):
  """Returns the paths of a folder's files, the oldest first."""
  try:
    return sorted(folder.glob("*.npy"), key=lambda path: (path.stat().st_mtime_ns, path.name))
  except OSError as error:
    logging.warning("%s cannot be read (%s): embeddings are computed again", folder, error)
    return []


def _clean(folder):
  """Deletes incomplete files of killed processes."""
  for path in folder.glob(".*.writing"):
    with contextlib.suppress(OSError):
      if time.time() - path.stat().st_mtime > _DAY_SECONDS:
        path.unlink()


def _digests(sentences):
  """Returns the sentences' digests, S16 array [n]."""
  return _join(hashlib.blake2b(s.encode("utf-8", "surrogatepass"), digest_size=16) for s in sentences)


def _checks(digests, embeddings):
  """Returns digests of float32 rows [n, dim] and the digests of their sentences, S16 array [n]."""
  return _join(
    hashlib.blake2b(digest + row.tobytes(), digest_size=16) for digest, row in zip(digests, embeddings, strict=True)
  )


def _join(hashes):
  return np.frombuffer(b"".join(h.digest() for h in hashes), "S16")


def _name(records):
  return hashlib.blake2b(records, digest_size=16).hexdigest()


def _finite(embeddings):
  return np.isfinite(embeddings).all(axis=1)
