"""runs/siamese_run.py: the checkpoint that a name stands for, and a flow that is not the checkpoint's."""

import numpy as np
import pytest

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder
from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.data.tasks import KINDS, load_task
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.experiment import Stopwatch
from bert_flow_tf.runs.siamese_folder import Trained, checkpoint_of
from bert_flow_tf.runs.siamese_run import SiameseJob
from bert_flow_tf.tf1.training import write_training_checkpoint
from bert_flow_tf.training.siamese_settings import SiameseEmbedding, SiameseSettings
from tests.training import small_siamese


def flow(depth, seed):
  return FlowCalibration(Glow(FlowConfig(n_levels=1, depth=depth, coupling_width=4), 12, "glorot", seed=seed))


def test_flow_of_a_checkpoint(tmp_path):
  encoder = SentenceEncoder.from_pretrained(small_siamese.save(tmp_path / "model"))
  for step in (3, 10):
    saved = Trained(encoder, flow(2, step), None, {})
    write_training_checkpoint(tmp_path / "exp", step, encoder, saved.variables())
  folder = str(tmp_path / "exp")
  assert checkpoint_of(folder) == f"{folder}/model.ckpt-10"
  with pytest.raises(ValueError, match="object"):  # as if it were killed while it replaces the latest one
    write_training_checkpoint(tmp_path / "exp", 10, encoder, {"weights": np.array([object()])})
  assert checkpoint_of(folder) == f"{folder}/model.ckpt-3"
  assert (tmp_path / "exp/checkpoint").read_text().count("model.ckpt-3") == 2
  write_training_checkpoint(tmp_path / "exp", 10, encoder, saved.variables())
  # The configuration comes last: where a killed process has left it, the other files are there too.
  times = [(tmp_path / "exp" / name).stat().st_mtime_ns for name in ("vocab.txt", "bert_config.json")]
  assert times == sorted(times)
  same = (f"{folder}/model.ckpt-3", str(tmp_path / "model"), "mini", "hub/name")
  assert tuple(map(checkpoint_of, same)) == same

  other = Trained(encoder, flow(2, 1), None, {})
  assert other.restore(checkpoint_of(folder)) == {"flow": (24, 24)}
  for name, value in saved.variables().items():
    assert (value == other.variables()[name]).all()
  with pytest.raises(ConfigError, match=r"ckpt-10 has a flow of 24 variables, and this configuration has 12") as raised:
    Trained(encoder, flow(1, 1), None, {}).restore(checkpoint_of(folder))
  assert raised.value.argument == "flow_model_config"


def test_an_evaluation_needs_only_the_trained_encoder(tmp_path):
  """The one that the training started from may be gone; then its scores are left out."""
  encoder = SentenceEncoder.from_pretrained(small_siamese.save(tmp_path / "trained"))
  embedding = SiameseEmbedding(init_checkpoint=str(tmp_path / "gone"), sentence_embedding_type="avg")
  task = load_task("sample", None, None, None, KINDS)
  job = SiameseJob(task, embedding, SiameseSettings(), tmp_path, Stopwatch(), lambda *unused: None)
  trained = Trained(encoder, None, None, {"encoder_sha256_before": "0" * 64})
  assert job.embed_untrained(trained, list(task.splits.values())) is None
