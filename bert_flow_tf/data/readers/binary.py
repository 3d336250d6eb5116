"""Readers of all kinds of files: of Parquet and TFRecords here, of text in `text`."""

import contextlib
import functools
import os
import types
from collections.abc import Iterator, Sequence

from absl import logging

from bert_flow_tf.data.readers.delimited import CsvReader, QuotedTsvReader, TsvReader, is_quoted
from bert_flow_tf.data.readers.lines import TextError, decode
from bert_flow_tf.data.readers.text import (
  CSV,
  JSONL,
  PARQUET,
  TEXT,
  TFRECORD,
  TSV,
  UNPACKING_ERRORS,
  InputFormat,
  JsonReader,
  Reader,
  TextReader,
  find_name,
  kind_of,
  texts_of,
  too_long,
)
from bert_flow_tf.errors import ConfigError, DataError, one_line
from bert_flow_tf.progress import counted

# Kinds of values that a TFRecord's features may have: of the sentence, of the id.
_FEATURES = (("bytes_list",), ("bytes_list", "int64_list"))
# Bytes of a record in a TFRecord file besides its content: the length and two checksums.
_FRAME = 16
# Bytes of a TSV by which its quotation marks are judged.
_HEAD = 1 << 23


def import_parquet(argument: str) -> types.ModuleType:
  """Returns pyarrow.parquet; a ConfigError names the argument that asks for it if it is not installed."""
  try:
    import pyarrow.parquet as parquet
  except ImportError as error:
    message = f"{argument}: Parquet files need pyarrow, which cannot be imported ({error}): pip install pyarrow"
    raise ConfigError(message, argument=argument) from error
  return parquet


class ParquetReader(Reader[tuple[object, ...]]):
  """Reader of columns of a Parquet file, whose records are found by their number alone."""

  unit = "row"

  def __init__(self, path: str, input_format: InputFormat, columns: Sequence[str] | None = None) -> None:
    super().__init__(path, input_format, columns)
    parquet = import_parquet("input")
    with self._arrow_errors():
      self._table = parquet.ParquetFile(self._file)
      self.names = self._table.schema_arrow.names
    self._keys = [find_name(name, self.names) for name in self._columns]
    for name, key in zip(self._columns, self._keys, strict=True):
      if self.names.count(key) != 1:
        shown = ", ".join(name[:40] for name in self.names[:20])
        raise DataError(f"{path}: {self.names.count(key)} columns {name!r} ({shown}), expected exactly 1")

  def _check_text(self) -> None:
    """Raises a DataError if the sentence's column has dates, times, decimals or records."""
    import pyarrow as pa

    for key in self._keys[: not self.any_type]:
      kind = self._table.schema_arrow.field(key).type
      if pa.types.is_temporal(kind) or pa.types.is_decimal(kind) or pa.types.is_nested(kind):
        raise DataError(f"{self.path}: column {key!r} has values of the type {str(kind)[:80]}, expected text")

  @property
  def position(self) -> int:
    """0: its parts are read in any order."""
    return 0

  def _records(self, offset: int, number: int) -> Iterator[tuple[tuple[object, ...] | TextError, int]]:
    self._check_text()
    # Leave out the groups of rows before the first record.
    before, groups = number - 1, []
    for group in range(self._table.num_row_groups):
      rows = self._table.metadata.row_group(group).num_rows
      if groups or before < rows:
        groups.append(group)
      else:
        before -= rows
    names = self._keys
    batches = self._table.iter_batches(row_groups=groups, columns=list(dict.fromkeys(names)), batch_size=4096)
    with self._arrow_errors():
      for batch in batches:
        rest = batch.slice(min(before, len(batch)))
        before -= len(batch) - len(rest)
        columns = [_values(rest.column(name)) for name in names]
        for values in zip(*columns, strict=True):
          size = len(values[0]) if values and isinstance(values[0], bytes) else 0
          record: tuple[object, ...] | TextError = values
          if size > self._format.max_bytes:
            record = too_long(f"the sentence has {size} bytes", self._format.max_bytes)
          yield record, size

  def fields(self, record: tuple[object, ...]) -> list[str]:
    """See `Reader.fields`."""
    return texts_of(self._columns, record, self.any_type)

  @contextlib.contextmanager
  def _arrow_errors(self) -> Iterator[None]:
    import pyarrow

    try:
      yield
    except (pyarrow.ArrowException, OSError, *UNPACKING_ERRORS) as error:
      raise DataError(f"{self.path}: damaged, or not a Parquet file ({one_line(error)})") from error


