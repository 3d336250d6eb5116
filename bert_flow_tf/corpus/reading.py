"""Reads the records of shards, and parses them."""

import dataclasses
from typing import Any

from bert_flow_tf.corpus.readers import InputFormat, TextReader, open_reader
from bert_flow_tf.data.lines import TextError
from bert_flow_tf.errors import DataError


@dataclasses.dataclass(frozen=True)
class Record:
  """Sentence to embed, from line `line` (from 1) of the file `path`; where records are no lines, from that record."""

  id: str
  text: str
  path: str
  line: int


@dataclasses.dataclass(frozen=True)
class BadRecord:
  """Record that cannot be embedded; the run counts each `kind`, and `reason` is for people."""

  path: str
  line: int
  kind: str
  reason: str


@dataclasses.dataclass
class ShardRecords:
  """Records of a shard: those to embed, the bad ones, and the number of empty ones, which are skipped."""

  records: list[Record] = dataclasses.field(default_factory=list)
  bad: list[BadRecord] = dataclasses.field(default_factory=list)
  skipped: int = 0


class ShardReader:
  """Reader of shards. It keeps the last file open, so that consecutive shards unpack a compressed file once."""

  def __init__(self, input_format: InputFormat) -> None:
    self._format = input_format
    self._file: TextReader | None = None

  def read(self, task: Any) -> ShardRecords:
    """Returns the records of an `index.ShardTask`; raises a DataError if a file has become shorter or unreadable."""
    shard = ShardRecords()
    number = task.first_record
    for span in task.spans:
      if self._file is None or self._file.path != span.path:
        self.close()
        self._file = open_reader(span.path, self._format)
      records = self._file.records(span.offset, span.line)
      for line in range(span.line, span.line + span.records):
        record, _ = next(records, (None, 0))
        if record is None:
          raise DataError(f"{span.path} ends before line {line}: it was changed during this run")
        try:
          parsed = self._file.parse(record)
        except TextError as error:
          shard.bad.append(BadRecord(span.path, line, error.kind, str(error)))
        else:
          _add(shard, parsed, span.path, line, number)
        number += 1
    return shard

  def close(self) -> None:
    """Closes the open file."""
    if self._file is not None:
      self._file.close()
    self._file = None


def _add(shard, parsed, path, line, number):
  """Adds a parsed record, whose id is its number in the corpus unless it has one."""
  if parsed is None:
    shard.skipped += 1
    return
  name, text = parsed
  if name is None:
    name = str(number)
  shard.records.append(Record(name, text, path, line))
