"""runs/run_folder.py and eval_run.py: what is written of a run, and what each model gets."""

import json

import numpy as np

from bert_flow_tf import SentenceModel
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.metrics import cosine_similarity
from bert_flow_tf.evaluation.task_scores import WITHOUT_FLOW
from bert_flow_tf.io.experiment import Stopwatch
from bert_flow_tf.runs.eval_run import _transformed, describe_models, evaluate_models
from bert_flow_tf.runs.run_folder import RunFolder
from tests.report.records import BETTER, WORSE, record_of
from tests.testing import rejected


def test_files(tmp_path):
  folder = RunFolder(tmp_path / "run")
  record = record_of(*BETTER, matches={"characters": 0.1})
  result = record.result
  page = folder.write("a title", [record], {"task": "STS-B", "data": "a file"})
  assert page == tmp_path / "run/report.html"
  assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [page.name, "results.json", "test_results.tsv"]
  saved = json.loads((tmp_path / "run/results.json").read_text())
  assert saved["results"] == result.scores and saved["gain"]["test"]["with_flow"]["over"] == "without_flow"
  assert saved["gain_over_string_match"] == result.gains_over_match and saved["controls"] == result.controls
  folder.check(["STS-B"])
  with rejected(ConfigError, "exp_name"):
    folder.check(["SICK-R"])


def test_files_by_task(tmp_path):
  folder = RunFolder(tmp_path, "output_dir", by_task=True)
  data = {"STS-B": "a file", "SICK-R": "another"}
  folder.write("a title", [record_of(*BETTER), record_of(*WORSE, name="SICK-R")], {"data": data})
  assert list(json.loads((tmp_path / "results.json").read_text())["results"]) == ["STS-B", "SICK-R"]
  assert (tmp_path / "SICK-R/test_results.tsv").exists() and not (tmp_path / "test_results.tsv").exists()
  with rejected(ConfigError, "output_dir"):
    folder.check(["STS-B"])


def test_each_model_gets_what_its_calibration_takes():
  model, task = SentenceModel.from_pretrained("static:mini"), load_task("sample")
  pairs = task.splits["test"]
  models = {WITHOUT_FLOW: model}
  for name in ("mean", "mean+characters-64", "characters"):
    models[name] = SentenceModel(model.encoder).fit(pairs, name)
  assert describe_models(models, ["a", "b", "c"])["encoder"]["pooling"] == "word-rows, token_weights idf-0.75"
  (record,) = evaluate_models(models, [task], Stopwatch(), 64, None)
  rows = model.encode(pairs.sentences_a, calibrated=False)
  for method, calibrated in models.items():
    a, b = calibrated.encode(pairs.sentences_a), calibrated.encode(pairs.sentences_b)
    np.testing.assert_allclose(record.predictions.cosines[method], np.nan_to_num(cosine_similarity(a, b)), atol=1e-6)
    # SentEval embeds once for all methods.
    np.testing.assert_allclose(_transformed(calibrated, False, pairs.sentences_a, rows), a, atol=1e-6)
  assert set(record.result.controls["test"]) == {"tf-idf of word pieces", "characters"}
