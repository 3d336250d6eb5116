"""Kinds of files of records, and how the records of a run's files are read: `InputFormat`."""

import dataclasses

from bert_flow_tf.io.settings import setting

TEXT, TSV, CSV, JSONL, PARQUET, TFRECORD = "text", "tsv", "csv", "jsonl", "parquet", "tfrecord"
KINDS = (TEXT, TSV, CSV, JSONL, PARQUET, TFRECORD)
# Treatment of a record whose sentence is empty or white space.
SKIP, BAD, EMBED = "skip", "bad", "embed"
MAX_RECORD_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class InputFormat:
  """Format of all input files of a run; a column is given by its name, or in TSV and CSV by its number from 1.

  `width` is the number of columns of each record of a TSV or CSV without a header; None if it is not known. The texts
  of `more_columns` stand after that of `column`, each after a blank; None for a single column.
  """

  kind: str = TEXT
  column: str | None = None
  id_column: str | None = None
  header: bool = False
  empty: str = SKIP
  max_bytes: int = MAX_RECORD_BYTES
  width: int | None = None
  more_columns: tuple[str, ...] | None = None

  @property
  def columns(self) -> list[str]:
    """Columns of the sentence and, unless the records are numbered, of the id."""
    return [name for name in (self.column, *(self.more_columns or ()), self.id_column) if name is not None]

  @property
  def texts(self) -> int:
    """Number of columns of the sentence."""
    return 1 + len(self.more_columns or ())


def record_limit() -> int:
  """Returns the field `max_record_bytes` of settings."""
  text = "Longest line or record of your own file in bytes; a longer one is an error, and for embed a bad record."
  return setting(MAX_RECORD_BYTES, text, named=False, minimum=1, maximum=1 << 30)


def is_column_number(column: str) -> bool:
  """Returns True for a column given by its number, False for a name."""
  return column.isascii() and column.isdigit()
