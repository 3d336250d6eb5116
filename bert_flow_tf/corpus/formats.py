"""What an input file is: how it is cut into records, and how a record is read."""

import dataclasses

TEXT, TSV, TFRECORD = "text", "tsv", "tfrecord"
KINDS = (TEXT, TSV, TFRECORD)
# What becomes of a record whose sentence is empty or white space.
SKIP, BAD, EMBED = "skip", "bad", "embed"


@dataclasses.dataclass(frozen=True)
class InputFormat:
  """How records are read; all input files of a run have the same.

  Attributes:
    kind: "text" (a sentence a line), "tsv" or "tfrecord" (of tf.train.Example); each may be gzipped.
    column: where the sentence is: in a TSV a column's name or its number from 1, in a TFRecord a feature's name.
    id_column: where a record's id is, in the same way; None to number the records.
    header: whether a TSV's first line names its columns.
    empty: "skip" empty sentences, treat them as "bad" records, or "embed" them.
    max_bytes: the longest record that is read.
  """

  kind: str = TEXT
  column: str | None = None
  id_column: str | None = None
  header: bool = False
  empty: str = SKIP
  max_bytes: int = 1 << 20

  @property
  def named_columns(self):
    """The columns that are given, the sentence's first."""
    return [name for name in (self.column, self.id_column) if name is not None]


def kind_of(path):
  """The kind of a file by its name: notes.tsv.gz, part.tfrecord-00000-of-00010; text where it says nothing."""
  name = path.lower().rsplit("/", 1)[-1].removesuffix(".gz")
  if name.endswith(".tsv"):
    return TSV
  parts = name.split(".")[1:]
  return TFRECORD if any(part.startswith(("tfrecord", "tfrecords")) for part in parts) else TEXT


@dataclasses.dataclass(frozen=True)
class Record:
  """A sentence to embed, and where it stands: in line `line` (from 1) of `path`; in a TFRecord, its record."""

  id: str
  text: str
  path: str
  line: int


@dataclasses.dataclass(frozen=True)
class BadRecord:
  """What cannot be embedded: `kind` is counted, `reason` is for people."""

  path: str
  line: int
  kind: str
  reason: str


class Unreadable(Exception):
  """Raised while one record is read; it becomes a `BadRecord`."""

  def __init__(self, kind, reason):
    super().__init__(reason)
    self.kind, self.reason = kind, reason
