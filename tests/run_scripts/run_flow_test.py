"""run_scripts/run_flow.py, started as a user does: right and wrong command lines, a kill and a resume."""

import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf import Glow, SentenceEncoder
from bert_flow_tf.calibration.flow import load_calibration
from bert_flow_tf.data.tasks import load_task
from tests.run_scripts import hostile
from tests.run_scripts.command_lines import check_rejected, check_succeeded
from tests.run_scripts.results import read_json, read_predictions
from tests.testing import REPO, shared

pytestmark = pytest.mark.slow
COMMAND_LINES = hostile

RUN_FLOW = [sys.executable, "run_scripts/run_flow.py"]
NAME = "exp_t_sample_ep_20.00_lr_5.00e-05_e_avg-first-last_f_11_1.00e-03_allsplits_m_mini_c_l2_d3_w32_s_1234"
STEPS = int(360 / 32 * 20)


def run(*flags, cwd=REPO, command=RUN_FLOW):
  done = subprocess.run([*command, *flags], cwd=cwd, capture_output=True, text=True, timeout=900)
  assert done.returncode == 0, done.stderr[-4000:]
  assert "Traceback" not in done.stderr and not re.search("^error:", done.stderr, re.MULTILINE)
  return done.stdout


def without_seconds(table):
  return [line for line in table.splitlines() if not line.startswith("seconds:")]


def check_files(folder, steps):
  """Asserts that the folder has all files and no others, except temporary ones of TensorFlow after a kill."""
  names = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
  names = {
    name for name in names if not name.startswith(("tensorboard/events.out.tfevents.", "checkpoints/checkpoint.tmp"))
  }
  saved = {re.sub(r"ckpt-\d+", "ckpt", name) for name in names}
  assert saved == {
    "results.json",
    "test_results.tsv",
    "eval_results.txt",
    "flow/flow.json",
    "flow/weights.npz",
    "checkpoints/checkpoint",
    "checkpoints/fit.json",
    "checkpoints/ckpt.index",
    "checkpoints/ckpt.data-00000-of-00001",
  }
  assert f"checkpoints/ckpt-{steps}.index" in names
  assert list((folder / "tensorboard").iterdir())


def check_figures(folder):
  """Asserts that the scores are SciPy's on the predictions; returns results.json."""
  results = read_json(folder / "results.json")
  columns = read_predictions(folder)
  gold = np.array(columns["gold"], float)
  for method in ("without_flow", "with_flow"):
    cosines = np.array(columns[method], float)
    figures = results["results"]["test"][method]
    assert figures["spearman"] == pytest.approx(100 * stats.spearmanr(cosines, gold)[0], abs=1e-9)
    assert figures["pearson"] == pytest.approx(100 * stats.pearsonr(cosines, gold)[0], abs=1e-9)
    assert figures["pairs"] == len(gold)
  lines = (folder / "eval_results.txt").read_text(encoding="utf-8").splitlines()
  values = dict(line.split(" = ") for line in lines)
  figures = results["results"]["test"]["with_flow"]
  assert 100 * float(values["eval_spearmanr"]) == pytest.approx(figures["spearman"], rel=1e-9)
  assert 100 * float(values["eval_pearsonr"]) == pytest.approx(figures["pearson"], rel=1e-9)
  scaled, cosines = gold / 5, np.array(columns["with_flow"], float)
  assert float(values["eval_loss"]) == pytest.approx(np.mean((cosines - scaled) ** 2), rel=1e-6)
  assert int(values["global_step"]) == results["fitted_on"]["steps"]
  return results


