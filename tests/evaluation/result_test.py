"""evaluation/result.py, runs/run_folder.py and eval_run.py: gains, harm, and what is printed and written of a run."""

import dataclasses
import json
import re

import numpy as np
import pytest

from bert_flow_tf import SentenceModel
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import find_task, load_task
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.metrics import cosine_similarity
from bert_flow_tf.evaluation.result import task_result
from bert_flow_tf.evaluation.task_scores import WITHOUT_FLOW, scores_of_split
from bert_flow_tf.io.experiment import Stopwatch
from bert_flow_tf.runs.eval_run import _transformed, describe_models, evaluate_models
from bert_flow_tf.runs.run_folder import RunFolder, print_results

N = 80


def result_of(*methods, gold=True, prefix="", name="STS-B", controls=None):
  """Returns the result of methods whose cosines follow gold, with noise of the size that each name ends with."""
  rng = np.random.default_rng(0)
  scores = rng.uniform(0, 5, N)
  pairs = SentencePairs([f"a {i}" for i in range(N)], [f"b {i}" for i in range(N)], scores if gold else [np.nan] * N)
  spec = find_task(name)
  if not gold:
    spec = dataclasses.replace(spec, eval_split=None)
  evaluations = {}
  for method, noise in methods:
    cosines = scores / 10 + noise * rng.normal(size=N)
    figures = scores_of_split("test", pairs, cosines, "correlation") if gold else {"test": {"pairs": N}}
    evaluations[method] = (figures, {"test": cosines})
  return task_result(TaskData(spec, {"test": pairs}, "a file"), evaluations, prefix=prefix, controls=controls)


BETTER = (("without_flow", 0.2), ("with_flow", 0.05))
WORSE = (("without_flow", 0.05), ("with_flow", 0.5), ("sn", 0.05))


def test_gains_are_over_the_encoder_alone():
  result = result_of(*BETTER, controls={"same": np.ones(N), "rank": np.arange(N)})
  gain = result.gains["test"]["with_flow"]
  before, after = (result.scores["test"][method]["spearman"] for method in ("without_flow", "with_flow"))
  assert gain["gain"] == pytest.approx(after - before) and gain["over"] == "without_flow" and gain["low"] > 0
  assert result.harm == {} and result.gain_lines[0].startswith(f"gain in Spearman on test: {after - before:+.2f}, 95%")
  assert re.search(rf"same not defined \(all {N} similarities are 1, .*\), rank -?\d", result.gain_lines[-1])


def test_gains_over_the_encoder_before_its_training():
  result = result_of(("before_training", 0.3), *BETTER)
  assert [gain["over"] for gain in result.gains["test"].values()] == ["before_training", "without_flow"]
  assert result.gain_lines[0].startswith("gain in Spearman on test by the training: ")


def test_a_method_that_harms_is_warned_of(caplog, capsys):
  result = result_of(*WORSE, prefix="STS-B ")
  assert list(result.harm) == ["with_flow"]
  (sentence,) = result.harm["with_flow"]
  assert sentence.startswith("the flow makes Spearman worse on STS-B test: -")
  print_results([result, result_of(*BETTER, ("sn", 0.1), prefix="SICK-R ")], {"fitting": 1.0}, "there")
  lines = capsys.readouterr().out.splitlines()
  assert [line.split()[:2] for line in lines[2:4]] == [["STS-B", "test"]] * 2 and "seconds: fitting 1.0" in lines
  assert lines[-1] == "page: there" and sum(line.startswith("gain in") for line in lines) == 4
  assert sentence in [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]


def test_without_gold_there_is_no_gain():
  result = result_of(*BETTER, gold=False)
  assert not result.has_gold and result.gains == {} and result.pairs is not None


def test_files(tmp_path):
  folder = RunFolder(tmp_path / "run")
  result = result_of(*BETTER)
  page = folder.write("a title", [result], {"task": "STS-B"})
  assert page == tmp_path / "run/report.html"
  assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [page.name, "results.json", "test_results.tsv"]
  saved = json.loads((tmp_path / "run/results.json").read_text())
  assert saved["results"] == result.scores and saved["gain"]["test"]["with_flow"]["over"] == "without_flow"
  folder.check(["STS-B"])
  with pytest.raises(ConfigError, match=r"exp_name: .* has results of STS-B"):
    folder.check(["SICK-R"])


def test_files_by_task(tmp_path):
  folder = RunFolder(tmp_path, "output_dir", by_task=True)
  folder.write("a title", [result_of(*BETTER), result_of(*WORSE, name="SICK-R")], {})
  assert list(json.loads((tmp_path / "results.json").read_text())["results"]) == ["STS-B", "SICK-R"]
  assert (tmp_path / "SICK-R/test_results.tsv").exists() and not (tmp_path / "test_results.tsv").exists()
  with pytest.raises(ConfigError, match=r"output_dir: .* has results of SICK-R"):
    folder.check(["STS-B"])


def test_each_model_gets_what_its_calibration_takes():
  model, task = SentenceModel.from_pretrained("static:mini"), load_task("sample")
  pairs = task.splits["test"]
  models = {WITHOUT_FLOW: model}
  for name in ("mean", "mean+characters-64", "characters"):
    models[name] = SentenceModel(model.encoder).fit(pairs, name)
  assert describe_models(models, ["a", "b", "c"])["encoder"]["pooling"] == "word-rows, token_weights idf-0.75"
  (result,) = evaluate_models(models, [task], Stopwatch(), 64, None)
  rows = model.embed(pairs.sentences_a)
  for method, calibrated in models.items():
    a, b = calibrated.encode(pairs.sentences_a), calibrated.encode(pairs.sentences_b)
    np.testing.assert_allclose(result.cosines[method], np.nan_to_num(cosine_similarity(a, b)), atol=1e-6)
    # SentEval embeds once for all methods.
    np.testing.assert_allclose(_transformed(calibrated, False, pairs.sentences_a, rows), a, atol=1e-6)
  assert set(result.controls["test"]) == {"tf-idf of word pieces", "characters"}
  assert result.gain_lines[-1].startswith("control on test, a string match without an encoder: tf-idf of word pieces ")
