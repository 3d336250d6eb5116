"""The published files of run_siamese, against the original's own numbers and lines (../shared/golden_siamese)."""

import json

import numpy as np
import pytest

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.siamese_task import predicted_pairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import find_task
from bert_flow_tf.evaluation import report
from bert_flow_tf.runs import siamese_scores
from tests.testing import shared

FILES = ("flow_only", "joint", "l2", "low_dim_flow", "nli_softmax", "regression", "semi")


class Classifier:
  """The original's probabilities."""

  def __init__(self, logits):
    self._probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

  def probabilities(self, a, b):
    return self._probabilities


@pytest.mark.parametrize("name", FILES)
def test_eval_metrics_of_the_original(name):
  with np.load(shared(f"golden_siamese/{name}.npz"), allow_pickle=False) as file:
    golden = {key.removeprefix("eval/"): file[key] for key in file.files if key.startswith("eval/")}
    settings = json.loads(str(file["flags"]))
  values = siamese_scores.eval_results(
    golden["labels"].astype(np.float64),
    (golden["embedding_a"], golden["embedding_b"]),
    Classifier(golden["logits"]) if "logits" in golden else None,
    golden.get("flow_example_loss"),
    settings["num_examples"] != 0,
    settings["l2_penalty"],
    batch_size=8,
  )
  expected = {key.removeprefix("metric/"): value for key, value in golden.items() if key.startswith("metric/")}
  assert values.keys() == {*expected, "loss"}
  for key, value in expected.items():
    assert values[key] == pytest.approx(value, rel=1e-5, abs=1e-7), key
  losses = golden["per_example_loss"]
  assert values["loss"] == pytest.approx(np.mean([losses[i : i + 8].mean() for i in (0, 8, 16)]), rel=1e-5, abs=1e-7)


def test_the_penalty_counts_without_labels():
  sides = np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
  values = siamese_scores.eval_results(np.array([1.0, np.nan]), sides, None, None, False, 0.5, batch_size=8)
  assert values["eval_loss"] == values["loss"] == pytest.approx(0.5 * (5 + 2 + 1 + 1) / 2)


def outputs():
  return json.loads(shared("golden_siamese/facts.json").read_text())["outputs"]


def test_lines_of_the_original(tmp_path):
  compared = set()
  for case in outputs():
    cosines = np.array(case["given"], np.float64)
    a = np.stack([np.ones(len(cosines)), np.zeros(len(cosines))], axis=1)
    b = np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)
    path = tmp_path / "lines"
    for file, lines in case["files"].items():
      if file.endswith("_results.tsv"):
        siamese_scores.write_cosines(path, (a, b))
      elif file.endswith("_pooled.tsv"):
        embeddings = np.array([[i + 1 / 3, -0.0, 0.125] for i in range(3)], np.float32)
        siamese_scores.write_pooled(path, (embeddings, -embeddings))
      elif file.endswith("eval_results.txt"):
        values = {"eval_loss": np.float32(1 / 3), "eval_pearsonr": np.float32(0.5), "loss": np.float32(0.25)}
        report.write_eval_results(tmp_path, {**values, "global_step": 7})
        (tmp_path / report.EVAL_FILE).rename(path)
      else:
        continue
      # facts.json has the first lines of each file.
      assert path.read_text().splitlines()[: len(lines)] == lines
      compared.add(file.rpartition("_")[2])
  assert compared == {"results.tsv", "pooled.tsv", "results.txt"}


def test_order_of_all_pairs():
  splits = {name: SentencePairs([name], [name], [1.0]) for name in ("train", "dev", "test")}
  task = TaskData(find_task("STS-B"), splits, "made up")
  assert list(predicted_pairs(task, "full").sentences_a) == ["test", "dev", "train"]
  year = TaskData(find_task("STS-12"), {"test": splits["test"]}, "made up")
  for name, count in {"full": 3, "dev": 1, "test": 1}.items():
    assert list(predicted_pairs(year, name).sentences_a) == ["test"] * count
