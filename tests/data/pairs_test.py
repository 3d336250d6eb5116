"""data/pairs.py."""

import hashlib
import re
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.data.pairs import SentencePairs, Subset, check_pairs, check_sentences, sentences_or_pairs
from bert_flow_tf.data.tasks import STS_TASKS, load_task
from bert_flow_tf.errors import DataError
from tests.testing import REPO, rejected, shared


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
    ((["a", "a"], ["b", 3], [1.0, 1.0]), "sentences_b"),
    (("a", ["b"], [1.0]), "sentences_a"),
  ],
)
def test_rejects(arguments, argument):
  with rejected(DataError, argument):
    SentencePairs(*arguments)


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
  scored = _pairs("x", [1.0, np.nan, 3.0]).with_gold()
  assert scored.sentences_a == ("x 0", "x 2") and scored.sentences_b == ("b", "b") and scored.scores.tolist() == [1, 3]
  assert len(_pairs("x", [np.nan]).with_gold()) == 0
  pairs = SentencePairs.join({"x": _pairs("x", [1.0, np.nan]), "y": _pairs("y", [3.0, 4.0])})
  rows = pairs.take(np.array([3, 0, 3]))
  assert rows.sentences_a == ("y 1", "x 0", "y 1") and rows.sentences_b == ("b",) * 3
  assert rows.scores.tolist() == [4, 1, 4] and rows.subsets == ()
  assert len(pairs.take(np.array([], np.int64))) == 0


@pytest.mark.parametrize(
  "sentences",
  [
    *("a sentence", b"bytes", np.str_("numpy"), 3, np.array(3), np.array("a"), ["a", None], {"a"}, {"a": 1}, [b"\xff"]),
    *(np.array([["a", "b"]]), np.array([1.5]), tf.constant("a"), tf.constant([1])),
    tf.data.Dataset.from_tensor_slices(["a"]).repeat(),
    tf.data.Dataset.from_tensor_slices({"text": ["a"]}),
    tf.data.Dataset.from_tensor_slices((["a"], [1])),
  ],
)
def test_rejects_what_is_not_a_list_of_str(sentences):
  with pytest.raises(DataError) as raised:
    check_sentences(sentences)
  assert raised.value.argument == "sentences" and str(raised.value).startswith("sentences")
  with rejected(DataError, "texts_b"):
    check_pairs(["a"], sentences)


@pytest.mark.parametrize(
  "pairs",
  [
    SentencePairs.without_gold(["a", "c"], ["b", "d"]),
    (["a", "c"], ["b", "d"]),
    [("a", "b"), ["c", "d"]],
    zip("ac", "bd", strict=True),
    (tf.constant(["a", "c"]), (text for text in "bd")),
    np.array([["a", "b"], ["c", "d"]]),
    tf.data.Dataset.from_tensor_slices((["a", "c"], ["b", "d"])),
    tf.data.Dataset.from_tensor_slices((["a", "c"], ["b", "d"])).batch(2),
  ],
)
def test_forms_of_pairs(pairs):
  assert sentences_or_pairs(pairs) == (["a", "c"], ["b", "d"])


_TEXTS = ["é", "", "c d"]
_BYTES = [text.encode() for text in _TEXTS]


@pytest.mark.parametrize(
  "sentences",
  [
    *(tuple(_TEXTS), iter(_TEXTS), (text for text in _TEXTS), dict.fromkeys(_TEXTS).keys(), map(str, _TEXTS)),
    *(_BYTES, ["é", b"", tf.constant("c d")]),
    *(np.array(_TEXTS), np.array(_BYTES), np.array(_TEXTS, object), tf.constant(_TEXTS), tf.Variable(_TEXTS)),
    *(tf.data.Dataset.from_tensor_slices(data) for data in (_TEXTS, (_TEXTS,))),
    *(tf.data.Dataset.from_tensor_slices(_TEXTS).batch(size) for size in (1, 2)),
    tf.data.Dataset.from_generator(lambda: iter(_TEXTS), output_signature=tf.TensorSpec([], tf.string)),
  ],
)
def test_forms_of_sentences(sentences):
  texts = check_sentences(sentences)
  assert texts == _TEXTS and {type(text) for text in texts} == {str}


def test_columns_of_arrow():
  pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
  parts = pa.chunked_array([_TEXTS[:1], _TEXTS[1:]])
  coded = pa.array(_TEXTS).dictionary_encode()
  for column in (pa.array(_TEXTS), pa.array(_BYTES), parts, coded, list(parts), pa.table({"text": _TEXTS})["text"]):
    assert check_sentences(column) == _TEXTS
  assert sentences_or_pairs((parts, coded)) == (_TEXTS, _TEXTS)
  for wrong in (pa.array(["a", None]), pa.array([1])):
    with pytest.raises(DataError, match=r"^sentences\["):
      check_sentences(wrong)
  assert check_sentences(pa.table({"text": _TEXTS})) == _TEXTS
  with rejected(DataError, "sentences", match="a, b"):
    check_sentences(pa.table({"a": _TEXTS, "b": _TEXTS}))


