"""Reader of JSON lines, and the keys of all records of files."""

import json
from collections.abc import Iterable, Iterator, Sequence

from absl import logging

from bert_flow_tf.data.files.input_format import JSONL, MAX_RECORD_BYTES, InputFormat
from bert_flow_tf.data.files.source import (
  BOM,
  FileSource,
  Reader,
  TextError,
  decode_line,
  find_name,
  has_name,
  nearest_name,
  shown_names,
)
from bert_flow_tf.errors import DataError
from bert_flow_tf.progress import listed

JSON_LINES = (
  "expected JSON lines, an object on each line, as df.to_json(FILE, orient='records', lines=True) writes them"
)
# Bytes by which an array is found.
_PART = 1 << 10


class JsonReader(Reader[bytes]):
  """Reader of JSON lines: an object on each line; `names` are all keys of the records that were parsed."""

  def __init__(self, source: FileSource, input_format: InputFormat, columns: Sequence[str] | None = None) -> None:
    super().__init__(source, input_format, columns)
    self._keys: dict[str, None] = {}

  @property
  def names(self) -> Sequence[str]:  # type: ignore[override]
    """Keys in the order of their first record."""
    return list(self._keys)

  def fields(self, record: bytes) -> list[str]:
    """See `Reader.fields`."""
    if self.is_blank(record):
      return [""]
    values = self._object(record)
    found: list[object] = []
    for name in self._columns:
      key = find_name(name, values)
      if key is None and has_name(name, values):
        raise TextError("columns", f"several keys are {name!r} but for blanks; expected one")
      if key is None and name == self._format.id_column:
        raise TextError("bad id", f"no key {json.dumps(name, ensure_ascii=False)}; expected it in each record: the id")
      value = None if key is None else values[key]  # a missing key is null, as for those who leave null out
      found.append(value)
      if isinstance(value, dict | list) and not self.any_type:
        raise TextError("columns", f"column {name!r} has {repr(value)[:40]}, expected text; {JSON_LINES}")
    return self.texts(found)

  def row(self, record: bytes) -> list[str]:
    """See `Reader.row`."""
    if self.is_blank(record):
      return []
    return list(self._object(record))

  def _records(self, offset: int, number: int) -> Iterator[tuple[bytes | TextError, int]]:
    return self.source.lines(offset, self._format.max_bytes)

  def _object(self, record: bytes) -> dict[str, object]:
    """Returns the object of a line."""
    text = decode_line(record)
    if text.lstrip().startswith("["):
      raise TextError("columns", f"a JSON array; {JSON_LINES}")
    try:
      values = json.loads(text)
    except (ValueError, RecursionError) as error:
      raise TextError("not JSON", f"the line is not JSON ({error}); {JSON_LINES}") from error
    if not isinstance(values, dict):
      raise TextError("columns", f"{text.strip()[:40]}; {JSON_LINES}")
    self._keys.update(dict.fromkeys(values))
    return values


def keys_of(
  sources: Iterable[FileSource], max_bytes: int = MAX_RECORD_BYTES, wanted: Sequence[str] = (), hint: str = ""
) -> list[str]:
  """Returns the keys of all records of JSON lines, in the order of their first record.

  A file is not read further than to the record by which each of the `wanted` columns was found, if there are any.
  Columns that none of the files has are a DataError, which ends with `hint`, those that one of several lacks a warning.
  """
  keys: dict[str, None] = {}
  lacking: dict[str, list[str]] = {}
  bad: list[DataError] = []
  for source in sources:
    if source.content(_PART).removeprefix(BOM).lstrip().startswith(b"["):
      raise DataError(f"{source.path}: a JSON array; {JSON_LINES}")
    missing = list(wanted)
    reader = JsonReader(source, InputFormat(JSONL, max_bytes=max_bytes), [])
    for _, found in reader.rows(bad):
      missing = [name for name in missing if not has_name(name, found)]
      if wanted and not missing:
        break
    keys |= dict.fromkeys(reader.names)
    if reader.names:
      lacking[source.path] = missing
  if bad and not keys:
    raise bad[0]
  for path, names in lacking.items():
    absent = [name for name in names if not has_name(name, keys)]
    if absent:
      expected = f"expected one of {shown_names(list(keys)[:20])}{hint or nearest_name(absent[0], list(keys))}"
      raise DataError(f"{path}: no record has the key {absent[0]!r}, {expected}")
    if names:
      logging.warning("%s: no record has the key %s, which counts as empty", path, listed(names))
  return list(keys)
