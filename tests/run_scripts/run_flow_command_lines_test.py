"""Command lines of run_scripts/run_flow.py, right and wrong, and what the right ones write."""

import html
import pathlib
import re

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.calibration.names import AUTO_CANDIDATES
from bert_flow_tf.calibration.saving import load_calibration
from bert_flow_tf.evaluation.controls import string_matches
from bert_flow_tf.evaluation.metrics import cosine_similarity
from tests.run_scripts import tiny_data
from tests.run_scripts.command_lines import check_rejected, check_succeeded
from tests.run_scripts.results import (
  check_figures,
  check_files,
  mean_cosine,
  read_json,
  read_predictions,
  without_seconds,
)
from tests.runs.small_runs import write_beir

pytestmark = pytest.mark.slow
RUNNER = "flow"


def always(folder):
  """Sentences are embedded once."""
  return [f"--output_parent_dir={folder}/experiments", f"--cached_dir={folder}/cache"]


def prepare(folder):
  """Writes the files that the command lines name."""
  data = tiny_data.write(folder / "data")
  write_beir(folder / "beir")
  (folder / "file").write_text("")
  (folder / "empty").mkdir()
  configs = {
    "garbage": "{",
    "list": "[]",
    "unknown": '{"levels": 2}',
    "fp16": '{"use_fp16": true}',
    "small": '{"n_levels": 1, "depth": 1, "coupling_width": 8}',
  }
  for name, text in configs.items():
    (folder / f"{name}.json").write_text(text)
  (folder / "binary.json").write_bytes(b"\xff\xfe\x00")
  (folder / "ragged.tsv").write_text("one\ttwo\nthree\n")
  (folder / "short.txt").write_text("One sentence.\nAnother.\n")
  (folder / "corpus.txt").write_text("".join(f"{a}\n{b}\n" for a, b in tiny_data.sentences()))
  (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in tiny_data.sentences()))
  (data / "SNLI").mkdir()
  rows = [f"{a}\t{b}\tneutral\n" for a, b in tiny_data.sentences()] * 8
  (data / "SNLI/dev.tsv").write_text("sentence1\tsentence2\tgold_label\n" + "".join(rows))


def right(folder):
  """Returns {name: flags} of command lines that work: a run, the same again, other calibrations and corpora."""
  small = f"--flow_model_config={folder}/small.json"  # another flow is another graph to compile, which takes seconds
  stsb = ["--task=STS-B", f"--data_dir={folder}/data", "--low_dim=4", small]
  flags = ["--task=hard-sample", "--num_train_epochs=2", "--exp_name=good"]
  return {
    "good": flags,
    "the same again": flags,
    "several": [
      *stsb,
      "--calibration=sn,flow,natsv,whitening-8",
      f"--flow_corpus={folder}/corpus.txt",
      "--exp_name=several",
    ],
    "nli": [*stsb, "--flow_corpus=nli", "--exp_name=nli"],
    "none": [*stsb, "--calibration=none", "--exp_name=none"],
    "recipe": [*stsb[:2], "--model=mini", "--recipe=fast", "--calibration=sn", "--exp_name=recipe"],
    "one pass": ["--task=STS-14", *stsb[1:], "--exp_name=one_pass"],
    "three passes": ["--task=STS-14", *stsb[1:], "--use_full_for_training", "--exp_name=three_passes"],
    "beir": [f"--beir={folder}/beir", "--fit_queries", "--calibration=sn", "--exp_name=beir"],
    "auto": ["--task=STS-B", stsb[1], "--calibration=auto", "--exp_name=auto"],
    "characters": [*stsb[:2], "--calibration=sn,sn+characters-64,characters-64", "--exp_name=characters"],
    "no gold": ["--task=custom", f"--data_dir={folder}/pairs.tsv", "--calibration=sn", "--exp_name=no_gold"],
  }


def test_command_lines(ran):
  check_succeeded(ran, right)
  check_rejected(ran, RUNNER)


def test_refused_command_lines_leave_no_folder(ran):
  """Except those that are rejected while embedding or fitting."""
  folder, _ = ran
  names = [path.name for path in (folder / "experiments").iterdir()]
  assert {"kept", "good"} <= set(names) and len(names) <= 14, names
  assert not (folder / "experiments/k").exists()  # no checkpoint of a flow that was fitted first


def test_loss_that_is_not_finite_keeps_the_checkpoint_before(ran):
  folder, found = ran
  error = found["--flow_learning_rate=1e30 --exp_name=kept --save_checkpoints_steps=1"]["stderr"]
  checkpoint = re.search(r"the checkpoint before it, (\S+/kept/checkpoints/ckpt-\d+), is kept; lower flow_", error)
  assert pathlib.Path(checkpoint[1] + ".index").exists()
  assert not (folder / "experiments/kept/results.json").exists()


def test_a_finished_run_started_again_prints_the_same(ran):
  folder, found = ran
  first, again = found["good"], found["the same again"]
  assert not first["stderr"] and not again["stderr"]
  assert "gain in Spearman on test: " in first["stdout"] and "over the string match (" in first["stdout"]
  assert without_seconds(again["stdout"]) == without_seconds(first["stdout"])
  check_files(folder / "experiments/good", 22)
  check_figures(folder / "experiments/good")


