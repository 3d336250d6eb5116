"""data/pairs.py."""

import hashlib

import numpy as np
import pytest

from bert_flow_tf.data.pairs import SentencePairs, Subset, check_pairs, check_sentences, sentences_or_pairs
from bert_flow_tf.errors import DataError


def _pairs(first, scores):
  return SentencePairs([f"{first} {i}" for i in range(len(scores))], ["b"] * len(scores), scores)


def test_holds_tuples_and_read_only_float64():
  scores = np.array([1.0, 2.0])
  pairs = SentencePairs(["a", ""], iter(["b", "c"]), scores)
  assert pairs.sentences_a == ("a", "") and pairs.sentences_b == ("b", "c") and len(pairs) == 2
  assert pairs.scores.dtype == np.float64
  scores[0] = 9
  assert pairs.scores.tolist() == [1, 2]
  assert SentencePairs(["a"], ["b"], np.float32([0.5])).scores.dtype == np.float64
  with pytest.raises(ValueError, match="read-only"):
    pairs.scores[0] = 3


def test_the_digest_is_of_ascii_letters_digits_and_gold_in_order():
  pairs = SentencePairs(["It's 5 o'clock, René.", "b"], ["``Yes''", "ẞ"], [1.23456, np.nan])
  assert pairs.digest() == hashlib.sha256(b"its5oclockren\tyes\t1.235\nb\t\tnan\n").hexdigest()
  assert pairs.take(np.array([1, 0])).digest() != pairs.digest()


@pytest.mark.parametrize(
  ("arguments", "argument"),
  [
    ((["a"], ["b", "c"], [1.0]), "scores"),
    ((["a"], ["b"], [1.0, 2.0]), "scores"),
    ((["a"], ["b"], [[1.0]]), "scores"),
    ((["a"], ["b"], ["x"]), "scores"),
    ((["a", "a"], ["b", b"c"], [1.0, 1.0]), "sentences_b"),
    (("a", ["b"], [1.0]), "sentences_a"),
  ],
)
def test_rejects(arguments, argument):
  with pytest.raises(DataError) as raised:
    SentencePairs(*arguments)
  assert raised.value.argument == argument


def test_joins_parts_as_subsets():
  joined = SentencePairs.join({"x": _pairs("x", [1.0, 2.0]), "y": _pairs("y", [np.nan])})
  assert joined.sentences_a == ("x 0", "x 1", "y 0") and joined.sentences_b == ("b", "b", "b")
  np.testing.assert_array_equal(joined.scores, [1, 2, np.nan])
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


def test_takes_the_rows_with_gold_or_any_in_their_order():
  kept = _pairs("x", [1.0, np.nan, 3.0]).with_gold()
  assert kept.sentences_a == ("x 0", "x 2") and kept.sentences_b == ("b", "b") and kept.scores.tolist() == [1, 3]
  assert len(_pairs("x", [np.nan]).with_gold()) == 0
  pairs = SentencePairs.join({"x": _pairs("x", [1.0, np.nan]), "y": _pairs("y", [3.0, 4.0])})
  taken = pairs.take(np.array([3, 0, 3]))
  assert taken.sentences_a == ("y 1", "x 0", "y 1") and taken.sentences_b == ("b",) * 3
  assert taken.scores.tolist() == [4, 1, 4] and taken.subsets == ()
  assert len(pairs.take(np.array([], np.int64))) == 0


@pytest.mark.parametrize("sentences", ["a sentence", b"bytes", np.str_("numpy"), 3, np.array(3), ["a", None]])
def test_rejects_what_is_not_a_list_of_str(sentences):
  with pytest.raises(DataError) as raised:
    check_sentences(sentences)
  assert raised.value.argument == "sentences" and str(raised.value).startswith("sentences")
  with pytest.raises(DataError) as raised:
    check_pairs(["a"], sentences)
  assert raised.value.argument == "texts_b"


@pytest.mark.parametrize(
  "pairs",
  [
    SentencePairs.without_gold(["a", "c"], ["b", "d"]),
    (["a", "c"], ["b", "d"]),
    [("a", "b"), ["c", "d"]],
  ],
)
def test_forms_of_pairs(pairs):
  assert sentences_or_pairs(pairs) == (["a", "c"], ["b", "d"])


def test_sentences_and_unequal_sides():
  assert sentences_or_pairs(("a", "b")) == check_sentences(np.array(["a", "b"])) == ["a", "b"]
  with pytest.raises(DataError) as raised:
    sentences_or_pairs((["a"], ["b", "c"]))
  assert raised.value.argument == "sentences"
