"""The text format of GloVe and word2vec: a word and its numbers a line."""

import gzip
import os
import re
import zlib

import numpy as np

from bert_flow_tf.errors import EncoderError
from bert_flow_tf.progress import Progress

_GZIP_MAGIC, _ZIP_MAGIC, _BOM = b"\x1f\x8b", b"PK\x03\x04", b"\xef\xbb\xbf"
# A number as such files write it: a word that ends so has one number too many behind it.
_VALUE = re.compile(rb"[-+]?[0-9]*\.[0-9]{3,}([eE][-+]?[0-9]+)?")
_COUNT = re.compile(rb"[0-9]{1,18}")
_REPORT = 5000  # lines between two reports of progress


def read_vectors(path, wanted, digest, show):
  """Reads word vectors; see `WordVectors.from_file` for the format.

  Args:
    path: the file, plain or gzipped.
    wanted: frozenset of words in UTF-8, None for all.
    digest: a hashlib object, which takes in every line.
    show: whether to show progress.

  Returns:
    {word in UTF-8: row}, and float32 [words, dim].

  Raises:
    EncoderError: the file is missing, unreadable or malformed.
  """
  first_parts = None if wanted is None else {word.partition(b" ")[0] for word in wanted}
  rows, numbers, dim, promised, read = {}, bytearray(), None, None, 0
  for number, line in _lines(path, digest, show):
    if dim is None:
      promised, dim = _header(line, path)
      if promised is not None:
        continue
    if not line:
      continue
    read += 1
    _check_fields(line, dim, path, number)
    # Most lines of a large file are not wanted: only their number of fields is looked at.
    if first_parts is not None and line.partition(b" ")[0] not in first_parts:
      continue
    word, *values = line.rsplit(b" ", dim)
    vector = _vector(values, line, dim, path, number)
    if word not in rows and (wanted is None or word in wanted):
      rows[word] = len(rows)
      numbers += vector.tobytes()
  if not read:
    raise EncoderError(f"{path}: found no word vectors, expected lines of a word and its numbers.")
  if promised not in (None, read):
    raise EncoderError(f"{path}: found {read} words, expected {promised} as line 1 says: it was not copied whole.")
  return rows, np.frombuffer(numbers, np.float32).reshape(-1, dim)


def _lines(path, digest, show):
  """Yields (number from 1, line in bytes without its end); word2vec ends lines with a space."""
  try:
    with open(path, "rb") as file, Progress(os.path.getsize(path), show, "reading word vectors", "byte") as progress:
      magic, done = file.peek(4)[:4], 0
      if magic == _ZIP_MAGIC:
        raise EncoderError(f"{path}: found a zip archive, expected a text file, plain or gzipped: unzip it.")
      for number, line in enumerate(gzip.GzipFile(fileobj=file) if magic[:2] == _GZIP_MAGIC else file, start=1):
        digest.update(line)
        if number % _REPORT == 0:
          done, before = file.tell(), done
          progress.update(done - before)
        yield number, (line.removeprefix(_BOM) if number == 1 else line).rstrip(b" \r\n")
      progress.update(file.tell() - done)
  except (gzip.BadGzipFile, zlib.error, EOFError) as error:
    raise EncoderError(f"{path}: cannot be unpacked ({error}): it is damaged or was not copied whole.") from error
  except (OSError, ValueError) as error:  # ValueError: a NUL in the name
    reason = getattr(error, "strerror", None) or error
    raise EncoderError(f"{path}: cannot be read ({reason}), expected a file of word vectors.") from error


def _header(line, path):
  """The number of words that word2vec's first line promises, else None; and the vectors' dimension."""
  fields = line.split(b" ")
  if len(fields) == 2 and all(map(_COUNT.fullmatch, fields)) and int(fields[1]) > 0:
    return int(fields[0]), int(fields[1])
  dim = 0
  while dim < len(fields) - 1 and _is_number(fields[-1 - dim]):
    dim += 1
  if not dim:
    raise _malformed(line, path, 1, "a word and its numbers")
  return None, dim


def _check_fields(line, dim, path, number):
  """Raises EncoderError unless a word and dim numbers may stand in the line."""
  spaces = line.count(b" ")
  if spaces < dim or (spaces > dim and _VALUE.fullmatch(line.rsplit(b" ", dim)[0].rpartition(b" ")[2])):
    raise _malformed(line, path, number, f"a word and {dim} numbers")


def _vector(values, line, dim, path, number):
  """float32 [dim] of the fields of a line."""
  try:
    vector = np.array(list(map(float, values)))
  except ValueError:
    vector = None
  # float() reads "1_5" as 15.
  if vector is None or b"_" in b"".join(values):
    raise _malformed(line, path, number, f"a word and {dim} numbers")
  with np.errstate(over="ignore"):
    vector = vector.astype(np.float32)
  if not np.isfinite(vector).all():
    raise _malformed(line, path, number, f"a word and {dim} finite numbers")
  return vector


def _is_number(field):
  """Whether a field of the first line is a number."""
  try:
    float(field)
  except ValueError:
    return False
  return True


def _malformed(line, path, number, expected):
  """The error of a line; what is shown of it is its beginning."""
  fields, begin = line.count(b" ") + 1, line[:40].decode("utf-8", "replace")
  return EncoderError(
    f"{path}, line {number}: found {fields} fields, {begin!r}..., expected {expected}, parted by single spaces: use "
    "the text format of GloVe or word2vec (not a binary one), copied whole."
  )
