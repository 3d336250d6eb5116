"""run_scripts/run_convert.py: every variable in both directions, and errors; all in one process."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import Glow, SentenceEncoder
from bert_flow_tf.calibration.flow import load_calibration
from bert_flow_tf.training.objectives import Classifier
from tests.encoder import tf1_files
from tests.run_scripts import hostile_convert
from tests.run_scripts.command_lines import check_rejected, check_succeeded

pytestmark = pytest.mark.slow
COMMAND_LINES = hostile_convert


def test_good_command_lines(ran):
  check_succeeded(ran[1], hostile_convert.good(ran[0]))


def test_bad_command_lines(ran):
  folder, results = ran
  check_rejected(results, hostile_convert.bad(folder))


def test_bad_command_lines_write_nothing(ran):
  folder, _ = ran
  assert not (folder / "never").exists() and not (folder / "back/never").exists()
  assert not [path for path in folder.rglob(".*") if path.name.endswith(".writing")]
  assert [path.name for path in (folder / "taken").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
  ("name", "dropped"),
  [
    ("all/model.ckpt-1234", ("adam_m", "adam_v")),
    ("bare/model.ckpt-7", ()),
    ("heads/bert_model.ckpt", ("cls",)),
    ("low/model.ckpt-1", ()),
    ("wide/model.ckpt-1", ("Adam", "Adam_1", "beta1_power", "beta2_power")),
  ],
)
def test_both_directions_keep_every_bit(ran, name, dropped):
  folder, _ = ran
  before, after = tf1_files.read_all(folder / name), tf1_files.read_all(folder / "back" / name)
  kept = {key for key in before if key.split("/")[-1] not in dropped and key.split("/")[0] not in dropped}
  assert len(kept) >= 37
  step = after.pop("global_step", None)
  expected = name.partition(".ckpt-")[2]
  assert (None if step is None else (step.dtype, int(step))) == ((np.int64, int(expected)) if expected else None)
  assert set(after) == kept - {"global_step"}
  for key, array in after.items():
    assert array.dtype == before[key].dtype == np.float32 and array.tobytes() == before[key].tobytes(), key


def test_tensorflow_1_restores_what_is_written(ran):
  folder, _ = ran
  before = tf1_files.read_all(folder / "bare/model.ckpt-7")
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    variables = {name: tf.compat.v1.get_variable(name, array.shape) for name, array in before.items()}
    step = tf.compat.v1.train.get_or_create_global_step()
    tf.compat.v1.train.Saver().restore(session, str(folder / "back/bare/model.ckpt-7"))
    restored, number = session.run([variables, step])
  assert number == 7
  for name, array in before.items():
    np.testing.assert_array_equal(restored[name], array)


def test_every_variable_is_in_the_record(ran):
  folder, results = ran
  record = json.loads((folder / "to/all/conversion.json").read_text())["variables"]
  listed = [*record["encoder"], *record["flow"], *record["classifier"], *record["left_out"]]
  assert len(set(listed)) == len(listed) and set(listed) == set(tf1_files.read_all(folder / "all/model.ckpt-1234"))
  assert set(record["left_out"].values()) == {"Adam slots", "global_step"}
  printed = results["all"]["stdout"].splitlines()
  assert printed[0] == f"{folder}/all/model.ckpt-1234: {len(listed)} variables"
  assert printed[-3:-1] == [
    f"left out    {len(listed) - len(hostile_convert.everything()) - 1:4}: Adam slots",
    "left out       1: global_step",
  ]


def test_the_folders_equal_the_checkpoint(ran):
  folder, _ = ran
  google = SentenceEncoder.from_pretrained(str(folder / "heads"))
  converted = SentenceEncoder.from_pretrained(str(folder / "to/all/encoder"))
  back = SentenceEncoder.from_pretrained(str(folder / "back/all/model.ckpt-1234"))
  ids, mask = tf.constant([[2, 8, 10, 3], [2, 11, 3, 0]]), tf.constant([[1, 1, 1, 1], [1, 1, 1, 0]])
  arguments = {"sentence_embedding_type": "avg-first-last", "max_seq_length": 16}
  (states, pooled), identity = google.bert(ids, mask), google.identity(**arguments)
  for encoder in (converted, back):
    converted_states, converted_pooled = encoder.bert(ids, mask)
    for actual, expected in zip([*converted_states, converted_pooled], [*states, pooled], strict=True):
      np.testing.assert_array_equal(actual, expected)
    assert encoder.identity(**arguments).deciding() == identity.deciding()
  calibration = load_calibration(folder / "to/all/flow")
  assert calibration.encoder == {**identity.to_dict(), "name": str(folder / "to/all/encoder")}
  assert calibration.flow.config.coupling_dropout == 0.1 and not calibration.flow.needs_initialization
  classifier = Classifier.load(folder / "to/all/classifier")
  np.testing.assert_array_equal(classifier.output_weights, hostile_convert.classifier()["loss/output_weights"])
  assert (classifier.dim, classifier.labels) == (12, ("contradiction", "entailment", "neutral"))
  assert classifier.encoder == calibration.encoder


def test_configurations_inferred_from_names_and_shapes(ran):
  folder, _ = ran
  for name, (dim, config, permutation) in hostile_convert.FLOWS.items():
    flow = Glow.load(folder / "to" / {"flow": "bare"}.get(name, name) / "flow")
    assert (flow.dim, flow.permutation) == (dim, permutation)
    assert config.items() <= flow.config.to_dict().items()
  assert load_calibration(folder / "to/other/flow").encoder is None
  assert load_calibration(folder / "to/low/flow").encoder["low_dim"] == 6
  assert load_calibration(folder / "to/bare/flow").encoder["pooling"] == ["cls"]
  cases = {
    name: json.loads((folder / f"to/{name}/encoder/tokenizer_config.json").read_text())
    for name in ("all", "heads", "cased")
  }
  assert {name: case["do_lower_case"] for name, case in cases.items()} == {"all": True, "heads": False, "cased": False}
