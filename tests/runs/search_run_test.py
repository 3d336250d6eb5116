"""Runs on a search with judgments: scores, gains, files and page, of `fit` and of `eval`."""

import dataclasses
import gzip
import html
import json
import re
import sys

import numpy as np
import pytest

from bert_flow_tf import SentenceModel, evaluate_retrieval
from bert_flow_tf.calibration.names import parse_calibrations
from bert_flow_tf.data.beir import BeirSettings, load_beir
from bert_flow_tf.data.flow_corpus import CorpusSettings, load_task_and_corpus
from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.retrieval import MEASURES, score_rankings
from bert_flow_tf.io.experiment import OutputSettings, Stopwatch
from bert_flow_tf.report.page import draw_page, page_text
from bert_flow_tf.report.record import RunRecord, TaskRecord
from bert_flow_tf.report.sentences import comparisons, warnings
from bert_flow_tf.runs.eval_run import evaluate_models
from bert_flow_tf.runs.flow_run import FlowRun, FlowRunSettings
from bert_flow_tf.runs.run_folder import print_results
from bert_flow_tf.training.strategies import make_strategy
from bert_flow_tf.vectors.bm25 import has_bm25s
from tests.runs.small_runs import write_beir
from tests.testing import rejected


def fit_on(folder, beir, *names, **settings):
  """Returns a run on a folder in BEIR's layout that has fitted and evaluated calibrations, and its result."""
  asked = BeirSettings(beir=str(beir), **settings)
  task, corpus = load_task_and_corpus(DataSettings(), CorpusSettings(), asked)
  of_run = FlowRunSettings(beir=asked, output=OutputSettings(output=str(folder)))
  model = SentenceModel.from_pretrained("static:mini")
  run = FlowRun(model, of_run, parse_calibrations(names), task, corpus, make_strategy())
  run.check()
  run.fit()
  return run, run.evaluate({"command": "bert-flow fit"})[0]


@pytest.fixture(scope="module")
def beir(tmp_path_factory):
  return write_beir(tmp_path_factory.mktemp("beir") / "mine")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory, beir):
  """Returns the folder of a run, the run and its result."""
  folder = tmp_path_factory.mktemp("run")
  return folder, *fit_on(folder, beir, "mean", "whitening-8")


def test_scores_are_those_of_the_saved_models(fitted, beir):
  folder, _, result = fitted
  task = load_beir(beir)
  results = json.loads((folder / "results.json").read_text())
  methods = ["without_flow", "mean", "whitening-8"]
  if has_bm25s():
    methods += [f"{method}+BM25" for method in methods]
  assert results["task"] == "mine" and list(results["results"]["test"]) == methods
  expected_of = {}
  for method, scores in results["results"]["test"].items():
    name, _, bm25 = method.partition("+")
    model = SentenceModel.from_pretrained("static:mini")
    if name != "without_flow":
      model = SentenceModel.load(folder / name)
    hybrid = "bm25" if bm25 else None
    expected = evaluate_retrieval(model, task.documents, task.queries, task.qrels, hybrid=hybrid)
    expected_of[method] = expected.values["ndcg@10"]
    np.testing.assert_allclose([scores[measure] for measure in MEASURES], list(expected.mean.values()), atol=1e-6)
    assert scores["queries"] == 20 and scores["documents"] == 24
    if method != "without_flow":
      gain = result.gains["test"][method]
      # With BM25, what the calibration adds to the encoder with BM25.
      over = "without_flow+BM25" if bm25 and name != "without_flow" else "without_flow"
      differences = expected_of[method] - expected_of[over]
      assert gain["gain"] == pytest.approx(differences.mean()) and gain["pairs"] == 20
      assert gain["low"] <= gain["gain"] <= gain["high"] and gain["over"] == over


def test_runs_of_trec_have_the_scores(fitted, beir):
  folder, _, result = fitted
  qrels = load_beir(beir).qrels
  for method, scores in result.scores["test"].items():
    found = {}
    name = method.replace("without_flow", "uncalibrated")  # as in the table
    for line in gzip.decompress((folder / f"test_results.{name}.trec.gz").read_bytes()).decode().splitlines():
      query, q0, document, rank, score, name = line.split(" ")
      found.setdefault(query, []).append((-float(score), document))
      assert (q0, int(rank), name) == ("Q0", len(found[query]), "bert_flow")
    rankings = {}
    for query, documents in found.items():
      documents.sort(key=lambda found: found[1], reverse=True)  # trec_eval's order of equal scores
      rankings[query] = [document for _, document in sorted(documents, key=lambda found: found[0])]
    measured = score_rankings(rankings, qrels).mean
    assert measured == {measure: pytest.approx(scores[measure]) for measure in MEASURES}, method


