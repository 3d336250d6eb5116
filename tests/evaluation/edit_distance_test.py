"""evaluation/edit_distance.py: distances against the textbook's recursion, correlations against SciPy."""

import math
import sys

import numpy as np
import pytest
from scipy import stats
from tokenizers import pre_tokenizers

from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.evaluation.edit_distance import close_pairs, edit_distances, lexical_correlations
from tests.testing import shared


def _levenshtein(a, b):
  """Returns the distance by Wagner and Fischer's table, row by row."""
  row = list(range(len(b) + 1))
  for i, x in enumerate(a, start=1):
    above, row = row, [i]
    for j, y in enumerate(b, start=1):
      row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (x != y)))
  return row[-1]


def test_tokens_by_hand():
  pairs = {
    ("I like this restaurant.", "i DISLIKE this  restaurant !"): 2,
    ("a well-known man", "a well known man"): 1,
    ('He said: "no."', "he said no"): 3,  # the last two marks are one token
    ("don't", "do not"): 3,
    ("", "four"): 1,
    ("", " "): 0,
    ("a b c", "b c a"): 2,
    ("\ud800", ""): 1,
  }
  distances = edit_distances(*zip(*pairs, strict=True))
  assert distances.dtype == np.int64 and distances.tolist() == list(pairs.values())


def test_tokens_are_those_of_the_tokenizers_package_and_give_the_papers_gold_score():
  """Table 6's gold row, -24.61, from tokens of another library and the textbook's distance."""
  pairs = load_task("STS-B", shared("data")).splits["dev"]
  whitespace = pre_tokenizers.Whitespace()
  a, b = (
    [[token for token, _ in whitespace.pre_tokenize_str(s.lower())] for s in side]
    for side in (pairs.sentences_a, pairs.sentences_b)
  )
  expected = [_levenshtein(x, y) for x, y in zip(a, b, strict=True)]
  assert edit_distances(pairs.sentences_a, pairs.sentences_b).tolist() == expected
  assert 100 * stats.spearmanr(expected, pairs.scores).statistic == pytest.approx(-24.61, abs=0.5)


def test_characters_by_hand():
  pairs = {
    ("kitten", "sitting"): 3,
    ("I like this restaurant", "I dislike this restaurant"): 3,
    ("", "four"): 4,
    ("", ""): 0,
    ("Cat", "cat"): 1,
    ("a b", "a  b"): 1,
    ("ab", "ba"): 2,  # no transposition, as Damerau's distance has it
    ("caf\u00e9", "cafe\u0301"): 2,  # composed or not: code points as they are
    ("\U0001f600", "x"): 1,
    ("\ud800", ""): 1,
  }
  assert edit_distances(*zip(*pairs, strict=True), "characters").tolist() == list(pairs.values())
  assert edit_distances([], []).shape == (0,)


@pytest.mark.parametrize(("unit", "split"), [("tokens", str.split), ("characters", list)])
def test_against_the_textbook(unit, split):
  rng = np.random.default_rng(0)
  texts = ["".join(rng.choice(list("abc "), size=length)) for length in rng.integers(0, 90, size=60)]
  assert edit_distances(texts[:30], texts[30:], unit).tolist() == [
    _levenshtein(split(a), split(b)) for a, b in zip(texts[:30], texts[30:], strict=True)
  ]


def test_unknown_unit():
  with pytest.raises(ConfigError, match="tokens or characters"):
    edit_distances(["a"], ["b"], "words")


@pytest.mark.parametrize(
  ("a", "b", "argument"),
  [
    (["a"], ["a", "b"], "sentences_b"),
    ("ab", ["a", "b"], "sentences_a"),
    (["a", "b"], ["a", None], "sentences_b"),
  ],
)
def test_pairs_are_checked(a, b, argument):
  with pytest.raises(DataError) as raised:
    edit_distances(a, b)
  assert raised.value.argument == argument


def test_without_rapidfuzz(monkeypatch):
  monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
  with pytest.raises(ConfigError, match=r"rapidfuzz.*pip install"):
    edit_distances(["a"], ["b"])


def test_correlations_against_scipy():
  rng = np.random.default_rng(1)
  gold, similarities = rng.normal(size=(2, 50))
  distances = rng.integers(0, 9, size=50)
  gold[7] = math.nan
  kept = np.arange(50) != 7
  result = lexical_correlations(similarities, gold, distances)
  assert result.edit_distance.pairs == result.gold.pairs == 49
  expected = [100 * stats.spearmanr(similarities[kept], other[kept]).statistic for other in (distances, gold)]
  assert [result.edit_distance.spearman, result.gold.spearman] == pytest.approx(expected, rel=1e-12)
  of_gold = lexical_correlations(gold, gold, distances)
  assert of_gold.gold.spearman == pytest.approx(100.0)
  assert of_gold.edit_distance.spearman == pytest.approx(100 * stats.spearmanr(gold[kept], distances[kept]).statistic)


def test_the_nearer_the_more_alike_is_negative():
  result = lexical_correlations([0.9, 0.5, 0.1], [5, 3, 4], [1, 2, 3])
  assert result.edit_distance.spearman == pytest.approx(-100) and result.gold.spearman == pytest.approx(50)


def test_distances_that_do_not_differ():
  result = lexical_correlations([0.9, 0.5, 0.1], [5, 3, 4], [2, 2, 2])
  assert math.isnan(result.edit_distance.spearman) and "all 3 edit distances are 2" in result.edit_distance.reason
  with pytest.raises(DataError, match="edit distances, expected"):
    lexical_correlations([0.9, 0.5], [5, 3], [2])


def test_close_pairs_are_the_papers():
  assert close_pairs(np.array([0, 4, 5])).tolist() == [True, True, False]
  assert close_pairs([0, 4, 5], at_most=0).tolist() == [True, False, False]
