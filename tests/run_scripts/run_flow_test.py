"""run_scripts/run_flow.py, started as a user does: the default command, a kill and a resume."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from bert_flow_tf import SentenceModel
from bert_flow_tf.evaluation.metrics import cosine_similarity
from tests.run_scripts.results import check_figures, check_files, read_predictions, without_seconds
from tests.testing import REPO, finished_python, shared
from tools.soak.cases import prepare

pytestmark = pytest.mark.slow

RUN_FLOW = "run_scripts/run_flow.py"
NAME = "sample_mini_flow_5ep"
STEPS = int(1600 / 32 * 5)


def run(*flags, cwd=REPO, script=RUN_FLOW):
  done = finished_python(script, *flags, cwd=cwd)
  assert "Traceback" not in done.stderr and not re.search("^error:", done.stderr, re.MULTILINE)
  return done.stdout


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  """Returns output and folder of the default command, started in the repository's root."""
  parent = tmp_path_factory.mktemp("whole")
  table = run(f"--output_parent_dir={parent}")
  assert [folder.name for folder in parent.iterdir()] == [NAME]
  return table, parent / NAME


def test_default_command(whole):
  """The scores are those of the first screen of README.md; 57.44 and 33.76 on one processor."""
  table, folder = whole
  check_files(folder, STEPS)
  results, _ = check_figures(folder)
  fitted_on = {"pairs": 1600, "sentences": 1621, "queries": 0, "steps": STEPS, "epochs": 5.0, "learning_rate": 1e-3}
  assert results["fitted_on"] == fitted_on
  test = results["results"]["test"]
  assert test["without_flow"]["spearman"] == pytest.approx(33.76, abs=0.2)
  assert test["with_flow"]["spearman"] == pytest.approx(57.4, abs=1.5)
  assert results["gain"]["test"]["with_flow"]["low"] > 0
  assert f" {test['with_flow']['spearman']:.2f} " in table
  assert "task_name" not in results["flags"]  # task's alias
  assert results["flags"]["task"] == "sample" and results["flags"]["seed"] == 1234
  assert results["versions"]["tensorflow"].startswith("2.") and len(results["encoder"]["weights_sha256"]) == 64
  assert all(seconds > 0 for seconds in results["seconds"].values())


def test_killed_run_resumes_to_the_same_weights(whole, tmp_path):
  """SIGKILL during the fit, then the same command; both started in run_scripts/."""
  flags = [f"--output_parent_dir={tmp_path}", "--save_checkpoints_steps=5"]
  inside = REPO / "run_scripts"
  checkpoints = tmp_path / NAME / "checkpoints"
  code = "from run_scripts import run_flow\nfrom tests.testing import pause_when_saved\n"
  code += "pause_when_saved(4)\nrun_flow.console()\n"
  pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
  environment = {**os.environ, "PYTHONPATH": str(REPO)}
  with subprocess.Popen([sys.executable, "-c", code, *flags], cwd=inside, env=environment, **pipes) as process:
    assert process.stdout.readline() == b"saved\n"
    process.kill()
  assert sorted(file.stem for file in checkpoints.glob("ckpt-*.index")) == ["ckpt-10", "ckpt-15"]
  assert not (tmp_path / NAME / "results.json").exists()

  table = run(*flags, cwd=inside, script="run_flow.py")
  folder = tmp_path / NAME
  check_files(folder, STEPS)
  assert without_seconds(table) == without_seconds(whole[0])
  saved = "flow/calibration.npz"
  assert (folder / saved).read_bytes() == (whole[1] / saved).read_bytes()
  check_figures(folder)


def test_flow_and_soft_whitening_side_by_side_on_a_mix(tmp_path):
  """The cosine is the mean of the two, in the run, in the saved model and in the served one."""
  import tensorflow as tf
  import tensorflow_text  # noqa: F401 (operations of the served model)

  flags = ["--sentence_embedding_type=mix", "--token_weights=idf", "--calibration=flow+soft-whitening"]
  flags += ["--task=hard-sample", "--num_train_epochs=2", f"--output_parent_dir={tmp_path}", "--exp_name=e"]
  run(*flags, f"--export_dir={tmp_path}/v")
  columns = read_predictions(tmp_path / "e")
  model = SentenceModel.load(tmp_path / "e/flow+soft-whitening")
  u, v = (model.encode(columns[f"sentence{side}"], calibrated=False) for side in (1, 2))
  means = np.mean([cosine_similarity(part.transform(u), part.transform(v)) for part in model.calibration.parts], axis=0)
  found = np.array(columns["flow+soft-whitening"], float)
  np.testing.assert_allclose(found, means, atol=1e-4)
  expected = model.encode(columns["sentence1"][:8])
  np.testing.assert_allclose(cosine_similarity(expected, model.encode(columns["sentence2"][:8])), found[:8], atol=1e-4)
  assert (tmp_path / "v/1/assets.extra/metadata.json").is_file()
  served = tf.saved_model.load(str(tmp_path / "v/1")).signatures["serving_default"]
  answer = served(text=tf.constant(columns["sentence1"][:8]))["embedding"].numpy()
  np.testing.assert_allclose(cosine_similarity(answer, expected), 1, atol=1e-5)
  assert answer.shape == (8, model.output_dim) == (8, 2 * 256)


def test_sts_benchmark(tmp_path):
  """The original's scores on the same embeddings: 50.08, and 67.86 as a mean over seeds."""
  model, data = shared("models/minilm-l6-mlm"), shared("data/STS/STSBenchmark").parent.parent
  flags = ("--task=STS-B", f"--model={model}", f"--data_dir={data}", "--output_parent_dir=results", "--seed=1")
  run(*flags, cwd=tmp_path, script=REPO / RUN_FLOW)
  (folder,) = (tmp_path / "results").iterdir()
  results, _ = check_figures(folder)
  test = results["results"]["test"]
  assert test["without_flow"]["spearman"] == pytest.approx(50.08, abs=0.05)
  assert test["with_flow"]["spearman"] == pytest.approx(67.86, abs=1.2)
  assert test["with_flow"]["pairs"] == 1379
  assert (results["fitted_on"]["pairs"], results["fitted_on"]["steps"]) == (8628, 269)


def test_a_seed_decides_every_bit(tmp_path):
  """Results, weights, checkpoints and predictions of two processes, which order Python's sets differently."""
  prepare(tmp_path / "inputs")
  runners = "run_flow,run_siamese,run_calibrate"
  found = []
  for hashes in ("1", "2"):
    done = finished_python("-m", "tools.soak.forks", tmp_path, runners, PYTHONHASHSEED=hashes)
    found.append(json.loads(done.stdout.splitlines()[-1]))
  assert found[0] == found[1] and all(found[0].values())
  assert "damaged" not in json.dumps(found)
