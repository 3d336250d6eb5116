"""Properties that hold for every input, on inputs that hypothesis makes up, the same in each run."""

import json
import string

import hypothesis
import pytest
from hypothesis import strategies as st

from bert_flow_tf import FlowConfig, Glow
from bert_flow_tf.calibration.flow import load_calibration
from bert_flow_tf.calibration.names import make_calibration, parse_calibration
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.encoder.identity import EncoderIdentity
from bert_flow_tf.encoder.pooling import parse_pooling
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import BertFlowError, ConfigError
from bert_flow_tf.io import archive
from tests import hostile_input
from tests.calibration.cases import cone

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


@pytest.mark.parametrize("target", hostile_input.TARGETS)
@examples(30)
@hypothesis.given(data=BYTES)
@hypothesis.example(b"")
@hypothesis.example(b"[" * 100_000)
@hypothesis.example(b"\x1f\x8b\x08\x00")
def test_any_bytes_are_read_or_one_sentence(target, data):
  hostile_input.call(target, data)


_SENTENCE = st.text(st.characters(exclude_characters='\t\n\r\0"', exclude_categories=["Cs"]), min_size=1, max_size=12)


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
  """With valid checksums, as someone would write it who means harm."""
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
