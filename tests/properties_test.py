"""Properties that hold for every input, on inputs that hypothesis makes up, the same in each run.

Each function `read_...` takes arbitrary bytes, and returns or raises one BertFlowError of one line.
"""

import contextlib
import io
import json
import pathlib
import string
import tempfile
import zipfile

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from bert_flow_tf import FlowConfig, Glow
from bert_flow_tf.calibration.names import make_calibration, parse_calibration
from bert_flow_tf.calibration.saving import load_calibration
from bert_flow_tf.data import nli, semeval, stsb
from bert_flow_tf.data.files.formats import open_reader
from bert_flow_tf.data.files.input_format import CSV, JSONL, PARQUET, TSV, InputFormat
from bert_flow_tf.data.files.source import TextError, lines
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.encoder.checkpoints.files import EncoderFiles, check_vocabulary
from bert_flow_tf.encoder.checkpoints.hugging_face import HuggingFaceWeights
from bert_flow_tf.encoder.identity import EncoderIdentity
from bert_flow_tf.encoder.other.word_vectors import WordVectors
from bert_flow_tf.encoder.pooling import parse_pooling
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.encoder.text.folder import load_tokenizer
from bert_flow_tf.errors import BertFlowError, ConfigError
from bert_flow_tf.io import archive
from tests.calibration.cases import cone
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
  check_vocabulary(EncoderFiles(path.parent), path.name, 30)
  ids = load_tokenizer(path.parent)(["a dog.", "\u4e1c x"])
  assert all(row.dtype == np.int32 for row in ids)


def read_tokenizer_config(data):
  folder = tiny.save_tiny(_FOLDER / "tokenizer") if not (_FOLDER / "tokenizer").exists() else _FOLDER / "tokenizer"
  (folder / "tokenizer_config.json").write_bytes(data)
  load_tokenizer(folder)(["a dog."])


def read_config(data):
  assert EncoderFiles(_file(data, "config/config.json").parent).config


def read_flow_config(data):
  config = FlowConfig.from_json_file(_file(data, "flow_config.json"))
  assert FlowConfig.from_dict(config.to_dict()) == config


def read_columns(data):
  """Reads the bytes as files of the other kinds that a corpus may have."""
  for kind in (TSV, CSV, JSONL, PARQUET):
    with contextlib.suppress(BertFlowError):
      _records(kind, data)


def _records(kind, data):
  """Returns the records of a file of a corpus, each of which is parsed or rejected."""
  columns = InputFormat(kind, "1", "text", header=True, max_bytes=1 << 16)
  with contextlib.closing(open_reader(str(_file(data, "corpus")), columns)) as reader:
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
  folder = _FOLDER / "weights"
  if not folder.exists():
    tiny.save_tiny(folder)
  (folder / "model.safetensors").write_bytes(data)
  weights = HuggingFaceWeights(EncoderFiles(folder), {})
  weights.word_embeddings()
  weights.stored().checksum()


def read_word_vectors(data):
  vectors = WordVectors.from_file(_file(data, "vectors.txt"), show_progress=False)
  assert np.isfinite(vectors.vectors).all()


TARGETS = {name: function for name, function in list(globals().items()) if name.startswith("read_")}


# The same examples in each run; no limit of time, as machines differ.
_SETTINGS = {"derandomize": True, "deadline": None, "database": None}
_HEALTH = [hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow]


def examples(number):
  return hypothesis.settings(max_examples=number, suppress_health_check=_HEALTH, **_SETTINGS)


JSON = st.recursive(
  st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
  lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
  max_leaves=4,
)
_FIELD = st.text(string.ascii_letters + string.digits + ' ".,;#-\t\r\0\u00e9\u2028\u4e1c', max_size=6)
_NAMES = st.sampled_from(["sentence1", "sentence2", "score", "sentence_A", "text", "id", "0", "3.5", "nan"])
TABLES = st.lists(st.lists(_FIELD | _NAMES, min_size=1, max_size=11).map("\t".join), max_size=6)
BYTES = (
  st.binary(max_size=80) | TABLES.map(lambda rows: "\n".join(rows).encode()) | JSON.map(json.dumps).map(str.encode)
)


