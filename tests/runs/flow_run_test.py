"""bert_flow_tf/runs/flow_run.py: names of experiments, and what a resumed fit must share."""

import dataclasses
import re

import pytest

from bert_flow_tf import SentenceModel, load_task
from bert_flow_tf.calibration.names import parse_calibrations
from bert_flow_tf.data.flow_corpus import TARGET, CorpusSettings, load_flow_corpus
from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.io.experiment import OutputSettings
from bert_flow_tf.io.settings import setting
from bert_flow_tf.runs.flow_run import FlowRun, FlowRunSettings
from bert_flow_tf.training.fitter import make_trainer
from bert_flow_tf.training.settings import FlowSettings, RunSettings
from bert_flow_tf.training.sources import EmbeddingPairs
from bert_flow_tf.training.strategies import make_strategy
from tests.testing import rejected
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
        "embedding": EncoderSettings(low_dim=32),
        "run": RunSettings(calibration=("sn", "flow")),
        "data": DataSettings(data_dir="data"),
      },
      f"{START}_allsplits_m_mini_c_l2_d3_w32_s_1234_23edb8c6",
    ),
    (
      {
        "corpus": CorpusSettings(use_full_for_training=False),
        "embedding": EncoderSettings(precision="bfloat16"),
        "flow": FlowSettings(use_xla=True),
        "run": RunSettings(encoder_dropout=True),
      },
      f"{START}_m_mini_c_l2_d3_w32_s_1234_1b06b560",
    ),
    (
      {"flow": FlowSettings(flow_learning_rate=0.002, num_train_epochs=3, seed=7)},
      "exp_t_sample_ep_3.00_lr_5.00e-05_e_avg-first-last_f_11_2.00e-03_allsplits_m_mini_c_l2_d3_w32_s_7",
    ),
  ],
)
def test_names_as_published_stay_the_same(settings, name):
  run = dataclasses.replace(settings.get("run", RunSettings()), name_as_published=True)
  assert FlowRunSettings(**{**settings, "run": run}).name("sample") == name


@pytest.mark.parametrize(
  ("settings", "name"),
  [
    ({}, "STS-B_mini_flow_1ep"),
    ({"run": RunSettings(calibration=("whitening", "auto"))}, "STS-B_mini_whitening_auto"),
    ({"run": RunSettings(calibration=("flow+mean",))}, "STS-B_mini_flow+mean_1ep"),
    (
      {
        "embedding": EncoderSettings(model="org/bert", sentence_embedding_type="mix", token_weights="idf"),
        "run": RunSettings(calibration=("whitening-64", "flow")),
        "output": OutputSettings(exp_name_prefix="mine"),
      },
      "mine_STS-B_bert_mix_idf_whitening-64_flow_1ep",
    ),
    (
      {
        "flow": FlowSettings(
          flow_model_config="config_l3_d3_w16", flow_learning_rate=2e-3, seed=7, num_train_epochs=0.5
        )
      },
      "STS-B_mini_flow_l3_d3_w16_0.5ep_lr0.002_seed7",
    ),
  ],
)
def test_a_person_can_read_the_name(settings, name):
  """Every further field that differs from its default adds a hash."""
  assert FlowRunSettings(**settings).name("STS-B") == name
  wider = dataclasses.replace(settings.get("flow", FlowSettings()), train_batch_size=16)
  assert re.fullmatch(rf"{re.escape(name)}_[0-9a-f]{{8}}", FlowRunSettings(**{**settings, "flow": wider}).name("STS-B"))


def test_many_calibrations_are_in_the_hash():
  several = [("sn", "natsv-1", "flow", "mean"), ("sn", "natsv-2", "flow", "mean")]
  names = {FlowRunSettings(run=RunSettings(calibration=names)).name("STS-B") for names in several}
  assert len(names) == 2 and all(re.fullmatch(r"STS-B_mini_1ep_[0-9a-f]{8}", name) for name in names)


def test_files_of_one_task_are_different_experiments():
  names = {FlowRunSettings(data=DataSettings(data_dir=file)).name("custom") for file in ("a.tsv", "b.tsv")}
  assert len(names) == 2


@dataclasses.dataclass(frozen=True)
class Wider(FlowSettings):
  """The settings with a field that nothing else knows."""

  coupling_noise: float = setting(0.0, "Noise of the coupling.")
  log_every: int = setting(10, "Steps between two lines of the log.", named=False)


def test_a_new_field_changes_name_and_resume_identity(tmp_path):
  """No list of names has to be extended for it."""
  plain, noisy, chatty = Wider(), Wider(coupling_noise=0.1), Wider(log_every=1)
  name = FlowRunSettings(flow=FlowSettings()).name("sample")
  assert FlowRunSettings(flow=plain).name("sample") == FlowRunSettings(flow=chatty).name("sample") == name
  assert FlowRunSettings(flow=noisy).name("sample") != name
  assert plain.identity() == chatty.identity() != noisy.identity()

  a, b = small.embeddings(pairs=8)
  for settings in (plain, chatty):  # the second one resumes from the first one's checkpoint
    fit(settings, tmp_path, a, b)
  with pytest.raises(TrainingError, match=r"coupling_noise 0\.0, now 0\.1"):
    fit(noisy, tmp_path, a, b)


def fit(settings, folder, a, b):
  settings = dataclasses.replace(settings, flow_model_config=CONFIG, train_batch_size=len(a), num_train_epochs=1)
  make_trainer(settings, a.shape[1], folder=folder, show_progress=False).fit(EmbeddingPairs(a, b))


def test_a_run_may_be_repeated_whatever_its_calibrations_chose(tmp_path):
  model, task = SentenceModel.from_pretrained("static:mini"), load_task("sample")

  def run(*names):
    settings = FlowRunSettings(output=OutputSettings(output=str(tmp_path)))
    corpus = load_flow_corpus(TARGET, task)
    run = FlowRun(model, settings, parse_calibrations(names), task, corpus, make_strategy())
    run.check()
    return run

  names = "natsv+characters-64", "auto+characters-64"
  first = run(*names)
  first.fit()
  for method, fitted in first.calibrated.items():
    fitted.save(first.calibration_folder(method))
  saved = {path.name for path in tmp_path.iterdir() if path.is_dir()}
  assert any(re.fullmatch(r"natsv-\d+\+characters-64", name) for name in saved) and len(saved) == 2
  run(*names)
  with rejected(ConfigError, "exp_name"):
    run("natsv+characters-64")
