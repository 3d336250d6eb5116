"""report/result_files.py: what a run writes."""

import math

import numpy as np

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.evaluation.metrics import Correlation
from bert_flow_tf.io import checksums
from bert_flow_tf.report import result_files
from tests.run_scripts.results import read_json, read_predictions
from tests.testing import rejected


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
  result_files.write_results(tmp_path, {key: value for key, (value, _) in values.items()})
  written = checksums.verified(read_json(tmp_path / "results.json"))
  assert written == {key: expected for key, (_, expected) in values.items()}


def test_results_of_another_task_are_not_replaced(tmp_path):
  result_files.check_replaceable(tmp_path / "absent", ["A"], "exp_name")
  for results in ({"task": "A", "results": {"test": {}}}, {"results": {"A": {}}}):
    result_files.write_results(tmp_path, results)
    result_files.check_replaceable(tmp_path, ["A", "B"], "exp_name")
    with rejected(ConfigError, "exp_name"):
      result_files.check_replaceable(tmp_path, ["B"], "exp_name")
  for text in ("{", "[1]", "{}"):
    (tmp_path / "results.json").write_text(text)
    result_files.check_replaceable(tmp_path, ["B"], "exp_name")


def test_predictions(tmp_path):
  a = ["A\tman\r\neats.", 'He said "no".', "", "\ud800 lone", "naïve 😀", "a\x85b\u2028c"]
  b = ["x", "y\n", "z", "w", "v", "u"]
  gold = [5.0, 11 / 3, math.nan, 0.0, 2.5, 1.0]
  cosines = {"without_flow": np.array([0.1, 1 / 3, math.nan, -1.0, 1e-9, 0.5]), "with_flow": np.arange(6.0)}
  result_files.write_pairs(tmp_path, "test_results.tsv", SentencePairs(a, b, gold), {"gold": gold, **cosines})
  columns = read_predictions(tmp_path)
  assert list(columns) == ["index", "gold", "without_flow", "with_flow", "sentence1", "sentence2"]
  assert columns["index"] == tuple("012345")
  for name, values in {"gold": gold, **cosines}.items():
    np.testing.assert_array_equal(np.array(columns[name], float), values)  # to the last digit
  sentences = ("A man  eats.", 'He said "no".', "", "\\ud800 lone", "naïve 😀", "a\x85b\u2028c")
  assert (columns["sentence1"], columns["sentence2"]) == (sentences, ("x", "y ", "z", "w", "v", "u"))


def test_eval_results(tmp_path):
  result_files.write_eval_results(tmp_path, {"global_step": 269, "eval_spearmanr": 67.5, "eval_pearsonr": math.nan})
  text = (tmp_path / "eval_results.txt").read_text(encoding="utf-8")
  assert text == "eval_pearsonr = nan\neval_spearmanr = 67.5\nglobal_step = 269\n"


def test_place_that_cannot_be_written(tmp_path):
  (tmp_path / "file").write_text("")
  (tmp_path / "taken/results.json").mkdir(parents=True)
  for folder in (tmp_path / "file", tmp_path / "taken"):
    with rejected(DataError, None):
      result_files.write_results(folder, {})
  assert [file.name for file in (tmp_path / "taken").iterdir()] == ["results.json"]  # nothing half written