def test_several_calibrations_of_a_corpus(ran):
  folder, found = ran
  folder = folder / "experiments/several"
  results, columns = check_figures(folder)
  assert list(columns)[2:-2] == ["without_flow", "sn", "with_flow", "natsv", "whitening-8"]
  assert results["flow_corpus"]["name"].endswith("corpus.txt")
  sizes = {"pairs": 60, "sentences": 120, "queries": 0}
  assert results["fitted_on"] == {**sizes, "steps": 9, "epochs": 5.0, "learning_rate": 1e-3}
  sn, flow, natsv, whitening = results["calibrations"]
  assert (sn, flow, whitening) == ("sn", "flow", "whitening-8") and re.fullmatch(r"natsv-\d+", natsv)
  for name in ("sn", "the flow", "natsv", "whitening-8"):
    assert f"gain in Spearman on test by {name}: " in found["several"]["stdout"]
  header = found["several"]["stdout"].splitlines()[0]
  assert re.split("  +", header)[3:] == ["uncalibrated", "sn", "flow", "natsv", "whitening-8"]


def test_saved_calibrations_give_the_same_cosines(ran):
  """They are loaded and applied to embeddings computed here."""
  folder = ran[0] / "experiments/several"
  results, columns = read_json(folder / "results.json"), read_predictions(folder)
  encoder = SentenceEncoder.from_pretrained("mini")
  a, b = (encoder.encode(columns[side]) for side in ("sentence1", "sentence2"))
  for method, name in zip(list(columns)[3:-2], results["calibrations"], strict=True):
    calibration = load_calibration(folder / name)
    assert calibration.encoder == encoder.identity("avg-first-last", low_dim=4).to_dict()
    cosines = mean_cosine(calibration.transform(a), calibration.transform(b))
    np.testing.assert_allclose(cosines, np.array(columns[method], float), atol=1e-4, err_msg=method)


def test_flow_of_nli_has_the_papers_rate_and_epochs(ran):
  """480 pairs, of which the fit uses two batches; results.json names missing files."""
  folder, _ = ran
  results, _ = check_figures(folder / "experiments/nli")
  sizes = {"pairs": 480, "sentences": 120, "queries": 0}
  assert results["fitted_on"] == {**sizes, "steps": 2, "epochs": 0.15, "learning_rate": 2e-5}
  assert results["flow_corpus"]["name"] == "nli" and "without MNLI/train.tsv" in results["flow_corpus"]["data"]


def test_passes_over_a_task_of_one_file(ran):
  """One pass, or three as in the published code, with --use_full_for_training."""
  folder, _ = ran
  for name, passes in (("one pass", 1), ("three passes", 3)):
    results = read_json(folder / "experiments" / name.replace(" ", "_") / "results.json")
    assert results["fitted_on"]["pairs"] == passes * results["results"]["test"]["with_flow"]["pairs"] > 40
    assert results["flow_corpus"]["name"] == "target"
    assert ("each pair three times" in results["flow_corpus"]["data"]) == (passes == 3)


def test_characters_beside_a_calibration_and_controls(ran):
  """The cosines of a run are those of the dense characters; the controls have the exact ones."""
  folder, found = ran
  folder = folder / "experiments/characters"
  results, columns = check_figures(folder)
  assert results["calibrations"] == ["sn", "sn+characters-64", "characters-64"]
  cosines = {name: np.array(columns[name], float) for name in results["calibrations"]}
  mean = (cosines["sn"] + cosines["characters-64"]) / 2
  np.testing.assert_allclose(cosines["sn+characters-64"], mean, atol=1e-5)
  loaded = SentenceModel.load(folder / "sn+characters-64")
  a, b = (loaded.encode(columns[side]) for side in ("sentence1", "sentence2"))
  np.testing.assert_allclose(cosine_similarity(a, b), mean, atol=1e-4)
  matches = string_matches(loaded.encoder, columns["sentence1"], columns["sentence2"], loaded.max_seq_length)
  (line,) = (line for line in found["characters"]["stdout"].splitlines() if line.startswith("control on test, "))
  for name, values in matches.items():
    score = 100 * stats.spearmanr(values, np.array(columns["gold"], float))[0]
    assert results["controls"]["test"][name]["spearman"] == pytest.approx(score)
    assert f"{name} {score:.2f}" in line
  assert line in html.unescape((folder / "report.html").read_text(encoding="utf-8"))


def test_no_calibration_and_no_gold(ran):
  folder, found = ran
  results, _ = check_figures(folder / "experiments/none")
  assert list(results["results"]["test"]) == ["without_flow"] and results["gain"] == {}
  assert results["calibrations"] == [] and "gain" not in found["none"]["stdout"]
  results = read_json(folder / "experiments/no_gold/results.json")
  assert results["calibrations"] == ["sn"] and results["gain"] == {}
  spread = results["results"]["train"]
  assert list(spread) == ["without_flow", "sn"]
  before, after = spread.values()
  assert after["cosine_of_random_pairs"] < before["cosine_of_random_pairs"] - 10
  table = found["no gold"]["stdout"]
  assert "mean cosine of random pairs" in table and "participation ratio" in table
  assert not (folder / "experiments/no_gold/test_results.tsv").exists()


def test_recipe_and_a_flag_that_replaces_its_part(ran):
  flags = read_json(ran[0] / "experiments/recipe/results.json")["flags"]
  assert flags["model"] == "static:mini" and flags["token_weights"] == "idf" and flags["calibration"] == ["sn"]


def test_auto_says_what_it_compared(ran):
  folder, found = ran
  results, _ = check_figures(folder / "experiments/auto")
  (name,) = results["calibrations"]
  assert list(results["results"]["test"]) == ["without_flow", name]
  assert results["auto"]["chosen"] == name == max(results["auto"]["agreement"], key=results["auto"]["agreement"].get)
  assert results["auto"]["seed"] == 1234 and set(results["auto"]["agreement"]) == set(AUTO_CANDIDATES)
  assert load_calibration(folder / "experiments/auto" / name).name == name
  assert name in found["auto"]["stdout"]