def test_bm25_stands_beside(fitted, capsys):
  pytest.importorskip("bm25s", reason="bm25s is not installed: it is the extra search")
  folder, run, result = fitted
  assert (folder / "test_results.BM25.trec.gz").exists()
  assert result.gains_over_match["test"].keys() == result.scores["test"].keys()
  bm25 = result.controls["test"]["BM25"]["ndcg@10"]
  gain = result.gains_over_match["test"]["mean"]["gain"]
  assert gain == pytest.approx(result.scores["test"]["mean"]["ndcg@10"] - bm25)
  print_results([result], run.watch.seconds, folder / "report.html")
  printed = capsys.readouterr().out
  rows = [re.split(r"  +", line) for line in printed.splitlines()]
  first_cells = [row[0] for row in rows]
  both = ["uncalibrated+BM25", "mean+BM25", "whitening-8+BM25"]
  assert first_cells[2:9] == ["uncalibrated", "mean", "whitening-8", "BM25", *both]
  assert rows[5][1] == f"{bm25:.2f}"
  header = rows[first_cells.index("gain in nDCG@10 on test")]
  assert header[1:] == ["over uncalibrated", "over uncalibrated+BM25", "over BM25"]
  values = result.gains["test"]["whitening-8+BM25"], result.gains_over_match["test"]["whitening-8+BM25"]
  cells = [f"{value['gain']:+.2f} [{value['low']:+.2f}, {value['high']:+.2f}]" for value in values]
  assert [both[2], *cells] in rows


def test_the_page_is_drawn_from_the_folder(fitted):
  folder, _, result = fitted
  text = (folder / "report.html").read_text()
  draw_page(folder)
  assert (folder / "report.html").read_text() == text
  shown = html.unescape(text)
  for name in ("test, 20 queries", "nDCG@10", "recall@100", "whitening-8", "20 judged queries and 24 documents"):
    assert name in shown, name
  assert f"{result.scores['test']['mean']['map']:.2f}" in text


@pytest.mark.parametrize("bm25s_is_there", [True, False])
def test_the_page_draws_each_score_with_the_interval_of_its_gain(fitted, bm25s_is_there):
  _, _, result = fitted
  if bm25s_is_there and not has_bm25s():
    pytest.skip("bm25s is not installed: it is the extra search")
  if not bm25s_is_there:
    kept = ("mean", "whitening-8")
    scores = {"test": {method: result.scores["test"][method] for method in ("without_flow", *kept)}}
    gains = {"test": {method: result.gains["test"][method] for method in kept}}
    result = dataclasses.replace(result, scores=scores, gains=gains, gains_over_match={}, controls={})
  text = html.unescape(page_text(RunRecord("a title", [TaskRecord(result)], {})))
  panels = ["uncalibrated", "uncalibrated+BM25", "BM25"] if bm25s_is_there else ["uncalibrated"]
  assert text.count("<svg") == len(panels) and text.count("<figure") == 1
  label = re.search(r'<figure role="img" aria-label="([^"]*)"', text)[1]
  score, gain = result.scores["test"]["without_flow"]["ndcg@10"], result.gains["test"]["mean"]
  low, high = score + gain["low"], score + gain["high"]
  assert (
    f"beside uncalibrated with {score:.1f}: mean {score + gain['gain']:.1f}, interval {low:.1f} to {high:.1f}" in label
  )
  for name in panels:
    assert f"over {name}" in text and f"beside {name}" in label
  assert f"{gain['gain']:+.2f} [{gain['low']:+.2f}, {gain['high']:+.2f}]" in text


def test_bm25_with_a_model_that_is_worse_is_said(fitted):
  _, _, result = fitted
  gain = {**result.gains["test"]["mean"], "low": -9.0, "high": -1.0}
  gains = {"mean": gain, "mean+BM25": {**gain, "over": "without_flow+BM25"}}
  said = warnings(dataclasses.replace(result, gains={"test": gains}))
  assert said["mean"][0].startswith("mean makes nDCG@10 worse on test: ")
  assert said["mean+BM25"][0].startswith("mean+BM25 has a lower nDCG@10 than uncalibrated+BM25 on test: ")


