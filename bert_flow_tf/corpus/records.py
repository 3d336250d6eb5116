"""From a record's bytes to a sentence and its id, or to the reason why there is none."""

from bert_flow_tf.corpus.formats import EMBED, SKIP, TEXT, TFRECORD, TSV, Unreadable
from bert_flow_tf.corpus.framing import frames
from bert_flow_tf.data.lines import BOM, TextError, count, decode, decode_line
from bert_flow_tf.errors import DataError

# In the place of a record that is skipped.
SKIPPED = None


def find_columns(stream, wanted):
  """Where the sentence and the id of a file are, from its header if it has one, which is read.

  Args:
    stream: the `Stream` at its beginning.
    wanted: `InputFormat`.

  Returns:
    (bytes of the header, width, positions): how many columns the header has, or None without one; of the sentence and
    of the id, if there is one, the column counted from 0 in a TSV. A TFRecord's features keep their names.

  Raises:
    DataError: the header lacks a column, or has it twice.
  """
  if wanted.kind != TSV:
    return 0, None, tuple(wanted.named_columns)
  if not wanted.header:
    return 0, None, tuple(int(name) - 1 for name in wanted.named_columns)
  raw, taken = next(frames(stream, TSV, wanted.max_bytes), (b"", 0))
  try:
    names = _text(raw.removeprefix(BOM) if isinstance(raw, bytes) else raw).split("\t")
  except Unreadable as error:
    raise DataError(f"{stream.path}, line 1: expected the names of columns: {error}") from error
  positions = []
  for name in wanted.named_columns:
    if names.count(name) == 1:
      positions.append(names.index(name))
    elif name not in names and name.isascii() and name.isdigit() and 0 < int(name) <= len(names):
      positions.append(int(name) - 1)
    else:
      found = "two columns" if name in names else "no column"
      shown = ", ".join(name[:40] for name in names[:20]) or "nothing"
      raise DataError(f"{stream.path}, line 1: found {found} {name!r} in the header ({shown}), expected one")
  return taken, len(names), tuple(positions)


def parse(raw, line, span, wanted):
  """Reads one record.

  Args:
    raw: bytes, or the `Unreadable` that `frames` gave.
    line: its number in the file, from 1.
    span: `Span` of the file, for its columns.
    wanted: `InputFormat`.

  Returns:
    (id, or None where records are numbered; sentence); SKIPPED for an empty one that is to be skipped.

  Raises:
    Unreadable: it is a bad record.
  """
  if wanted.kind == TFRECORD:
    name, text = _parse_example(raw, span.columns)
  else:
    raw = raw.removeprefix(BOM) if line == 1 and isinstance(raw, bytes) else raw
    if raw == b"" and wanted.empty == SKIP:  # also in a TSV, where it has no columns
      return SKIPPED
    text = _text(raw)
    name, text = (None, text) if wanted.kind == TEXT else _pick(text.split("\t"), span)
  if name is not None and (not name or any(mark in name for mark in "\n\r\0")):
    raise Unreadable("bad id", "the id is empty" if not name else "a line break or NUL in the id")
  if not text.strip() and wanted.empty != EMBED:
    if wanted.empty == SKIP:
      return SKIPPED
    raise Unreadable("empty", "the sentence is empty")
  return name, text


def _text(raw):
  """A line's text."""
  if isinstance(raw, Unreadable):
    raise raw
  try:
    return decode_line(raw)
  except TextError as error:
    raise Unreadable(error.kind, str(error)) from error


def _pick(fields, span):
  """(id, sentence) of a TSV's line."""
  expected = max(span.columns) + 1 if span.width is None else span.width
  if len(fields) < expected or (span.width is not None and len(fields) > expected):
    least = "at least " if span.width is None else ""
    header = "" if span.width is None else ", as in the header"
    raise Unreadable("columns", f"{count(len(fields), 'column')}, expected {least}{expected}{header}")
  text, *names = (fields[position] for position in span.columns)
  return (names[0] if names else None), text


def _parse_example(raw, features):
  """(id, sentence) of a serialised tf.train.Example."""
  import tensorflow as tf  # where there are such files alone
  from google.protobuf.message import DecodeError

  if isinstance(raw, Unreadable):
    raise raw
  try:
    found = tf.train.Example.FromString(raw).features.feature
  except DecodeError as error:
    raise Unreadable("no Example", "the record is no tf.train.Example") from error
  values = []
  for place, name in enumerate(features):
    kind = found[name].WhichOneof("kind") if name in found else None
    held = list(getattr(found[name], kind).value) if kind else []
    allowed = ("bytes_list",) if place == 0 else ("bytes_list", "int64_list")
    if len(held) != 1 or kind not in allowed:
      what = f"{count(len(held), 'value')} ({kind})" if kind else "nothing"
      raise Unreadable("columns", f"feature {name!r} holds {what}, expected one value ({' or '.join(allowed)})")
    try:
      values.append(decode(held[0], f"feature {name!r}") if kind == "bytes_list" else str(held[0]))
    except TextError as error:
      raise Unreadable(error.kind, str(error)) from error
  text, *names = values
  return (names[0] if names else None), text
