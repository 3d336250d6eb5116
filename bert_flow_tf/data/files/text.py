"""Reader of a text file, whose lines are the records."""

from collections.abc import Iterator

from bert_flow_tf.data.files.source import Reader, TextError, decode_line


class TextReader(Reader[bytes]):
  """Reader of lines."""

  def row(self, record: bytes) -> list[str]:
    """See `Reader.row`."""
    return [decode_line(record)]

  def fields(self, record: bytes) -> list[str]:
    """See `Reader.fields`."""
    return [decode_line(record)]

  def _records(self, offset: int, number: int) -> Iterator[tuple[bytes | TextError, int]]:
    return self.source.lines(offset, self._format.max_bytes)
