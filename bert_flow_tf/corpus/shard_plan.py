"""Plan of a run: which records of the input files are in which shard. Reader of a shard's records."""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.data.files.formats import open_reader
from bert_flow_tf.data.files.input_format import InputFormat
from bert_flow_tf.data.files.source import Reader, TextError
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.io import storage
from bert_flow_tf.progress import Progress
from bert_flow_tf.vectors.shards import BadRecord, Record, ShardRecords

# Planning shows its progress for input of more bytes than this, each time that so many records are read.
_SLOW_BYTES, _SHOWN_RECORDS = 1 << 28, 1 << 14
# A comparison of ids shows its progress for more records than this.
_MANY_RECORDS = 1 << 21


@dataclasses.dataclass(frozen=True)
class InputFile:
  """Input file as it was when it was read; `first_record` is its first record's number in the corpus, from 0."""

  path: str
  bytes: int
  changed: float
  sha256: str
  first_record: int
  records: int


@dataclasses.dataclass(frozen=True)
class Span:
  """Records of one file; the first is record `line`, from 1 with a header, at byte `offset` of the unpacked file."""

  path: str
  offset: int
  line: int
  records: int


@dataclasses.dataclass(frozen=True)
class ShardTask:
  """Records of the shard `number`, from 0; the first of them is the record `first_record` of the corpus, from 0."""

  number: int
  first_record: int
  spans: tuple[Span, ...]

  @property
  def records(self) -> int:
    """Number of records."""
    return sum(span.records for span in self.spans)


@dataclasses.dataclass(frozen=True)
class ShardPlan:
  """Input files of a run, and the shards that their records are assigned to."""

  inputs: tuple[InputFile, ...]
  shards: tuple[ShardTask, ...]

  @property
  def records(self) -> int:
    """Number of records in all files."""
    return sum(file.records for file in self.inputs)

  @classmethod
  def from_json(cls, values: dict[str, Any]) -> "ShardPlan":
    """Returns the plan of `dataclasses.asdict`; other values raise a KeyError or a TypeError."""
    shards = []
    for shard in values["shards"]:
      spans = [Span(**span) for span in shard["spans"]]
      shards.append(ShardTask(shard["number"], shard["first_record"], tuple(spans)))
    inputs = [InputFile(**file) for file in values["inputs"]]
    return cls(tuple(inputs), tuple(shards))


def find_inputs(patterns: Sequence[str]) -> list[str]:
  """Returns the paths of the files that match globs, in the order of the globs, each file once.

  Files of 0 bytes, as other engines write for parts without rows, are left out, unless all are.
  """
  if not patterns:
    raise ConfigError("input: missing; expected a file, as in --input=FILE or FILE alone", argument="input")
  paths: dict[str, None] = {}
  for pattern in patterns:
    matches = storage.find_files(pattern)
    if not matches:
      raise ConfigError(f"input={pattern}: {_no_input(pattern)}", argument="input")
    paths.update(dict.fromkeys(matches))
  stats = {path: storage.stat(path) or (1, 0.0) for path in paths}
  return [path for path, (size, _) in stats.items() if size] or list(paths)


def _no_input(pattern: str) -> str:
  """Returns what is found in place of the files of a pattern, and what is expected."""
  path = storage.absolute(pattern)
  is_local = bool(pattern) and storage.is_local(pattern)
  if is_local and os.path.isdir(path):
    folder = pattern.rstrip("/")
    files = f"files, as '{folder}/*' for all in the folder, or '{folder}/**' for those in its folders, too"
    return f"a folder; expected {storage.expected_file(path, files)}"
  if is_local and os.path.exists(path) and pathlib.Path(path).is_fifo():
    expected = "a file, or - for standard input, as in COMMAND | bert-flow ..."
    return f"a pipe, which can be read only once; expected {expected}"
  if storage.is_list(pattern):
    return f"no such file; several are a list of the flag: --input={pattern}"
  return "no such file; expected files, or globs, whose * leaves out folders, and names that begin with _ or ."


def plan_shards(paths: Sequence[str], input_format: InputFormat, shard_size: int, shard_bytes: int) -> ShardPlan:
  """Returns the plan of files; a shard has at most `shard_size` records of together `shard_bytes` bytes.

  A longer record has a shard for itself.
  """
  cutter = _Cutter(shard_size, shard_bytes)
  # Size and time are read before the content: a file that changes meanwhile differs at the end of the run.
  # A file that was deleted is an error when it is opened.
  stats = [storage.stat(path) or (0, 0.0) for path in paths]
  total = sum(size for size, _ in stats)
  inputs = []
  with Progress(total, total > _SLOW_BYTES, "indexing", "byte") as progress:
    for path, (size, changed) in zip(paths, stats, strict=True):
      first = cutter.records
      checksum = _sha256(path)
      _plan_file(path, size, input_format, cutter, progress)
      inputs.append(InputFile(path, size, changed, checksum, first, cutter.records - first))
  if not cutter.records:
    raise DataError(f"{', '.join(paths)[:200]}: no records, expected sentences")
  return ShardPlan(tuple(inputs), cutter.finish())


