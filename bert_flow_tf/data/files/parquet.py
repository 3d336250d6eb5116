"""Reader of Parquet files, by pyarrow."""

import contextlib
import types
from collections.abc import Iterator, Sequence

from bert_flow_tf.data.files.input_format import InputFormat
from bert_flow_tf.data.files.source import (
  UNPACKING_ERRORS,
  FileSource,
  Reader,
  TextError,
  find_name,
  nearest_name,
  too_long,
)
from bert_flow_tf.errors import ConfigError, DataError, one_line


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

  def __init__(self, source: FileSource, input_format: InputFormat, columns: Sequence[str] | None = None) -> None:
    super().__init__(source, input_format, columns)
    parquet = import_parquet("input")
    with self._arrow_errors():
      self._table = parquet.ParquetFile(source.file)
      self.names = self._table.schema_arrow.names
    self._keys = [find_name(name, self.names) for name in self._columns]
    for name, key in zip(self._columns, self._keys, strict=True):
      if self.names.count(key) != 1:
        shown = ", ".join(name[:40] for name in self.names[:20])
        message = f"{source.path}: {self.names.count(key)} columns {name!r} ({shown}), expected exactly 1"
        if f"/{name}=" in source.path:  # a partition, as Spark, DuckDB and pyarrow write it
          message += f"; {name} is in the name of the folder alone, which is not read"
        raise DataError(message + (self.comma_hint or nearest_name(name, self.names)))

  def _check_text(self) -> None:
    """Raises a DataError if a column has lists, records or durations, or the sentence's dates, times or decimals."""
    import pyarrow as pa

    if self.any_type:
      return
    for place, key in enumerate(self._keys):
      kind, expected = self._table.schema_arrow.field(key).type, "text or numbers"
      is_unread = pa.types.is_nested(kind) or pa.types.is_duration(kind)
      if place == 0:  # the sentence
        expected = "text"
        is_unread = is_unread or pa.types.is_temporal(kind) or pa.types.is_decimal(kind)
      if is_unread:
        raise DataError(f"{self.path}: column {key!r} has values of the type {str(kind)[:80]}, expected {expected}")

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
    return self.texts(record)

  def rows(self, bad: list[DataError] | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yields the names of the columns alone, without reading a row."""
    yield 1, list(self.names)

  @contextlib.contextmanager
  def _arrow_errors(self) -> Iterator[None]:
    import pyarrow

    try:
      yield
    except pyarrow.ArrowNotImplementedError as error:
      message = f"{self.path}: has a column of a type that pyarrow does not read ({one_line(error)}); expected text or "
      message += "numbers of at most 64 bits: write the column as text, as col(NAME).cast(pl.String) of Polars does"
      raise DataError(message) from error
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
