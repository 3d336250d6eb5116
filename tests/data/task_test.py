"""data/task.py: pairs, targets and metrics of a task."""

import numpy as np
import pytest

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData, TaskSpec
from bert_flow_tf.errors import DataError


def _pairs(first, scores):
  return SentencePairs([f"{first} {i}" for i in range(len(scores))], ["b"] * len(scores), scores)


def _task(splits, **fields):
  return TaskData(TaskSpec("a task", "", None, **fields), splits, "here")


def test_one_file_for_all_splits_is_fitted_three_times():
  data = _task({"test": _pairs("x", [1.0, 2.0])}, one_file_for_all_splits=True)
  assert data.fitting_pairs(use_full=True).sentences_a == ("x 0", "x 1") * 3
  assert data.fitting_pairs(use_full=True).scores.tolist() == [1, 2] * 3
  assert data.all_pairs().sentences_a == data.fitting_pairs(use_full=False).sentences_a == ("x 0", "x 1")


def test_pairs_for_fitting_only():
  data = _task({"train": _pairs("x", [np.nan])}, eval_split=None)
  assert data.fitting_pairs(use_full=True).sentences_a == data.fitting_pairs(use_full=False).sentences_a == ("x 0",)
  assert data.splits_with_gold(["train", "dev"]) == []


def test_full_target_set_is_train_then_dev_then_test():
  data = _task({"test": _pairs("test", [3.0]), "train": _pairs("train", [1.0]), "dev": _pairs("dev", [2.0])})
  assert list(data.splits) == ["train", "dev", "test"] == data.splits_with_gold(["train", "dev", "test"])
  assert data.fitting_pairs(use_full=True).sentences_a == ("train 0", "dev 0", "test 0")
  assert data.all_pairs().sentences_a == ("train 0", "dev 0", "test 0")
  assert data.fitting_pairs(use_full=False) is data.splits["train"]


@pytest.mark.parametrize(("splits", "eval_split"), [({}, None), ({}, "test"), ({"train": _pairs("x", [1.0])}, "test")])
def test_missing_splits(splits, eval_split):
  with pytest.raises(DataError, match="a task has no"):
    _task(splits, eval_split=eval_split)


def test_targets():
  pairs = _pairs("x", [1.0, 4.0, np.nan])
  np.testing.assert_array_equal(_task({"test": pairs}, scale=(0.0, 4.0)).targets(pairs), [0.25, 1, np.nan])
  assert _task({"test": pairs}, kind="classes", labels=("a", "b")).targets(pairs) is pairs.scores


def test_metric_and_kind():
  spec = TaskSpec("a task", "", None)
  assert (spec.metric, spec.with_metric("auc").kind, spec.with_metric("accuracy").metric) == (
    "correlation",
    "binary",
    "accuracy",
  )
