"""evaluation/task_scores.py: names of methods, and the numbers of a task without gold."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import find_task
from bert_flow_tf.evaluation.task_scores import evaluate, method_names, original_eval_results, pair_cosines


def test_names_that_repeat_get_numbers():
  assert method_names(["sn", "flow", "none", "sn"]) == ["sn_1", "with_flow", "none", "sn_2"]
  assert method_names(iter(["flow", "flow"])) == ["with_flow_1", "with_flow_2"]


def numbered(rows, sentences):
  """The embedding of "i" is row i of a matrix."""
  return rows[[int(sentence) for sentence in sentences]]


def test_a_task_without_gold_has_the_spread_of_its_distinct_sentences():
  rows = (np.random.default_rng(0).normal(size=[9, 4]) * [1, 2, 3, 4] + 2).astype(np.float32)
  pairs = SentencePairs.without_gold([*"012345"], [*"001678"])
  task = TaskData(dataclasses.replace(find_task("custom"), eval_split=None), {"train": pairs}, "numbers")
  for transform in (lambda u: u, lambda u: u - rows.mean(axis=0)):
    scores, cosines = evaluate(task, lambda texts, f=transform: f(numbered(rows, texts)))
    points = transform(rows).astype(np.float64)
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    variances = np.linalg.eigvalsh(np.cov(points.T))
    assert scores["train"] == {
      "pairs": 6,
      "sentences": 9,
      "cosine_of_random_pairs": pytest.approx(100 * (unit @ unit.T)[np.triu_indices(9, 1)].mean(), abs=1e-3),
      "participation_ratio": pytest.approx(100 * variances.sum() ** 2 / np.sum(variances**2) / 4),
    }
    assert cosines["train"].shape == (6,)


def test_scores_of_a_union_are_of_each_tasks_own_sentences():
  rows = np.random.default_rng(2).normal(size=[12, 3]) + 0.5
  first = SentencePairs([*"0120"], [*"3455"], np.array([1.0, 4.0, 2.0, np.nan]))
  second = SentencePairs(["6", "7", "8"], ["9", "10", "11"], np.array([3.0, 0.0, 5.0]))
  hidden = SentencePairs.without_gold(["0", "1"], ["2", "3"])
  union = SentencePairs.join(
    {
      "STS-12": SentencePairs.join({"a": first.take([0, 1]), "c": first.take([2, 3])}),
      "STS-13": SentencePairs.join({"b": second}),
    }
  )
  task = TaskData(find_task("STS-B"), {"dev": hidden, "test": union}, "numbers")
  scores, cosines = evaluate(task, lambda texts: 2 * numbered(rows, texts) - 0.1)
  moved = 2 * rows - 0.1
  unit = moved / np.linalg.norm(moved, axis=1, keepdims=True)
  a, b = [0, 1, 2, 0, 6, 7, 8], [3, 4, 5, 5, 9, 10, 11]
  np.testing.assert_allclose(cosines["test"], np.sum(unit[a] * unit[b], axis=1))
  assert set(cosines) == {"dev", "test"} and set(scores) == {"test", "test STS-12", "test STS-13"}
  # Each first sentence with the second one half the list further on; sentences are counted once.
  for name, part, sentences in (
    ("test", slice(0, 7), 12),
    ("test STS-12", slice(0, 4), 6),
    ("test STS-13", slice(4, 7), 6),
  ):
    others = np.roll(b[part], len(b[part]) // 2)
    expected = 100 * np.mean(np.sum(unit[a[part]] * unit[others], axis=1))
    assert scores[name]["cosine_of_random_pairs"] == pytest.approx(expected)
    assert scores[name]["sentences"] == sentences
  scored = [0, 1, 2]
  expected = stats.spearmanr(cosines["test"][scored], first.scores[scored]).statistic
  assert scores["test STS-12"]["spearman_all"] == pytest.approx(100 * expected)
  assert evaluate(task, lambda texts: numbered(rows, texts), ["dev"])[0] == {}


def test_an_embedding_of_zeros_has_the_cosine_0(caplog):
  a, b = np.array([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 1.0], [3.0, 3.0]])
  np.testing.assert_allclose(pair_cosines(a, b, "dev"), [0.0, 0.0, np.sqrt(0.5)])
  assert "dev: 2 pairs with a zero embedding" in caplog.text


@pytest.mark.parametrize(
  ("task", "gold"),
  [
    ("STS-B", [5.0, np.nan, 0.0, 1.0]),
    ("custom", [5.0, np.nan, 1.0, 2.0]),
    ("QNLI", [1.0, np.nan, 0.0, 1.0]),
  ],
)
def test_eval_results_as_the_original_names_them(task, gold):
  pairs = SentencePairs([*"0123"], [*"4567"], np.array(gold))
  spec = find_task(task)
  if task == "custom":  # on a scale of its own
    spec = dataclasses.replace(spec, eval_split="test", scale=(1.0, 5.0))
  data = TaskData(spec, {"train": pairs, "dev": pairs, "test": pairs}, "numbers")
  cosines, scored = np.array([0.9, 0.5, 0.2, 0.1]), np.array(gold)[[0, 2, 3]]
  values = original_eval_results(data, cosines, 2.5, 7)
  expected = {"eval_loss_flow": 2.5, "eval_loss_total": 2.5, "loss": 2.5, "global_step": 7}
  expected["eval_loss"] = np.mean((cosines[[0, 2, 3]] - (scored - scored.min()) / np.ptp(scored)) ** 2)
  if task == "QNLI":
    expected["eval_auc"] = 0.5  # of the two positive pairs one is above the negative one
  else:
    expected["eval_pearsonr"] = stats.pearsonr(cosines[[0, 2, 3]], scored).statistic
    expected["eval_spearmanr"] = 0.5
  assert values == pytest.approx(expected)
