import types

import numpy as np
import pytest

from bert_flow_tf.data.pairs import SentencePairs, TaskData
from bert_flow_tf.errors import DataError

SPEC = types.SimpleNamespace(name="a task", eval_split="test")


def _pairs(first, scores):
  return SentencePairs([f"{first} {i}" for i in range(len(scores))], ["b"] * len(scores), scores)


def test_holds_tuples_and_read_only_float64():
  given = np.array([1.0, 2.0])
  pairs = SentencePairs(["a", ""], iter(["b", "c"]), given)
  assert pairs.sentences_a == ("a", "") and pairs.sentences_b == ("b", "c") and len(pairs) == 2
  assert pairs.scores.dtype == np.float64
  given[0] = 9
  assert pairs.scores.tolist() == [1, 2]
  assert SentencePairs(["a"], ["b"], np.float32([0.5])).scores.dtype == np.float64
  with pytest.raises(ValueError, match="read-only"):
    pairs.scores[0] = 3


def test_a_pair_may_have_no_gold():
  assert np.isnan(_pairs("a", [np.nan, 1.0]).scores).tolist() == [True, False]


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ((["a"], ["b", "c"], [1.0]), "1 first sentences, 2 second sentences and 1 scores"),
    ((["a"], ["b"], [1.0, 2.0]), "1 first sentences, 1 second sentences and 2 scores"),
    ((["a"], ["b"], [[1.0]]), r"shape \[1, 1\]; expected \[n\]"),
    ((["a"], ["b"], ["x"]), "scores are not numbers"),
    ((["a", "a"], ["b", "b"], [1.0, -np.inf]), r"scores\[1\] is infinite"),
    ((["a", "a"], ["b", b"c"], [1.0, 1.0]), r"sentences_b\[1\] is of type bytes"),
    (("a", ["b"], [1.0]), "sentences_a is one string"),
  ],
)
def test_refuses(arguments, message):
  with pytest.raises(DataError, match=message):
    SentencePairs(*arguments)


def test_concatenates_in_order():
  both = SentencePairs.concatenate([_pairs("x", [1.0, 2.0]), _pairs("y", [3.0])])
  assert both.sentences_a == ("x 0", "x 1", "y 0")
  assert both.sentences_b == ("b", "b", "b")
  assert both.scores.tolist() == [1, 2, 3]


def test_full_target_set_is_train_then_dev_then_test():
  data = TaskData(
    SPEC, {"test": _pairs("test", [3.0]), "train": _pairs("train", [1.0]), "dev": _pairs("dev", [2.0])}, "x"
  )
  assert list(data.splits) == ["train", "dev", "test"]
  assert data.fitting_pairs(use_full=True).sentences_a == ("train 0", "dev 0", "test 0")
  assert data.fitting_pairs(use_full=False) is data.splits["train"]


def test_without_a_train_split_there_is_only_the_full_set():
  data = TaskData(SPEC, {"test": _pairs("test", [3.0])}, "x")
  assert data.fitting_pairs(use_full=True).scores.tolist() == [3]
  with pytest.raises(DataError, match="a task has no train split, only test"):
    data.fitting_pairs(use_full=False)


@pytest.mark.parametrize(
  ("split", "message"),
  [
    ("validation", "split 'validation'; allowed are train, dev, test"),
    ("train", "'test', which there does not"),
  ],
)
def test_refuses_unknown_and_missing_splits(split, message):
  with pytest.raises(DataError, match=message):
    TaskData(SPEC, {split: _pairs("x", [1.0])}, "there")
