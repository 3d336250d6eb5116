"""training/loop.py: whose checkpoints they are, what becomes of damaged ones, and fits that are resumed to the bit."""

import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.flow.keras import keras
from bert_flow_tf.training.loop import IDENTITY_FILE, Checkpoints, check_claim
from bert_flow_tf.training.optimizer import AdamWeightDecay, WarmUpLinearDecay
from bert_flow_tf.training.sources import EmbeddingPairs
from tests.training import small


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
  """Returns a finished fit of 16 steps, saved at 0, 5, 10, 15 and 16; its folder and its flow."""
  folder = tmp_path_factory.mktemp("fit") / "checkpoints"
  _, flow = small.fit(epochs=2, checkpoint_folder=folder, save_checkpoints_steps=5)
  return folder, flow


@pytest.fixture
def folder(fitted, tmp_path):
  """Returns a copy of that folder, which a test may damage."""
  return shutil.copytree(fitted[0], tmp_path / "checkpoints")


def resume(folder, **changed):
  return small.fit(**{"epochs": 2, "checkpoint_folder": folder, "save_checkpoints_steps": 5, **changed})


def test_two_are_kept_and_nothing_half_written(fitted):
  files = {file.name for file in fitted[0].iterdir()}
  whole = {f"ckpt-{step}.{part}" for step in (15, 16) for part in ("index", "data-00000-of-00001")}
  assert files == {"checkpoint", IDENTITY_FILE, *whole}


# Names in every release since 0.1.0, under each Keras: with other names, an unfinished fit cannot be resumed.
NAMES = """
flow/chain/0/b flow/chain/0/logs flow/chain/0/varying flow/chain/1/permutation
flow/chain/2/network/first/actnorm/b flow/chain/2/network/first/actnorm/logs
flow/chain/2/network/first/actnorm/varying flow/chain/2/network/first/kernel
flow/chain/2/network/second/0/actnorm/b flow/chain/2/network/second/0/actnorm/logs
flow/chain/2/network/second/0/actnorm/varying flow/chain/2/network/second/0/kernel
flow/chain/2/network/last/b flow/chain/2/network/last/kernel flow/chain/2/network/last/logs flow/state
optimizer/_iterations optimizer/_learning_rate optimizer/_first/0 optimizer/_second/0 save_counter step
"""


