"""The records of a shard, from wherever in the files they are."""

import dataclasses
import itertools

from bert_flow_tf.corpus.formats import BadRecord, Record, Unreadable
from bert_flow_tf.corpus.framing import Stream, frames
from bert_flow_tf.corpus.records import SKIPPED, parse
from bert_flow_tf.corpus.storage import storage_of
from bert_flow_tf.errors import DataError


@dataclasses.dataclass
class ShardRecords:
  """What was read of a shard.

  Attributes:
    records: list of `Record`, those to embed.
    bad: list of `BadRecord`.
    skipped: number of empty ones that were left out.
  """

  records: list = dataclasses.field(default_factory=list)
  bad: list = dataclasses.field(default_factory=list)
  skipped: int = 0


class ShardReader:
  """Reads shards; the file that was read last stays open, so that shards in a row read a gzipped file once.

  Args:
    wanted: `InputFormat`.
  """

  def __init__(self, wanted):
    self._wanted = wanted
    self._stream = None

  def read(self, task):
    """The `ShardRecords` of a `ShardTask`.

    Raises:
      DataError: a file cannot be read, or ends earlier than when it was indexed.
    """
    found, number = ShardRecords(), task.first_record
    for span in task.spans:
      stream = self._open(span)
      records = itertools.islice(frames(stream, self._wanted.kind, self._wanted.max_bytes), span.records)
      line = span.line
      for raw, _ in records:
        self._sort(raw, line, span, number, found)
        line, number = line + 1, number + 1
      if line - span.line < span.records:
        raise DataError(f"{span.path} ends before line {line}: it was changed while this run reads it")
    return found

  def close(self):
    """Closes the open file."""
    if self._stream is not None:
      self._stream.close()
    self._stream = None

  def _sort(self, raw, line, span, number, found):
    """Puts a record where it belongs."""
    try:
      read = parse(raw, line, span, self._wanted)
    except Unreadable as error:
      found.bad.append(BadRecord(span.path, line, error.kind, str(error)))
      return
    if read is SKIPPED:
      found.skipped += 1
    else:
      name, text = read
      found.records.append(Record(str(number) if name is None else name, text, span.path, line))

  def _open(self, span):
    """The stream of a span's file, at its offset."""
    if self._stream is None or self._stream.path != span.path:
      self.close()
      self._stream = Stream(storage_of(span.path), span.path, self._wanted.kind)
    with self._stream.errors():
      self._stream.file.seek(span.offset)
    return self._stream
