"""Near-duplicates against a loop over all pairs: unread parts, rows that are always kept, reasons, thresholds."""

import importlib.util

import numpy as np
import pytest

import bert_flow_tf
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.vectors import find_duplicates, near_duplicates, paraphrase_mining_embeddings
from bert_flow_tf.vectors.duplicates import duplicates_of_rows
from bert_flow_tf.vectors.inverted_lists import EXACT, IVF
from bert_flow_tf.vectors.unit_rows import UnitRows
from tests.testing import rejected
from tests.vectors.inverted_lists_test import all_cosines, clustered
from tests.vectors.toy_rows import MODEL, Hasher

INDEXES = [EXACT]
if importlib.util.find_spec("faiss"):
  INDEXES.append(IVF)
TEXTS = [
  "A man is eating.",
  "Case for phone 苹果",
  "Case for phone 华为",
  "婚礼",
  "菜单",
  "婚礼",
  "A man is eating.",
  "",
]


def of_loop(cosines, threshold, keys, against):
  """Returns originals, and rows that are kept although another kept row before them is similar."""
  originals, other = [], []
  for row in range(len(cosines)):
    kept = [before for before in range(row) if originals[before] == before and cosines[row, before] >= threshold]
    same = [before for before in kept if keys[before] == keys[row]]
    is_new = row >= against
    originals.append(same[0] if same and is_new else row)
    if kept and not same and is_new:
      other.append(row)
  return originals, other


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("against", [0, 37])
def test_duplicates_have_equal_unread_parts(index, against):
  rows = clustered(240, 24, 0.03)
  keys = np.random.default_rng(1).integers(0, 3, len(rows)) ** 9
  threshold = 0.99
  found = duplicates_of_rows(UnitRows([rows], 24), threshold, index, False, None, keys, against=against)
  cosines = all_cosines(rows, rows)
  originals, other = of_loop(cosines, threshold, keys, against)
  assert found.originals.tolist() == originals and found.differently_unread.tolist() == other
  assert 20 < len(found.dropped) < 120 and len(other) > 20 and found.dropped.min() >= against
  assert sorted([*found.kept, *found.dropped]) == list(range(240))
  np.testing.assert_allclose(found.cosines, cosines[np.arange(240), originals], atol=1e-6)
  assert {found.reason(row) for row in found.dropped} == {"near"} and found.reason(found.kept[0]) == ""


@pytest.mark.parametrize("index", INDEXES)
def test_similar_rows_with_other_parts_do_not_hide_a_duplicate(index):
  """All candidates of an index may have other parts."""
  rows = np.repeat(np.random.default_rng(0).normal(size=[40, 8]), 60, axis=0)
  keys = np.tile(np.arange(60), 40)
  rows, keys = np.concatenate([rows, rows[:60]]), np.concatenate([keys, keys[:60]])
  found = duplicates_of_rows(UnitRows([rows], 8), 0.999, index, False, None, keys)
  assert found.originals.tolist() == [*range(2400), *range(60)]


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("dim", [5, 21, 384])
def test_equal_rows_are_duplicates_at_threshold_1(dim, index):
  rows = np.random.default_rng(dim).normal(size=[300, dim]).astype(np.float32)
  scaled = np.concatenate([rows, rows * np.float32(3.7)])
  assert near_duplicates(scaled, 1, index=index)[300:].tolist() == list(range(300))
  pairs = paraphrase_mining_embeddings(scaled[::10], threshold=1)
  assert [pair[1:] for pair in pairs] == [(row, row + 30) for row in range(30)]


def test_empty_and_single():
  nothing, one = np.zeros([0, 3], np.float32), np.ones([1, 3], np.float32)
  assert near_duplicates(nothing).shape == (0,) and near_duplicates(one).tolist() == [0]


