"""bert_flow_tf/training/experiment.py: names of experiments, and what a resumed fit must share."""

import dataclasses

import pytest

from bert_flow_tf.data.settings import CorpusSettings, DataSettings
from bert_flow_tf.encoder.settings import EmbeddingSettings
from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.io.settings import setting
from bert_flow_tf.training.calibrate import make_flow
from bert_flow_tf.training.experiment import ExperimentSettings
from bert_flow_tf.training.settings import FlowSettings, RunSettings
from bert_flow_tf.training.sources import EmbeddingPairs
from tests.training import small

CONFIG = FlowConfig(n_levels=1, depth=1, coupling_width=4)
START = "exp_t_sample_ep_1.00_lr_5.00e-05_e_avg-first-last_f_11_1.00e-03"


# The names, hashes included, that version 7ae9841 gave: folders of earlier experiments are found again.
@pytest.mark.parametrize(
  ("settings", "name"),
  [
    ({}, f"{START}_allsplits_m_mini_c_l2_d3_w32_s_1234"),
    (
      {
        "embedding": EmbeddingSettings(low_dim=32),
        "run": RunSettings(calibration=("sn", "flow")),
        "data": DataSettings(data_dir="data"),
      },
      f"{START}_allsplits_m_mini_c_l2_d3_w32_s_1234_23edb8c6",
    ),
    (
      {
        "corpus": CorpusSettings(use_full_for_training=False),
        "embedding": EmbeddingSettings(precision="bfloat16"),
        "flow": FlowSettings(use_xla=True),
        "run": RunSettings(encoder_dropout=True),
      },
      f"{START}_m_mini_c_l2_d3_w32_s_1234_1b06b560",
    ),
    (
      {
        "corpus": CorpusSettings(flow_corpus="nli"),
        "embedding": EmbeddingSettings(model="org/bert", max_seq_length=32),
        "flow": FlowSettings(train_batch_size=16, permutation="random"),
      },
      f"{START}_m_bert_c_l2_d3_w32_s_1234_94f890db",
    ),
  ],
)
def test_names_stay_the_same(settings, name):
  assert ExperimentSettings(**settings).name("sample") == name


def test_rate_epochs_and_seed_have_their_own_parts():
  flow = FlowSettings(flow_learning_rate=0.002, num_train_epochs=3, seed=7)
  name = "exp_t_STS-B_ep_3.00_lr_5.00e-05_e_avg-first-last_f_11_2.00e-03_allsplits_m_mini_c_l2_d3_w32_s_7"
  assert ExperimentSettings(flow=flow).name("STS-B") == name


def test_files_of_one_task_are_different_experiments():
  names = {ExperimentSettings(data=DataSettings(data_dir=file)).name("custom") for file in ("a.tsv", "b.tsv")}
  assert len(names) == 2


@dataclasses.dataclass(frozen=True)
class Wider(FlowSettings):
  """The settings with a field that nothing else knows."""

  coupling_noise: float = setting(0.0, "Noise of the coupling.")
  log_every: int = setting(10, "Steps between two lines of the log.", named=False)


def test_a_new_field_changes_name_and_resume_identity(tmp_path):
  """No list of names has to be extended for it."""
  plain, noisy, chatty = Wider(), Wider(coupling_noise=0.1), Wider(log_every=1)
  name = ExperimentSettings(flow=FlowSettings()).name("sample")
  assert ExperimentSettings(flow=plain).name("sample") == ExperimentSettings(flow=chatty).name("sample") == name
  assert ExperimentSettings(flow=noisy).name("sample") != name
  assert plain.identity() == chatty.identity() != noisy.identity()

  a, b = small.embeddings(pairs=8)
  for settings in (plain, chatty):  # the second one resumes from the first one's checkpoint
    fit(settings, tmp_path, a, b)
  with pytest.raises(TrainingError, match=r"coupling_noise 0\.0 .*0\.1"):
    fit(noisy, tmp_path, a, b)


def fit(settings, folder, a, b):
  settings = dataclasses.replace(settings, flow_model_config=CONFIG, train_batch_size=len(a), num_train_epochs=1)
  flow, _ = make_flow(settings, a.shape[1], folder=folder, show_progress=False)
  flow.fit_source(EmbeddingPairs(a, b))


def test_a_configuration_that_cannot_be_read_is_found_by_check():
  with pytest.raises(ConfigError):
    FlowSettings(flow_model_config="absent").check()
