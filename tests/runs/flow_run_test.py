"""bert_flow_tf/runs/flow_run.py: names of experiments, and what a resumed fit must share."""

import dataclasses
import json
import pathlib
import re
import shutil

import pytest

from bert_flow_tf import SentenceModel
from bert_flow_tf.calibration.names import AUTO_CANDIDATES
from bert_flow_tf.calibration.saving import calibration_sha256, saved_calibrations
from bert_flow_tf.data.flow_corpus import CorpusSettings
from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.io.experiment import OutputSettings
from bert_flow_tf.io.settings import setting
from bert_flow_tf.runs.flow_run import FlowRunSettings
from bert_flow_tf.serving.metadata import read_origin
from bert_flow_tf.training.flow_fit import make_trainer
from bert_flow_tf.training.settings import FlowSettings, RunSettings
from bert_flow_tf.training.sources import EmbeddingPairs
from tests.runs import small_runs
from tests.runs.small_runs import write_pairs
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
  file = write_pairs(tmp_path / "pairs.tsv")
  names, folder = ("mean", "auto+characters-64"), tmp_path / "run"
  small_runs.fit(folder, file, *names).evaluate({})
  small_runs.fit(folder, file, *names)
  with rejected(ConfigError, "exp_name", match="has auto|has .*characters-64 of another run"):
    small_runs.fit(folder, file, "mean")
  # Calibrations that a user saves there are neither replaced nor in the way.
  mine = SentenceModel.load(folder / "mean")
  mine.save(folder / "mine")
  small_runs.fit(folder, file, *names).evaluate({})
  assert (folder / "mine/calibration.npz").exists()
  other = next(name for name in AUTO_CANDIDATES if not (folder / f"{name}+characters-64").exists())
  mine.save(folder / f"{other}+characters-64")
  with rejected(ConfigError, "exp_name", match="is not of the run"):
    small_runs.fit(folder, file, *names)


class Killed(BaseException):
  """A kill of the process."""


def killed_at(monkeypatch, moment):
  """Lets the process be killed where it would rename or remove a file, at the given number of these, from 0."""
  left = [moment]
  for name in ("replace", "unlink"):
    change = getattr(pathlib.Path, name)

    def killed(path, *arguments, change=change, **keywords):
      left[0] -= 1
      if left[0] == -1:  # once: what runs on the way out would not run
        raise Killed
      return change(path, *arguments, **keywords)

    monkeypatch.setattr(pathlib.Path, name, killed)


def content(folder):
  """Returns {path: what it holds}, without times."""
  files = {}
  for path in folder.rglob("*"):
    if path.is_file() and path.name not in ("report.html", "results.json"):
      files[path.relative_to(folder).as_posix()] = path.read_bytes()
  results = json.loads((folder / "results.json").read_text())
  for name in ("seconds", "sha256"):
    del results[name]
  return files, results, (folder / "report.html").exists()


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_killed_second_run_leaves_no_scores_of_other_models(tmp_path, monkeypatch, step):
  """Whatever the moment: what the folder says is true, and the same command ends as without a kill."""
  first = write_pairs(tmp_path / "first.tsv", 0)
  second = write_pairs(tmp_path / "second.tsv", 40)

  def fit_auto(folder, file, candidate):
    with monkeypatch.context() as patched:
      patched.setattr("bert_flow_tf.training.choice.AUTO_CANDIDATES", (candidate,))
      return small_runs.fit(folder, file, "mean", "auto")

  fit_auto(tmp_path / "before", first, "whitening").evaluate({})
  assert (tmp_path / "before/whitening").is_dir()
  old = json.loads((tmp_path / "before/results.json").read_text())
  folder = tmp_path / "run"
  shutil.copytree(tmp_path / "before", folder)
  run = fit_auto(folder, second, "soft-whitening")
  run.evaluate({})
  whole = content(folder)
  assert saved_calibrations(folder) == ["mean", "soft-whitening"] and not (folder / "whitening").exists()

  moments = 0
  while moments < 40:
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "before", folder)
    with monkeypatch.context() as patched:
      killed_at(patched, moments)
      try:
        run.evaluate({})
        break
      except Killed:
        moments += step
    found = json.loads((folder / "results.json").read_text())
    of_first = found["results"] == old["results"]
    for name in saved_calibrations(folder):
      about = read_origin(folder / name)
      if about.get("figures"):
        assert found["models"][name]["calibration_sha256"] == calibration_sha256(folder / name)
        assert ("first.tsv" in about["origin"]["data"]) == of_first
    if (folder / "report.html").exists():
      assert ("first.tsv" in (folder / "report.html").read_text()) == of_first and found["results"]
    run.evaluate({})
    assert content(folder) == whole
  assert moments > 8 and content(folder) == whole