def changed_input(inputs: Sequence[InputFile]) -> str | None:
  """Returns the path of a file whose size or bytes have changed since the shards were planned; None if none has."""
  for file in inputs:
    stat = storage.stat(file.path)
    if stat == (file.bytes, file.changed):
      continue
    if stat is None or stat[0] != file.bytes or _sha256(file.path) != file.sha256:
      return file.path
  return None


def _plan_file(path, size_of_file, input_format, cutter, progress):
  """Adds a file's records to the cutter."""
  with contextlib.closing(open_reader(path, input_format)) as reader:
    offset, line, shown = reader.start, reader.first, 0
    for _, size in reader.records(offset, line):
      cutter.add(path, offset, line, size)
      offset += size
      line += 1
      if line % _SHOWN_RECORDS == 0:
        progress.update(reader.position - shown)
        shown = reader.position
    progress.update(size_of_file - shown)


def _sha256(path):
  with storage.open_file(path) as file:
    return hashlib.file_digest(file, "sha256").hexdigest()


class _Cutter:
  """Cuts a sequence of records into shards, and a shard into spans, one per file."""

  def __init__(self, shard_size, shard_bytes):
    self.records = 0
    self._shard_size, self._shard_bytes = shard_size, shard_bytes
    # Per shard: the number of its first record, and the values of its spans.
    self._shards: list[tuple[int, list]] = []
    # Records and bytes of the last shard.
    self._size = self._bytes = 0

  def add(self, path, offset, line, size):
    """Adds the next record, of `size` bytes, at a position in a file."""
    if not self._shards or self._size >= self._shard_size or self._bytes + size > self._shard_bytes:
      self._shards.append((self.records, []))
      self._size = self._bytes = 0
    spans = self._shards[-1][1]
    if not spans or spans[-1][0] != path:
      spans.append([path, offset, line, 0])
    spans[-1][-1] += 1
    self._size += 1
    self._bytes += size
    self.records += 1

  def finish(self):
    """Returns the `ShardTask`s."""
    tasks = []
    for number, (first, spans) in enumerate(self._shards):
      tasks.append(ShardTask(number, first, tuple(Span(*values) for values in spans)))
    return tuple(tasks)


class ShardReader:
  """Reader of shards. It keeps the last file open, so that consecutive shards read and unpack a file once."""

  def __init__(self, input_format: InputFormat) -> None:
    self._format = input_format
    self._file: Reader | None = None
    # The records that were not read yet, and the line of the next record.
    self._rest: Iterator[tuple[object, int]] = iter(())
    self._next = 0

  def read(self, task: ShardTask) -> ShardRecords:
    """Returns the records of a shard; raises a DataError if a file has become shorter or unreadable."""
    shard = ShardRecords()
    number = task.first_record
    for span in task.spans:
      if self._file is None or self._file.path != span.path:
        self.close()
        self._file = open_reader(span.path, self._format)
        self._next = 0
      if self._next != span.line:
        self._rest = self._file.records(span.offset, span.line)
      self._next = 0  # until all of the span is read
      for line in range(span.line, span.line + span.records):
        record, _ = next(self._rest, (None, 0))
        if record is None:
          raise DataError(f"{span.path} ends before line {line}: it was changed during this run")
        try:
          parsed = self._file.parse(record)
        except TextError as error:
          shard.bad.append(BadRecord(span.path, line, error.kind, str(error)))
        else:
          _add(shard, parsed, span.path, line, number)
        number += 1
      self._next = span.line + span.records
    return shard

  def close(self) -> None:
    """Closes the open file."""
    if self._file is not None:
      self._file.close()
    self._file = None


def repeated_ids(plan: ShardPlan, input_format: InputFormat) -> tuple[int, int, str]:
  """Returns the number of ids that several records have, the number of these records, and the first such id.

  It reads the files, and keeps 8 bytes per record.
  """
  hashes = [np.fromiter(map(hash, ids), np.int64, len(ids)) for ids in _ids(plan, input_format)]
  each = np.concatenate(hashes)
  distinct, counts = np.unique(each, return_counts=True)
  repeated = distinct[counts > 1]
  if not len(repeated):
    return 0, 0, ""
  wanted = each[np.isin(each, repeated)][0]
  first = next(name for ids in _ids(plan, input_format) for name in ids if hash(name) == wanted)
  return len(repeated), int(counts[counts > 1].sum()), first


def _ids(plan, input_format):
  """Yields the ids of each shard's records."""
  show = plan.records > _MANY_RECORDS
  with (
    contextlib.closing(ShardReader(input_format)) as reader,
    Progress(plan.records, show, "comparing ids", "record") as progress,
  ):
    for task in plan.shards:
      yield [record.id for record in reader.read(task).records]
      progress.update(task.records)


def _add(shard, parsed, path, line, number):
  """Adds a parsed record; without an id its id is its number in the corpus, from 1. `number` counts from 0."""
  if parsed is None:
    shard.skipped += 1
    return
  name, text = parsed
  if name is None:
    name = str(number + 1)
  shard.records.append(Record(name, text, path, line))
