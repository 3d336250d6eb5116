"""Formats of the input files, and the records read from them."""

import dataclasses

from bert_flow_tf.data.lines import TextError

TEXT, TSV, TFRECORD = "text", "tsv", "tfrecord"
KINDS = (TEXT, TSV, TFRECORD)
# Treatment of a record whose sentence is empty or white space.
SKIP, BAD, EMBED = "skip", "bad", "embed"


@dataclasses.dataclass(frozen=True)
class InputFormat:
  """Format of all input files of a run.

  Attributes:
    kind: "text" (one sentence per line), "tsv" or "tfrecord" (of tf.train.Example); each may be gzipped.
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
  name = path.lower().rsplit("/", 1)[-1].removesuffix(".gz")
  if name.endswith(".tsv"):
    return TSV
  return TFRECORD if any(part.startswith("tfrecord") for part in name.split(".")[1:]) else TEXT


def is_number(column: str) -> bool:
  """Returns True for a column given by its number, False for a name."""
  return column.isascii() and column.isdigit()
