"""Reads the records of a shard, from any place in the input files."""

import dataclasses
import itertools

from bert_flow_tf.corpus.formats import BadRecord, InputFormat, Record
from bert_flow_tf.corpus.framing import Stream, frames
from bert_flow_tf.corpus.index import ShardTask
from bert_flow_tf.corpus.records import SKIPPED, parse
from bert_flow_tf.data.lines import TextError
from bert_flow_tf.errors import DataError


@dataclasses.dataclass
class ShardRecords:
  """Records of a shard.

  Attributes:
    records: those to embed.
    bad: those that cannot be embedded.
    skipped: number of empty ones.
  """

  records: list[Record] = dataclasses.field(default_factory=list)
  bad: list[BadRecord] = dataclasses.field(default_factory=list)
  skipped: int = 0


class ShardReader:
  """Reader of shards. It keeps the last file open, so that consecutive shards unpack a gzipped file once.

  Args:
    input_format: format of the input files.
  """

  def __init__(self, input_format: InputFormat) -> None:
    self._format = input_format
    self._stream = None

  def read(self, task: ShardTask) -> ShardRecords:
    """Returns the records of a shard.

    Raises:
      DataError: a file cannot be read, or is shorter than when it was indexed.
    """
    shard, number = ShardRecords(), task.first_record
    for span in task.spans:
      stream = self._open(span)
      records = itertools.islice(frames(stream, self._format.kind, self._format.max_bytes), span.records)
      line = span.line
      for raw, _ in records:
        self._add(shard, raw, line, span, number)
        line, number = line + 1, number + 1
      if line - span.line < span.records:
        raise DataError(f"{span.path} ends before line {line}: it was changed during this run")
    return shard

  def close(self) -> None:
    """Closes the open file."""
    if self._stream is not None:
      self._stream.close()
    self._stream = None

  def _add(self, shard, raw, line, span, number):
    """Parses a record and adds it to the shard."""
    try:
      parsed = parse(raw, line, span, self._format)
    except TextError as error:
      shard.bad.append(BadRecord(span.path, line, error.kind, str(error)))
      return
    if parsed is SKIPPED:
      shard.skipped += 1
    else:
      name, text = parsed
      shard.records.append(Record(str(number) if name is None else name, text, span.path, line))

  def _open(self, span):
    """Returns the stream of a span's file, at the span's offset."""
    if self._stream is None or self._stream.path != span.path:
      self.close()
      self._stream = Stream(span.path, self._format.kind)
    with self._stream.errors():
      self._stream.file.seek(span.offset)
    return self._stream
