"""Reader of TFRecords, by TensorFlow, which is imported for these files alone."""

from collections.abc import Iterator

from bert_flow_tf.data.files.source import Reader, TextError, decode, too_long
from bert_flow_tf.errors import DataError, one_line
from bert_flow_tf.io.lazy import load_tensorflow
from bert_flow_tf.progress import counted

# Kinds of values that a TFRecord's features may have: of the sentence, of the id.
_FEATURES = (("bytes_list",), ("bytes_list", "int64_list"))
# Bytes of a record in a TFRecord file besides its content: the length and two checksums.
_FRAME = 16


class TfRecordReader(Reader[bytes]):
  """Reader of the features of tf.train.Examples in a TFRecord file, which TensorFlow reads from its start."""

  unit = "record"

  @property
  def position(self) -> int:
    """0: TensorFlow opens the file itself."""
    return 0

  def _records(self, offset: int, number: int) -> Iterator[tuple[bytes | TextError, int]]:
    tf = load_tensorflow()  # only for these files
    compression = {"gz": "GZIP"}.get(self.source.packing, "")
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
    from google.protobuf.message import DecodeError

    tf = load_tensorflow()
    try:
      example = tf.train.Example.FromString(record).features.feature
    except DecodeError as error:
      raise TextError("no Example", "the record is not a tf.train.Example") from error
    fields = []
    for place, name in enumerate(self._columns):
      allowed = _FEATURES[place >= self._format.texts]
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
