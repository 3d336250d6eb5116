"""Splits files into records of bytes and counts these bytes, so that reading can begin in the middle of a file.

A line ends at a line feed only (see data/lines.py). A TFRecord is, little-endian: length uint64, masked CRC-32C of the
length uint32, the data, masked CRC-32C of the data uint32 (TensorFlow, "TFRecord and tf.train.Example").
"""

import contextlib
import gzip
import hashlib
import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import google_crc32c

from bert_flow_tf.corpus.formats import TFRECORD, Unreadable
from bert_flow_tf.corpus.storage import storage_of
from bert_flow_tf.errors import DataError

_GZIP_MAGIC = b"\x1f\x8b"
_DRAIN = 1 << 16
_UNPACKING_ERRORS = (gzip.BadGzipFile, zlib.error, EOFError)


class Stream:
  """Input file, unpacked, as a binary file that can seek.

  Args:
    path: the file.
    kind: one of `formats.KINDS`.
    hashing: True to count and hash the stored bytes while they are read; such a stream must not seek.

  Attributes:
    file: the unpacked bytes. If the file is gzipped, seeking backward unpacks it again from its beginning.
  """

  def __init__(self, path: str, kind: str, hashing: bool = False) -> None:
    self.path = path
    stored = storage_of(path).open(path)
    self._hashed = _Hashed(stored)
    self._raw: BinaryIO = io.BufferedReader(self._hashed, 1 << 20) if hashing else stored
    with self.errors():
      packed = _is_packed(self._raw, kind, seek=not hashing)
      self.file: Any = gzip.GzipFile(fileobj=self._raw) if packed else self._raw

  @property
  def count(self) -> int:
    """Number of stored bytes read until now."""
    return self._hashed.count

  def checksum(self) -> str:
    """Reads the file to its end; returns the hexadecimal sha256 of the stored bytes."""
    while self._raw.read(1 << 20):  # bytes after the packed data
      pass
    return self._hashed.digest.hexdigest()

  def close(self) -> None:
    """Closes the file."""
    self.file.close()
    self._raw.close()

  @contextlib.contextmanager
  def errors(self) -> Iterator[None]:
    """Raises errors of reading and unpacking as a DataError that names the file."""
    try:
      yield
    except _UNPACKING_ERRORS as error:  # BadGzipFile is an OSError too
      raise DataError(f"{self.path} cannot be unpacked ({error}): it is damaged or was not copied whole") from error
    except OSError as error:
      raise DataError(f"{self.path} cannot be read: {error.strerror or error}") from error


def frames(stream: Stream, kind: str, max_bytes: int) -> Iterator[tuple[bytes | Unreadable, int]]:
  """Yields (record, its size in the unpacked file in bytes) from the stream's position to the end.

  A record is its bytes without the line break, or an `Unreadable` that says why it cannot be read.

  Raises:
    DataError: the file is damaged in a way that hides the next record.
  """
  with stream.errors():
    yield from (_tfrecords(stream, max_bytes) if kind == TFRECORD else _lines(stream.file, max_bytes))


def _lines(file, max_bytes):
  while raw := file.readline(max_bytes + 2):  # a line break has up to 2 bytes
    taken, line = len(raw), raw.removesuffix(b"\n").removesuffix(b"\r")
    if len(line) <= max_bytes:
      yield line, taken
      continue
    while not raw.endswith(b"\n") and (raw := file.readline(_DRAIN)):
      taken += len(raw)
    yield Unreadable("too long", f"the line has about {taken} bytes, expected at most {max_bytes}"), taken


def _tfrecords(stream, max_bytes):
  file, number = stream.file, 0
  while head := file.read(12):
    number += 1
    if len(head) < 12 or not _length_fits(head):
      raise DataError(f"{stream.path}: damaged, or not a TFRecord file; record {number} after the reading began")
    (length,) = struct.unpack("<Q", head[:8])
    if length > max_bytes:
      left = length + 4
      while left and (part := file.read(min(left, _DRAIN))):
        left -= len(part)
      record = Unreadable("too long", f"the record has {length} bytes, expected at most {max_bytes}")
    else:
      data = file.read(length + 4)
      left = length + 4 - len(data)
      matches = not left and masked_crc(data[:-4]) == struct.unpack("<I", data[-4:])[0]
      record = data[:-4] if matches else Unreadable("damaged", "the record's bytes do not match its checksum")
    if left:
      raise DataError(f"{stream.path} ends inside a record: it was not copied whole")
    yield record, length + 16


def _is_packed(raw, kind, seek):
  """Returns True for a gzipped file; the file stays at its beginning."""
  if seek:
    head = raw.read(12)
    raw.seek(0)
  else:
    head = raw.peek(12)[:12]
  # The first bytes of a TFRecord are a length, which may look like gzip's.
  return head.startswith(_GZIP_MAGIC) and not (kind == TFRECORD and len(head) == 12 and _length_fits(head))


def _length_fits(head):
  """Returns True if the 12 bytes are a TFRecord's length and the checksum of that."""
  return masked_crc(head[:8]) == struct.unpack("<I", head[8:])[0]


class _Hashed(io.RawIOBase):
  """Binary file that hashes and counts what is read from another."""

  def __init__(self, file):
    self._file, self.digest, self.count = file, hashlib.sha256(), 0

  def readable(self):
    return True

  def readinto(self, buffer):
    data = self._file.read(len(buffer))
    buffer[: len(data)] = data
    self.digest.update(data)
    self.count += len(data)
    return len(data)

  def close(self):
    self._file.close()
    super().close()


def masked_crc(data: bytes) -> int:
  """Returns the CRC-32C that TFRecord files hold: rotated by 15 bits, plus 0xa282ead8."""
  crc = google_crc32c.value(data)
  return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def to_tfrecord(data: bytes) -> bytes:
  """Returns a record as a TFRecord file holds it."""
  length = struct.pack("<Q", len(data))
  return b"".join([length, struct.pack("<I", masked_crc(length)), data, struct.pack("<I", masked_crc(data))])
