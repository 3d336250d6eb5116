"""Reading of the text format of GloVe and word2vec: a word and its numbers in each line."""

import gzip
import os
import zlib
from typing import Any

import numpy as np

from bert_flow_tf.errors import EncoderError
from bert_flow_tf.progress import Progress

_GZIP_MAGIC, _ZIP_MAGIC, _BOM = b"\x1f\x8b", b"PK\x03\x04", b"\xef\xbb\xbf"
_REPORT = 5000  # lines between two reports of progress


def read_vectors(
  path: str, wanted: frozenset[bytes] | None, digest: Any, show: bool
) -> tuple[dict[bytes, int], np.ndarray]:
  """Reads word vectors; see `WordVectors.from_file` for the format.

  Args:
    path: the file, plain or gzipped.
    wanted: words in UTF-8, None for all.
    digest: a hashlib object, which is updated with every line.
    show: True to show progress.

  Returns:
    {word in UTF-8: row}, and float32 array of shape [words, dim].

  Raises:
    EncoderError: the file is missing, unreadable or malformed.
  """
  first_parts = None if wanted is None else {word.partition(b" ")[0] for word in wanted}
  rows, numbers, dim, expected_words, words = {}, bytearray(), 0, None, 0
  for number, line in _lines(path, digest, show):
    if not dim:
      expected_words, dim = _header(line, path)
      if expected_words is not None:
        continue
    if not line:
      continue
    words += 1
    if line.count(b" ") < dim:
      raise _malformed(line, path, number, f"a word and {dim} numbers")
    # Most lines of a large file are not wanted, so their numbers are not parsed.
    if first_parts is not None and line.partition(b" ")[0] not in first_parts:
      continue
    word, *values = line.rsplit(b" ", dim)
    vector = _vector(values, line, path, number)
    if word not in rows and (wanted is None or word in wanted):
      rows[word] = len(rows)
      numbers += vector.tobytes()
  if not words:
    raise EncoderError(f"{path}: no word vectors; expected lines of a word and its numbers")
  if expected_words not in (None, words):
    raise EncoderError(f"{path}: expected {expected_words} words, as in line 1, got {words}; copy the whole file")
  return rows, np.frombuffer(numbers, np.float32).reshape(-1, dim)


def _lines(path, digest, show):
  """Yields (number from 1, line in bytes without its end); word2vec ends lines with a space."""
  try:
    with open(path, "rb") as file, Progress(os.path.getsize(path), show, "reading word vectors", "byte") as progress:
      magic, done = file.peek(4)[:4], 0
      if magic == _ZIP_MAGIC:
        raise EncoderError(f"{path}: expected a text file, plain or gzipped, got a zip archive; unzip it")
      for number, line in enumerate(gzip.GzipFile(fileobj=file) if magic[:2] == _GZIP_MAGIC else file, start=1):
        digest.update(line)
        if number % _REPORT == 0:
          done, before = file.tell(), done
          progress.update(done - before)
        yield number, (line.removeprefix(_BOM) if number == 1 else line).rstrip(b" \r\n")
      progress.update(file.tell() - done)
  except (gzip.BadGzipFile, zlib.error, EOFError) as error:
    raise EncoderError(f"{path}: cannot be unpacked ({error}); copy the whole file") from error
  except OSError as error:
    raise EncoderError(f"{path}: cannot be read ({error.strerror}); expected a file of word vectors") from error


def _header(line, path):
  """Returns the number of words and the dimension of word2vec's first line; (None, dimension) of another line."""
  fields = line.split(b" ")
  if len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit():
    return int(fields[0]), int(fields[1])
  dim = 0
  while dim < len(fields) - 1 and _is_number(fields[-1 - dim]):
    dim += 1
  if not dim:
    raise _malformed(line, path, 1, "a word and its numbers")
  return None, dim


def _vector(values, line, path, number):
  """Returns the numbers of a line, float32 [dim]."""
  try:
    with np.errstate(over="ignore"):
      vector = np.array(list(map(float, values))).astype(np.float32)
  except ValueError:
    vector = np.array(np.nan)
  if not np.isfinite(vector).all():
    raise _malformed(line, path, number, f"a word and {len(values)} finite numbers")
  return vector


def _is_number(field):
  try:
    float(field)
  except ValueError:
    return False
  return True


def _malformed(line, path, number, expected):
  """Returns the error of a line, which shows the line's beginning."""
  fields, beginning = line.count(b" ") + 1, line[:40].decode("utf-8", "replace")
  return EncoderError(
    f"{path}, line {number}: expected {expected}, separated by single spaces, got {fields} fields, {beginning!r}...; "
    "use the complete file in the text format of GloVe or word2vec, not the binary format"
  )