def names(checkpoint):
  """Returns the names of the values in a checkpoint."""
  found = set()
  for name, _ in tf.train.list_variables(str(checkpoint)):
    found.add(name.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE"))
  return found - {"_CHECKPOINTABLE_OBJECT_GRAPH"}


def test_names_are_those_of_release_0_1_0(fitted):
  assert names(fitted[0] / "ckpt-16") == set(NAMES.split())


def test_names_of_a_schedule_are_those_of_release_0_1_0(tmp_path):
  optimizer = AdamWeightDecay(WarmUpLinearDecay(0.1, 10, 2))
  optimizer.build([tf.Variable(0.0), tf.Variable(0.0)])
  path = tf.train.Checkpoint(optimizer=optimizer).write(str(tmp_path / "saved"))
  expected = {"_iterations", "_current_learning_rate", "_first/0", "_first/1", "_second/0", "_second/1"}
  assert names(path) == {f"optimizer/{name}" for name in expected}


def test_what_a_killed_process_was_writing_is_cleared_away(folder):
  before = {file.name for file in folder.iterdir()}
  (folder / "ckpt_temp").mkdir()
  (folder / "ckpt_temp/part-00000-of-00001.data-00000-of-00001.tempstate1").write_bytes(b"half")
  resume(folder)
  assert {file.name for file in folder.iterdir()} == before


# {difference: what makes it}
OTHERS = {
  "seed 0, now 1": lambda: {"seed": 1},
  "flow_learning_rate 0.01, now 0.02": lambda: {"flow_learning_rate": 0.02},
  "steps 16, now 32; train_batch_size 8, now 4": lambda: {"train_batch_size": 4},
  "steps 16, now 24": lambda: {"epochs": 3},
  "shuffle True, now False": lambda: {"shuffle": False},
  "flow.seed 7, now 8": lambda: {"flow": small.make_flow(seed=8)},
  "flow.config.coupling_dropout 0.0, now 0.5": lambda: {"flow": small.make_flow(coupling_dropout=0.5)},
  r"data [0-9a-f]{12}\.\.\., now [0-9a-f]{12}\.\.\.": lambda: {"source": EmbeddingPairs(*small.embeddings(seed=1))},
}


@pytest.mark.parametrize("difference", OTHERS)
def test_another_fit_is_refused_with_the_difference(folder, difference):
  before = {file.name: file.read_bytes() for file in folder.iterdir()}
  message = rf"^checkpoint folder {re.escape(str(folder))} .*\({difference}\)"
  with pytest.raises(TrainingError, match=message):
    resume(folder, **OTHERS[difference]())
  assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_what_does_not_decide_the_weights_may_change(folder, fitted):
  result, flow = resume(folder, save_checkpoints_steps=1)
  assert result.first_step == 16
  small.assert_same_weights(flow, fitted[1])


def damage(file, how):
  data = file.read_bytes()
  if how == "gone":
    file.unlink()
  elif how == "half":
    file.write_bytes(data[: len(data) // 2])
  else:
    middle = len(data) // 3
    file.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])


@pytest.mark.parametrize(
  ("part", "how"),
  [("index", "gone"), ("index", "half"), ("data-00000-of-00001", "half"), ("data-00000-of-00001", "one byte")],
)
def test_damaged_newest_checkpoint_gives_way_to_the_one_before(folder, fitted, caplog, part, how):
  damage(folder / f"ckpt-16.{part}", how)
  result, flow = resume(folder)
  assert "ckpt-16 cannot be read" in caplog.text and result.first_step == 15
  small.assert_same_weights(flow, fitted[1])
  again, flow = resume(folder)  # what was saved over the damaged one is whole
  assert again.first_step == 16
  small.assert_same_weights(flow, fitted[1])


def damage_all(folder):
  for file in folder.glob("*.data-*"):
    damage(file, "one byte")


# {what is wrong: function of the folder that makes it so}
UNUSABLE = {"every checkpoint": damage_all, "no state": lambda folder: (folder / "checkpoint").write_text("")}
for content in ("", "{", "[1]", "null", "\xff"):
  UNUSABLE[f"identity {content!r}"] = lambda folder, text=content: (folder / IDENTITY_FILE).write_text(text, "latin-1")


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_folder_that_cannot_be_resumed_is_named(folder, name):
  UNUSABLE[name](folder)
  with pytest.raises(TrainingError, match=f"^checkpoint folder {re.escape(str(folder))}"):
    resume(folder)


def test_checkpoint_of_other_variables_is_refused(tmp_path):
  saved, loaded = ({"a": tf.Variable(value), "b": tf.Variable(value)} for value in (1.0, 0.0))
  Checkpoints(tmp_path, {}, **saved).save(3)
  with pytest.raises(TrainingError, match=re.escape(str(tmp_path))):
    Checkpoints(tmp_path, {}, a=loaded["a"], c=loaded["b"]).restore()


def test_folder_that_cannot_be(tmp_path):
  (tmp_path / "file").write_text("")
  for folder in (tmp_path / "file", tmp_path / "file" / "below"):
    with pytest.raises(TrainingError, match=re.escape(str(folder))):
      resume(folder)


def test_disk_that_is_full(tmp_path, monkeypatch):
  checkpoints = Checkpoints(tmp_path, {}, step=tf.Variable(0))

  def full(**unused):
    raise tf.errors.ResourceExhaustedError(None, None, "No space left on device\nand more")

  monkeypatch.setattr(checkpoints._manager, "save", full)
  with pytest.raises(TrainingError, match=r"step 4 .*the disk is full"):
    checkpoints.save(4)


def test_another_fit_is_noticed_by_a_part_of_its_identity(tmp_path):
  """run_flow checks the folder before anything is embedded."""
  assert not check_claim(tmp_path / "none", {"seed": 3})
  (tmp_path / "fit.json").write_text('{"seed": 3, "data": "abc"}')
  assert check_claim(tmp_path, {"seed": 3})
  with pytest.raises(TrainingError, match="seed 3, now 4"):
    check_claim(tmp_path, {"seed": 4})


CONSTANT = small.embeddings()[0] * [1, 0, 1, 1]


def seeded():
  return keras.initializers.GlorotUniform(seed=1)


class ListOfLayers(keras.layers.Layer):
  """A user's network whose layers are in a list, a dictionary and a tuple."""

  def __init__(self, units):
    super().__init__()
    first, second, last = (keras.layers.Dense(n, "tanh", kernel_initializer=seeded()) for n in (3, 3, units))
    self.first, self.named, self.rest = [first], {"second": second}, (last,)

  def call(self, inputs):
    return self.rest[0](self.named["second"](self.first[0](inputs)))


# {what is special: (steps at which it is stopped, arguments of the fit, the flow's settings)}
STOPPED = {
  "again and again, in other chunks": ([5, 10], {"save_checkpoints_steps": 3}, {}),
  "dropout, and not initialized from data": ([10], {}, {"actnorm_init": "glorot", "coupling_dropout": 0.5}),
  "own network, and a constant dimension, whose scale of 1 is no weight": (
    [10],
    {"source": EmbeddingPairs(CONSTANT, CONSTANT)},
    {"network": ListOfLayers},
  ),
  "more pairs than the shuffle buffer holds": (
    [20],
    {"source": EmbeddingPairs(*small.embeddings(3000)), "train_batch_size": 250},
    {},
  ),
}


@pytest.mark.parametrize("case", STOPPED)
def test_resumed_fit_is_the_same_to_the_bit(case, tmp_path):
  steps, arguments, flow_settings = STOPPED[case]

  def fit(**more):
    return small.fit(epochs=3, flow=small.make_flow(**flow_settings), **{**arguments, **more})

  expected, fitted = fit()
  for step in steps:
    with small.interrupted_at(step):
      fit(checkpoint_folder=tmp_path, save_checkpoints_steps=5)
  result, flow = fit(checkpoint_folder=tmp_path)
  assert (result.first_step, result.steps) == (steps[-1], expected.steps)
  assert flow.constant_dimensions == fitted.constant_dimensions
  small.assert_same_weights(flow, fitted)
  np.testing.assert_array_equal(result.losses, expected.losses[steps[-1] :])
