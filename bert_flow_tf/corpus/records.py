"""Formats of the input files, and parsing of a record's bytes into a sentence and its id."""

import dataclasses

from bert_flow_tf.data.lines import BOM, TextError, decode, decode_line
from bert_flow_tf.progress import counted

TEXT, TSV, TFRECORD = "text", "tsv", "tfrecord"
KINDS = (TEXT, TSV, TFRECORD)
# Treatment of a record whose sentence is empty or white space.
SKIP, BAD, EMBED = "skip", "bad", "embed"
# Kinds of values that a TFRecord's features may have: of the sentence, of the id.
_FEATURES = (("bytes_list",), ("bytes_list", "int64_list"))


@dataclasses.dataclass(frozen=True)
class InputFormat:
  """Format of all input files of a run.

  Attributes:
    kind: "text" (one sentence per line), "tsv" or "tfrecord" (of tf.train.Example); each may be compressed.
    column: the sentence's column: in a TSV its name or its number from 1, in a TFRecord the feature's name.
    id_column: the id's column; None to number the records from 0.
    header: whether the first line of a TSV names its columns.
    empty: "skip" empty sentences, treat them as "bad" records, or "embed" them.
    max_bytes: maximum size of a record; a longer one is a bad record.
  """

  kind: str = TEXT
  column: str | None = None
  id_column: str | None = None
  header: bool = False
  empty: str = SKIP
  max_bytes: int = 1 << 20

  @property
  def columns(self) -> list[str]:
    """Columns of the sentence and, unless the records are numbered, of the id."""
    return [name for name in (self.column, self.id_column) if name is not None]


@dataclasses.dataclass(frozen=True)
class Columns:
  """Columns of one file: a TSV's by their numbers from 0, a TFRecord's by their names.

  Attributes:
    places: of the sentence and of the id, if the records have one.
    width: number of a TSV's columns; None without a header.
  """

  places: tuple = ()
  width: int | None = None


@dataclasses.dataclass(frozen=True)
class Record:
  """Sentence to embed, from line `line` (from 1) of the file `path`; in a TFRecord, from that record."""

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


class Unreadable(TextError):
  """Error of one record; it becomes a `BadRecord`."""


def kind_of(path: str) -> str:
  """Returns the kind of a file by its name (notes.tsv.gz, part.tfrecord-00000-of-00010), text by default."""
  endings = path.lower().rsplit("/", 1)[-1].split(".")[1:]
  if any(ending.startswith("tfrecord") for ending in endings):
    return TFRECORD
  if "tsv" in endings[-2:]:
    return TSV
  return TEXT


def is_number(column: str) -> bool:
  """Returns True for a column given by its number, False for a name."""
  return column.isascii() and column.isdigit()


def parse(
  raw: bytes | Unreadable, line: int, columns: Columns, input_format: InputFormat
) -> tuple[str | None, str] | None:
  """Returns (id, or None if records are numbered; sentence) of a record of `frames`; None for one to be skipped.

  Raises a TextError for a bad record.
  """
  if isinstance(raw, Unreadable):
    raise raw
  name = None
  if input_format.kind == TFRECORD:
    fields = _example_values(raw, columns.places)
  elif line == 1:
    fields = [decode_line(raw.removeprefix(BOM))]
  else:
    fields = [decode_line(raw)]
  if input_format.kind == TSV and (fields[0] or input_format.empty != SKIP):  # an empty line has no columns
    fields = _column_values(fields[0].split("\t"), columns)
  if len(fields) == 2:
    name = fields[1]
    if not name or any(mark in name for mark in "\n\r\0"):
      raise Unreadable("bad id", "the id is empty, or has a line break or NUL")
  if not fields[0].strip() and input_format.empty != EMBED:
    if input_format.empty == SKIP:
      return None
    raise Unreadable("empty", "the sentence is empty")
  return name, fields[0]


def _column_values(fields, columns):
  """Returns the sentence and the id, if it has a column, of a TSV's line."""
  expected = columns.width or max(columns.places) + 1
  if columns.width is not None and len(fields) != expected:
    raise Unreadable("columns", f"{counted(len(fields), 'column')}, expected {expected}, as in the header")
  if len(fields) < expected:
    raise Unreadable("columns", f"{counted(len(fields), 'column')}, expected at least {expected}")
  return [fields[place] for place in columns.places]


def _example_values(raw, features):
  """Returns the sentence and the id, if it has a feature, of a serialized tf.train.Example."""
  import tensorflow as tf  # only for such files
  from google.protobuf.message import DecodeError

  try:
    example = tf.train.Example.FromString(raw).features.feature
  except DecodeError as error:
    raise Unreadable("no Example", "the record is not a tf.train.Example") from error
  result = []
  for name, allowed in zip(features, _FEATURES, strict=False):
    kind = example[name].WhichOneof("kind") or "nothing"
    values = getattr(example[name], kind).value if kind in allowed else []
    if len(values) != 1:
      content = f"{counted(len(values), 'value')} ({kind})"
      raise Unreadable("columns", f"feature {name!r} holds {content}, expected one value ({' or '.join(allowed)})")
    if kind == "bytes_list":
      result.append(decode(values[0], f"feature {name!r}"))
    else:
      result.append(str(values[0]))
  return result
