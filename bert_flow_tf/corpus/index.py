"""Which records make up which shard: input files read once, before anything is embedded."""

import dataclasses

from bert_flow_tf.corpus.framing import Stream, frames
from bert_flow_tf.corpus.records import find_columns
from bert_flow_tf.corpus.storage import storage_of
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.progress import Progress


@dataclasses.dataclass(frozen=True)
class InputFile:
  """An input file as it was when it was indexed.

  Attributes:
    path: where it is.
    bytes: its size, as stored.
    changed: seconds of its last change.
    sha256: of its bytes, as stored.
    first_record: the number, from 0, of its first record among all.
    records: how many it has, bad ones too, a header not.
  """

  path: str
  bytes: int
  changed: float
  sha256: str
  first_record: int
  records: int


@dataclasses.dataclass(frozen=True)
class Span:
  """Records of one file that stand together.

  Attributes:
    path: the file.
    offset: where the first begins in the unpacked file, in bytes.
    line: its number in the file, from 1, a header counted.
    records: how many.
    width: the columns that the header has; None without one.
    columns: where sentence and id are, as `records.find_columns` gives it.
  """

  path: str
  offset: int
  line: int
  records: int
  width: int | None
  columns: tuple


@dataclasses.dataclass(frozen=True)
class ShardTask:
  """The records of one shard.

  Attributes:
    number: from 0.
    first_record: the number of the first among all records.
    spans: `Span`s.
  """

  number: int
  first_record: int
  spans: tuple

  @property
  def records(self):
    """How many."""
    return sum(span.records for span in self.spans)


@dataclasses.dataclass(frozen=True)
class Index:
  """What a run reads: `InputFile`s and the `ShardTask`s that they are cut into."""

  inputs: tuple
  shards: tuple

  @property
  def records(self):
    """How many there are in all."""
    return sum(file.records for file in self.inputs)

  def to_json(self):
    """Dict of json values."""
    return dataclasses.asdict(self)

  @classmethod
  def from_json(cls, values):
    """The index that `to_json` wrote; KeyError, TypeError or AttributeError where it did not."""
    shards = []
    for shard in values["shards"]:
      spans = (Span(**{**span, "columns": tuple(span["columns"])}) for span in shard["spans"])
      shards.append(ShardTask(**{**shard, "spans": tuple(spans)}))
    return cls(tuple(InputFile(**file) for file in values["inputs"]), tuple(shards))


def find_inputs(patterns):
  """Paths of the files that globs name: in the order of the globs, each file once.

  Raises:
    ConfigError: a glob names no file.
  """
  found = {}
  for pattern in patterns:
    paths = storage_of(pattern).match(pattern) if pattern else []
    if not paths:
      raise ConfigError(f"--input: {pattern!r} names no file; expected files or globs such as 'corpus/*.txt.gz'")
    found.update(dict.fromkeys(paths))
  return list(found)


def build_index(paths, wanted, shard_records, shard_bytes, show_progress=True):
  """Reads all files once.

  Args:
    paths: of `find_inputs`.
    wanted: `InputFormat`.
    shard_records: the most records of a shard, bad ones too.
    shard_bytes: the most bytes of records in a shard: what one process holds; a longer record is a shard of its own.
    show_progress: as in `Progress`.

  Raises:
    DataError: a file cannot be read, is damaged, or lacks a column in its header; or there is no record at all.
  """
  cutter = _Cutter(shard_records, shard_bytes)
  inputs = []
  sizes = [storage_of(path).stat(path) for path in paths]
  total = sum(size for size, _ in filter(None, sizes))
  with Progress(total, show_progress and total > 1 << 28, "indexing", "byte") as progress:
    for path, stat in zip(paths, sizes, strict=True):
      if stat is None:
        raise DataError(f"{path} does not exist any more")
      before = cutter.records
      checksum = _index_file(path, wanted, cutter, progress)
      inputs.append(InputFile(path, *stat, checksum, before, cutter.records - before))
  if not cutter.records:
    raise DataError(
      f"{paths[0]}{' and the other files' if len(paths) > 1 else ''}: found no record, expected sentences"
    )
  return Index(tuple(inputs), cutter.finish())


def changed_input(inputs):
  """The path of a file that is not any more what was indexed; None where all are.

  Size and time of the last change are looked at; where the time alone differs, as in a copy, the bytes.
  """
  for file in inputs:
    storage = storage_of(file.path)
    stat = storage.stat(file.path)
    if stat is None or stat[0] != file.bytes:
      return file.path
    if stat[1] != file.changed:
      stream = Stream(storage, file.path, "text", hashing=True)
      try:
        if stream.checksum() != file.sha256:
          return file.path
      finally:
        stream.close()
  return None


def _index_file(path, wanted, cutter, progress):
  """Adds a file's records to the cutter; returns the file's checksum."""
  stream = Stream(storage_of(path), path, wanted.kind, hashing=True)
  try:
    offset, width, columns = find_columns(stream, wanted)
    cutter.begin_file(Span(path, offset, 1 + (width is not None), 0, width, columns))
    shown = 0
    for _, taken in frames(stream, wanted.kind, wanted.max_bytes):
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
  """Cuts a sequence of records into shards, and these into spans, one for each file."""

  def __init__(self, shard_records, shard_bytes):
    self.records = 0
    self._limits = shard_records, shard_bytes
    self._shards, self._spans = [], []
    self._first = self._bytes = 0  # of the shard that is being filled
    self._span, self._in_span, self._span_bytes = None, 0, 0  # where it began, what it has

  def begin_file(self, span):
    """Goes on with the records of another file, from an empty `Span` at its first."""
    self._close_span()
    self._span = span

  def add(self, taken):
    """Adds the file's next record, of `taken` bytes."""
    most, most_bytes = self._limits
    in_shard = self.records - self._first
    if in_shard and (in_shard >= most or self._bytes + taken > most_bytes):
      self._close_shard()
    self.records, self._bytes = self.records + 1, self._bytes + taken
    self._in_span, self._span_bytes = self._in_span + 1, self._span_bytes + taken

  def finish(self):
    """The `ShardTask`s."""
    self._close_shard()
    return tuple(self._shards)

  def _close_span(self):
    """The next span, if of the same file, begins where this one ends."""
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