def test_blank_texts_and_zeros_have_no_duplicates():
  texts = ["", "A cat sleeps.", " \n", "A dog runs.", "\u2003"]
  assert near_duplicates(MODEL().encode(texts), -1, texts=texts).tolist() == [0, 1, 2, 1, 4]
  assert near_duplicates(np.zeros([3, 2]), -1).tolist() == [0, 1, 2]
  assert near_duplicates(np.ones([3, 2]), texts=["a", "", "b"]).tolist() == [0, 1, 0]


def test_texts_of_a_model():
  texts = ["ab", "abc", "abd", "abc", "?x", "?x", " ", "cd", "abd"]
  found = find_duplicates(None, 1, texts=texts, model=Hasher())
  assert found.originals.tolist() == [0, 1, 2, 1, 4, 5, 6, 7, 2]
  assert [found.reason(row) for row in range(9)] == ["", "", "", "equal", "", "", "", "", "equal"]
  assert found.incomparable.tolist() == [4, 5, 6] and found.differently_unread.tolist() == [1, 2]
  assert found.cosines[3] == 1 and found.kept.tolist() == [0, 1, 2, 4, 5, 6, 7]
  # Rows that are always kept, equal ones, too; the others are compared with them.
  found = find_duplicates(None, 1, texts=["ab", "ab", "ab", "abc"], model=Hasher(), against=2)
  assert found.originals.tolist() == [0, 1, 0, 3]
  embeddings = Hasher().encode(texts)
  assert near_duplicates(embeddings, 1, texts=texts).tolist() == [0, 0, 0, 0, 4, 4, 6, 7, 0]


@pytest.mark.parametrize("index", INDEXES)
def test_texts_that_differ_in_a_number_stay(index):
  """Their cosines are .99 and more, and 1 for word rows if the digits are the same."""
  numbers = [4711, 4712, 4171, 48213, 4711]
  texts = [f"Order {number} was shipped to Berlin." for number in numbers]
  texts += ["Order 4711, shipped to Berlin!", "The first dog of 3 runs.", "The first dog of 12 runs."]
  texts.append("A dog of 3 ran.")
  expected = [0, 1, 2, 3, 0, 0, 6, 7, 6]
  model = bert_flow_tf.SentenceModel.from_pretrained("static:mini")
  embeddings = model.encode(texts)
  for arguments in ({"texts": texts, "model": model}, {"texts": texts}):
    found = find_duplicates(embeddings, 0.6, index=index, **arguments)
    assert found.originals.tolist() == expected and {1, 2, 3, 7} <= set(found.differently_unread.tolist())
  assert near_duplicates(embeddings, 0.6)[:6].tolist() == [0] * 6  # the texts are not known


@pytest.mark.parametrize("name", ["mini", "static:mini"])
def test_texts_that_differ_in_unknown_words_stay(name):
  model = bert_flow_tf.SentenceModel.from_pretrained(name)
  embeddings = model.encode(TEXTS)
  kept = near_duplicates(embeddings, 0.999, texts=TEXTS, model=model).tolist()
  assert kept == [0, 1, 2, 3, 4, 5, 0, 7]  # of unknown words alone, all stay
  assert near_duplicates(embeddings, 0.999, texts=TEXTS).tolist()[2:6] == [1, 3, 3, 3]  # the model is not known


@pytest.mark.parametrize(
  ("arguments", "error", "argument"),
  [
    ({"model": Hasher()}, ConfigError, "texts"),
    ({"embeddings": None}, ConfigError, "model"),
    ({"model": "mini", "texts": ["a", "b"]}, ConfigError, "model"),
    ({"against": 3}, ConfigError, "against"),
    ({"against": -1}, ConfigError, "against"),
    ({"texts": ["a"]}, DataError, "texts"),
    ({"threshold": float("nan")}, ConfigError, "threshold"),
  ],
)
def test_errors_name_the_argument(arguments, error, argument):
  with rejected(error, argument):
    find_duplicates(**{"embeddings": np.ones([2, 3]), **arguments})
