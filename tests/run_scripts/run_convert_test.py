"""run_scripts/run_convert.py: every variable in both directions, and errors; all in one process."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder
from bert_flow_tf.calibration.saving import load_calibration
from bert_flow_tf.training.siamese.objectives import Classifier
from tests.encoder import tiny
from tests.encoder.checkpoints import tf1_files
from tests.flow import cases
from tests.run_scripts.command_lines import check_rejected, check_succeeded
from tests.testing import hub_folder

pytestmark = pytest.mark.slow
RUNNER = "convert"
# {name: (dim, config, permutation)}; the encoder has 12 dimensions.
FLOWS = {
  "flow": (12, {"n_levels": 2, "depth": 1, "coupling_width": 5}, "reverse"),
  "low": (12, {"n_levels": 1, "depth": 2, "coupling_width": 3, "coupling": "affine", "activation": "gatu"}, "random"),
  "wide": (24, {"n_levels": 1, "depth": 1, "coupling_width": 4, "permutation": False}, "reverse"),
}
STEP = "bert/flow/revnet_0/revnet_step_0"
CENTER = "actnorm/actnorm_center/b"


def flow_variables(name):
  """Returns {name: array} of a flow below bert/flow/, with random trainable weights."""
  dim, config, permutation = FLOWS[name]
  flow = cases.randomize(Glow(FlowConfig(**config), dim, "glorot", permutation, seed=1), seed=2)
  return {f"bert/flow/{name}": array for name, array in flow.tf1_variables().items()}


def encoder_variables(pooler=True):
  """Returns {name: array} of an encoder with 2 blocks."""
  return tf1_files.google_variables(tiny.random_weights({**tiny.CONFIG, "num_hidden_layers": 2}, pooler=pooler))


def google(folder, variables=None, vocabulary=None, checkpoint="model.ckpt-1", write=None):
  """Writes Google's folder of that encoder and returns it."""
  variables = encoder_variables() if variables is None else variables
  config = {**tf1_files.GOOGLE_CONFIG, "num_hidden_layers": 2}
  return tf1_files.write_google(folder, variables, config, vocabulary, checkpoint, write or tf1_files.write_quickly)


def classifier(dim=12):
  """Returns {name: array} of a classifier with 3 labels."""
  return {"loss/output_weights": np.random.default_rng(5).normal(size=[3, 3 * dim]).astype(np.float32)}


def everything():
  """Returns {name: array} of encoder, flow and classifier."""
  return {**encoder_variables(), **flow_variables("flow"), **classifier()}


def checkpoints():
  """Returns {name: variables} of every checkpoint that is written."""
  encoder, flow = encoder_variables(), flow_variables("flow")
  complete = everything()
  step = {"global_step": np.array(1234, np.int64)}
  return {
    "all/model.ckpt-1234": {**complete, **tf1_files.adam_slots(complete), **step},
    "bare/model.ckpt-7": {**encoder, **flow},
    "heads/bert_model.ckpt": {**encoder, **tf1_files.pretraining_heads()},
    # low_dim=6, which the classifier alone shows: the flow keeps all 12 dimensions.
    "low/model.ckpt-1": {**encoder_variables(pooler=False), **flow_variables("low"), **classifier(6)},
    "wide/model.ckpt-1": {**encoder, **flow_variables("wide"), **tf1_files.tensorflow_adam(encoder)},
    "more/model.ckpt-1": {
      **complete,
      "bert/extra": np.zeros(3, np.float32),
      "bert/gone/adam_m": np.zeros(3, np.float32),
    },
    "lessflow/model.ckpt-1": {name: array for name, array in complete.items() if name != f"{STEP}/{CENTER}"},
    "moreflow/model.ckpt-1": {**complete, f"{STEP}/extra": np.zeros(2, np.float32)},
    "nan/model.ckpt-1": {**complete, "loss/output_weights": np.full([3, 36], np.nan, np.float32)},
    "turned/model.ckpt-1": {**complete, "loss/output_weights": np.zeros([36, 4], np.float32)},
    "noencoder/model.ckpt-1": flow,
  }


def prepare(folder):
  """Writes the checkpoints, each with bert_config.json and vocab.txt, and other files of the command lines."""
  from bert_flow_tf.calibration.names import make_calibration
  from bert_flow_tf.training.siamese.objectives import Classifier

  lower = [piece for piece in tiny.VOCABULARY if piece != "Dog"]
  for name, variables in checkpoints().items():
    prefix = folder / name
    save = tf1_files.write_checkpoint if name == "all/model.ckpt-1234" else tf1_files.write_quickly
    google(prefix.parent, variables, lower, prefix.name, save)
  google(folder / "cased_L-2_H-12_A-3", checkpoint="bert_model.ckpt")
  tiny.save_tiny(hub_folder(folder / "hub"))
  (folder / "empty").mkdir()
  (folder / "taken").mkdir()
  (folder / "taken/notes.txt").write_text("mine")
  (folder / "flow.json").write_text("{}")
  encoder = SentenceEncoder.from_pretrained(str(folder / "cased_L-2_H-12_A-3"))
  identity = {**encoder.identity("avg-first-last", 16).to_dict(), "name": "other", "weights_sha256": "0" * 64}
  Classifier(np.ones([3, 36], np.float32), "abc", identity).save(folder / "other_classifier")
  make_calibration("mean").fit(np.random.default_rng(0).normal(size=[9, 12])).save(folder / "mean")


