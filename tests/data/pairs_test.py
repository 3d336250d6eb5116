import types

import numpy as np
import pytest

from bert_flow_tf.data.pairs import SentencePairs, Subset, TaskData
from bert_flow_tf.errors import DataError

SPEC = types.SimpleNamespace(name="a task", eval_split="test", one_file_for_all_splits=False)


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


def test_joins_parts_as_subsets():
  joined = SentencePairs.join({"x": _pairs("x", [1.0, 2.0]), "y": _pairs("y", [np.nan])})
  assert joined.sentences_a == ("x 0", "x 1", "y 0")
  assert joined.subsets == (Subset("x", 0, 2), Subset("y", 2, 3))
  assert joined.groups() == {} and joined.subset_names() == ["x", "x", "y"]
  assert _pairs("x", [1.0]).subset_names() == []
  union = SentencePairs.join({"t": joined, "u": _pairs("u", [4.0]), "v": joined})
  assert len(union) == 7
  assert union.groups() == {
    "t": (Subset("t/x", 0, 2), Subset("t/y", 2, 3)),
    "v": (Subset("v/x", 4, 6), Subset("v/y", 6, 7)),
  }
  assert union.subsets[2] == Subset("u", 3, 4)
  assert SentencePairs.concatenate([joined, joined]).subsets == ()


@pytest.mark.parametrize(
  "subsets",
  [
    [("x", 0, 2)],
    [("x", 0, 2), ("y", 1, 3)],
    [("x", 0, 1), ("y", 2, 3)],
    [("x", 1, 3)],
    [("x", 0, 3), ("y", 3, 3)],
    [("x", 0, 2), ("x", 2, 3)],
    [("x", 0, 2), ("y", 2, 4)],
  ],
)
def test_subsets_are_parts_of_the_whole(subsets):
  with pytest.raises(DataError, match="expected parts of 0:3, one after the other, each of a name of its own"):
    SentencePairs(["a"] * 3, ["b"] * 3, [1.0] * 3, subsets)


def test_pairs_with_gold():
  kept = _pairs("x", [1.0, np.nan, 3.0]).with_gold()
  assert kept.sentences_a == ("x 0", "x 2") and kept.sentences_b == ("b", "b") and kept.scores.tolist() == [1, 3]
  assert len(_pairs("x", [np.nan]).with_gold()) == 0


def test_takes_rows_in_their_order():
  pairs = SentencePairs.join({"x": _pairs("x", [1.0, np.nan]), "y": _pairs("y", [3.0, 4.0])})
  taken = pairs.take(np.array([3, 0, 3]))
  assert taken.sentences_a == ("y 1", "x 0", "y 1") and taken.sentences_b == ("b",) * 3
  assert taken.scores.tolist() == [4, 1, 4] and taken.subsets == ()
  assert len(pairs.take(np.array([], np.int64))) == 0


def test_one_file_for_all_splits_is_seen_three_times():
  spec = types.SimpleNamespace(name="a task", eval_split="test", one_file_for_all_splits=True)
  data = TaskData(spec, {"test": _pairs("x", [1.0, 2.0])}, "x")
  assert data.fitting_pairs(use_full=True).sentences_a == ("x 0", "x 1") * 3
  assert data.fitting_pairs(use_full=True).scores.tolist() == [1, 2] * 3
  assert data.all_pairs().sentences_a == ("x 0", "x 1")
  assert data.fitting_pairs(use_full=False).sentences_a == ("x 0", "x 1")


def test_pairs_for_fitting_alone():
  spec = types.SimpleNamespace(name="a task", eval_split=None, one_file_for_all_splits=False)
  data = TaskData(spec, {"train": _pairs("x", [np.nan])}, "x")
  assert data.fitting_pairs(use_full=True).sentences_a == data.fitting_pairs(use_full=False).sentences_a == ("x 0",)
  with pytest.raises(DataError, match="a task has no split: there is empty"):
    TaskData(spec, {}, "there")


def test_full_target_set_is_train_then_dev_then_test():
  data = TaskData(
    SPEC, {"test": _pairs("test", [3.0]), "train": _pairs("train", [1.0]), "dev": _pairs("dev", [2.0])}, "x"
  )
  assert list(data.splits) == ["train", "dev", "test"]
  assert data.fitting_pairs(use_full=True).sentences_a == ("train 0", "dev 0", "test 0")
  assert data.all_pairs().sentences_a == ("train 0", "dev 0", "test 0")
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