class Table:
  """A DataFrame, as far as it is read; of pandas with `iloc`, of polars without."""

  def __init__(self, columns, has_iloc):
    self._columns = columns
    self.columns, self.shape = list(columns), (2, len(columns))
    if has_iloc:
      self.iloc = self

  def __iter__(self):
    return iter(self.columns)

  def __getitem__(self, key):
    if isinstance(key, tuple):
      return list(self._columns.values())[key[1]]
    return self._columns[key]


@pytest.mark.parametrize("has_iloc", [True, False])
def test_a_table_of_one_column_is_its_rows(has_iloc):
  name = 0 if has_iloc else "text"  # a number can be a name in pandas
  assert check_sentences(Table({name: ["a", "b"]}, has_iloc)) == ["a", "b"]
  assert check_sentences(np.array([["a"], ["b"]])) == ["a", "b"]
  with rejected(DataError, "sentences", match="id, text"):
    check_sentences(Table({"id": [1, 2], "text": ["a", "b"]}, has_iloc))


def test_an_error_of_the_callers_generator_stays():
  def broken():
    yield "a"
    raise TypeError("in the caller's own code")

  with pytest.raises(TypeError, match="own code"):
    check_sentences(broken())


def test_sentences_and_unequal_sides():
  assert sentences_or_pairs(("a", "b")) == check_sentences(np.array(["a", "b"])) == ["a", "b"]
  with rejected(DataError, "sentences"):
    sentences_or_pairs((["a"], ["b", "c"]))


def _unordered(pairs):
  return [frozenset(pair) for pair in zip(pairs.sentences_a, pairs.sentences_b, strict=True)]


def test_counts_of_repeated_pairs_in_the_page_are_those_of_the_data():
  """The table, and the numbers of the list below it, in docs/data.md."""
  folder = shared("data")
  page = (REPO / "docs/data.md").read_text(encoding="utf-8").partition("## Pairs that repeat")[2].partition("\n## ")[0]
  tasks = {name: load_task(name, folder) for name in (*STS_TASKS, "MRPC", "QNLI")}
  counted = {}
  for name, task in tasks.items():
    for split, pairs in task.splits.items():
      keys = _unordered(pairs)
      parts = {f"{name} {split}": keys}
      for subset in pairs.subsets:
        parts[f"{name} {split}, {subset.name}"] = keys[subset.start : subset.stop]
      for part, of_part in parts.items():
        counted[part] = (len(of_part), len(set(of_part)), sum(len(key) == 1 for key in of_part))
      assert len(set(keys)) == len(set(pairs.distinct_numbers().tolist()))
  cells = [line.strip("| ").split(" | ") for line in page.splitlines() if re.match(r"\| [A-Z]", line)]
  listed = {name: tuple(int(count.replace(",", "")) for count in counts) for name, *counts in cells}
  assert listed == {name: counted[name] for name in listed}
  # Splits and subsets that are not listed do not repeat; QNLI's test split has no labels.
  for name in counted.keys() - listed.keys() - {"QNLI test"}:
    assert ", " in name and counted[name][0] == counted[name][1], name

  europarl = _unordered(tasks["STS-12"].split("test"))
  (rows,) = [part for part in tasks["STS-12"].split("test").subsets if part.name == "SMTeuroparl"]
  counts = Counter(europarl[rows.start : rows.stop])
  of_equal = [count for key, count in counts.items() if len(key) == 1]
  numbers = [sum(counts.values()) - len(counts), sum(of_equal) - len(of_equal)]
  train, dev, test = (tasks["SICK-R"].split(split) for split in ("train", "dev", "test"))
  repeats = []
  for split in (train, test):
    in_order = set(zip(split.sentences_a, split.sentences_b, strict=True))
    repeats += [len(split) - len(set(_unordered(split))), len(split) - len(in_order)]
  gold = {}
  other_gold = 0
  for key, score in zip(_unordered(test), test.scores, strict=True):
    other_gold += gold.setdefault(key, score) != score
  assert repeats[3] == 0  # no test pair repeats in the same order
  numbers += [*repeats[:3], other_gold, len(test)]
  seen = {}
  for split in (train, dev):
    for key, score in zip(_unordered(split), split.scores, strict=True):
      seen.setdefault(key, set()).add(score)
  again = [(key, score) for key, score in zip(_unordered(test), test.scores, strict=True) if key in seen]
  numbers += [len(again), sum(score not in seen[key] for key, score in again)]
  train, dev, test = map(_unordered, (tasks["STS-B"].split(split) for split in ("train", "dev", "test")))
  numbers += [len(test), sum(key in {*train, *dev} for key in test)]
  sentences = " ".join(page[page.index("\n- ") :].split())
  found = re.findall(r"(?<![\w-])\d[\d,]*\b", sentences.replace("cosine is 1 ", ""))
  assert [int(number.replace(",", "")) for number in found] == numbers
