"""Readers and checks of the files that a run writes."""

import csv
import json
import re

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.evaluation.metrics import cosine_similarity


def read_json(file):
  """Returns the file's value; NaN and Infinity are not allowed in JSON."""

  def no_constants(name):
    raise AssertionError(f"{name} is not JSON")

  return json.loads(file.read_text(encoding="utf-8"), parse_constant=no_constants)


def read_predictions(folder, name="test_results.tsv"):
  """Returns {column: values} of a table."""
  with open(folder / name, encoding="utf-8", newline="") as file:
    header, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
  return dict(zip(header, zip(*rows, strict=True), strict=True))


def mean_cosine(u, v):
  """Returns cosines after low_dim=4, the mean of each quarter of the dimensions."""
  sides = (np.asarray(side, np.float64).reshape(len(side), 4, -1).mean(axis=2) for side in (u, v))
  return cosine_similarity(*sides)


def without_seconds(table):
  return [line for line in table.splitlines() if not line.startswith(("seconds:", "page:"))]


def check_files(folder, steps):
  """Asserts that the folder has all files and no others, except temporary ones of TensorFlow after a kill."""
  names = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
  names = {
    name for name in names if not name.startswith(("tensorboard/events.out.tfevents.", "checkpoints/checkpoint.tmp"))
  }
  saved = {re.sub(r"ckpt-\d+", "ckpt", name) for name in names}
  assert saved == {
    "results.json",
    "report.html",
    "test_results.tsv",
    "drawings.npz",
    "eval_results.txt",
    "flow/calibration.npz",
    "checkpoints/checkpoint",
    "checkpoints/fit.json",
    "checkpoints/ckpt.index",
    "checkpoints/ckpt.data-00000-of-00001",
  }
  assert f"checkpoints/ckpt-{steps}.index" in names
  assert list((folder / "tensorboard").iterdir())


def check_figures(folder):
  """Asserts that each method's scores are SciPy's on the predictions; returns results.json and the predictions."""
  results, columns = read_json(folder / "results.json"), read_predictions(folder)
  gold = np.array(columns["gold"], float)
  methods = list(columns)[2:-2]
  assert list(results["results"]["test"]) == methods
  for method in methods:
    figures, cosines = results["results"]["test"][method], np.array(columns[method], float)
    assert figures["spearman"] == pytest.approx(100 * stats.spearmanr(cosines, gold)[0], abs=1e-9)
    assert figures["pearson"] == pytest.approx(100 * stats.pearsonr(cosines, gold)[0], abs=1e-9)
    assert figures["pairs"] == len(gold)
  if "with_flow" in methods:
    lines = (folder / "eval_results.txt").read_text(encoding="utf-8").splitlines()
    values = dict(line.split(" = ") for line in lines)
    spearman = results["results"]["test"]["with_flow"]["spearman"]
    assert 100 * float(values["eval_spearmanr"]) == pytest.approx(spearman, rel=1e-9)
    assert int(values["global_step"]) == results["fitted_on"]["steps"]
  return results, columns
