"""Cache of sentence embeddings: an SQLite file for each identity, which survives kills and concurrent writers."""

import contextlib
import hashlib
import json
import os
import pathlib
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.errors import EncoderError

# Largest number of sentences of a transaction, which a killed run loses: 50 MB at 768 dimensions.
CHUNK_SENTENCES = 16384
# Values of a query; SQLite's older limit is 999.
_MAX_SQL_VALUES = 500
_WAIT_SECONDS = 60
_TABLE = "create table if not exists rows (digest blob primary key, value blob, checksum blob) without rowid"


class EmbeddingCache:
  """Folder with a file KEY.sqlite for each key of settings: a sentence's digest, its embedding, and a checksum."""

  def __init__(self, folder: str | os.PathLike) -> None:
    """Creates the folder if needed; EncoderError if it cannot be written, before anything is computed."""
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
    """Returns the hexadecimal SHA-256 of settings (JSON values), and of sentences in their order."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for sentence in sentences:
      digest.update(_digest(sentence))
    return digest.hexdigest()

  def load(self, key: str, sentences: Sequence[str], dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns embeddings float32 [n, dim] of distinct sentences, and bool [n], True for cached ones."""
    embeddings = np.empty([len(sentences), dim], np.float32)
    cached = np.zeros(len(sentences), bool)
    rows = {_digest(sentence): row for row, sentence in enumerate(sentences)}
    digests = list(rows)
    damaged = []
    path = self.folder / f"{key}.sqlite"
    with self._usable(path), _opened(path) as database, database:  # the second commits
      database.execute(_TABLE)
      for start in range(0, len(digests), _MAX_SQL_VALUES):
        part = digests[start : start + _MAX_SQL_VALUES]
        marks = ",".join("?" * len(part))
        query = f"select digest, value, checksum from rows where digest in ({marks})"
        for digest, value, checksum in database.execute(query, part):
          # A damaged file may hold values of any type.
          if not isinstance(value, bytes) or _checksum(digest, value) != checksum:
            damaged.append((digest,))
          elif len(value) == 4 * dim:
            row = rows[digest]
            embeddings[row] = np.frombuffer(value, "<f4")
            cached[row] = True
      database.executemany("delete from rows where digest = ?", damaged)
    if cached.any():
      logging.info("Embeddings of %d of %d sentences read from %s", cached.sum(), len(cached), self.folder)
    return embeddings, cached

  def save(self, key: str, sentences: Sequence[str], embeddings: np.ndarray) -> None:
    """Adds the finite rows of embeddings [n, dim] of distinct sentences, in one transaction."""
    finite = np.isfinite(embeddings).all(axis=1)
    values = []
    for sentence, row, is_finite in zip(sentences, embeddings.astype("<f4"), finite, strict=True):
      if is_finite:
        digest, value = _digest(sentence), row.tobytes()
        values.append((digest, value, _checksum(digest, value)))
    path = self.folder / f"{key}.sqlite"
    with self._usable(path), _opened(path) as database, database:  # the second commits
      database.execute(_TABLE)
      # Two writers may store the same sentence: the first row stays, so that a result never changes.
      database.executemany("insert or ignore into rows values (?, ?, ?)", values)

  @contextlib.contextmanager
  def _usable(self, path: pathlib.Path) -> Iterator[None]:
    """Logs errors of SQLite in the block, and deletes a damaged file."""
    try:
      yield
    except sqlite3.Error as error:
      logging.warning("%s cannot be used (%s): its embeddings are computed again", path, error)
      if type(error) is sqlite3.DatabaseError:  # damaged; a locked file or a full disk is an OperationalError
        with contextlib.suppress(OSError):
          path.unlink()


def _opened(path: pathlib.Path) -> "contextlib.closing[sqlite3.Connection]":
  return contextlib.closing(sqlite3.connect(path, timeout=_WAIT_SECONDS))


def _digest(sentence: str) -> bytes:
  return hashlib.blake2b(sentence.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _checksum(digest: bytes, value: bytes) -> bytes:
  return hashlib.blake2b(digest + value, digest_size=8).digest()
