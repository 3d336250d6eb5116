"""Files cut into records as bytes, with offsets, so that reading can begin in the middle; TensorFlow is not needed.

A line ends at a line feed only (see data/lines.py). A TFRecord is, little-endian: length uint64, masked CRC-32C of the
length uint32, the data, masked CRC-32C of the data uint32 (TensorFlow, "TFRecord and tf.train.Example").
"""

import contextlib
import gzip
import hashlib
import io
import struct
import zlib

import google_crc32c

from bert_flow_tf.corpus.formats import TFRECORD, Unreadable
from bert_flow_tf.errors import DataError

_GZIP_MAGIC = b"\x1f\x8b"
_DRAIN = 1 << 16
_PACKED_WRONGLY = (gzip.BadGzipFile, zlib.error, EOFError)


class Stream:
  """An input file, unpacked, as a binary file that can seek; counts and hashes what is read of it as it is stored.

  Args:
    storage: where it is.
    path: the file.
    kind: of `formats.KINDS`.
    hashing: whether the stored bytes are hashed, which seeking would spoil.

  Attributes:
    file: the unpacked bytes.
    packed: whether it is gzipped; seeking backwards in it begins anew.
  """

  def __init__(self, storage, path, kind, hashing=False):
    self.path = path
    stored = storage.open(path)
    self._hashed = _Hashed(stored) if hashing else None
    raw = io.BufferedReader(self._hashed, 1 << 20) if hashing else stored
    self._raw = raw
    with self.errors():
      self.packed = _is_packed(raw, kind, seek=not hashing)
      self.file = gzip.GzipFile(fileobj=raw) if self.packed else raw

  @property
  def count(self):
    """Stored bytes that were read."""
    return self._hashed.count

  def checksum(self):
    """Hexadecimal sha256 of the stored file, once it was read to its end."""
    while self._raw.read(1 << 20):  # what may follow the packed data
      pass
    return self._hashed.digest.hexdigest()

  def close(self):
    """Closes the file."""
    self.file.close()
    self._raw.close()

  @contextlib.contextmanager
  def errors(self):
    """What goes wrong while the file is read, as a DataError that names it."""
    try:
      yield
    except _PACKED_WRONGLY as error:  # BadGzipFile is an OSError too
      raise DataError(f"{self.path} cannot be unpacked ({error}): it is damaged or was not copied whole") from error
    except OSError as error:
      raise DataError(f"{self.path} cannot be read: {error.strerror or error}") from error


def frames(stream, kind, max_bytes):
  """Yields (record, bytes it takes up in the unpacked file) from where the stream stands.

  A record is bytes, without its line feed; or an `Unreadable` that says why there are none.

  Raises:
    DataError: the file is damaged where no next record can be found.
  """
  with stream.errors():
    yield from (_tfrecords(stream, max_bytes) if kind == TFRECORD else _lines(stream.file, max_bytes))


def _lines(file, max_bytes):
  while raw := file.readline(max_bytes + 2):  # CR and LF do not count
    taken = len(raw)
    if not raw.endswith(b"\n") and taken == max_bytes + 2:
      while not raw.endswith(b"\n") and (raw := file.readline(_DRAIN)):
        taken += len(raw)
      yield Unreadable("too long", f"the line has {taken} bytes, expected at most {max_bytes}"), taken
    else:
      raw = raw.removesuffix(b"\n").removesuffix(b"\r")
      if len(raw) > max_bytes:
        yield Unreadable("too long", f"the line has {len(raw)} bytes, expected at most {max_bytes}"), taken
      else:
        yield raw, taken


def _tfrecords(stream, max_bytes):
  file, number = stream.file, 0
  while head := file.read(12):
    number += 1
    if len(head) < 12 or not _length_fits(head):
      raise DataError(f"{stream.path}: damaged or no TFRecord file; the record {number} from where reading began")
    (length,) = struct.unpack("<Q", head[:8])
    if length > max_bytes:
      left = length + 4
      while left and (part := file.read(min(left, _DRAIN))):
        left -= len(part)
      record = Unreadable("too long", f"the record has {length} bytes, expected at most {max_bytes}")
    else:
      data = file.read(length + 4)
      left = length + 4 - len(data)
      whole = not left and masked_crc(data[:-4]) == struct.unpack("<I", data[-4:])[0]
      record = data[:-4] if whole else Unreadable("damaged", "the record's checksum is not that of its bytes")
    if left:
      raise DataError(f"{stream.path} ends inside a record: it was not copied whole")
    yield record, length + 16


def _is_packed(raw, kind, seek):
  """Whether the file at its beginning is gzipped; leaves it at its beginning."""
  if seek:
    head = raw.read(12)
    raw.seek(0)
  else:
    head = raw.peek(12)[:12]
  # The first bytes of a TFRecord are a length, which may look like gzip's.
  return head.startswith(_GZIP_MAGIC) and not (kind == TFRECORD and len(head) == 12 and _length_fits(head))


def _length_fits(head):
  return masked_crc(head[:8]) == struct.unpack("<I", head[8:])[0]


class _Hashed(io.RawIOBase):
  """Reads another file, hashing."""

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
