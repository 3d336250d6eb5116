"""Parses a record's bytes into a sentence and its id, or into the reason why it has none."""

from bert_flow_tf.corpus.formats import EMBED, SKIP, TFRECORD, TSV, InputFormat, Unreadable, is_number
from bert_flow_tf.corpus.framing import Stream, frames
from bert_flow_tf.data.lines import BOM, TextError, count, decode, decode_line
from bert_flow_tf.errors import DataError

# Returned in place of a record that is skipped.
SKIPPED = None


def find_columns(stream: Stream, input_format: InputFormat) -> tuple[int, int | None, tuple]:
  """Finds the columns of sentence and id in a file, and reads its header if it has one.

  Args:
    stream: the file, at its beginning.
    input_format: its format.

  Returns:
    (size of the header in bytes, number of its columns or None without a header, the columns). A column is a number
    from 0 in a TSV, a feature's name in a TFRecord.

  Raises:
    DataError: the header lacks a column, or has it twice.
  """
  if input_format.kind != TSV:
    return 0, None, tuple(input_format.columns)
  if not input_format.header:
    return 0, None, tuple(int(name) - 1 for name in input_format.columns)
  raw, taken = next(frames(stream, TSV, input_format.max_bytes), (b"", 0))
  try:
    if isinstance(raw, Unreadable):
      raise raw
    names = decode_line(raw).removeprefix("\ufeff").split("\t")
  except TextError as error:
    raise DataError(f"{stream.path}, line 1: expected the names of columns: {error}") from error
  positions = []
  for name in input_format.columns:
    if names.count(name) == 1:
      positions.append(names.index(name))
    elif name not in names and is_number(name) and 0 < int(name) <= len(names):
      positions.append(int(name) - 1)
    else:
      shown = ", ".join(name[:40] for name in names[:20]) or "nothing"
      raise DataError(
        f"{stream.path}, line 1: {names.count(name)} columns {name!r} in the header ({shown}), expected exactly 1"
      )
  return taken, len(names), tuple(positions)


def parse(raw: bytes | Unreadable, line: int, span, input_format: InputFormat) -> tuple[str | None, str] | None:
  """Parses one record.

  Args:
    raw: a record of `frames`.
    line: its number in the file, from 1.
    span: the `Span` that it is part of.
    input_format: the file's format.

  Returns:
    (id, or None if records are numbered; sentence); SKIPPED for an empty sentence that is to be skipped.

  Raises:
    TextError: it is a bad record.
  """
  if isinstance(raw, Unreadable):
    raise raw
  if input_format.kind == TFRECORD:
    text, *ids = _example_values(raw, span.columns)
  else:
    text, ids = decode_line(raw.removeprefix(BOM) if line == 1 else raw), []
    if input_format.kind == TSV and (text or input_format.empty != SKIP):  # an empty line has no columns
      text, *ids = _column_values(text.split("\t"), span)
  for name in ids:
    if not name or any(mark in name for mark in "\n\r\0"):
      raise Unreadable("bad id", "a line break or NUL in the id" if name else "the id is empty")
  if not text.strip() and input_format.empty != EMBED:
    if input_format.empty == SKIP:
      return SKIPPED
    raise Unreadable("empty", "the sentence is empty")
  return (ids[0] if ids else None), text


def _column_values(fields, span):
  """Returns the sentence and the id, if there is a column for it, of a TSV's line."""
  expected = max(span.columns) + 1 if span.width is None else span.width
  if len(fields) < expected or (span.width is not None and len(fields) > expected):
    wanted = f"at least {expected}" if span.width is None else f"{expected}, as in the header"
    raise Unreadable("columns", f"{count(len(fields), 'column')}, expected {wanted}")
  return [fields[position] for position in span.columns]


def _example_values(raw, features):
  """Returns the sentence and the id, if there is a feature for it, of a serialized tf.train.Example."""
  import tensorflow as tf  # only for such files
  from google.protobuf.message import DecodeError

  try:
    example = tf.train.Example.FromString(raw).features.feature
  except DecodeError as error:
    raise Unreadable("no Example", "the record is not a tf.train.Example") from error
  result = []
  for name, allowed in zip(features, (("bytes_list",), ("bytes_list", "int64_list")), strict=False):
    kind = example[name].WhichOneof("kind") if name in example else None
    values = getattr(example[name], kind).value if kind else []
    if len(values) != 1 or kind not in allowed:
      content = f"{count(len(values), 'value')} ({kind})" if kind else "nothing"
      raise Unreadable("columns", f"feature {name!r} holds {content}, expected one value ({' or '.join(allowed)})")
    result.append(decode(values[0], f"feature {name!r}") if kind == "bytes_list" else str(values[0]))
  return result