def test_bm25_is_compared_with_models_alone(fitted):
  _, _, result = fitted
  gain = {**result.gains["test"]["mean"], "over": "BM25"}
  over = {
    "without_flow": {**gain, "low": -9.0, "high": -1.0},
    "mean": {**gain, "low": -1.0, "high": 1.0},
    "whitening-8": {**gain, "low": -20.0, "high": 20.0},
    "mean+BM25": {**gain, "low": -9.0, "high": -1.0},
  }
  *_, known, unknown = comparisons(dataclasses.replace(result, gains_over_match={"test": over}))
  assert known.startswith("BM25 is better than uncalibrated and as good as mean on test: ") and "mean+" not in known
  assert unknown.startswith("20 queries of test cannot tell whether whitening-8 or BM25 is better: ")


def test_few_queries_tell_nothing_of_bm25(fitted):
  """Their intervals are too narrow: neither is said to be better, as good, or worse."""
  _, _, result = fitted
  gain = {**result.gains["test"]["mean"], "pairs": 3, "low": -9.4, "high": -1.0}
  over = {"mean": {**gain, "over": "BM25"}, "whitening-8": {**gain, "over": "BM25", "high": 0.0}}
  few = dataclasses.replace(result, gains={"test": {"mean": gain}}, gains_over_match={"test": over})
  assert comparisons(few)[-1] == (
    "3 queries of test cannot tell whether mean and whitening-8 are better than BM25 or worse: an interval of fewer "
    "than 8 queries says nothing; judge more queries"
  )
  assert not any("as good as" in line or "BM25 is better" in line for line in comparisons(few))
  assert not warnings(few)


def test_without_bm25s_the_rest_is_there(tmp_path, beir, monkeypatch, caplog):
  caplog.set_level("INFO", "absl")
  monkeypatch.setitem(sys.modules, "bm25s", None)
  (tmp_path / "test_results.old.trec.gz").write_text("of an earlier run")
  _, result = fit_on(tmp_path, beir, "mean")
  assert not result.controls and not result.gains_over_match and result.gains["test"]["mean"]["pairs"] == 20
  assert sorted(path.name for path in tmp_path.glob("*.gz")) == [
    "test_results.mean.trec.gz",
    "test_results.uncalibrated.trec.gz",
  ]
  assert json.loads((tmp_path / "results.json").read_text())["fitted_on"]["queries"] == 0
  assert ", without queries; results in " in caplog.text
  assert "pip install 'bert-flow-tf[search]'" in html.unescape((tmp_path / "report.html").read_text())


def test_eval_has_the_scores_of_fit(fitted, beir):
  folder, _, result = fitted
  models = {"without_flow": SentenceModel.from_pretrained("static:mini")}
  models |= {name: SentenceModel.load(folder / name) for name in ("mean", "whitening-8")}
  (record,) = evaluate_models(models, [load_beir(beir)], Stopwatch(), 64, None)
  for method, scores in result.scores["test"].items():
    for measure in MEASURES:
      assert record.result.scores["test"][method][measure] == pytest.approx(scores[measure], abs=1e-6)


def test_queries_of_the_folder(tmp_path, beir, caplog):
  caplog.set_level("INFO", "absl")
  run, result = fit_on(tmp_path, beir, "mean", fit_queries=True)
  assert json.loads((tmp_path / "results.json").read_text())["fitted_on"]["queries"] == 24
  assert " and 24 queries, 24 of them distinct; results in " in caplog.text
  assert run.calibrated["mean"].calibration.query_shift is not None
  assert result.scores["test"]["mean"]["queries"] == 20


def test_names_of_experiments():
  plain = FlowRunSettings(beir=BeirSettings(beir="mine"))
  names = {plain.name("mine"), FlowRunSettings().name("mine")}
  for change in ({"split": "dev"}, {"fit_queries": True}, {"beir": "other/mine"}):
    names.add(dataclasses.replace(plain, beir=dataclasses.replace(plain.beir, **change)).name("mine"))
  assert len(names) == 5


def test_a_folder_of_another_search_is_kept(fitted, tmp_path, beir):
  folder, *_ = fitted
  other = write_beir(tmp_path / "other")
  with rejected(ConfigError, "exp_name", match="has results of mine"):
    fit_on(folder, other, "mean")
