"""Index of a corpus: reads the input files once, before anything is embedded, and assigns their records to shards."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from bert_flow_tf.corpus.formats import InputFormat
from bert_flow_tf.corpus.framing import Stream, frames
from bert_flow_tf.corpus.records import find_columns
from bert_flow_tf.corpus.storage import storage_of
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.progress import Progress

# Indexing shows its progress for input of more bytes than this.
_SLOW_BYTES = 1 << 28


@dataclasses.dataclass(frozen=True)
class InputFile:
  """Input file as it was when it was indexed.

  Attributes:
    path: the file.
    bytes: its size, as stored.
    changed: seconds of its last change.
    sha256: hexadecimal sha256 of its bytes, as stored.
    first_record: number of its first record in the corpus, from 0.
    records: number of its records, bad ones included, a header not.
  """

  path: str
  bytes: int
  changed: float
  sha256: str
  first_record: int
  records: int


@dataclasses.dataclass(frozen=True)
class Span:
  """Consecutive records of one file.

  Attributes:
    path: the file.
    offset: position of the first record in the unpacked file, in bytes.
    line: number of the first record in the file, from 1, a header included.
    records: number of records.
    width: number of the header's columns; None without a header.
    columns: columns of sentence and id, as `records.find_columns` returns them.
  """

  path: str
  offset: int
  line: int
  records: int
  width: int | None
  columns: tuple


@dataclasses.dataclass(frozen=True)
class ShardTask:
  """Records of one shard.

  Attributes:
    number: the shard's number, from 0.
    first_record: number of the first record in the corpus, from 0.
    spans: the records.
  """

  number: int
  first_record: int
  spans: tuple[Span, ...]

  @property
  def records(self) -> int:
    """Number of records."""
    return sum(span.records for span in self.spans)


@dataclasses.dataclass(frozen=True)
class Index:
  """Input files of a run, and the shards that their records are assigned to."""

  inputs: tuple[InputFile, ...]
  shards: tuple[ShardTask, ...]

  @property
  def records(self) -> int:
    """Number of records in all files."""
    return sum(file.records for file in self.inputs)

  def to_json(self) -> dict[str, Any]:
    """Returns a dict of json values."""
    return dataclasses.asdict(self)

  @classmethod
  def from_json(cls, values: dict[str, Any]) -> "Index":
    """Returns the index from the dict of `to_json`.

    Raises:
      KeyError, TypeError, ValueError, AttributeError: the dict is something else.
    """
    shards = []
    for shard in values["shards"]:
      spans = (Span(**{**span, "columns": tuple(span["columns"])}) for span in shard["spans"])
      shards.append(ShardTask(**{**shard, "spans": tuple(spans)}))
    index = cls(tuple(InputFile(**file) for file in values["inputs"]), tuple(shards))
    if [shard.number for shard in shards] != list(range(len(shards))):
      raise ValueError("the shards are not numbered from 0")
    if index.records != sum(shard.records for shard in shards):
      raise ValueError("the shards do not have the records of the files")
    return index


def find_inputs(patterns: Sequence[str]) -> list[str]:
  """Returns the paths of the files that match globs, in the order of the globs, each file once.

  Raises:
    ConfigError: a glob matches no file, or a pipe.
  """
  paths = {}
  for pattern in patterns:
    matches = storage_of(pattern).match(pattern) if pattern else []
    if not matches:
      raise ConfigError(
        f"input={pattern}: no such file; expected files or globs such as 'corpus/*.txt.gz'", argument="input"
      )
    pipe = next((path for path in matches if os.path.exists(path) and not os.path.isfile(path)), None)
    if pipe is not None:
      raise ConfigError(f"input={pipe}: not a file, and read more than once; write it to a file first", "input")
    paths.update(dict.fromkeys(matches))
  return list(paths)


def build_index(
  paths: Sequence[str], input_format: InputFormat, shard_size: int, shard_bytes: int, show_progress: bool = True
) -> Index:
  """Reads all files once and returns their index.

  Args:
    paths: the files.
    input_format: their format.
    shard_size: maximum number of records in a shard, bad ones included.
    shard_bytes: maximum size of a shard's records in bytes, which a process holds in memory; a longer record is a shard
      of its own.
    show_progress: False to show no progress.

  Raises:
    DataError: a file cannot be read, is damaged, or lacks a column in its header; or no file has a record.
  """
  cutter = _Cutter(shard_size, shard_bytes)
  inputs = []
  stats = [storage_of(path).stat(path) for path in paths]
  total = sum(stat[0] for stat in stats if stat)
  with Progress(total, show_progress and total > _SLOW_BYTES, "indexing", "byte") as progress:
    for path, stat in zip(paths, stats, strict=True):
      if stat is None:
        raise DataError(f"{path} does not exist any more")
      first = cutter.records
      checksum = _index_file(path, input_format, cutter, progress)
      inputs.append(InputFile(path, *stat, checksum, first, cutter.records - first))
  if not cutter.records:
    raise DataError(f"{paths[0]}{' and the other files' * (len(paths) > 1)}: no records, expected sentences")
  return Index(tuple(inputs), cutter.finish())


def changed_input(inputs: Sequence[InputFile]) -> str | None:
  """Returns the path of a file that has changed since it was indexed; None if none has.

  Compares size and time of the last change. If only the time differs, as in a copy, it compares the bytes.
  """
  for file in inputs:
    stat = storage_of(file.path).stat(file.path)
    if stat is None or stat[0] != file.bytes:
      return file.path
    if stat[1] != file.changed:
      stream = Stream(file.path, "text", hashing=True)
      try:
        if stream.checksum() != file.sha256:
          return file.path
      finally:
        stream.close()
  return None


def _index_file(path, input_format, cutter, progress):
  """Adds a file's records to the cutter; returns the file's checksum."""
  stream = Stream(path, input_format.kind, hashing=True)
  try:
    offset, width, columns = find_columns(stream, input_format)
    cutter.begin_file(Span(path, offset, 1 + (width is not None), 0, width, columns))
    shown = 0
    for _, taken in frames(stream, input_format.kind, input_format.max_bytes):
      cutter.add(taken)
      if stream.count > shown:
        progress.update(stream.count - shown)
        shown = stream.count
    checksum = stream.checksum()
    progress.update(stream.count - shown)
    return checksum
  finally:
    stream.close()


class _Cutter:
  """Cuts a sequence of records into shards, and a shard into spans, one per file."""

  def __init__(self, shard_size, shard_bytes):
    self.records = 0
    self._limits = shard_size, shard_bytes
    self._shards, self._spans = [], []
    self._first = self._bytes = 0  # first record and bytes of the current shard
    self._span, self._in_span, self._span_bytes = None, 0, 0  # where the current span begins, its records and bytes

  def begin_file(self, span):
    """Continues with the records of another file; `span` is empty, at the file's first record."""
    self._close_span()
    self._span = span

  def add(self, taken):
    """Adds the file's next record, of `taken` bytes."""
    size, size_bytes = self._limits
    in_shard = self.records - self._first
    if in_shard and (in_shard >= size or self._bytes + taken > size_bytes):
      self._close_shard()
    self.records, self._bytes = self.records + 1, self._bytes + taken
    self._in_span, self._span_bytes = self._in_span + 1, self._span_bytes + taken

  def finish(self):
    """Returns the `ShardTask`s."""
    self._close_shard()
    return tuple(self._shards)

  def _close_span(self):
    """Adds the current span to the shard; the file's next span begins at its end."""
    if self._in_span:
      span = self._span
      self._spans.append(dataclasses.replace(span, records=self._in_span))
      self._span = dataclasses.replace(span, offset=span.offset + self._span_bytes, line=span.line + self._in_span)
    self._in_span = self._span_bytes = 0

  def _close_shard(self):
    self._close_span()
    if self._spans:
      self._shards.append(ShardTask(len(self._shards), self._first, tuple(self._spans)))
    self._spans, self._first, self._bytes = [], self.records, 0