def check_table(table, results):
  """Asserts that the printed table has the scores of results.json."""
  methods = results["results"]["test"]
  for name, key in (("Spearman", "spearman"), ("Pearson", "pearson")):
    (line,) = [line for line in table.splitlines() if re.search(rf"^test +\d+ +{name} ", line)]
    before, after = methods["without_flow"][key], methods["with_flow"][key]
    expected = [
      "test",
      str(methods["with_flow"]["pairs"]),
      name,
      f"{before:.2f}",
      f"{after:.2f}",
      f"{after - before:+.2f}",
    ]
    assert line.split() == expected


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  """Returns output and folder of the default command, started in the repository's root."""
  parent = tmp_path_factory.mktemp("whole")
  table = run(f"--output_parent_dir={parent}")
  assert [folder.name for folder in parent.iterdir()] == [NAME]
  return table, parent / NAME


def test_default_command(whole):
  table, folder = whole
  check_files(folder, STEPS)
  results = check_figures(folder)
  check_table(table, results)
  assert results["fitted_on"] == {"pairs": 360, "sentences": 720, "steps": STEPS, "epochs": 20.0, "learning_rate": 1e-3}
  assert results["flags"]["task"] == "sample" and results["flags"]["seed"] == 1234
  assert results["versions"]["tensorflow"].startswith("2.") and len(results["encoder"]["weights_sha256"]) == 64
  assert all(seconds > 0 for seconds in results["seconds"].values())


def test_saved_flow_is_the_one_that_was_evaluated(whole):
  _, folder = whole
  flow = Glow.load(folder / "flow")
  assert flow.initialized and flow.settings() == read_json(folder / "results.json")["flow"]
  assert np.isfinite(flow.transform(np.random.default_rng(0).normal(size=[3, 256])).numpy()).all()


def test_predictions_are_the_samples_pairs(whole):
  columns = read_predictions(whole[1])
  with open(REPO / "bert_flow_tf/data/sample/sample.tsv", encoding="utf-8") as file:
    text = file.read()
  assert len(columns["index"]) == 360 and all(sentence in text for sentence in columns["sentence1"])
  assert len(set(columns["with_flow"])) > 350 and set(map(float, columns["gold"])) <= set(range(6))


