"""Cache of sentence embeddings on disk, one folder for each identity of the encoder."""

import contextlib
import hashlib
import json
import os
import pathlib
import tempfile
import time
import uuid

import numpy as np
from absl import logging

from bert_flow_tf.errors import EncoderError

# Most sentences per file, which a killed run loses: 50 MB at 768 dimensions.
CHUNK_SENTENCES = 16384

# Behind the embeddings, a record for each row: digest of its sentence; digest of that digest and the row's bytes.
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

  def __init__(self, folder):
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
        f"cached_dir={folder}: cannot be written ({error.strerror}); choose a writable folder, or none",
        argument="cached_dir",
      ) from error

  @staticmethod
  def key(settings, sentences=()):
    """Returns the hexadecimal sha256 of the settings (a dict for JSON) and of the sentences, in their order."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for sentence in sentences:
      text = sentence.encode("utf-8", "surrogatepass")
      digest.update(b"%d:" % len(text))  # lengths: ["a", "b"] and ["ab"] differ
      digest.update(text)
    return digest.hexdigest()

  def load(self, key, sentences, dim):
    """Looks up the embeddings of sentences.

    Args:
      key: what `key` gives for the settings alone.
      sentences: sequence of n distinct str.
      dim: size of their embeddings.

    Returns:
      Embeddings, float32 array of shape [n, dim], and bool array of shape [n]: which of its rows were found.
    """
    embeddings, found = np.empty([len(sentences), dim], np.float32), np.zeros(len(sentences), bool)
    wanted = _digests(sentences)
    order = np.argsort(wanted)
    for path in _files(self.folder / key):
      try:
        kept, records = _open(path, dim)
        near = order[np.minimum(np.searchsorted(wanted, records["sentence"], sorter=order), len(wanted) - 1)]
        rows = np.flatnonzero((wanted[near] == records["sentence"]) & ~found[near])
        values = np.asarray(kept[rows])
        sound = (_checks(records["sentence"][rows], values) == records["check"][rows]) & _finite(values)
        embeddings[near[rows[sound]]] = values[sound]
        found[near[rows[sound]]] = True
        if not sound.all():
          raise ValueError(f"{(~sound).sum()} of {len(rows)} rows do not match their checksums")
      except Exception as error:  # whatever NumPy makes of a file that anybody may have put there
        logging.warning("%s is damaged (%s): its embeddings are computed again; it may be deleted", path, error)
      if found.all():
        break
    if found.any():
      logging.info("Embeddings of %d of %d sentences read from %s", found.sum(), len(found), self.folder)
    return embeddings, found

  def save(self, key, sentences, embeddings):
    """Writes embeddings as one file, beside its place and renamed: other processes see it whole or not at all.

    A full disk costs the next run its cache, not this one its result: it is logged.

    Args:
      key: what `key` gives for the settings alone.
      sentences: sequence of n distinct str.
      embeddings: array of shape [n, dim]; rows that are not finite are left out.
    """
    finite = _finite(embeddings)
    if not finite.any():
      return
    embeddings = np.ascontiguousarray(embeddings[finite], "<f4")
    records = np.empty(len(embeddings), _RECORD)
    records["sentence"] = _digests(sentences)[finite]
    records["check"] = _checks(records["sentence"], embeddings)
    path = self.folder / key / f"{_name(records.tobytes())}.npy"
    # Each writer has its own: of two that shared one, the slower would write into what the other has renamed.
    beside = path.with_name(f".{uuid.uuid4().hex}.writing")
    try:
      path.parent.mkdir(exist_ok=True)
      _clean(path.parent)
      with beside.open("xb") as file:
        np.save(file, embeddings, allow_pickle=False)
        file.write(records.tobytes())
      beside.replace(path)
    except OSError as error:
      logging.warning("Embeddings could not be cached in %s: %s", self.folder, error)
    finally:
      with contextlib.suppress(OSError):
        beside.unlink(missing_ok=True)


def _open(path, dim):
  """The parts of a file: embeddings float32 [n, dim], memory-mapped, and its n records.

  Raises:
    ValueError: it is no such file.
    Exception: NumPy cannot read it.
  """
  if not path.is_file():  # opening a pipe would wait for ever
    raise ValueError("it is no file")
  embeddings = np.lib.format.open_memmap(path, "r")  # unlike np.load, it cannot come to an archive or a pickle
  if embeddings.dtype != np.dtype("<f4") or embeddings.ndim != 2 or embeddings.shape[1] != dim:
    raise ValueError(f"found {embeddings.dtype} {embeddings.shape}, expected float32 (n, {dim})")
  with path.open("rb") as file:
    file.seek(embeddings.offset + embeddings.nbytes)
    records = file.read(len(embeddings) * _RECORD.itemsize)
  if f"{_name(records)}.npy" != path.name:
    raise ValueError("its records do not match its name")
  return embeddings, np.frombuffer(records, _RECORD)


def _files(folder):
  """Paths of a folder's chunks, the oldest first."""

  def age(path):
    try:
      return path.stat().st_mtime_ns, path.name
    except OSError:
      return 0, path.name  # reading it will say why

  try:
    return sorted((folder / name for name in os.listdir(folder) if name.endswith(".npy")), key=age)
  except FileNotFoundError:
    return []
  except OSError as error:
    logging.warning("%s cannot be read (%s): embeddings are computed again", folder, error)
    return []


def _clean(folder):
  """Deletes what killed processes had begun to write."""
  for path in folder.glob(".*.writing"):
    with contextlib.suppress(OSError):
      if time.time() - path.stat().st_mtime > _DAY_SECONDS:
        path.unlink()


def _digests(sentences):
  """S16 array [n] of the sentences' digests."""
  return _join(hashlib.blake2b(s.encode("utf-8", "surrogatepass"), digest_size=16) for s in sentences)


def _checks(digests, embeddings):
  """S16 array [n] that binds rows of float32 [n, dim] to the digests of their sentences."""
  return _join(
    hashlib.blake2b(digest + row.tobytes(), digest_size=16) for digest, row in zip(digests, embeddings, strict=True)
  )


def _join(hashes):
  return np.frombuffer(b"".join(h.digest() for h in hashes), "S16")


def _name(records):
  return hashlib.blake2b(records, digest_size=16).hexdigest()


def _finite(embeddings):
  return np.isfinite(embeddings).all(axis=1)
