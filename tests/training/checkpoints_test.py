"""training/loop.py: whose checkpoints they are, and what becomes of damaged ones."""

import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import TrainingError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.training.loop import IDENTITY_FILE, Checkpoints, check_claim
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


def test_what_a_killed_process_was_writing_is_cleared_away(folder):
  before = {file.name for file in folder.iterdir()}
  (folder / "ckpt_temp").mkdir()
  (folder / "ckpt_temp/part-00000-of-00001.data-00000-of-00001.tempstate1").write_bytes(b"half")
  resume(folder)
  assert {file.name for file in folder.iterdir()} == before


@pytest.mark.parametrize(
  ("changed", "difference"),
  [
    ({"seed": 1}, "seed 0, now 1"),
    ({"flow_learning_rate": 0.02}, "flow_learning_rate 0.01, now 0.02"),
    ({"train_batch_size": 4}, "steps 16, now 32; train_batch_size 8, now 4"),
    ({"epochs": 3}, "steps 16, now 24"),
    ({"shuffle": False}, "shuffle True, now False"),
    ({"flow": 8}, "flow.seed 7, now 8"),
    ({"flow": FlowConfig(n_levels=1, depth=2, coupling_width=4)}, "flow.config.depth 1, now 2"),
    ({"source": 1}, r"data [0-9a-f]{12}\.\.\., now [0-9a-f]{12}\.\.\."),
  ],
  ids=lambda value: None if isinstance(value, dict) else value.split()[0],
)
def test_another_fit_is_refused_with_the_difference(folder, changed, difference):
  before = {file.name: file.read_bytes() for file in folder.iterdir()}
  if "source" in changed:
    a, b = small.embeddings()
    b[-1, -1] += 1e-3
    changed = {"source": EmbeddingPairs(a, b)}
  if isinstance(changed.get("flow"), int):
    changed = {"flow": small.make_flow(seed=changed["flow"])}
  if isinstance(changed.get("flow"), FlowConfig):
    changed = {"flow": Glow(changed["flow"], small.DIM, seed=7)}
  message = rf"^checkpoint folder {re.escape(str(folder))} belongs to another fit \({difference}\): choose another"
  with pytest.raises(TrainingError, match=message):
    resume(folder, **changed)
  assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_what_does_not_decide_the_weights_may_change(folder, fitted):
  result, flow = resume(folder, save_checkpoints_steps=1)
  assert result.first_step == 16
  small.assert_same_weights(flow, fitted[1])


def damage(file, how):
  data = file.read_bytes()
  if how == "gone":
    file.unlink()
  else:
    changed = {"empty": b"", "half": data[: len(data) // 2]}
    changed["one byte"] = data[: len(data) // 3] + bytes([data[len(data) // 3] ^ 1]) + data[len(data) // 3 + 1 :]
    changed["garbage"] = np.random.default_rng(0).bytes(len(data))
    file.write_bytes(changed[how])


@pytest.mark.parametrize("how", ["gone", "empty", "half", "one byte", "garbage"])
@pytest.mark.parametrize("part", ["index", "data-00000-of-00001"])
def test_damaged_newest_checkpoint_gives_way_to_the_one_before(folder, monkeypatch, part, how):
  warnings = []
  monkeypatch.setattr(logging, "warning", lambda text, *values: warnings.append(text % values))
  damage(folder / f"ckpt-16.{part}", how)
  flow = small.make_flow()
  trainer = small.make_trainer(flow, checkpoint_folder=folder)
  loop = trainer._loop(EmbeddingPairs(*small.embeddings()), 16, True)
  loop.restore()
  (warning,) = warnings
  assert "ckpt-16 cannot be read" in warning
  assert loop.step == 15 and flow.initialized


def test_after_damage_the_fit_ends_with_the_same_weights(folder, fitted):
  damage(folder / "ckpt-16.data-00000-of-00001", "half")
  result, flow = resume(folder)
  assert result.first_step == 15
  small.assert_same_weights(flow, fitted[1])
  again, flow = resume(folder)  # what was saved over the damaged one is whole
  assert again.first_step == 16
  small.assert_same_weights(flow, fitted[1])


def test_where_all_are_damaged_nothing_is_lost_silently(folder):
  for file in folder.glob("*.data-*"):
    damage(file, "one byte")
  with pytest.raises(TrainingError, match="no checkpoint in it can be read; remove it to start from step 0"):
    resume(folder)


def test_checkpoint_of_other_variables_is_refused(tmp_path):
  saved, loaded = ({"a": tf.Variable(value), "b": tf.Variable(value)} for value in (1.0, 0.0))
  Checkpoints(tmp_path, {}, **saved).save(3)
  with pytest.raises(TrainingError, match="no checkpoint in it can be read; remove it to start from step 0"):
    Checkpoints(tmp_path, {}, a=loaded["a"], c=loaded["b"]).restore()


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "\xff"])
def test_damaged_identity(folder, text):
  (folder / IDENTITY_FILE).write_text(text, encoding="latin-1")
  with pytest.raises(TrainingError, match=r"^checkpoint folder .*(fit.json cannot be used|belongs to another fit)"):
    resume(folder)


def test_empty_state_file(folder):
  (folder / "checkpoint").write_text("")
  with pytest.raises(TrainingError, match=r"checkpoint folder .*: damaged .*; remove it to start from step 0"):
    resume(folder)


def test_folder_that_cannot_be(tmp_path):
  (tmp_path / "file").write_text("")
  for folder in (tmp_path / "file", tmp_path / "file" / "below"):
    with pytest.raises(TrainingError, match=r"^checkpoint folder .*cannot be used"):
      resume(folder)


def test_disk_that_is_full(tmp_path, monkeypatch):
  checkpoints = Checkpoints(tmp_path, {}, step=tf.Variable(0))

  def full(**unused):
    raise tf.errors.ResourceExhaustedError(None, None, "No space left on device\nand more")

  monkeypatch.setattr(checkpoints._manager, "save", full)
  with pytest.raises(TrainingError, match=r"step 4 cannot be saved \(the disk is full; free some space"):
    checkpoints.save(4)


def test_another_fit_is_noticed_by_a_part_of_its_identity(tmp_path):
  """As run_flow knows it, before anything is embedded."""
  assert not check_claim(tmp_path / "none", {"seed": 3})
  (tmp_path / "fit.json").write_text('{"seed": 3, "data": "abc"}')
  assert check_claim(tmp_path, {"seed": 3})
  with pytest.raises(TrainingError, match="seed 3, now 4"):
    check_claim(tmp_path, {"seed": 4})
