"""evaluation/report.py: what a run writes and prints."""

import dataclasses
import math

import numpy as np
import pytest

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.evaluation import report
from bert_flow_tf.evaluation.metrics import Correlation
from bert_flow_tf.io import checksums
from tests.run_scripts.results import read_json, read_predictions


def test_results_are_json_without_nan(tmp_path):
  # {key: (value, what the file has)}
  values = {
    "nan": (math.nan, None),
    "nested": ([{"inf": math.inf}, (-math.inf, 1.5)], [{"inf": None}, [None, 1.5]]),
    "correlation": (
      Correlation(math.nan, 12.25, 3, "why"),
      {"spearman": None, "pearson": 12.25, "pairs": 3, "reason": "why"},
    ),
    "numpy": (
      [np.float32(0.5), np.int64(3), np.float64("nan"), np.bool_(True), np.arange(2)],
      [0.5, 3, None, True, [0, 1]],
    ),
    "text": ("é \ud800 \t", "é \ud800 \t"),
    "none": (None, None),
    "digits": (100 / 3, 100 / 3),
  }
  report.write_results(tmp_path, {key: value for key, (value, _) in values.items()})
  written = checksums.opened(read_json(tmp_path / "results.json"))
  assert written == {key: expected for key, (_, expected) in values.items()}


def test_results_of_another_task_are_not_replaced(tmp_path):
  report.check_replaceable(tmp_path / "absent", ["A"], "exp_name")
  for results in ({"task": "A", "results": {"test": {}}}, {"results": {"A": {}}}):
    report.write_results(tmp_path, results)
    report.check_replaceable(tmp_path, ["A", "B"], "exp_name")
    with pytest.raises(ConfigError) as raised:
      report.check_replaceable(tmp_path, ["B"], "exp_name")
    assert raised.value.argument == "exp_name" and "A" in str(raised.value)
  for text in ("{", "[1]", "{}"):
    (tmp_path / "results.json").write_text(text)
    report.check_replaceable(tmp_path, ["B"], "exp_name")


def test_predictions(tmp_path):
  a = ["A\tman\r\neats.", 'He said "no".', "", "\ud800 lone", "naïve 😀", "a\x85b\u2028c"]
  b = ["x", "y\n", "z", "w", "v", "u"]
  gold = [5.0, 11 / 3, math.nan, 0.0, 2.5, 1.0]
  cosines = {"without_flow": np.array([0.1, 1 / 3, math.nan, -1.0, 1e-9, 0.5]), "with_flow": np.arange(6.0)}
  report.write_pairs(tmp_path, "test_results.tsv", SentencePairs(a, b, gold), {"gold": gold, **cosines})
  columns = read_predictions(tmp_path)
  assert list(columns) == ["index", "gold", "without_flow", "with_flow", "sentence1", "sentence2"]
  assert columns["index"] == tuple("012345")
  for name, values in {"gold": gold, **cosines}.items():
    np.testing.assert_array_equal(np.array(columns[name], float), values)  # to the last digit
  sentences = ("A man  eats.", 'He said "no".', "", "\\ud800 lone", "naïve 😀", "a\x85b\u2028c")
  assert (columns["sentence1"], columns["sentence2"]) == (sentences, ("x", "y ", "z", "w", "v", "u"))


def test_eval_results(tmp_path):
  report.write_eval_results(tmp_path, {"global_step": 269, "eval_spearmanr": 67.5, "eval_pearsonr": math.nan})
  text = (tmp_path / "eval_results.txt").read_text(encoding="utf-8")
  assert text == "eval_pearsonr = nan\neval_spearmanr = 67.5\nglobal_step = 269\n"


def test_place_that_cannot_be_written(tmp_path):
  (tmp_path / "file").write_text("")
  (tmp_path / "taken/results.json").mkdir(parents=True)
  for folder in (tmp_path / "file", tmp_path / "taken"):
    with pytest.raises(DataError, match=rf"{folder.name}/results.json: cannot be written \(.+\)$"):
      report.write_results(folder, {})
  assert [file.name for file in (tmp_path / "taken").iterdir()] == ["results.json"]  # nothing half written


def figures(spearman, pearson, pairs, cosine):
  return {**dataclasses.asdict(Correlation(spearman, pearson, pairs)), "cosine_of_random_pairs": cosine}


def test_table():
  results = {
    "dev": {"without_flow": figures(50.084, 40, 9, 80.0), "with_flow": figures(67.856, 39.5, 9, 1.0)},
    "test": {"without_flow": figures(math.nan, math.nan, 1, 5.0), "with_flow": figures(3.0, 4.0, 1, 6.0)},
  }
  lines = report.aligned(report.rows(results), {"embedding": 1.26, "fitting": 10.0})
  assert set(lines[1]) == {"-", " "} and lines[-1] == "seconds: embedding 1.3, fitting 10.0"
  rows = [line.split() for line in lines[2:-1]]
  assert lines[0].split()[-3:] == ["uncalibrated", "flow", "change"]
  assert rows[0] == ["dev", "9", "Spearman", "50.08", "67.86", "+17.77"]
  assert rows[1] == ["dev", "9", "Pearson", "40.00", "39.50", "-0.50"]
  assert rows[2][:2] == ["dev", "9"] and rows[2][-3:] == ["80.00", "1.00", "-79.00"]
  assert rows[3] == ["test", "1", "Spearman", "nan", "3.00", "+nan"]
  assert len(rows) == 6 and not any(line != line.rstrip() for line in lines)