def test_killed_run_resumes_to_the_same_weights(whole, tmp_path):
  """SIGKILL during the fit, then the same command; both started in run_scripts/."""
  command = [sys.executable, "run_flow.py", f"--output_parent_dir={tmp_path}", "--save_checkpoints_steps=5"]
  inside = REPO / "run_scripts"
  checkpoints = tmp_path / NAME / "checkpoints"
  process = subprocess.Popen(command, cwd=inside, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
  try:
    deadline = time.monotonic() + 200
    while not list(checkpoints.glob("ckpt-[1-9]*.index")) and time.monotonic() < deadline:
      time.sleep(0.01)
    time.sleep(random.uniform(0, 0.5))
    assert process.poll() is None, "the run ended before it could be killed"
  finally:
    process.send_signal(signal.SIGKILL)
    process.wait()
  at = max(int(file.stem.split("-")[1]) for file in checkpoints.glob("ckpt-*.index"))
  assert 0 < at < STEPS
  assert not (tmp_path / NAME / "results.json").exists()

  table = run(cwd=inside, command=command)
  folder = tmp_path / NAME
  check_files(folder, STEPS)
  assert without_seconds(table) == without_seconds(whole[0]), f"killed at step {at}"
  with np.load(folder / "flow/weights.npz") as found, np.load(whole[1] / "flow/weights.npz") as expected:
    assert set(found.files) == set(expected.files)
    for name in expected.files:
      np.testing.assert_array_equal(found[name], expected[name], err_msg=f"{name}, killed at step {at}")
  check_figures(folder)


def test_good_command_lines(ran):
  check_succeeded(ran[1], hostile.good(ran[0]))


def test_bad_command_lines_are_rejected_in_one_line(ran):
  check_rejected(ran[1], hostile.bad(ran[0]))


def test_refused_command_lines_leave_no_folder(ran):
  """Except those that are rejected while embedding or fitting."""
  folder, _ = ran
  names = [path.name for path in (folder / "experiments").iterdir()]
  assert {"kept", "good"} <= set(names) and len(names) <= 11, names
  assert not list((folder / "experiments/k").iterdir())  # no checkpoint of a flow that was fitted first


def test_loss_that_is_not_finite_keeps_the_checkpoint_before(ran):
  folder, found = ran
  kept = re.search(
    r"the checkpoint before it, (\S+/kept/checkpoints/ckpt-\d+), is kept", found["rate of 1e30"]["stderr"]
  )
  assert pathlib.Path(kept[1] + ".index").exists()
  assert not (folder / "experiments/kept/results.json").exists()


def test_a_finished_run_started_again_prints_the_same(ran):
  folder, found = ran
  first, again = found["good"], found["the same again"]
  assert not first["stderr"] and not again["stderr"]
  assert len(without_seconds(first["stdout"])) == 6
  assert without_seconds(again["stdout"]) == without_seconds(first["stdout"])
  check_files(folder / "experiments/good", 22)
  check_figures(folder / "experiments/good")


def check_methods(folder, split="test"):
  """Asserts that each method's scores are SciPy's on the predictions; returns results.json and the predictions."""
  results, columns = read_json(folder / "results.json"), read_predictions(folder)
  gold = np.array(columns["gold"], float)
  methods = list(columns)[2:-2]
  assert list(results["results"][split]) == methods
  for method in methods:
    figures, cosines = results["results"][split][method], np.array(columns[method], float)
    assert figures["spearman"] == pytest.approx(100 * stats.spearmanr(cosines, gold)[0], abs=1e-9)
    assert figures["pearson"] == pytest.approx(100 * stats.pearsonr(cosines, gold)[0], abs=1e-9)
  return results, columns


def test_several_calibrations_of_a_corpus(ran):
  folder, found = ran
  folder = folder / "experiments/several"
  results, columns = check_methods(folder)
  assert list(columns)[2:-2] == ["without_flow", "sn", "with_flow", "natsv", "whitening-8"]
  assert results["flow_corpus"]["name"].endswith("corpus.txt")
  assert results["fitted_on"] == {"pairs": 60, "sentences": 120, "steps": 1, "epochs": 1.0, "learning_rate": 1e-3}
  sn, flow, natsv, whitening = results["calibrations"]
  assert (sn, flow, whitening) == ("sn", "flow", "whitening-8") and re.fullmatch(r"natsv-\d+", natsv)
  for name in ("sn", "the flow", "natsv", "whitening-8"):
    assert f"gain in Spearman on test by {name}: " in found["several"]["stdout"]
  header = found["several"]["stdout"].splitlines()[0]
  assert re.split("  +", header)[3:] == ["without flow", "sn", "with flow", "natsv", "whitening-8"]


def test_saved_calibrations_give_the_same_cosines(ran):
  """They are loaded and applied to embeddings computed here."""
  folder = ran[0] / "experiments/several"
  results, columns = read_json(folder / "results.json"), read_predictions(folder)
  arguments = {"sentence_embedding_type": "avg-first-last", "low_dim": 32}
  encoder = SentenceEncoder.from_pretrained("mini")
  a, b = (encoder.encode(columns[side], **arguments) for side in ("sentence1", "sentence2"))
  for method, name in zip(list(columns)[3:-2], results["calibrations"], strict=True):
    calibration = load_calibration(folder / name)
    assert calibration.encoder == encoder.identity(**arguments).to_dict()
    u, v = (calibration.transform(side).astype(np.float64) for side in (a, b))
    cosines = np.sum(u * v, axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    np.testing.assert_allclose(cosines, np.array(columns[method], float), atol=1e-4, err_msg=method)


def test_k_of_natsv_is_the_best_on_dev(ran):
  """The choice is repeated here with the saved directions."""
  folder = ran[0] / "experiments/several"
  results = read_json(folder / "results.json")
  calibration = load_calibration(folder / results["calibrations"][2])
  dev = load_task("STS-B", ran[0] / "data").splits["dev"]
  encoder = SentenceEncoder.from_pretrained("mini")
  a, b = (encoder.encode(side, low_dim=32).astype(np.float64) for side in (dev.sentences_a, dev.sentences_b))
  with np.load(folder / results["calibrations"][2] / "arrays.npz") as arrays:
    basis = arrays["basis"]
  found = {}
  for k in range(1, 21):
    u, v = (side - side @ basis[:, :k] @ basis[:, :k].T for side in (a, b))
    cosines = np.sum(u * v, axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    found[k] = stats.spearmanr(cosines, dev.scores)[0]
  assert found[calibration.k] == pytest.approx(max(found.values()), abs=0.02)
  assert results["results"]["dev"]["natsv"]["spearman"] == pytest.approx(100 * found[calibration.k], abs=0.5)


def test_flow_of_nli_has_the_papers_rate_and_epochs(ran):
  """480 pairs, of which the fit uses two batches; results.json names missing files."""
  folder, _ = ran
  results, _ = check_methods(folder / "experiments/nli")
  assert results["fitted_on"] == {"pairs": 480, "sentences": 120, "steps": 2, "epochs": 0.15, "learning_rate": 2e-5}
  assert results["flow_corpus"]["name"] == "nli" and "without MNLI/train.tsv" in results["flow_corpus"]["data"]


def test_passes_over_a_task_of_one_file(ran):
  """One pass, or three as in the published code, with --use_full_for_training."""
  folder, _ = ran
  for name, passes in (("one pass", 1), ("three passes", 3)):
    results = read_json(folder / "experiments" / name.replace(" ", "_") / "results.json")
    assert results["fitted_on"]["pairs"] == passes * results["results"]["test"]["with_flow"]["pairs"] > 40
    assert results["flow_corpus"]["name"] == "target"
    assert ("each pair three times" in results["flow_corpus"]["data"]) == (passes == 3)


def test_no_calibration_and_no_gold(ran):
  folder, found = ran
  results, _ = check_methods(folder / "experiments/none")
  assert list(results["results"]["test"]) == ["without_flow"] and results["gain"] == {"test": {}}
  assert results["calibrations"] == [] and "gain" not in found["none"]["stdout"]
  results = read_json(folder / "experiments/no_gold/results.json")
  assert results["results"] == {} and results["calibrations"] == ["sn"]
  assert found["no gold"]["stdout"].startswith("seconds: ")
  assert not (folder / "experiments/no_gold/test_results.tsv").exists()


def test_an_error_is_one_line_of_the_process(tmp_path):
  """Nothing else is printed, as the task is checked before TensorFlow is imported."""
  command = [*RUN_FLOW, f"--output_parent_dir={tmp_path}", "--task=STS-C"]
  done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=120)
  assert done.returncode == 1 and not done.stdout and not list(tmp_path.iterdir())
  assert re.fullmatch(r"error: --task=STS-C: expected one of .*\n", done.stderr)


def test_sts_benchmark(tmp_path):
  """The original's scores on the same embeddings: 50.08, and 67.86 as a mean over seeds."""
  model, data = shared("models/minilm-l6-mlm"), shared("data/STS/STSBenchmark").parent.parent
  command = [sys.executable, str(REPO / "run_scripts/run_flow.py")]
  flags = ("--task=STS-B", f"--model={model}", f"--data_dir={data}", "--output_parent_dir=results", "--seed=1")
  table = run(*flags, cwd=tmp_path, command=command)
  (folder,) = (tmp_path / "results").iterdir()
  results = check_figures(folder)
  check_table(table, results)
  test = results["results"]["test"]
  assert test["without_flow"]["spearman"] == pytest.approx(50.08, abs=0.05)
  assert test["with_flow"]["spearman"] == pytest.approx(67.86, abs=1.2)
  assert test["with_flow"]["pairs"] == 1379
  assert (results["fitted_on"]["pairs"], results["fitted_on"]["steps"]) == (8628, 269)