def _values(column):
  """Returns the values of an Arrow array as a list; text, which may be damaged, and dates as bytes."""
  import pyarrow as pa

  if pa.types.is_dictionary(column.type):
    column = column.dictionary_decode()
  if pa.types.is_string_view(column.type):
    column = column.cast(pa.large_string())
  if any(is_kind(column.type) for is_kind in (pa.types.is_date, pa.types.is_time, pa.types.is_timestamp)):
    column = column.cast(pa.string())  # Python has no nanoseconds
  if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
    column = column.cast(pa.large_binary())
  return column.to_pylist()


class TfRecordReader(Reader[bytes]):
  """Reader of the features of tf.train.Examples in a TFRecord file, which TensorFlow reads from its start."""

  unit = "record"

  @property
  def position(self) -> int:
    """0: TensorFlow opens the file itself."""
    return 0

  def _records(self, offset: int, number: int) -> Iterator[tuple[bytes | TextError, int]]:
    import tensorflow as tf  # only for these files

    compression = {"gz": "GZIP"}.get(self.packing, "")
    records = tf.data.TFRecordDataset(self.path, compression).skip(number - 1)
    limit = self._format.max_bytes
    try:
      for data in records.as_numpy_iterator():
        record: bytes | TextError = data
        if len(data) > limit:
          record = too_long(f"the record has {len(data)} bytes", limit)
        yield record, len(data) + _FRAME
    except tf.errors.OpError as error:
      raise DataError(f"{self.path}: damaged, or not a TFRecord file ({one_line(error)})") from error

  def fields(self, record: bytes) -> list[str]:
    """See `Reader.fields`."""
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    try:
      example = tf.train.Example.FromString(record).features.feature
    except DecodeError as error:
      raise TextError("no Example", "the record is not a tf.train.Example") from error
    fields = []
    for name, allowed in zip(self._columns, _FEATURES, strict=False):
      kind = example[name].WhichOneof("kind") or "nothing"
      values = getattr(example[name], kind).value if kind in allowed else []
      if len(values) != 1:
        content = f"{counted(len(values), 'value')} ({kind})"
        raise TextError("columns", f"feature {name!r} holds {content}, expected one value ({' or '.join(allowed)})")
      if kind == "bytes_list":
        fields.append(decode(values[0], f"feature {name!r}"))
      else:
        fields.append(str(values[0]))
    return fields


_READERS: dict[str, type[Reader]] = {
  TEXT: TextReader,
  TSV: TsvReader,
  CSV: CsvReader,
  JSONL: JsonReader,
  PARQUET: ParquetReader,
  TFRECORD: TfRecordReader,
}
KINDS = tuple(_READERS)


def open_reader(path: str, input_format: InputFormat, columns: Sequence[str] | None = None) -> Reader:
  """Returns the reader of a file; see `Reader`.

  A TSV whose columns are quoted is read as pandas writes it if its name ends in .tsv. In other files quotation marks
  are text, as in the texts of STS.
  """
  reader = _READERS[input_format.kind]
  if input_format.kind == TSV and _has_quotes(path):
    is_tsv = kind_of(path) == TSV
    _log_quotes(path, is_tsv)
    if is_tsv:
      reader = QuotedTsvReader
  return reader(path, input_format, columns)


def _has_quotes(path):
  """Returns whether the columns of a TSV are quoted as in CSV, by its first 8 MiB; see `is_quoted`."""
  if not os.path.isfile(path):
    return _judge_quotes(path)
  stat = os.stat(path)
  return _judge_once(path, stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=1024)
def _judge_once(path, size, changed):
  """Returns `_judge_quotes` of a file, which is opened several times, until its size or time changes."""
  return _judge_quotes(path)


def _judge_quotes(path):
  with contextlib.closing(TextReader(path, InputFormat())) as file:
    head = file.content(_HEAD + 1)
  return is_quoted(head[:_HEAD], len(head) <= _HEAD)


@functools.cache
def _log_quotes(path, is_tsv):
  """Logs once how the quotation marks of a file are read."""
  if is_tsv:
    logging.info("%s: columns are quoted as in CSV; the quotation marks around them are no text", path)
  else:
    logging.warning("%s: columns are quoted as in CSV; the quotation marks are read as text unless it is a .tsv", path)