def right(folder):
  def read(checkpoint, name, *flags):
    return [
      f"--tf1_checkpoint={folder}/{checkpoint}",
      f"--output_dir={folder}/to/{name}",
      "--max_seq_length=16",
      *flags,
    ]

  def write_back(name, checkpoint, *parts):
    flag_names = {"encoder": "encoder", "flow": "flow_folder", "classifier": "classifier_folder"}
    flags = [f"--{flag_names[part]}={folder}/to/{name}/{part}" for part in ("encoder", *parts)]
    return [*flags, f"--output_checkpoint={folder}/back/{checkpoint}"]

  elsewhere = [f"--bert_config_file={folder}/all/bert_config.json", f"--vocab_file={folder}/all/vocab.txt"]
  return {
    "all": read("all/model.ckpt-1234", "all"),
    "all back": write_back("all", "all/model.ckpt-1234", "flow", "classifier"),
    "index": read("bare/model.ckpt-7.index", "bare", *elsewhere, "--sentence_embedding_type=cls"),
    "bare back": write_back("bare", "bare/model.ckpt-7", "flow"),
    "heads": read("heads", "heads", "--nodo_lower_case"),
    "heads back": write_back("heads", "heads/bert_model.ckpt"),
    "low_dim, no pooler": read("low", "low"),
    "low_dim back": write_back("low", "low/model.ckpt-1", "flow", "classifier"),
    "wide": read("wide", "wide", "--sentence_embedding_type=concat-top-2"),
    "wide back": write_back("wide", "wide/model.ckpt-1", "flow"),
    "cased": read("cased_L-2_H-12_A-3", "cased"),
    "other encoder": read("wide", "other", "--allow_other_encoder"),
    "a revision of the hub's back": [
      *("--encoder=someone/tiny", "--model_revision=v1", f"--model_cache_dir={folder}/hub"),
      f"--output_checkpoint={folder}/back/hub/model.ckpt",
    ],
    "into an empty folder": [f"--tf1_checkpoint={folder}/heads", f"--output_dir={folder}/empty"],
    "other encoder back": [
      *(f"--encoder={folder}/to/low/encoder", f"--flow_folder={folder}/to/all/flow", "--allow_other_encoder"),
      f"--output_checkpoint={folder}/back/other/model.ckpt",
    ],
  }


def test_command_lines(ran):
  check_succeeded(ran, right)
  check_rejected(ran, RUNNER)


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
  expected_names = {key for key in before if not {key.split("/")[0], key.split("/")[-1]} & {*dropped}}
  assert len(expected_names) >= 37
  step = after.pop("global_step", None)
  expected = name.partition(".ckpt-")[2]
  assert (None if step is None else (step.dtype, int(step))) == ((np.int64, int(expected)) if expected else None)
  assert set(after) == expected_names - {"global_step"}
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
    f"left out    {len(listed) - len(everything()) - 1:4}: Adam slots",
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
  assert not calibration.flow.needs_initialization
  loaded = Classifier.load(folder / "to/all/classifier")
  np.testing.assert_array_equal(loaded.output_weights, classifier()["loss/output_weights"])
  assert (loaded.dim, loaded.labels) == (12, ("contradiction", "entailment", "neutral"))
  assert loaded.encoder == calibration.encoder


def test_configurations_inferred_from_names_and_shapes(ran):
  folder, _ = ran
  for name, (dim, config, permutation) in FLOWS.items():
    flow = Glow.load(folder / "to" / {"flow": "bare"}.get(name, name) / "flow")
    assert (flow.dim, flow.permutation) == (dim, permutation)
    assert config.items() <= flow.config.to_dict().items()
  assert load_calibration(folder / "to/other/flow").encoder is None
  assert load_calibration(folder / "to/low/flow").encoder["low_dim"] == 6
  assert load_calibration(folder / "to/bare/flow").encoder["pooling"] == ["cls"]
  for name, lower in {"all": True, "heads": False, "cased": False}.items():
    settings = json.loads((folder / f"to/{name}/encoder/tokenizer_config.json").read_text())
    assert settings["do_lower_case"] == lower
