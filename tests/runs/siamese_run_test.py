"""runs/siamese_run.py and its checkpoints: the one that a name stands for, a flow that is not the checkpoint's."""

import numpy as np
import pytest

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder
from bert_flow_tf.data.tasks import KINDS, load_task
from bert_flow_tf.encoder import tf1_reader
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.runs.siamese_run import SiameseRun, checkpoint_of, write_facts
from bert_flow_tf.tf1.checkpoint import write_checkpoint
from bert_flow_tf.tf1.training import restore_flow, write_training_checkpoint
from bert_flow_tf.training.siamese_settings import SiameseEmbedding, SiameseSettings
from tests.training import small_siamese


def make_flow(depth, seed):
  return Glow(FlowConfig(n_levels=1, depth=depth, coupling_width=4), 12, "glorot", seed=seed)


def test_flow_of_a_checkpoint(tmp_path, monkeypatch):
  encoder = SentenceEncoder.from_pretrained(small_siamese.save(tmp_path / "model"))
  flow = make_flow(2, 3)
  for step in (3, 10):
    write_training_checkpoint(tmp_path / "exp", step, encoder, flow, None)
  folder = str(tmp_path / "exp")
  assert checkpoint_of(folder) == f"{folder}/model.ckpt-10"

  def killed(prefix, variables):
    raise KeyboardInterrupt

  monkeypatch.setattr("bert_flow_tf.tf1.checkpoint.write_checkpoint", killed)  # while it replaces the latest one
  with pytest.raises(KeyboardInterrupt):
    write_training_checkpoint(tmp_path / "exp", 10, encoder, flow, None)
  assert checkpoint_of(folder) == f"{folder}/model.ckpt-3"
  assert (tmp_path / "exp/checkpoint").read_text().count("model.ckpt-3") == 2
  monkeypatch.setattr("bert_flow_tf.tf1.checkpoint.write_checkpoint", write_checkpoint)
  write_training_checkpoint(tmp_path / "exp", 10, encoder, flow, None)
  # The configuration comes last: where a killed process has left it, the other files are there too.
  times = [(tmp_path / "exp" / name).stat().st_mtime_ns for name in ("vocab.txt", "bert_config.json")]
  assert times == sorted(times)
  same = (f"{folder}/model.ckpt-3", str(tmp_path / "model"), "mini", "hub/name")
  assert tuple(map(checkpoint_of, same)) == same

  other = make_flow(2, 1)
  assert restore_flow(checkpoint_of(folder), other) == (24, 24)
  for name, value in flow.tf1_variables().items():
    np.testing.assert_array_equal(value, other.tf1_variables()[name])
  with pytest.raises(ConfigError, match=r"ckpt-10 has a flow of 24 variables, and this configuration has 12") as raised:
    restore_flow(checkpoint_of(folder), make_flow(1, 1))
  assert raised.value.argument == "flow_model_config"
  assert tf1_reader.prefixes_in(folder) == ["model.ckpt-10", "model.ckpt-3"]


def test_an_evaluation_needs_only_the_trained_encoder(tmp_path, capsys):
  """The one that the training started from may be gone; then its scores are left out."""
  encoder = SentenceEncoder.from_pretrained(small_siamese.save(tmp_path / "trained"))
  write_training_checkpoint(tmp_path, 3, encoder, None, None)
  write_facts(tmp_path, {"encoder_sha256_before": "0" * 64})
  embedding = SiameseEmbedding(init_checkpoint=str(tmp_path / "gone"), max_seq_length=16)
  task = load_task("sample", None, None, None, KINDS)
  run = SiameseRun(task, embedding, SiameseSettings(), tmp_path, {})
  run.evaluate(["test"], 8)
  run.write()
  assert run.step == 3 and "before training" not in capsys.readouterr().out
