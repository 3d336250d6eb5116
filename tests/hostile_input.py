"""Functions that take arbitrary bytes: each returns, or raises one BertFlowError of one line.

tests/properties_test.py calls them with what hypothesis makes up.
"""

import contextlib
import io
import pathlib
import tempfile
import zipfile

import numpy as np

from bert_flow_tf.calibration.flow import load_calibration
from bert_flow_tf.corpus import readers
from bert_flow_tf.data import nli, semeval, stsb
from bert_flow_tf.data.lines import TextError, lines
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.encoder import hugging_face
from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from bert_flow_tf.encoder.word_vectors import WordVectors
from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.flow.config import FlowConfig
from tests.encoder import tiny

_FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="hostile"))


def _file(data, name="input"):
  path = _FOLDER / name
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_bytes(data)
  return path


def _checked(pairs):
  """Asserts that pairs are two equally long lists of str without line breaks."""
  assert len(pairs.sentences_a) == len(pairs.sentences_b)
  assert all(isinstance(text, str) and "\n" not in text for text in (*pairs.sentences_a, *pairs.sentences_b))


def read_custom(data):
  for pairs in load_task("custom", _file(data)).splits.values():
    _checked(pairs)


def read_stsbenchmark(data):
  _checked(stsb.read_benchmark(_file(data)))


def read_sts_full(data):
  _file(data, "sts/full.txt")
  pairs, _ = semeval.read_full(str(_FOLDER / "sts"), ("",))
  _checked(pairs)


def read_sts(data):
  first, _, second = data.partition(b"\xff")
  _checked(semeval.read_sts(_file(first), _file(second, "gold")))


def read_table(data):
  for row in (semeval.SICK_R, nli.SNLI):
    pairs, _ = row.read(_file(data))
    _checked(pairs)


def read_lines(data):
  for number, text in lines(_file(data), empty="skip"):
    assert number > 0 and "\n" not in text


def read_vocabulary(data):
  path = _file(data, "vocabulary/vocab.txt")
  hugging_face.check_vocabulary(path, 30)
  ids = SentenceTokenizer.from_pretrained(path.parent)(["a dog.", "\u4e1c x"])
  assert all(row.dtype == np.int32 for row in ids)


def read_tokenizer_config(data):
  folder = tiny.save_tiny(_FOLDER / "tokenizer") if not (_FOLDER / "tokenizer").exists() else _FOLDER / "tokenizer"
  (folder / "tokenizer_config.json").write_bytes(data)
  SentenceTokenizer.from_pretrained(folder)(["a dog."])


def read_config(data):
  hugging_face.read_config(_file(data, "config/config.json").parent)


def read_flow_config(data):
  config = FlowConfig.from_json_file(_file(data, "flow_config.json"))
  assert FlowConfig.from_dict(config.to_dict()) == config


def read_tfrecords(data):
  """Reads the bytes as a TFRecord file; good records are framed again to the same bytes."""
  records = _records(readers.TFRECORD, data)
  if not any(isinstance(record, TextError) for record in records):
    assert b"".join(readers.to_tfrecord(record) for record in records) == data


def read_columns(data):
  """Reads the bytes as files of the other kinds that a corpus may have."""
  for kind in (readers.TSV, readers.CSV, readers.JSONL, readers.PARQUET):
    with contextlib.suppress(BertFlowError):
      _records(kind, data)


def _records(kind, data):
  """Returns the records of a file of a corpus, each of which is parsed or rejected."""
  columns = readers.InputFormat(kind, "1", "text", header=True, max_bytes=1 << 16)
  with contextlib.closing(readers.open_reader(str(_file(data, "corpus")), columns)) as reader:
    records = [record for record, _ in reader.records(reader.start, reader.first)]
    for record in records:
      with contextlib.suppress(TextError):
        reader.parse(record)
  return records


def read_npz(data):
  """Reads the bytes as the file of a calibration."""
  load_calibration(_file(data, "npz/calibration.npz").parent).transform(np.eye(2))


def read_calibration_json(data):
  """Reads the bytes as the settings of a calibration's file, with valid checksums."""
  content = io.BytesIO()
  np.savez(content, mean=np.zeros(2), scatter=np.eye(2))
  with zipfile.ZipFile(content, "a") as members:
    members.writestr("settings.json", data)
  load_calibration(_file(content.getvalue(), "json/calibration.npz").parent).transform(np.eye(2))


def read_safetensors(data):
  hugging_face._read_word_rows(_file(data, "weights/model.safetensors"), {"vocab_size": 24, "hidden_size": 12})


def read_word_vectors(data):
  vectors = WordVectors.from_file(_file(data, "vectors.txt"), show_progress=False)
  assert np.isfinite(vectors.vectors).all()


TARGETS = {name: function for name, function in list(globals().items()) if name.startswith("read_")}


def call(name, data):
  """Calls a target; returns whether it accepted the bytes. A BertFlowError must be of one line."""
  try:
    TARGETS[name](data)
  except BertFlowError as error:
    message = str(error)
    assert message and "\n" not in message and len(message) < 2000, message
    return False
  return True