@pytest.mark.parametrize("target", TARGETS)
@examples(30)
@hypothesis.given(data=BYTES)
@hypothesis.example(b"")
@hypothesis.example(b"\x1f\x8b\x08\x00")
def test_any_bytes_are_read_or_one_sentence(target, data):
  try:
    TARGETS[target](data)
  except BertFlowError as error:
    message = str(error)
    assert message and "\n" not in message and len(message) < 2000, message


_LETTERS = st.characters(exclude_characters='\t\n\r\0"', exclude_categories=["Cs"])
_SENTENCE = st.text(_LETTERS, min_size=1, max_size=12).filter(str.strip)


@examples(100)
@hypothesis.given(rows=st.lists(st.tuples(_SENTENCE, _SENTENCE, st.floats(-9, 9)), min_size=1, max_size=5))
def test_pairs_come_back_as_they_were_written(rows, tmp_path):
  path = tmp_path / "pairs.tsv"
  lines = ["sentence1\tsentence2\tscore", *(f"{a}\t{b}\t{score!r}" for a, b, score in rows)]
  path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
  pairs = load_task("custom", path).splits["test"]
  read = list(zip(pairs.sentences_a, pairs.sentences_b, pairs.scores, strict=True))
  assert read == rows


@examples(200)
@hypothesis.given(name=st.sampled_from(["flow", "natsv", "soft-whitening", "sn+natsv", ""]), end=st.text(max_size=9))
def test_names_of_calibrations_come_back_or_are_rejected(name, end):
  try:
    spec = parse_calibration(name + end)
  except ConfigError as error:
    assert error.argument == "calibration" and "\n" not in str(error).removeprefix(f"calibration={name + end}")
  else:
    assert parse_calibration(spec.name) == spec


_POOLINGS = st.sampled_from(["avg-top-", "concat-top-", "mix-", "cls"])


@examples(200)
@hypothesis.given(name=_POOLINGS, end=st.text(max_size=6), n=st.integers(1, 24))
def test_names_of_poolings_are_blocks_of_the_model_or_rejected(name, end, n):
  try:
    pooling = parse_pooling(name + end, n)
  except ConfigError as error:
    assert error.argument == "sentence_embedding_type"
  else:
    assert all(0 < block <= n for block in pooling.blocks) and parse_pooling(pooling.name, n) == pooling


@examples(120)
@hypothesis.given(key=st.sampled_from([*FlowConfig().to_dict(), "unknown"]), value=JSON)
def test_flow_configurations_come_back_or_are_rejected(key, value):
  try:
    config = FlowConfig.from_dict({key: value})
  except ConfigError:
    return
  assert FlowConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
  folder = tmp_path_factory.mktemp("folders")
  make_calibration("whitening-3").fit(cone(40, 4)).save(folder / "calibration")
  flow = Glow(FlowConfig(n_levels=1, depth=1, coupling_width=2), 4, seed=0)
  flow.initialize(cone(40, 4))
  flow.save(folder / "flow")
  return folder


@pytest.mark.parametrize("name", ["calibration", "flow"])
def test_any_value_in_a_calibrations_settings_is_loaded_or_one_sentence(folders, name):
  """The checksums are valid, as in a file of someone who means harm."""
  folder = folders / name
  with archive.opened(folder, "calibration", BertFlowError) as (whole, arrays):
    pass

  @examples(25)
  @hypothesis.given(key=st.sampled_from([*whole, "shares", "encoder", "parts"]), value=JSON)
  def check(key, value):
    archive.write(folder, "calibration", {**whole, key: value}, arrays)
    try:
      load_calibration(folder).transform(cone(3, 4))
    except BertFlowError as error:
      assert "\n" not in str(error)

  check()


@examples(200)
@hypothesis.given(
  values=st.dictionaries(st.sampled_from(["name", "weights_sha256", "pooling", "max_seq_length"]), JSON)
)
def test_any_identity_is_read_or_one_sentence(values):
  whole = {"name": "a", "weights_sha256": "b", "tokenizer_sha256": "c", "pooling": ["mean", 1], "architecture": {}}
  whole |= EncoderSettings.of(sentence_embedding_type="avg", max_seq_length=9).saved()
  try:
    identity = EncoderIdentity.from_dict({**whole, **values}, "here")
  except BertFlowError as error:
    assert str(error).startswith("here: ")
  else:
    assert EncoderIdentity.from_dict(json.loads(json.dumps(identity.to_dict())), "here") == identity
